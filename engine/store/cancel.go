package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// A stopping says why a run is stopped.
type stopping struct {
	as     string // what the run is stopped as: "cancelled" or "timeout"
	reason string // of the moves of its tasks
	by     *task.Action
}

// CancelRun stops a run and the runs that it started and waits for: what has not
// begun is cancelled at once, what is at work is told by its worker's heartbeat,
// and when the steps of finally are over the run ends as cancelled. Asked again it
// changes nothing. A run that is over is a *RunStateError.
func (db *DB) CancelRun(ctx context.Context, runID string, a task.Action) (task.Run, error) {
	a.Action, a.Subject = "cancel", "run:"+runID
	run, err := db.stop(ctx, runID, stopping{as: "cancelled", reason: task.ReasonCancelled, by: &a})
	if err != nil {
		return run, fmt.Errorf("cancel: %w", err)
	}
	db.made() // whoever waited for it can go on
	return run, nil
}

// Expire implements engine.Flow.
func (db *DB) Expire(ctx context.Context, limit int) (int, error) {
	var runs []string
	err := db.write(ctx, func(ctx context.Context, tx txn) error {
		runs = nil
		return tx.NewRaw(`SELECT CAST(id AS text) FROM run WHERE deadline <= ? AND finished_at IS NULL AND stopped IS NULL
			ORDER BY deadline LIMIT ?`, tx.now, limit).Scan(ctx, &runs)
	})
	if err != nil {
		return 0, fmt.Errorf("list runs that are out of time: %w", err)
	}
	for i, run := range runs {
		_, err := db.stop(ctx, run, stopping{as: "timeout", reason: task.ReasonRunTimeout})
		var over *RunStateError
		if err != nil && !errors.As(err, &over) {
			return i, fmt.Errorf("end a run that is out of time: %w", err)
		}
	}
	return len(runs), nil
}

// stop stops a run, and then those that it started, each in a transaction of its own.
func (db *DB) stop(ctx context.Context, runID string, s stopping) (task.Run, error) {
	var run task.Run
	err := db.write(ctx, func(ctx context.Context, tx txn) (err error) {
		run, err = tx.stop(ctx, runID, s)
		return err
	})
	if err != nil {
		return run, err
	}
	if err := db.tidy(ctx, run.ID); err != nil {
		return run, err
	}
	children, err := db.children(ctx, run.ID)
	if err != nil {
		return run, err
	}
	for _, child := range children {
		below := task.Action{Actor: "madeira", Action: "cancel", Subject: "run:" + child, Reason: "run " + run.ID + ", which started it, was stopped"}
		if s.by != nil {
			below.Actor = s.by.Actor
		}
		_, err := db.stop(ctx, child, stopping{as: "cancelled", reason: task.ReasonCancelled, by: &below})
		var over *RunStateError
		if err != nil && !errors.As(err, &over) {
			return run, err
		}
	}
	return run, nil
}

// children returns the live runs that steps of a run started.
func (db *DB) children(ctx context.Context, run string) ([]string, error) {
	var ids []string
	err := db.bun.NewRaw(`SELECT CAST(c.id AS text) FROM task_queue t JOIN run c ON c.parent_task = t.id
		WHERE t.run_id = ? AND t.type = ? AND c.trigger = 'job' AND c.status IN ('pending', 'running', 'waiting') ORDER BY c.id`, run, task.TypeJob).Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("list the runs that run %s started: %w", run, err)
	}
	return ids, nil
}

// unfinished are the tasks that a stop ends, of the run ?.
const unfinished = "run_id = ? AND step IS NOT NULL AND phase <> 'finally' AND state IN ('blocked', 'pending', 'waiting')"

func (tx txn) stop(ctx context.Context, runID string, s stopping) (task.Run, error) {
	tx, err := tx.lock(ctx, "SELECT id FROM task_queue WHERE run_id = ? AND step IS NOT NULL AND state NOT IN ('success', 'error', 'skipped', 'cancelled') ORDER BY id", runID)
	if err != nil {
		return task.Run{}, err
	}
	// With the run locked nobody makes further tasks of it: see txn.stopped.
	row, err := tx.lockRun(ctx, runID)
	run := row.run()
	switch {
	case err != nil:
		return run, err
	case !run.Status.Live() && run.Status != task.RunCancelled:
		return run, &RunStateError{Run: run.ID, Status: run.Status, Why: "it is over and cannot be cancelled"}
	case run.Stopped != "" || !run.Status.Live():
		return run, nil
	}
	if err := tx.leaveLine(ctx, run.ID); err != nil {
		return run, err
	}
	if err := tx.exec(ctx, "UPDATE run SET stopped = ?, stopped_at = ? WHERE id = ?", s.as, tx.now, run.ID); err != nil {
		return run, err
	}
	if err := tx.cancelOpen(ctx, row, s.reason); err != nil {
		return run, err
	}
	// After it: what somebody claimed before it could be locked is at work by now.
	if err := tx.exec(ctx, `UPDATE task_queue SET stop = ? WHERE run_id = ? AND step IS NOT NULL AND phase <> 'finally' AND state = 'processing'`, s.reason, run.ID); err != nil {
		return run, fmt.Errorf("tell what is at work: %w", err)
	}
	if s.by != nil {
		if err := tx.audit(ctx, *s.by); err != nil {
			return run, err
		}
	}
	return tx.findRun(ctx, run.ID)
}

