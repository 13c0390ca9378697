package store

import (
	"context"
	"fmt"
	"time"

	"madeira/engine/task"
)

// Now implements scheduler.Store.
func (db *DB) Now(ctx context.Context) (time.Time, error) {
	at, err := db.dialect.now(ctx, db.read)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the database for the time: %w", err)
	}
	return at.Time, nil
}

// SaveJob implements scheduler.Store. What is in force of a job that a process
// follows is that process's to say.
func (db *DB) SaveJob(ctx context.Context, v task.JobVersion) error {
	return db.write(ctx, func(ctx context.Context, tx txn) error {
		if err := tx.saveJob(ctx, v); err != nil {
			return err
		}
		return tx.exec(ctx, "UPDATE job SET digest = ?, path = ?, commit_id = ?, seen_at = ? WHERE name = ? AND followed IS NULL",
			v.Digest, clean(v.Path, maxLine), nullable(v.Commit), tx.now, v.Name)
	})
}

// saveJob notes a meaning of a job and leaves what is there alone, so that runs of
// one job do not wait for each other.
func (tx txn) saveJob(ctx context.Context, v task.JobVersion) error {
	if v.Name == "" {
		return nil // a run without a file behind it
	}
	source, path := clean(string(v.Source), maxDocument), clean(v.Path, maxLine)
	err := tx.exec(ctx, `INSERT INTO job_version (job, digest, path, source, commit_id, first_seen_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (job, digest) DO NOTHING`, v.Name, v.Digest, path, source, nullable(v.Commit), tx.now)
	if err == nil {
		err = tx.exec(ctx, `INSERT INTO job (name, digest, path, commit_id, seen_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (name) DO NOTHING`, v.Name, v.Digest, path, nullable(v.Commit), tx.now)
	}
	if err != nil {
		return fmt.Errorf("note job %s: %w", v.Name, err)
	}
	return nil
}
