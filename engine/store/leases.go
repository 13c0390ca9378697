package store

import (
	"context"
	"fmt"

	"madeira/engine/task"
)

// Leases returns the leases of the tasks of a run that hold, the first to run out first.
func (db *DB) Leases(ctx context.Context, runID string) ([]task.Lease, error) {
	now, err := db.dialect.now(ctx, db.read)
	if err != nil {
		return nil, fmt.Errorf("look who works at run %s: %w", runID, err)
	}
	var rows []struct {
		Step, Element, Type, Host string
		PID                       int
		LeaseUntil                instant
	}
	err = db.read.NewRaw(`SELECT coalesce(t.step, '') AS step, t.element, t.type, coalesce(w.host, '') AS host, coalesce(w.pid, 0) AS pid, l.lease_until
		FROM task_queue t JOIN task_lease l ON l.task_id = t.id LEFT JOIN worker w ON w.id = l.worker
		WHERE t.run_id = ? AND l.lease_until >= ? ORDER BY l.lease_until, t.id`, runID, now).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("look who works at run %s: %w", runID, err)
	}
	leases := make([]task.Lease, len(rows))
	for i, r := range rows {
		leases[i] = task.Lease{Step: r.Step, Element: r.Element, Type: r.Type, Host: r.Host, PID: r.PID, Until: r.LeaseUntil.Time}
	}
	return leases, nil
}