// lockRun returns a run as it stands, and keeps it so until the commit.
func (tx txn) lockRun(ctx context.Context, id string) (runRow, error) {
	if err := tx.exec(ctx, "SELECT 1 FROM run WHERE id = ?"+tx.dialect.forUpdate(), id); err != nil {
		return runRow{}, fmt.Errorf("lock run %s: %w", id, err)
	}
	return findRunRow(ctx, tx, id)
}

// cancelOpen cancels everything of a run that has not begun, but finally, and
// counts it. Elements that came in since the run's tasks were locked are locked here.
func (tx txn) cancelOpen(ctx context.Context, run runRow, reason string) error {
	var steps []struct {
		ID    int64
		Phase task.Phase
		Step  bool
	}
	err := tx.NewRaw("SELECT id, phase, parent_id IS NULL AS step FROM task_queue WHERE "+unfinished+" ORDER BY id"+tx.dialect.forUpdate(), run.ID).Scan(ctx, &steps)
	if err != nil {
		return err
	}
	ids := make([]int64, len(steps))
	var now, later int
	for i, s := range steps {
		ids[i] = s.ID
		now += one(s.Step && s.Phase == run.Phase)
		later += one(s.Step && s.Phase != run.Phase)
	}
	for part := range slices.Chunk(ids, 5000) {
		if err := tx.cancelTasks(ctx, part, reason); err != nil {
			return fmt.Errorf("cancel %d tasks: %w", len(ids), err)
		}
	}
	if err := tx.exec(ctx, "UPDATE run SET later_steps = later_steps - ? WHERE id = ?", later, run.ID); err != nil {
		return err
	}
	if err := tx.settle(ctx, run.ID, stepCount{over: now, failed: now}); err != nil {
		return err
	}
	return tx.exec(ctx, "DELETE FROM run_undecided WHERE run_id = ? AND EXISTS (SELECT 1 FROM run r WHERE r.id = run_id AND r.finished_at IS NOT NULL)", run.ID)
}

// cancelTasks cancels tasks that have not begun, and takes them from wherever they
// stand.
func (tx txn) cancelTasks(ctx context.Context, ids []int64, reason string) error {
	err := tx.exec(ctx, `INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, reason, at)
		SELECT id, moves + 1, state, 'cancelled', attempt, fence, ?, ? FROM task_queue WHERE id IN (?)`, reason, tx.now, bun.List(ids))
	if err != nil {
		return err
	}
	if err := tx.exec(ctx, "UPDATE task_queue SET state = 'cancelled', reason = ?, moves = moves + 1, finished_at = ? WHERE id IN (?)", reason, tx.now, bun.List(ids)); err != nil {
		return err
	}
	for _, table := range standings {
		// A claim or a promoter that holds such a row waits for the task, finds it
		// cancelled and takes the row away itself; waiting for it would be a circle.
		free := "SELECT task_id FROM " + table + " WHERE task_id IN (?)"
		if tx.dialect.forUpdate() != "" {
			free += " FOR UPDATE SKIP LOCKED"
		}
		if err := tx.exec(ctx, "DELETE FROM "+table+" WHERE task_id IN ("+free+")", bun.List(ids)); err != nil {
			return err
		}
	}
	return nil
}

// standings are the tables in which a task stands, or holds a place, until it is over.
var standings = []string{"task_held", "task_ready", "task_later", "task_undecided", "task_slot", "circuit_probe"}

// tidy takes away what others put down for tasks of a stopped run while it was stopped.
func (db *DB) tidy(ctx context.Context, run string) error {
	for _, table := range standings {
		err := db.again(ctx, func() error {
			_, err := db.bun.NewRaw("DELETE FROM "+table+" WHERE task_id IN (SELECT id FROM task_queue WHERE run_id = ? AND state = 'cancelled')", run).Exec(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("tidy up after run %s was stopped: %w", run, err)
		}
	}
	return nil
}
