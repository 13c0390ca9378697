package main

import (
	"context"
	"strings"
	"sync"

	"madeira/engine/store"
	"madeira/engine/task"
)

// A family names the runs that are worked at as people see them: the run that was
// asked for, and those that its steps started.
type family struct {
	ctx  context.Context //nolint:containedctx // it is that of the command, whose observer has none
	db   *store.DB
	root string

	mu     sync.Mutex
	places map[string]string // of runs, by id
}

func newFamily(ctx context.Context, db *store.DB, root string) *family {
	return &family{ctx: ctx, db: db, root: root, places: map[string]string{root: ""}}
}

// name is how a task is named in a line about it: entity[hk]/load, indented by how
// deep its run is.
func (f *family) name(c task.Claimed) string {
	name := task.Name(c.Step, c.Element)
	if f == nil || c.RunID == "" {
		return name
	}
	place := f.place(c.RunID)
	if place == "" {
		return name
	}
	return strings.Repeat("  ", 1+strings.Count(place, "/")) + place + "/" + name
}

// place is the path of steps down to a run; "" for the one that was asked for, and
// where it cannot be told.
func (f *family) place(run string) string {
	f.mu.Lock()
	place, known := f.places[run]
	f.mu.Unlock()
	if known {
		return place
	}
	row, err := f.db.Run(f.ctx, run)
	if err != nil || row.ParentTask == 0 {
		return ""
	}
	above, err := f.db.Task(f.ctx, row.ParentTask)
	if err != nil {
		return ""
	}
	place = task.Name(above.Step, above.Element)
	if over := f.place(above.RunID); over != "" {
		place = over + "/" + place
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.places[run] = place
	return place
}
