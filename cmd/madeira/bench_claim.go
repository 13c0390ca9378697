package main

import (
	"context"
	"fmt"
	"time"

	"madeira/engine/task"
)

// seedRows is how many rows one statement of seed makes.
const seedRows = 100_000

// claims times claims of one task each, with so many tasks pending and so many
// finished in the tables.
func (b *bench) claims(ctx context.Context, r *benchResult) error {
	if err := b.seed(ctx, b.options.finished, "INSERT INTO task_queue (type, state, attempt, fence, placed) SELECT 'noop', 'success', 1, 1, true FROM n"); err != nil {
		return err
	}
	if err := b.seed(ctx, b.options.pending, "INSERT INTO task_queue (type, placed) SELECT 'noop', true FROM n"); err != nil {
		return err
	}
	_, pool := b.process.db.SQL()
	if _, err := pool.ExecContext(ctx, "INSERT INTO task_ready (task_id, type, priority) SELECT id, type, priority FROM task_queue WHERE state = 'pending' ORDER BY id"); err != nil {
		return fmt.Errorf("ready what is pending: %w", err)
	}
	if err := b.place.settle(ctx, b.process.db); err != nil {
		return err
	}
	var times []time.Duration
	want := task.Want{N: 1, Types: []string{benchType}, Lease: time.Minute}
	for range b.options.claims {
		start := time.Now()
		x, err := b.process.db.Exchange(ctx, "bench", nil, want)
		times = append(times, time.Since(start))
		if err != nil {
			return err
		}
		if len(x.Claimed) != 1 {
			return usage("--claims %d: there were only %d tasks pending", b.options.claims, b.options.pending)
		}
		done := []task.Outcome{{Hold: x.Claimed[0].Hold, To: task.Success}}
		if _, err := b.process.db.Exchange(ctx, "bench", done, task.Want{}); err != nil {
			return err
		}
	}
	r.Claim = quantilesOf(times)
	return nil
}

// seed runs the statement for n rows, a part at a time.
func (b *bench) seed(ctx context.Context, n int, statement string) error {
	_, pool := b.process.db.SQL()
	for ; n > 0; n -= seedRows {
		numbers := fmt.Sprintf("WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < %d) ", min(n, seedRows))
		if _, err := pool.ExecContext(ctx, numbers+statement); err != nil {
			return fmt.Errorf("fill the tables: %w", err)
		}
	}
	return nil
}
