package store

import (
	"context"
	"fmt"

	"madeira/engine/task"
)

// RegisterWorker notes a worker that is about to claim tasks. Its heartbeats keep
// the note fresh; the times given are ignored.
func (db *DB) RegisterWorker(ctx context.Context, w task.Worker) error {
	err := db.write(ctx, func(ctx context.Context, tx txn) error {
		return tx.exec(ctx, `INSERT INTO worker (id, host, pid, version, started_at, seen_at) VALUES (?0, ?1, ?2, ?3, ?4, ?4)
			ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`,
			w.ID, clean(w.Host, maxLine), w.PID, clean(w.Version, maxLine), tx.now)
	})
	if err != nil {
		return fmt.Errorf("register worker %s: %w", w.ID, err)
	}
	return nil
}

// Workers lists the workers, the one seen last first.
func (db *DB) Workers(ctx context.Context) ([]task.Worker, error) {
	var rows []struct {
		ID, Host, Version string
		PID               int
		StartedAt, SeenAt instant
	}
	err := db.read.NewRaw("SELECT id, host, pid, version, started_at, seen_at FROM worker ORDER BY seen_at DESC, id").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	workers := make([]task.Worker, len(rows))
	for i, r := range rows {
		workers[i] = task.Worker{ID: r.ID, Host: r.Host, PID: r.PID, Version: r.Version, StartedAt: r.StartedAt.Time, SeenAt: r.SeenAt.Time}
	}
	return workers, nil
}
