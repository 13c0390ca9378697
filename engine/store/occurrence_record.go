package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

type occurrenceRow struct {
	bun.BaseModel `bun:"table:occurrence,alias:o"`

	Job        string          `bun:"job"`
	Entry      string          `bun:"entry"`
	DueAt      instant         `bun:"due_at"`
	Outcome    task.DueOutcome `bun:"outcome"`
	Reason     string          `bun:"reason,nullzero"`
	RunID      string          `bun:"run_id,nullzero"`
	RecordedAt instant         `bun:"recorded_at"`
}

// record writes the due times in the order given, and moves the watermarks. It answers
// for those that have been on record, and returns those whose runs are to be made.
func (a *accounting) record(ctx context.Context, order []int) ([]int, error) {
	rows := make([]occurrenceRow, len(order))
	marks := map[task.EntryID]instant{}
	var runs []int
	for i, w := range order {
		o := a.due[w].Occurrence
		rows[i] = occurrenceRow{Job: o.Job, Entry: o.Entry, DueAt: instant{o.DueAt}, Outcome: o.Outcome, Reason: clean(o.Reason, maxLine), RunID: o.RunID, RecordedAt: a.now}
		if n := a.due[w].Run; n != nil {
			runs = append(runs, w)
			if n.NotBefore.After(a.began.Time) {
				rows[i].Outcome, rows[i].Reason = task.DueWaiting, putOff(instant{n.NotBefore})
			}
		}
		if id := (task.EntryID{Job: o.Job, Entry: o.Entry}); o.DueAt.After(marks[id].Time) {
			marks[id] = instant{o.DueAt}
		}
	}
	written, err := insertMany(ctx, a.txn, rows, "ON CONFLICT (job, entry, due_at) DO NOTHING")
	if err != nil {
		return nil, fmt.Errorf("record %d due times: %w", len(rows), err)
	}
	if err := a.moveMarks(ctx, marks); err != nil {
		return nil, err
	}
	if written < len(rows) {
		return a.unrecorded(ctx, runs)
	}
	return runs, nil
}

// moveMarks moves the watermarks of entries on.
func (tx txn) moveMarks(ctx context.Context, marks map[task.EntryID]instant) error {
	rows := make([]entryRow, 0, len(marks))
	for e, at := range marks {
		rows = append(rows, entryRow{Job: e.Job, Entry: e.Entry, Watermark: at, KnownSince: tx.now})
	}
	slices.SortFunc(rows, func(a, b entryRow) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Entry, b.Entry)) })
	_, err := insertMany(ctx, tx, rows, "ON CONFLICT (job, entry) DO UPDATE SET watermark = excluded.watermark WHERE excluded.watermark > e.watermark")
	if err != nil {
		return fmt.Errorf("move %d watermarks: %w", len(rows), err)
	}
	return nil
}

// unrecorded returns those whose occurrence points at the run to be made, and answers for
// the others: somebody was faster.
func (a *accounting) unrecorded(ctx context.Context, runs []int) ([]int, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	ids := make([]string, len(runs))
	for i, w := range runs {
		ids[i] = a.due[w].Occurrence.RunID
	}
	var ours []string
	err := a.NewRaw("SELECT CAST(o.run_id AS text) FROM occurrence o WHERE o.run_id IN (?) AND NOT EXISTS (SELECT 1 FROM run r WHERE r.id = o.run_id)", bun.List(ids)).Scan(ctx, &ours)
	if err != nil {
		return nil, fmt.Errorf("look which due times are new: %w", err)
	}
	mine := make(map[string]bool, len(ours))
	for _, id := range ours {
		mine[id] = true
	}
	var fresh []int
	for i, w := range runs {
		if mine[ids[i]] {
			fresh = append(fresh, w)
		} else if a.made[w], err = a.runOfOccurrence(ctx, a.due[w].Occurrence); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

// yield records as skipped what gives way to a live run of its job. The rest may have to
// wait for its turn.
func (a *accounting) yield(ctx context.Context, which []int) error {
	if len(which) == 0 {
		return nil
	}
	jobs := relation{{kind: kindNumber}, {kind: kindText}}
	for _, w := range which {
		jobs.add(int64(w), a.due[w].Run.Run.Job)
	}
	var rows []struct {
		Due  int
		Live string
	}
	err := a.NewRaw("SELECT u.column1 AS due, coalesce((SELECT CAST(l.id AS text) FROM "+liveOf("u.column2")+
		" ORDER BY l.created_at, l.id LIMIT 1), '') AS live FROM (?) AS u", a.now, jobs).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("look for live runs of %d jobs: %w", len(which), err)
	}
	skipped := relation{{kind: kindUUID}, {kind: kindText}}
	for _, r := range rows {
		if r.Live == "" {
			a.ways[r.Due] = queued
			continue
		}
		a.made[r.Due] = task.Created{Existing: true, Outcome: task.DueSkipped, Reason: givesWayTo(r.Live)}
		skipped.add(a.due[r.Due].Occurrence.RunID, a.made[r.Due].Reason)
	}
	if len(skipped[0].values) == 0 {
		return nil
	}
	err = a.exec(ctx, "UPDATE occurrence SET outcome = ?, reason = u.column2, run_id = NULL FROM (?) AS u WHERE occurrence.run_id = u.column1", task.DueSkipped, skipped)
	if err != nil {
		return fmt.Errorf("note that %d due times are skipped: %w", len(which), err)
	}
	return nil
}
