package store

import (
	"context"
	"fmt"

	"madeira/engine/task"
)

// Wake moves a waiting task to pending, because of one of the task.Wake reasons,
// and reports whether it was waiting.
func (db *DB) Wake(ctx context.Context, taskID int64, reason string) (bool, error) {
	var woken bool
	err := db.write(ctx, func(ctx context.Context, tx txn) (err error) {
		woken, err = tx.wake(ctx, taskID, reason)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("wake task %d: %w", taskID, err)
	}
	return woken, nil
}

// wake is Wake within a transaction. The reason stands in detail too, where it
// outlives the claim: an attempt that is tried again was woken all the same.
func (tx txn) wake(ctx context.Context, id int64, reason string) (bool, error) {
	tx, err := tx.lock(ctx, "SELECT id FROM task_queue WHERE id = ?", id)
	if err != nil {
		return false, err
	}
	reason = clean(reason, maxLine)
	var rows []released
	err = tx.NewRaw(`UPDATE task_queue SET state = 'pending', reason = ?0, detail = ?0, moves = moves + 1, run_at = ?1
		WHERE id = ?2 AND state = 'waiting' RETURNING `+releasedColumns, reason, tx.now, id).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	r := rows[0]
	if err := tx.exec(ctx, "DELETE FROM task_later WHERE task_id = ?", id); err != nil {
		return false, err
	}
	if err := tx.ready(ctx, []int64{id}); err != nil {
		return false, err
	}
	return true, tx.tell(ctx, []logRow{{TaskID: id, Seq: r.Moves, From: task.Waiting, To: task.Pending, Attempt: r.Attempt, Fence: r.Fence, Reason: reason, At: tx.now}})
}
