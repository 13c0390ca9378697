package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// An Occurrence is one due time with what became of it, and how its run stands.
type Occurrence struct {
	task.Occurrence
	RecordedAt time.Time
	RunStatus  task.RunStatus // "" without a run, or when retention has dropped it
	RepeatedOf string         // the run that its run repeats; "" for none
}

// An OccurrenceFilter says which occurrences to list. The zero value lists the 50 that
// are due last.
type OccurrenceFilter struct {
	Job     string            // "": any
	Outcome []task.DueOutcome // none: any
	Since   time.Time         // first; zero: from the beginning
	Until   time.Time         // last; zero: to the end
	After   string            // only those behind this place in the list; "": from its beginning
	Limit   int               // 0: 50
}

// Place returns the place of an occurrence in the list, for OccurrenceFilter.After.
func (o Occurrence) Place() string {
	return o.DueAt.UTC().Format(time.RFC3339Nano) + "/" + o.Job + "/" + o.Entry
}

// ErrPlace is returned when OccurrenceFilter.After is not what Place has written.
var ErrPlace = errors.New("no place in the list of due times: give what the page before ended with")

// place reads what Place has written.
func place(text string) (at time.Time, job, entry string, err error) {
	due, rest, ok := strings.Cut(text, "/")
	if ok {
		job, entry, ok = strings.Cut(rest, "/")
	}
	if ok {
		at, err = time.Parse(time.RFC3339Nano, due)
	}
	if !ok || err != nil {
		return at, "", "", fmt.Errorf("%q: %w", text, ErrPlace)
	}
	return at, job, entry, nil
}

// Occurrences lists due times that are on record, those that are due last first.
func (db *DB) Occurrences(ctx context.Context, f OccurrenceFilter) ([]Occurrence, error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	where, args := []string{"1 = 1"}, []any{}
	add := func(condition string, values ...any) { where, args = append(where, condition), append(args, values...) }
	if f.Job != "" {
		add("o.job = ?", f.Job)
	}
	if len(f.Outcome) > 0 {
		add("o.outcome IN (?)", bun.List(f.Outcome))
	}
	if !f.Since.IsZero() {
		add("o.due_at >= ?", instant{f.Since})
	}
	if !f.Until.IsZero() {
		add("o.due_at <= ?", instant{f.Until})
	}
	if f.After != "" {
		at, job, entry, err := place(f.After)
		if err != nil {
			return nil, err
		}
		add("(o.due_at, o.job, o.entry) < (?, ?, ?)", instant{at}, job, entry)
	}
	var rows []struct {
		Job, Entry, Reason, RunID, Trigger string
		Outcome                            task.DueOutcome
		DueAt, RecordedAt                  instant
		Status                             task.RunStatus
		RepeatedOf                         string
	}
	err := db.read.NewRaw(`SELECT o.job, o.entry, o.due_at, o.outcome, coalesce(o.reason, '') AS reason, coalesce(CAST(o.run_id AS text), '') AS run_id, o.trigger, o.recorded_at,
		coalesce(r.status, a.status, '') AS status, coalesce(CAST(r.repeated_of AS text), CAST(a.repeated_of AS text), '') AS repeated_of
		FROM occurrence o LEFT JOIN run r ON r.id = o.run_id LEFT JOIN run_archive a ON a.id = o.run_id
		WHERE `+strings.Join(where, " AND ")+" ORDER BY o.due_at DESC, o.job DESC, o.entry DESC LIMIT ?", append(args, f.Limit)...).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list due times: %w", err)
	}
	list := make([]Occurrence, len(rows))
	for i, r := range rows {
		list[i] = Occurrence{
			Occurrence: task.Occurrence{Job: r.Job, Entry: r.Entry, DueAt: r.DueAt.Time, Outcome: r.Outcome, Reason: r.Reason, RunID: r.RunID, Trigger: r.Trigger},
			RecordedAt: r.RecordedAt.Time, RunStatus: r.Status, RepeatedOf: r.RepeatedOf,
		}
	}
	return list, nil
}

