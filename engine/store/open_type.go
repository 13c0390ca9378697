package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// closedTypes can never be opened: the first runs what the payload says, the
// others are Madeira's own. The table refuses them too.
func closedTypes() []string {
	return []string{"command", task.TypeCompare, task.TypeDeliver, task.TypeJob}
}

// SetOpenTypes says of which types anybody may insert tasks into task_queue: these
// and no others.
func (db *DB) SetOpenTypes(ctx context.Context, types []string) error {
	for _, closed := range closedTypes() {
		if slices.Contains(types, closed) {
			return fmt.Errorf("open types for inserts into task_queue: %q cannot be opened: it runs programs or is Madeira's own; leave it out", closed)
		}
	}
	err := db.write(ctx, func(ctx context.Context, tx txn) error {
		if err := tx.exec(ctx, "DELETE FROM open_type WHERE type NOT IN (?)", bun.List(append([]string{""}, types...))); err != nil {
			return err
		}
		for _, name := range types {
			if err := tx.exec(ctx, "INSERT INTO open_type (type) VALUES (?) ON CONFLICT DO NOTHING", name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("open types for inserts into task_queue: %w", err)
	}
	return nil
}
