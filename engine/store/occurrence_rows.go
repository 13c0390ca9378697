package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// batchRows are the rows of new runs beside those of run itself.
type batchRows struct {
	keys  []runKeyRow
	turns []turnRow
	begin []string // runs that begin at once
	runs  []task.NewRun
	laid  [][]task.Node
	count int // tasks
}

type runKeyRow struct {
	bun.BaseModel `bun:"table:run_key"`

	Job     string `bun:"job"`
	Key     string `bun:"upstream_key"`
	Version int    `bun:"version"`
	RunID   string `bun:"run_id"`
}

func (b *batchRows) add(tx txn, n task.NewRun, row runRow, nodes []task.Node) {
	if n.Run.Key != "" {
		b.keys = append(b.keys, runKeyRow{Job: n.Run.Job, Key: n.Run.Key, Version: 1, RunID: n.Run.ID})
	}
	if n.NotBefore.After(tx.now.Time) {
		b.turns = append(b.turns, turnRow{
			RunID: n.Run.ID, Job: n.Run.Job, Overlap: queues(n), Priority: row.Priority, DueAt: row.DueAt, NotBefore: instant{n.NotBefore},
			Outcome: string(n.Occurrence.Outcome), Reason: clean(n.Occurrence.Reason, maxLine), Since: tx.now,
		})
	} else {
		b.begin = append(b.begin, n.Run.ID)
	}
	b.runs, b.laid = append(b.runs, n), append(b.laid, nodes)
	b.count += len(nodes)
}

func (b *batchRows) insert(ctx context.Context, tx txn) error {
	if len(b.runs) == 0 {
		return nil
	}
	ids, err := tx.dialect.reserve(ctx, tx.Tx, b.count)
	if err != nil {
		return fmt.Errorf("number %d tasks: %w", b.count, err)
	}
	tasks := make([]taskRow, 0, b.count)
	var edges []dependencyRow
	for i, n := range b.runs {
		rows, needs, err := tx.layTasks(n, b.laid[i], ids[:len(b.laid[i])])
		if err != nil {
			return fmt.Errorf("make a run of %s: %w", n.Run.Job, err)
		}
		ids = ids[len(b.laid[i]):]
		tasks, edges = append(tasks, rows...), append(edges, needs...)
	}
	err = insertAll(ctx, tx.Tx, b.keys, 2000)
	if err == nil {
		err = insertAll(ctx, tx.Tx, b.turns, 1000)
	}
	if err == nil {
		err = insertAll(ctx, tx.Tx, tasks, 500)
	}
	if err == nil {
		err = insertAll(ctx, tx.Tx, edges, 2000)
	}
	if err != nil {
		return fmt.Errorf("insert what belongs to %d runs: %w", len(b.runs), err)
	}
	if len(b.begin) == 0 {
		return nil
	}
	return tx.placeRuns(ctx, b.begin)
}
