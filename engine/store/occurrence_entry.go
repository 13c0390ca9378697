package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// entryPage is how many entries a statement names.
const entryPage = 1000

// FollowEntries implements scheduler.Store.
func (db *DB) FollowEntries(ctx context.Context, entries []task.EntryID) ([]time.Time, error) {
	found := make(map[task.EntryID]time.Time, len(entries))
	for part := range slices.Chunk(entries, entryPage) {
		if err := readWatermarks(ctx, db.read, part, found); err != nil {
			return nil, err
		}
		missing := slices.DeleteFunc(slices.Clone(part), func(e task.EntryID) bool { _, ok := found[e]; return ok })
		if len(missing) == 0 {
			continue
		}
		err := db.write(ctx, func(ctx context.Context, tx txn) error {
			if err := tx.knowEntries(ctx, missing); err != nil {
				return err
			}
			return readWatermarks(ctx, tx, missing, found) // somebody else may have been first
		})
		if err != nil {
			return nil, fmt.Errorf("note %d schedule entries: %w", len(missing), err)
		}
	}
	marks := make([]time.Time, len(entries))
	for i, e := range entries {
		marks[i] = found[e]
	}
	return marks, nil
}

func readWatermarks(ctx context.Context, db bun.IDB, entries []task.EntryID, into map[task.EntryID]time.Time) error {
	var rows []struct {
		Job, Entry string
		Watermark  instant
	}
	err := db.NewRaw(`SELECT u.column1 AS job, u.column2 AS entry,
		(SELECT e.watermark FROM schedule_entry e WHERE e.job = u.column1 AND e.entry = u.column2) AS watermark FROM (?) AS u`, pairs(entries)).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("read %d watermarks: %w", len(entries), err)
	}
	for _, r := range rows {
		if !r.Watermark.IsZero() {
			into[task.EntryID{Job: r.Job, Entry: r.Entry}] = r.Watermark.Time
		}
	}
	return nil
}

// pairs is what entries are, or what else is found by a job and a text.
func pairs(entries []task.EntryID) relation {
	r := relation{{kind: kindText}, {kind: kindText}}
	for _, e := range entries {
		r.add(e.Job, e.Entry)
	}
	return r
}

type entryRow struct {
	bun.BaseModel `bun:"table:schedule_entry,alias:e"`

	Job        string  `bun:"job"`
	Entry      string  `bun:"entry"`
	Watermark  instant `bun:"watermark"`
	KnownSince instant `bun:"known_since"`
}

// knowEntries notes entries that were never seen before.
func (tx txn) knowEntries(ctx context.Context, entries []task.EntryID) error {
	rows := make([]entryRow, len(entries))
	for i, e := range entries {
		rows[i] = entryRow{Job: e.Job, Entry: e.Entry, Watermark: tx.now, KnownSince: tx.now}
	}
	_, err := insertMany(ctx, tx, rows, "ON CONFLICT (job, entry) DO NOTHING")
	return err
}

// NoteProblem implements scheduler.Store.
func (db *DB) NoteProblem(ctx context.Context, e task.EntryID, problem string) error {
	err := db.write(ctx, func(ctx context.Context, tx txn) error {
		return tx.exec(ctx, "UPDATE schedule_entry SET problem = ? WHERE job = ? AND entry = ?", nullable(clean(problem, maxLine)), e.Job, e.Entry)
	})
	if err != nil {
		return fmt.Errorf("note the problem of %s %s: %w", e.Job, e.Entry, err)
	}
	return nil
}

// Pauses implements scheduler.Store.
func (db *DB) Pauses(ctx context.Context, after time.Time) ([]task.Pause, error) {
	var rows []struct {
		Job, Actor, Reason string
		Since, Until       instant
	}
	err := db.read.NewRaw(`SELECT substr(gate, 5) AS job, since, NULL AS until, coalesce(actor, '') AS actor, coalesce(reason, '') AS reason FROM hold WHERE gate LIKE 'job:%'
		UNION ALL SELECT job, since, until, coalesce(actor, ''), coalesce(reason, '') FROM schedule_pause WHERE until > ?`, instant{after}).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list pauses of jobs: %w", err)
	}
	list := make([]task.Pause, len(rows))
	for i, r := range rows {
		list[i] = task.Pause{Job: r.Job, Since: r.Since.Time, Until: r.Until.Time, Actor: r.Actor, Reason: r.Reason}
	}
	return list, nil
}

// keepPause keeps the pause of a job that ends now, if there is one.
func (tx txn) keepPause(ctx context.Context, job string) error {
	err := tx.exec(ctx, `INSERT INTO schedule_pause (job, since, until, actor, reason)
		SELECT ?0, since, ?1, actor, reason FROM hold WHERE gate = ?2 ON CONFLICT DO NOTHING`, job, tx.now, gateJob+job)
	if err != nil {
		return fmt.Errorf("keep the pause of %s: %w", job, err)
	}
	return nil
}

// Watermark returns up to where the due times of one entry are accounted for. For an
// entry never seen it is now, and is kept.
func (db *DB) Watermark(ctx context.Context, job, entry string) (time.Time, error) {
	marks, err := db.FollowEntries(ctx, []task.EntryID{{Job: job, Entry: entry}})
	if err != nil {
		return time.Time{}, err
	}
	return marks[0], nil
}
