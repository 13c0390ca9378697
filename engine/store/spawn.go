package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"madeira/engine/task"
	"madeira/jobs/step"
)

const (
	// maxDepth is how many runs may wait for each other in a row: a job that calls
	// itself has to end somewhere.
	maxDepth = 16

	// askAgain is when a task that waits for a run which another one started asks
	// again: the run can tell only one task that it is over.
	askAgain = 30 * time.Second
)

// Spawn implements engine.Flow. Asked again by the same claim after the answer was
// lost, it repeats the answer.
//
// The key of the new run means what it means for any run. Where it is live
// already, the task waits for that run, whoever started it: the same work under
// the same key is not done twice. If that run tells another task of its end, this
// one asks again every half minute, and finds the key ended well then, so that the
// new run compares and ends as repeated. Only a run that waits for this very task
// cannot be waited for: that is a permanent error.
func (db *DB) Spawn(ctx context.Context, h task.Hold, n task.NewRun) (task.Created, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return task.Created{}, fmt.Errorf("start the run of task %d: %w", h.TaskID, err)
	}
	n.Run.ID, n.Run.ParentTask = id.String(), h.TaskID
	var made task.Created
	stopped := false
	for range tries {
		err = db.write(ctx, func(ctx context.Context, tx txn) (err error) {
			made, stopped, err = tx.spawn(ctx, h, n)
			return err
		})
		if !errors.Is(err, errEnded) {
			break
		}
	}
	if err == nil && stopped {
		err = step.ErrLeaseLost // it is over
	}
	if err != nil {
		return task.Created{}, fmt.Errorf("start the run of task %d: %w", h.TaskID, err)
	}
	return made, nil
}

func (tx txn) spawn(ctx context.Context, h task.Hold, n task.NewRun) (made task.Created, stopped bool, err error) {
	held, mine, err := tx.hold(ctx, h)
	if err != nil {
		return made, false, err
	}
	if !mine {
		made, err = tx.spawnedBefore(ctx, h, held, n)
		return made, false, err
	}
	if stopped, err = tx.stopped(ctx, h, held); err != nil || stopped {
		return made, stopped, err
	}
	child, err := tx.child(ctx, h.TaskID)
	switch {
	case err == nil && !child.Status.Live():
		return task.Created{Run: child, Existing: true}, false, tx.leave(ctx, h, held, leaving{To: task.Pending, Reason: task.WakeChild, Detail: task.WakeChild})
	case err == nil:
		return task.Created{Run: child, Existing: true}, false, tx.leave(ctx, h, held, leaving{To: task.Waiting, Reason: task.ReasonChild, Delay: askAgain})
	case !errors.Is(err, ErrNotFound):
		return made, false, err
	}
	above, err := tx.above(ctx, held.RunID)
	if err != nil {
		return made, false, err
	}
	if made, err = tx.startCalled(ctx, n); err != nil {
		return made, false, err
	}
	if !made.Existing {
		return made, false, tx.leave(ctx, h, held, leaving{To: task.Waiting, Reason: task.ReasonChild})
	}
	if above[made.Run.ID] {
		return made, false, step.PermanentCode("job.waits_for_itself", fmt.Errorf("run %s of %s waits for this task: give the run that it starts another upstream_key", made.Run.ID, made.Run.Job))
	}
	if err := tx.adopt(ctx, h.TaskID, made.Run.ID); err != nil {
		return made, false, err
	}
	return made, false, tx.leave(ctx, h, held, leaving{To: task.Waiting, Reason: task.ReasonChild, Delay: askAgain})
}

// adopt lets a live run tell the task of its end if it tells nobody else, and notes
// that the task waits for it.
func (tx txn) adopt(ctx context.Context, id int64, run string) error {
	res, err := tx.NewRaw("UPDATE run SET parent_task = coalesce(parent_task, ?) WHERE id = ? AND status IN ('pending', 'running', 'waiting')", id, run).Exec(ctx)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return errEnded
	}
	err = tx.exec(ctx, "INSERT INTO run_waiter (run_id, task_id) SELECT id, ?0 FROM run WHERE id = ?1 AND parent_task <> ?0 ON CONFLICT DO NOTHING", id, run)
	if err != nil {
		return fmt.Errorf("note what waits for run %s: %w", run, err)
	}
	// A run that another one waits for does not wait for others of its job.
	return tx.exec(ctx, "UPDATE run_turn SET child = ?, overlap = ? WHERE run_id = ?", true, false, run)
}

