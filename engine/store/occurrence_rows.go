package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// newTasks is a new run whose row is written, with its steps.
type newTasks struct {
	*task.Accounted
	*draft
	turn bool // it waits for its turn
}

// batchRows are the rows of new runs beside those of run itself.
type batchRows struct {
	runs  []newTasks
	keys  []runKeyRow
	turns []turnRow
	count int // tasks
}

type runKeyRow struct {
	bun.BaseModel `bun:"table:run_key"`

	Job     string `bun:"job"`
	Key     string `bun:"upstream_key"`
	Version int    `bun:"version"`
	RunID   string `bun:"run_id"`
}

func (b *batchRows) add(n newTasks, now instant) {
	if n.run.Key != "" {
		b.keys = append(b.keys, runKeyRow{Job: n.run.Job, Key: n.run.Key, Version: 1, RunID: n.run.ID})
	}
	if n.turn {
		row := turnRow{
			RunID: n.run.ID, Job: n.run.Job, Overlap: queues(*n.Run), Priority: n.run.Priority, DueAt: n.run.DueAt, NotBefore: instant{n.Run.NotBefore},
			Outcome: string(n.Occurrence.Outcome), Reason: clean(n.Occurrence.Reason, maxLine), Since: now,
		}
		if c := n.Run.Concurrency; c != nil {
			row.Key, row.Slots = c.Key, c.Slots
		}
		b.turns = append(b.turns, row)
	}
	b.runs = append(b.runs, n)
	b.count += len(n.nodes)
}

func (b *batchRows) insert(ctx context.Context, tx txn) error {
	if len(b.runs) == 0 {
		return nil
	}
	ids, err := tx.dialect.reserve(ctx, tx.Tx, b.count)
	if err != nil {
		return fmt.Errorf("number %d tasks: %w", b.count, err)
	}
	tasks := make([]*taskRow, 0, b.count)
	var edges []dependencyRow
	places := placeRows{ready: make([]readyRow, 0, len(b.runs))}
	for _, n := range b.runs {
		needs := tx.number(n.tasks, *n.Run, n.nodes, ids[:len(n.nodes)])
		if !n.turn {
			places.add(n.tasks, n.nodes, tx.now)
		}
		ids = ids[len(n.nodes):]
		for i := range n.tasks {
			tasks = append(tasks, &n.tasks[i])
		}
		edges = append(edges, needs...)
	}
	var all bulks
	for _, err := range []error{
		addRows(&all, tx, b.keys), addRows(&all, tx, b.turns), addRows(&all, tx, tasks), addRows(&all, tx, edges),
		addRows(&all, tx, places.ready), addRows(&all, tx, places.held), addRows(&all, tx, places.undecided),
	} {
		if err != nil {
			return fmt.Errorf("make %d runs: %w", len(b.runs), err)
		}
	}
	if _, err := tx.dialect.insert(ctx, tx.Tx, all); err != nil {
		return fmt.Errorf("insert what belongs to %d runs: %w", len(b.runs), err)
	}
	return nil
}

// placeRows are where claims and decisions find the tasks of runs that begin: what
// placeRuns writes of those that are there already.
type placeRows struct {
	ready     []readyRow
	held      []limitRow
	undecided []openRow
}

type readyRow struct {
	bun.BaseModel `bun:"table:task_ready"`

	TaskID   int64  `bun:"task_id"`
	Type     string `bun:"type"`
	Priority int    `bun:"priority"`
	RunID    string `bun:"run_id"`
}

type limitRow struct {
	bun.BaseModel `bun:"table:task_held"`

	TaskID   int64   `bun:"task_id"`
	Gate     string  `bun:"gate"`
	Priority int     `bun:"priority"`
	Since    instant `bun:"since"`
}

type openRow struct {
	bun.BaseModel `bun:"table:task_undecided"`

	TaskID int64 `bun:"task_id"`
}

func (p *placeRows) add(rows []taskRow, nodes []task.Node, now instant) {
	for i, r := range rows {
		switch {
		case r.State == task.Pending && r.Limits == nil:
			p.ready = append(p.ready, readyRow{TaskID: r.ID, Type: r.Type, Priority: r.Priority, RunID: r.RunID})
		case r.State == task.Pending:
			p.held = append(p.held, limitRow{TaskID: r.ID, Gate: gateLimit + nodes[i].Limits[0].Key, Priority: r.Priority, Since: now})
		case r.Unmet == 0 && r.Phase == task.PhaseMain:
			p.undecided = append(p.undecided, openRow{TaskID: r.ID})
		}
	}
}
