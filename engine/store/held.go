package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// A heldRow is a task at work that a transaction of its own moves on, outside of
// an exchange.
type heldRow struct {
	RunID     string
	State     task.State
	Phase     task.Phase
	Moves     int
	Attempt   int
	Fence     int64
	Worker    string
	ClaimedAt instant
	Element   bool
	Elements  document
}

// hold locks a task and reports whether the claim still holds it. It does not when
// the same claim has moved the task before and the answer was lost. A task of
// another claim is step.ErrLeaseLost.
func (tx txn) hold(ctx context.Context, h task.Hold) (heldRow, bool, error) {
	leased, err := tx.free(ctx, h)
	if err != nil {
		return heldRow{}, false, err
	}
	var held heldRow
	err = tx.NewRaw(`SELECT coalesce(CAST(run_id AS text), '') AS run_id, state, phase, moves, attempt, fence, coalesce(worker, '') AS worker, claimed_at, parent_id IS NOT NULL AS element, elements
		FROM task_queue WHERE id = ? AND fence = ?`+tx.dialect.forUpdate(), h.TaskID, h.Fence).Scan(ctx, &held)
	if errors.Is(err, sql.ErrNoRows) {
		return held, false, step.ErrLeaseLost
	}
	return held, leased && held.State == task.Processing, err
}

// free gives up the lease and reports whether it was there.
func (tx txn) free(ctx context.Context, h task.Hold) (bool, error) {
	res, err := tx.NewRaw("DELETE FROM task_lease WHERE task_id = ? AND fence = ?", h.TaskID, h.Fence).Exec(ctx)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// stopped locks the run until the commit, so that whoever stops it sees what this
// transaction makes, and reports whether it was stopped and the task must not go
// on. Then the task is over, as cancelled.
func (tx txn) stopped(ctx context.Context, h task.Hold, held heldRow) (bool, error) {
	if held.RunID == "" {
		return false, nil
	}
	var stopped string
	err := tx.NewRaw("SELECT coalesce(stopped, '') FROM run WHERE id = ?"+tx.dialect.forUpdate(), held.RunID).Scan(ctx, &stopped)
	if err != nil {
		return false, fmt.Errorf("look whether run %s goes on: %w", held.RunID, err)
	}
	reason := task.ReasonCancelled
	switch {
	case stopped == "" || held.Phase == task.PhaseFinally:
		return false, nil
	case stopped == "timeout":
		reason = task.ReasonRunTimeout
	}
	if err := tx.leave(ctx, h, held, leaving{To: task.Cancelled, Reason: reason}); err != nil {
		return true, err
	}
	return true, tx.advance(ctx, []over{{id: h.TaskID, run: held.RunID, step: !held.Element, bad: true, failed: true}})
}

// A leaving says where a task at work goes, without an outcome of its attempt.
type leaving struct {
	To     task.State
	Reason string
	Detail string        // on a way back to pending what woke it
	Delay  time.Duration // until it is due or expires; 0: now or never
	Open   int           // what it waits for from now on
	Took   time.Duration
}

// leave moves a task at work, with its row in the log. A wait spends no attempt.
func (tx txn) leave(ctx context.Context, h task.Hold, held heldRow, l leaving) error {
	at := instant{tx.now.Add(l.Delay)}
	finished := instant{}
	if l.To.Terminal() {
		finished = tx.now
	}
	err := tx.exec(ctx, `UPDATE task_queue SET state = ?, reason = ?, detail = ?, failure = NULL, moves = moves + 1, attempt = attempt - ?,
		run_at = ?, finished_at = ?, unmet = ? WHERE id = ? AND fence = ?`,
		l.To, nullable(l.Reason), nullable(l.Detail), one(!l.To.Terminal()), at, finished, l.Open, h.TaskID, h.Fence)
	if err != nil {
		return err
	}
	for _, table := range []string{"task_slot", "circuit_probe"} {
		if err := tx.exec(ctx, "DELETE FROM "+table+" WHERE task_id = ?", h.TaskID); err != nil {
			return err
		}
	}
	switch {
	case l.Delay > 0:
		err = tx.exec(ctx, "INSERT INTO task_later (task_id, run_at) VALUES (?, ?)", h.TaskID, at)
	case l.To == task.Pending:
		err = tx.ready(ctx, []int64{h.TaskID})
	}
	if err != nil {
		return err
	}
	return tx.tell(ctx, []logRow{{
		TaskID: h.TaskID, Seq: held.Moves + 1, From: task.Pending, To: l.To, Attempt: held.Attempt, Fence: h.Fence,
		Worker: held.Worker, Reason: l.Reason, ClaimedAt: held.ClaimedAt, TookMS: l.Took.Milliseconds(), At: tx.now,
	}})
}
