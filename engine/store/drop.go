package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// Drop removes from the archive what was over that long ago, until limit rows are
// gone or nothing is left, at most 5,000 rows in a transaction. The artifacts of a
// run go with it; keys stay.
func (db *DB) Drop(ctx context.Context, olderThan time.Duration, limit int) (task.Archived, error) {
	var sum task.Archived
	err := db.shift(ctx, limit, &sum, func(ctx context.Context, tx shifting) (task.Archived, error) {
		return tx.drop(ctx, instant{tx.now.Add(-olderThan)})
	})
	if err != nil {
		return sum, fmt.Errorf("drop from the archive what was over %s ago: %w", olderThan, err)
	}
	return sum, nil
}

// drop removes what hangs on the oldest runs and lone tasks first, and them last.
func (tx shifting) drop(ctx context.Context, before instant) (task.Archived, error) {
	var runs []string
	err := tx.NewRaw(`SELECT CAST(id AS text) FROM run_archive WHERE finished_at < ? AND id NOT IN (SELECT run_id FROM run_archiving)
		ORDER BY finished_at, id LIMIT ?`, before, tx.runs()).Scan(ctx, &runs)
	if err != nil {
		return task.Archived{}, err
	}
	var lone []int64
	err = tx.NewRaw("SELECT id FROM task_archive WHERE run_id IS NULL AND finished_at < ? ORDER BY finished_at, id LIMIT ?", before, tx.most/5).Scan(ctx, &lone)
	if err != nil || len(runs)+len(lone) == 0 {
		return task.Archived{}, err
	}
	done := task.Archived{}
	for _, part := range []struct {
		table, key, where string
		args              []any
		count             *int
	}{
		{"task_dependency_archive", "task_id, needs_id", "task_id IN (SELECT id FROM task_archive WHERE run_id IN (?))", []any{bun.List(runs)}, nil},
		{"task_log_archive", "task_id, seq", "task_id IN (SELECT id FROM task_archive WHERE run_id IN (?) OR id IN (?))", []any{bun.List(runs), bun.List(lone)}, nil},
		{"artifact", "id", "run_id IN (?)", []any{bun.List(runs)}, nil},
		{"task_archive", "id", "run_id IN (?)", []any{bun.List(runs)}, nil},
		{"task_archive", "id", "id IN (?)", []any{bun.List(lone)}, &done.Lone},
		{"run_archive", "id", "id IN (?)", []any{bun.List(runs)}, &done.Runs},
	} {
		where := fmt.Sprintf("(%s) IN (SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d)", part.key, part.key, part.table, part.where, part.key, tx.most-done.Rows)
		res, err := tx.NewRaw("DELETE FROM "+part.table+" WHERE "+where, part.args...).Exec(ctx)
		if err != nil {
			return done, fmt.Errorf("delete rows of %s: %w", part.table, err)
		}
		n, err := res.RowsAffected()
		if err != nil {
			return done, err
		}
		if part.count != nil {
			*part.count = int(n)
		}
		if done.Rows += int(n); done.Rows >= tx.most {
			return done, nil
		}
	}
	return done, nil
}
