package store

import (
	"context"
	"database/sql"
	"errors"
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

// Watermark implements scheduler.Store.
func (db *DB) Watermark(ctx context.Context, job, entry string) (time.Time, error) {
	var at instant
	err := db.write(ctx, func(ctx context.Context, tx txn) error {
		if err := tx.exec(ctx, `INSERT INTO schedule_entry (job, entry, watermark) VALUES (?, ?, ?)
			ON CONFLICT (job, entry) DO NOTHING`, job, entry, tx.now); err != nil {
			return err
		}
		return tx.NewRaw("SELECT watermark FROM schedule_entry WHERE job = ? AND entry = ?", job, entry).Scan(ctx, &at)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read the watermark of %s %s: %w", job, entry, err)
	}
	return at.Time, nil
}

// RecordOccurrence implements scheduler.Store.
func (db *DB) RecordOccurrence(ctx context.Context, o task.Occurrence) error {
	return db.write(ctx, func(ctx context.Context, tx txn) error {
		_, err := tx.insertOccurrence(ctx, o)
		return err
	})
}

// insertOccurrence moves the watermark of the entry and reports whether the due
// time is new. Whoever comes second waits here for the first one's commit.
func (tx txn) insertOccurrence(ctx context.Context, o task.Occurrence) (bool, error) {
	due := instant{o.DueAt}
	res, err := tx.NewRaw(`INSERT INTO occurrence (job, entry, due_at, outcome, reason, run_id, recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (job, entry, due_at) DO NOTHING`,
		o.Job, o.Entry, due, o.Outcome, nullable(clean(o.Reason, maxLine)), nullable(o.RunID), tx.now).Exec(ctx)
	if err != nil {
		return false, fmt.Errorf("record the due time %s of %s: %w", o.DueAt.UTC().Format(time.RFC3339), o.Job, err)
	}
	hit, err := res.RowsAffected()
	if err != nil {
		return false, err
	}
	err = tx.exec(ctx, `INSERT INTO schedule_entry (job, entry, watermark) VALUES (?, ?, ?)
		ON CONFLICT (job, entry) DO UPDATE SET watermark = excluded.watermark WHERE excluded.watermark > schedule_entry.watermark`,
		o.Job, o.Entry, due)
	if err != nil {
		return false, fmt.Errorf("move the watermark of %s %s: %w", o.Job, o.Entry, err)
	}
	return hit == 1, nil
}

// runOfOccurrence answers for a due time that is on record.
func (tx txn) runOfOccurrence(ctx context.Context, o task.Occurrence) (task.Created, error) {
	var id sql.NullString
	made := task.Created{Existing: true}
	err := tx.NewRaw("SELECT run_id, outcome, coalesce(reason, '') FROM occurrence WHERE job = ? AND entry = ? AND due_at = ?", o.Job, o.Entry, instant{o.DueAt}).Scan(ctx, &id, &made.Outcome, &made.Reason)
	if err != nil {
		return task.Created{}, fmt.Errorf("read the due time of %s: %w", o.Job, err)
	}
	if !id.Valid {
		return made, nil
	}
	made.Run, err = tx.findRun(ctx, id.String)
	if errors.Is(err, ErrNotFound) {
		return made, nil // archived since
	}
	return made, err
}
