package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"madeira/engine/task"
)

// Account implements scheduler.Store. On error nothing of it is written.
func (db *DB) Account(ctx context.Context, due []task.Accounted) ([]task.Created, error) {
	due = slices.Clone(due)
	runs := 0
	for i := range due {
		if due[i].Run == nil {
			continue
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make a run of %s: %w", due[i].Run.Run.Job, err)
		}
		due[i].Occurrence.RunID = id.String()
		runs++
	}
	drafts, err := draftRuns(due)
	if err != nil {
		return nil, err
	}
	var made []task.Created
	for range tries {
		err = db.write(ctx, func(ctx context.Context, tx txn) (err error) {
			made, err = tx.account(ctx, due, drafts)
			return err
		})
		if !errors.Is(err, errEnded) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("account for %d due times: %w", len(due), err)
	}
	if runs > 0 {
		db.made()
	}
	return made, nil
}

// RecordOccurrence notes a due time that makes no run, and moves the watermark of its
// entry. A due time already on record stays as it is.
func (db *DB) RecordOccurrence(ctx context.Context, o task.Occurrence) error {
	return db.write(ctx, func(ctx context.Context, tx txn) error {
		_, err := tx.insertOccurrence(ctx, o)
		return err
	})
}

// insertOccurrence moves the watermark of the entry and reports whether the due
// time is new. Whoever comes second waits here for the first one's commit.
func (tx txn) insertOccurrence(ctx context.Context, o task.Occurrence) (bool, error) {
	if o.Trigger == triggerBackfill {
		return tx.fillGap(ctx, o)
	}
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
	err = tx.exec(ctx, `INSERT INTO schedule_entry (job, entry, watermark, known_since) VALUES (?, ?, ?, ?)
		ON CONFLICT (job, entry) DO UPDATE SET watermark = excluded.watermark WHERE excluded.watermark > schedule_entry.watermark`,
		o.Job, o.Entry, due, tx.now)
	if err != nil {
		return false, fmt.Errorf("move the watermark of %s %s: %w", o.Job, o.Entry, err)
	}
	return hit == 1, nil
}

// triggerBackfill is what makes an occurrence that somebody asked for afterwards.
const triggerBackfill = "backfill"

// fillGap records a due time that is made afterwards, in place of what its backfill
// has seen on record: no run, or one that is over. It reports whether it did; where
// there is another run now, it does not. The watermark stays: a
// scheduler that is behind it still has to account for what lies between.
func (tx txn) fillGap(ctx context.Context, o task.Occurrence) (bool, error) {
	res, err := tx.NewRaw(`INSERT INTO occurrence AS o (job, entry, due_at, outcome, reason, run_id, trigger, recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (job, entry, due_at) DO UPDATE SET outcome = excluded.outcome, reason = excluded.reason, run_id = excluded.run_id,
			trigger = excluded.trigger, recorded_at = excluded.recorded_at
		WHERE o.run_id IS NOT DISTINCT FROM ?
			AND NOT EXISTS (SELECT 1 FROM run r WHERE r.id = o.run_id AND r.status IN ('pending', 'running', 'waiting'))`,
		o.Job, o.Entry, instant{o.DueAt}, o.Outcome, nullable(clean(o.Reason, maxLine)), nullable(o.RunID), triggerBackfill, tx.now, nullable(o.Replaces)).Exec(ctx)
	if err != nil {
		return false, fmt.Errorf("record the due time %s of %s: %w", o.DueAt.UTC().Format(time.RFC3339), o.Job, err)
	}
	hit, err := res.RowsAffected()
	return hit == 1, err
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
