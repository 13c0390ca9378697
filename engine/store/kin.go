package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// Kin implements engine.Watcher: it returns the runs that steps of a run started,
// however far down, those above before those below. It goes down from run to tasks
// to runs along their indexes.
func (db *DB) Kin(ctx context.Context, runID string) ([]task.Run, error) {
	var found []task.Run
	known := map[string]bool{runID: true}
	for above := []string{runID}; len(above) > 0 && len(known) <= maxKin; {
		var rows []runRow
		err := db.read.NewSelect().Model(&rows).
			Where("r.parent_task IN (SELECT t.id FROM task_queue t WHERE t.run_id IN (?) AND t.type = ?)", bun.List(above), task.TypeJob).
			OrderExpr("r.parent_task, r.created_at, r.id").Scan(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the runs that run %s started: %w", runID, err)
		}
		above = nil
		for _, row := range rows {
			if !known[row.ID] {
				known[row.ID] = true
				above = append(above, row.ID)
				found = append(found, row.run())
			}
		}
	}
	return found, nil
}

// maxKin bounds the runs that are followed down from one.
const maxKin = 10_000
