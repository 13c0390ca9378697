package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// A task that is over, and what that means for what follows.
type over struct {
	id     int64
	run    string // "" for a task enqueued alone
	step   bool   // it counts among the steps of its run
	bad    bool   // its successors see a failure
	failed bool   // its run ends in error
	warned bool   // its run ends as a warning at best
}

// A released task was blocked, and now is pending or waits for a decision.
type released struct {
	ID      int64
	State   task.State
	Unmet   int
	Moves   int
	Attempt int
	Fence   int64
}

// advance counts down what waits for the tasks that are over, readies what waits
// for nothing more, notes what an engine has to decide, and settles the runs of
// which nothing is open.
func (tx txn) advance(ctx context.Context, ended []over) error {
	if len(ended) == 0 {
		return nil
	}
	all, bad := []int64{}, []int64{}
	for _, o := range ended {
		all = append(all, o.id)
		if o.bad {
			bad = append(bad, o.id)
		}
	}
	tx, err := tx.lock(ctx, `SELECT id FROM task_queue WHERE state = 'blocked'
		AND id IN (SELECT task_id FROM task_dependency WHERE needs_id IN (?)) ORDER BY id`, bun.List(all))
	if err != nil {
		return err
	}
	var next []released
	err = tx.NewRaw(`UPDATE task_queue AS t SET
		unmet = t.unmet - h.n, unmet_failed = t.unmet_failed + h.bad,
		state = CASE WHEN t.unmet = h.n AND t.unmet_failed + h.bad = 0 AND t.condition IS NULL THEN 'pending' ELSE t.state END,
		moves = CASE WHEN t.unmet = h.n AND t.unmet_failed + h.bad = 0 AND t.condition IS NULL THEN t.moves + 1 ELSE t.moves END
		FROM (SELECT task_id, count(*) AS n, sum(CASE WHEN needs_id IN (?) THEN 1 ELSE 0 END) AS bad
			FROM task_dependency WHERE needs_id IN (?) GROUP BY task_id) AS h
		WHERE t.id = h.task_id AND t.state = 'blocked'
		RETURNING id, state, unmet, moves, attempt, fence`, bun.List(bad), bun.List(all)).Scan(ctx, &next)
	if err != nil {
		return fmt.Errorf("count down what waits for %d tasks: %w", len(all), err)
	}
	if err := tx.place(ctx, next); err != nil {
		return err
	}
	return tx.tally(ctx, ended)
}

// place puts released tasks where claims or decisions find them.
func (tx txn) place(ctx context.Context, next []released) error {
	var ready, undecided []int64
	var log []logRow
	for _, r := range next {
		switch {
		case r.State == task.Pending:
			ready = append(ready, r.ID)
			log = append(log, logRow{TaskID: r.ID, Seq: r.Moves, From: task.Blocked, To: task.Pending, Attempt: r.Attempt, Fence: r.Fence, At: tx.now})
		case r.Unmet == 0:
			undecided = append(undecided, r.ID)
		}
	}
	if len(ready) > 0 {
		if err := tx.exec(ctx, `INSERT INTO task_ready (task_id, type, priority, run_id)
			SELECT id, type, priority, run_id FROM task_queue WHERE id IN (?)`, bun.List(ready)); err != nil {
			return fmt.Errorf("ready %d tasks: %w", len(ready), err)
		}
	}
	if len(undecided) > 0 {
		if err := tx.exec(ctx, `INSERT INTO task_undecided (task_id) SELECT id FROM task_queue WHERE id IN (?)`, bun.List(undecided)); err != nil {
			return fmt.Errorf("note %d undecided tasks: %w", len(undecided), err)
		}
	}
	return tx.tell(ctx, log)
}

// tally counts down the open steps of the runs and settles those that have none left.
func (tx txn) tally(ctx context.Context, ended []over) error {
	type count struct{ n, failed, warned int }
	counts := map[string]count{}
	runs := []string{}
	for _, o := range ended {
		if o.run == "" || !o.step {
			continue
		}
		c, known := counts[o.run]
		if !known {
			runs = append(runs, o.run)
		}
		c.n++
		c.failed += one(o.failed)
		c.warned += one(o.warned)
		counts[o.run] = c
	}
	slices.Sort(runs)
	for _, run := range runs {
		c := counts[run]
		err := tx.exec(ctx, `UPDATE run SET
			open_steps = open_steps - ?0, failed_steps = failed_steps + ?1, warned_steps = warned_steps + ?2,
			status = CASE WHEN open_steps > ?0 THEN status
				WHEN failed_steps + ?1 > 0 THEN 'error' WHEN warned_steps + ?2 > 0 THEN 'warning' ELSE 'success' END,
			finished_at = CASE WHEN open_steps <= ?0 THEN ?3 END
			WHERE id = ?4 AND status IN ('pending', 'running', 'waiting')`, c.n, c.failed, c.warned, tx.now, run)
		if err != nil {
			return fmt.Errorf("settle run %s: %w", run, err)
		}
	}
	return nil
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tell writes rows of the log.
func (tx txn) tell(ctx context.Context, rows []logRow) error {
	for part := range slices.Chunk(rows, 1000) {
		if _, err := tx.NewInsert().Model(&part).Returning("NULL").Exec(ctx); err != nil {
			return fmt.Errorf("log %d moves: %w", len(part), err)
		}
	}
	return nil
}

// lock takes the rows of a SELECT in its order, where the database needs that to
// keep transactions from waiting for each other in a circle. The transaction that
// it returns is stamped anew: what was waited for may have been logged meanwhile,
// and what follows must not seem to come before it.
func (tx txn) lock(ctx context.Context, query string, args ...any) (txn, error) {
	if tx.dialect.forUpdate() == "" {
		return tx, nil
	}
	err := tx.exec(ctx, query+tx.dialect.forUpdate(), args...)
	if err != nil {
		return tx, err
	}
	tx.now, err = tx.dialect.now(ctx, tx.Tx)
	return tx, err
}

func (tx txn) exec(ctx context.Context, query string, args ...any) error {
	_, err := tx.NewRaw(query, args...).Exec(ctx)
	return err
}