// spawnedBefore tells a claim whose answer was lost from one that lost its lease.
func (tx txn) spawnedBefore(ctx context.Context, h task.Hold, held heldRow, n task.NewRun) (task.Created, error) {
	child, err := tx.child(ctx, h.TaskID)
	switch {
	case err == nil:
		return task.Created{Run: child, Existing: child.ID != n.Run.ID}, nil
	case !errors.Is(err, ErrNotFound):
		return task.Created{}, err
	case held.State == task.Waiting:
		return tx.liveRun(ctx, n)
	}
	return task.Created{}, step.ErrLeaseLost
}

// child returns the run that a task started last, since it was last redriven, or
// ErrNotFound.
func (tx txn) child(ctx context.Context, id int64) (task.Run, error) {
	var run []string
	err := tx.NewRaw(`SELECT CAST(r.id AS text) FROM run r WHERE r.parent_task = ?0
		AND (r.finished_at IS NULL OR NOT EXISTS (SELECT 1 FROM task_log l WHERE l.task_id = ?0 AND l.reason = ?1 AND l.at >= r.finished_at))
		ORDER BY r.created_at DESC, r.id DESC LIMIT 1`, id, task.ReasonRedrive).Scan(ctx, &run)
	if err != nil {
		return task.Run{}, err
	}
	if len(run) == 0 {
		return task.Run{}, ErrNotFound
	}
	return tx.findRun(ctx, run[0])
}

// above returns the run and all that wait for it.
func (tx txn) above(ctx context.Context, run string) (map[string]bool, error) {
	all := map[string]bool{run: true}
	next := []string{run}
	for depth := 1; len(next) > 0; depth++ {
		if depth > maxDepth {
			return nil, step.PermanentCode("job.too_deep", fmt.Errorf("more than %d runs wait for each other: a job calls itself without an end", maxDepth))
		}
		up, err := callers(ctx, tx, next)
		if err != nil {
			return nil, err
		}
		next = nil
		for _, c := range up {
			if !all[c.Caller] {
				all[c.Caller], next = true, append(next, c.Caller)
			}
		}
	}
	return all, nil
}

// A calling is a run that waits for another one.
type calling struct{ RunID, Caller string }

// callers returns the runs that wait for any of the runs, straight.
func callers(ctx context.Context, db bun.IDB, runs []string) ([]calling, error) {
	const up = ` AND t.run_id IS NOT NULL AND t.state IN ('pending', 'processing', 'waiting')`
	var all []calling
	err := db.NewRaw(`SELECT CAST(r.id AS text) AS run_id, CAST(t.run_id AS text) AS caller FROM run r JOIN task_queue t ON t.id = r.parent_task WHERE r.id IN (?0)`+up+`
		UNION SELECT CAST(w.run_id AS text), CAST(t.run_id AS text) FROM run_waiter w JOIN task_queue t ON t.id = w.task_id WHERE w.run_id IN (?0)`+up, bun.List(runs)).Scan(ctx, &all)
	if err != nil {
		return nil, fmt.Errorf("look what waits for %d runs: %w", len(runs), err)
	}
	return all, nil
}

// Child implements engine.Flow.
func (db *DB) Child(ctx context.Context, taskID int64, refs []string) (task.Scope, error) {
	var row []runRow
	err := db.read.NewSelect().Model(&row).Where("r.parent_task = ?", taskID).OrderExpr("r.created_at DESC, r.id DESC").Limit(1).Scan(ctx)
	if err == nil && len(row) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return task.Scope{}, fmt.Errorf("read the run that task %d started: %w", taskID, err)
	}
	scope := task.Scope{Run: row[0].run()}
	kept := row[0].ID
	if row[0].Status == task.RunRepeated {
		kept = row[0].RepeatedOf // which did what this one had to
	}
	if scope.Steps, err = steps(ctx, db.read, kept, refs); err == nil {
		scope.Failure, err = firstFailure(ctx, db.read, row[0].ID)
	}
	if err != nil {
		return task.Scope{}, fmt.Errorf("read the run that task %d started: %w", taskID, err)
	}
	return scope, nil
}