// An Entry is an entry of a schedule as schedulers have followed it.
type Entry struct {
	task.EntryID
	Watermark  time.Time // up to where its due times are accounted for
	KnownSince time.Time // when it was first followed; zero: before that was noted
	Problem    string    // why it cannot be followed; "": it can
}

// Entries lists the entries of a job, or with "" those of all jobs that have a problem.
func (db *DB) Entries(ctx context.Context, job string) ([]Entry, error) {
	var rows []struct {
		Job, Entry, Problem   string
		Watermark, KnownSince instant
	}
	err := db.read.NewRaw(`SELECT job, entry, watermark, known_since, coalesce(problem, '') AS problem FROM schedule_entry
		WHERE job = ?0 OR ?0 = '' AND problem IS NOT NULL ORDER BY job, entry`, job).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list schedule entries: %w", err)
	}
	list := make([]Entry, len(rows))
	for i, r := range rows {
		list[i] = Entry{EntryID: task.EntryID{Job: r.Job, Entry: r.Entry}, Watermark: r.Watermark.Time, KnownSince: r.KnownSince.Time, Problem: r.Problem}
	}
	return list, nil
}

// KeyStates implements scheduler.Ledger.
func (db *DB) KeyStates(ctx context.Context, job string, keys []string) (map[string]task.KeyState, error) {
	states := make(map[string]task.KeyState, len(keys))
	for part := range slices.Chunk(keys, entryPage) {
		var rows []struct {
			Key, RunID string
			Status     task.RunStatus
		}
		// The live one last: it may have no version yet.
		err := db.read.NewRaw(`SELECT s.key, s.run_id, s.status FROM (
			SELECT k.upstream_key AS key, CAST(k.run_id AS text) AS run_id, coalesce(r.status, a.status, '') AS status, 0 AS live
			FROM run_key k LEFT JOIN run r ON r.id = k.run_id LEFT JOIN run_archive a ON a.id = k.run_id
			WHERE k.job = ?0 AND k.upstream_key IN (?1) AND k.version = (SELECT max(m.version) FROM run_key m WHERE m.job = k.job AND m.upstream_key = k.upstream_key)
			UNION ALL SELECT r.upstream_key, CAST(r.id AS text), r.status, 1 FROM run r
			WHERE r.job = ?0 AND r.upstream_key IN (?1) AND r.status IN ('pending', 'running', 'waiting')) AS s ORDER BY s.live`, job, bun.List(part)).Scan(ctx, &rows)
		if err != nil {
			return nil, fmt.Errorf("look how %d keys of %s stand: %w", len(part), job, err)
		}
		for _, r := range rows {
			states[r.Key] = task.KeyState{RunID: r.RunID, Status: r.Status}
		}
	}
	return states, nil
}

// DueRuns implements scheduler.Ledger.
func (db *DB) DueRuns(ctx context.Context, job string, from, to time.Time) (map[task.DueTime]task.KeyState, error) {
	var rows []struct {
		Entry, RunID string
		DueAt        instant
		Status       task.RunStatus
	}
	err := db.read.NewRaw(`SELECT o.entry, o.due_at, CAST(o.run_id AS text) AS run_id, coalesce(r.status, a.status, '') AS status
		FROM occurrence o LEFT JOIN run r ON r.id = o.run_id LEFT JOIN run_archive a ON a.id = o.run_id
		WHERE o.job = ? AND o.due_at >= ? AND o.due_at <= ? AND o.run_id IS NOT NULL`, job, instant{from}, instant{to}).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list the runs of due times of %s: %w", job, err)
	}
	runs := make(map[task.DueTime]task.KeyState, len(rows))
	for _, r := range rows {
		runs[task.DueTime{Entry: r.Entry, DueAt: r.DueAt.Time}] = task.KeyState{RunID: r.RunID, Status: r.Status}
	}
	return runs, nil
}
