package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// Guard returns what has to be the last statement of every transaction that a
// step writes in the state database: it locks the row of the task until the
// commit, so that no other attempt begins before, and returns step.ErrLeaseLost
// when one has begun already.
func (db *DB) Guard(h task.Hold) func(ctx context.Context, tx *sql.Tx) error {
	query := "SELECT 1 FROM task_queue WHERE id = $1 AND fence = $2 AND state = 'processing'" + db.dialect.forUpdate()
	return func(ctx context.Context, tx *sql.Tx) error {
		var held int
		err := tx.QueryRowContext(ctx, query, h.TaskID, h.Fence).Scan(&held)
		if errors.Is(err, sql.ErrNoRows) {
			return step.ErrLeaseLost
		}
		if err != nil {
			return fmt.Errorf("check the lease of task %d: %w", h.TaskID, err)
		}
		return nil
	}
}
