package main

import (
	"bytes"
	"context"
	"errors"
	"io"

	"madeira/engine/store"
	"madeira/engine/task"
)

// maxCalledDepth is more than runs may wait for each other in a row.
const maxCalledDepth = 20

// addCalled adds to steps the runs that they started, with theirs. What has gone to
// the archive is left out.
func addCalled(ctx context.Context, db *store.DB, steps []stepView, depth int) error {
	for i := range steps {
		t := steps[i].task
		if t.Type != task.TypeJob || depth == maxCalledDepth {
			continue
		}
		id := t.ID
		if t.ReusedOf != 0 {
			id = t.ReusedOf
		}
		scope, err := db.Child(ctx, id, nil)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		repeated, err := repeatedBy(ctx, db, scope.Run)
		if err != nil {
			return err
		}
		tasks, err := db.Tasks(ctx, scope.Run.ID)
		if err != nil {
			return err
		}
		called := &calledView{runView: newRunView(scope.Run, repeated), Steps: stepViews(tasks), run: scope.Run, repeated: repeated}
		if err := called.addCorrections(ctx, db, scope.Run); err != nil {
			return err
		}
		if scope.Run.Status == task.RunRepeated {
			called.Steps = []stepView{}
		}
		if err := addCalled(ctx, db, called.Steps, depth+1); err != nil {
			return err
		}
		steps[i].Run = called
	}
	return nil
}

// A margined writer puts a margin in front of every line that is not empty.
type margined struct {
	out    io.Writer
	margin string
	within bool // of a line
}

func (m *margined) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if !m.within && len(bytes.TrimRight(line, "\n")) > 0 {
			if _, err := io.WriteString(m.out, m.margin); err != nil {
				return 0, err
			}
		}
		if _, err := m.out.Write(line); err != nil {
			return 0, err
		}
		m.within = !bytes.HasSuffix(line, []byte("\n"))
	}
	return len(p), nil
}
