package store

import (
	"context"
	"fmt"

	"madeira/engine/task"
)

// audit notes what a person did, in the transaction that does it.
func (tx txn) audit(ctx context.Context, a task.Action) error {
	detail, err := cleanJSON(a.Detail)
	if err != nil {
		return fmt.Errorf("note who did it: %w", err)
	}
	err = tx.exec(ctx, "INSERT INTO audit_log (at, actor, action, subject, reason, detail) VALUES (?, ?, ?, ?, ?, ?)",
		tx.now, clean(a.Actor, maxLine), a.Action, clean(a.Subject, maxLine), nullable(clean(a.Reason, maxLine)), detail)
	if err != nil {
		return fmt.Errorf("note who did it: %w", err)
	}
	return nil
}
