package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// place puts released tasks where claims or decisions find them, and logs those
// that moved.
func (tx txn) place(ctx context.Context, next []released) error {
	var ready, undecided []int64
	for _, r := range next {
		switch {
		case r.State == task.Pending:
			ready = append(ready, r.ID)
		case r.State == task.Blocked && r.Unmet == 0:
			undecided = append(undecided, r.ID)
		}
	}
	if err := tx.ready(ctx, ready); err != nil {
		return err
	}
	if len(undecided) > 0 {
		if err := tx.exec(ctx, `INSERT INTO task_undecided (task_id) SELECT id FROM task_queue WHERE id IN (?)`, bun.List(undecided)); err != nil {
			return fmt.Errorf("note %d undecided tasks: %w", len(undecided), err)
		}
	}
	return tx.tell(ctx, movesOf(next, tx.now))
}

// movesOf is what the log says of released tasks.
func movesOf(next []released, now instant) []logRow {
	var log []logRow
	for _, r := range next {
		if r.State != task.Pending {
			continue
		}
		from, reason := task.Blocked, ""
		if r.Reason == task.WakeJoined {
			from, reason = task.Waiting, r.Reason
		}
		log = append(log, logRow{TaskID: r.ID, Seq: r.Moves, From: from, To: task.Pending, Attempt: r.Attempt, Fence: r.Fence, Reason: reason, At: now})
	}
	return log
}

// ready puts pending tasks that are due where claims find them, or under their
// first limit.
func (tx txn) ready(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	return tx.readyWhere(ctx, "id IN (?)", bun.List(ids))
}

// readyWhere is ready for the tasks that a condition on task_queue names.
func (tx txn) readyWhere(ctx context.Context, where string, args ...any) error {
	ready, err := tx.count(ctx, "INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM task_queue WHERE limits IS NULL AND "+where, args...)
	held := 0
	if err == nil {
		held, err = tx.count(ctx, "INSERT INTO task_held (task_id, gate, priority, since) SELECT id, 'limit:' || (limits -> 0 ->> 'key'), priority, ? FROM task_queue WHERE limits IS NOT NULL AND "+where,
			append([]any{tx.now}, args...)...)
	}
	if tx.made != nil {
		tx.made.ready, tx.made.held = tx.made.ready+ready, tx.made.held+held
	}
	if err != nil {
		return fmt.Errorf("ready tasks: %w", err)
	}
	return nil
}

// count is exec, and returns how many rows the statement hit.
func (tx txn) count(ctx context.Context, query string, args ...any) (int, error) {
	res, err := tx.NewRaw(query, args...).Exec(ctx)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
