package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// A task that is over, and what that means for what follows.
type over struct {
	id     int64
	run    string // "" for a task enqueued alone
	step   bool   // it counts among the steps of its run: elements and deliveries do not
	bad    bool   // its successors see a failure
	failed bool   // its run ends in error
	warned bool   // its run ends as a warning at best
}

// A released task was blocked, and now is pending or waits for a decision; or it
// waited for its elements, and now is pending.
type released struct {
	ID      int64
	State   task.State
	Reason  string
	Unmet   int
	Moves   int
	Attempt int
	Fence   int64
}

const releasedColumns = "id, state, coalesce(reason, '') AS reason, unmet, moves, attempt, fence"

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
	tx, err := tx.lock(ctx, `SELECT id FROM task_queue WHERE state IN ('blocked', 'waiting')
		AND id IN (SELECT task_id FROM task_dependency WHERE needs_id IN (?)) ORDER BY id`, bun.List(all))
	if err != nil {
		return err
	}
	// What waits for elements goes on however they ended.
	const free = "t.unmet = h.n AND (t.state = 'waiting' OR t.unmet_failed + h.bad = 0 AND t.condition IS NULL)"
	const joined = "CASE WHEN " + free + " AND t.state = 'waiting' THEN '" + task.WakeJoined + "' ELSE t."
	var next []released
	err = tx.NewRaw(`UPDATE task_queue AS t SET
		unmet = t.unmet - h.n, unmet_failed = t.unmet_failed + h.bad,
		state = CASE WHEN `+free+` THEN 'pending' ELSE t.state END,
		reason = `+joined+`reason END, detail = `+joined+`detail END,
		moves = CASE WHEN `+free+` THEN t.moves + 1 ELSE t.moves END
		FROM (SELECT task_id, count(*) AS n, sum(CASE WHEN needs_id IN (?) THEN 1 ELSE 0 END) AS bad
			FROM task_dependency WHERE needs_id IN (?) GROUP BY task_id) AS h
		WHERE t.id = h.task_id AND t.state IN ('blocked', 'waiting')
		RETURNING `+releasedColumns, bun.List(bad), bun.List(all)).Scan(ctx, &next)
	if err != nil {
		return fmt.Errorf("count down what waits for %d tasks: %w", len(all), err)
	}
	if err := tx.place(ctx, next); err != nil {
		return err
	}
	return tx.tally(ctx, ended)
}

// tally counts down the open steps of the runs, in the order of their ids, and
// settles those that have none left.
func (tx txn) tally(ctx context.Context, ended []over) error {
	counts := map[string]stepCount{}
	for _, o := range ended {
		if o.run == "" || !o.step {
			continue
		}
		c := counts[o.run]
		c.over++
		c.failed += one(o.failed)
		c.warned += one(o.warned)
		counts[o.run] = c
	}
	for _, run := range slices.Sorted(maps.Keys(counts)) {
		if err := tx.settle(ctx, run, counts[run]); err != nil {
			return err
		}
	}
	return nil
}

// A stepCount says how many steps of a phase are over, and how.
type stepCount struct{ over, failed, warned int }

// settle is where a run ends, unless a comparison or a hot path ends it: when no
// step of its phase is open and no phase follows. Whoever waits for the run goes
// on. Where a phase follows, the run is noted for NextPhase.
func (tx txn) settle(ctx context.Context, run string, c stepCount) error {
	var rows []struct {
		OpenSteps, LaterSteps int
		ParentTask            int64
		Ended                 bool
	}
	err := tx.NewRaw(`UPDATE run SET
		open_steps = open_steps - ?0, failed_steps = failed_steps + ?1, warned_steps = warned_steps + ?2,
		status = CASE WHEN open_steps > ?0 OR later_steps > 0 THEN status
			WHEN stopped = 'cancelled' THEN 'cancelled' WHEN stopped IS NOT NULL OR failed_steps + ?1 > 0 THEN 'error'
			WHEN warned_steps + ?2 > 0 THEN 'warning' ELSE 'success' END,
		finished_at = CASE WHEN open_steps <= ?0 AND later_steps = 0 THEN ?3 END
		WHERE id = ?4 AND status IN ('pending', 'running', 'waiting')
		RETURNING open_steps, later_steps, coalesce(parent_task, 0) AS parent_task, finished_at IS NOT NULL AS ended`,
		c.over, c.failed, c.warned, tx.now, run).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("settle run %s: %w", run, err)
	}
	for _, r := range rows {
		switch {
		case r.Ended && r.ParentTask != 0:
			_, err = tx.wake(ctx, r.ParentTask, task.WakeChild)
		case !r.Ended && r.OpenSteps == 0:
			err = tx.exec(ctx, "INSERT INTO run_undecided (run_id) VALUES (?) ON CONFLICT DO NOTHING", run)
		}
	}
	if err != nil {
		return fmt.Errorf("settle run %s: %w", run, err)
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
