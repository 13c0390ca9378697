package store

import (
	"context"
	"fmt"

	"madeira/engine/task"
)

// Artifacts returns what the tasks of a run left, in the order it was left.
func (db *DB) Artifacts(ctx context.Context, runID string) ([]task.Kept, error) {
	var rows []struct {
		TaskID    int64
		Step      string
		Kind      string
		Name      string
		Digest    string
		SizeBytes int64
		RowCount  int64
		Origin    string
		CreatedAt instant
	}
	err := db.read.NewRaw(`SELECT a.task_id, coalesce(t.step, o.step, '') AS step, a.kind, a.name, a.digest, a.size_bytes,
		coalesce(a.row_count, 0) AS row_count, coalesce(a.origin, '') AS origin, a.created_at
		FROM artifact a LEFT JOIN task_queue t ON t.id = a.task_id LEFT JOIN task_archive o ON o.id = a.task_id
		WHERE a.run_id = ? ORDER BY a.id`, runID).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read the artifacts of run %s: %w", runID, err)
	}
	kept := make([]task.Kept, len(rows))
	for i, r := range rows {
		kept[i] = task.Kept{
			TaskID: r.TaskID, Step: r.Step, CreatedAt: r.CreatedAt.Time,
			Artifact: task.Artifact{Kind: r.Kind, Name: r.Name, Digest: r.Digest, Size: r.SizeBytes, Rows: r.RowCount, Origin: r.Origin},
		}
	}
	return kept, nil
}
