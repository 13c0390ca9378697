package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// account writes due times and their runs: first all due times, then what needs no
// second look in a few large statements, the rest one after the other. It goes in one
// order everywhere, so that schedulers that meet wait for each other instead of dying.
func (tx txn) account(ctx context.Context, due []task.Accounted) ([]task.Created, error) {
	order := make([]int, len(due))
	var runs []task.NewRun
	for i, d := range due {
		order[i] = i
		if d.Run != nil {
			runs = append(runs, *d.Run)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := due[a].Occurrence, due[b].Occurrence
		return cmp.Or(cmp.Compare(x.Job, y.Job), cmp.Compare(x.Entry, y.Entry), x.DueAt.Compare(y.DueAt))
	})
	tx, err := tx.turning(ctx, runs...)
	if err != nil {
		return nil, err
	}
	tells, err := tx.lookAhead(ctx, due)
	if err != nil {
		return nil, err
	}
	plain := make([]bool, len(due))
	for _, i := range order {
		plain[i] = tells.plain(due[i])
	}
	made := make([]task.Created, len(due))
	fresh, err := tx.record(ctx, due, order, plain, made)
	if err != nil {
		return nil, err
	}
	var many, single []int
	for _, i := range fresh {
		if plain[i] {
			many = append(many, i)
		} else {
			single = append(single, i)
		}
	}
	if err := tx.createMany(ctx, due, many, made); err != nil {
		return nil, err
	}
	for _, i := range single {
		if made[i], err = tx.makeRun(ctx, *due[i].Run); err != nil {
			return nil, fmt.Errorf("%s due at %s: %w", due[i].Occurrence.Job, due[i].Occurrence.DueAt.UTC().Format(time.RFC3339), err)
		}
	}
	return made, nil
}

// prospects is what stands in the way of runs, as of the beginning of the transaction.
type prospects struct {
	busy   map[string]bool       // jobs with a live run, or paused
	used   map[task.EntryID]bool // keys that have had a run, by job and key
	placed map[string]bool       // jobs that have a run among those before
}

func (tx txn) lookAhead(ctx context.Context, due []task.Accounted) (prospects, error) {
	p := prospects{busy: map[string]bool{}, used: map[task.EntryID]bool{}, placed: map[string]bool{}}
	var jobs []string
	var keys tuples
	for _, d := range due {
		if d.Run != nil {
			jobs = append(jobs, d.Run.Run.Job)
			keys = append(keys, task.EntryID{Job: d.Run.Run.Job, Entry: d.Run.Run.Key})
		}
	}
	if len(jobs) == 0 {
		return p, nil
	}
	var busy []string
	err := tx.NewRaw(`SELECT DISTINCT job FROM run WHERE status IN ('pending', 'running', 'waiting') AND job IN (?)
		UNION SELECT substr(gate, 5) FROM hold WHERE gate LIKE 'job:%'`, bun.List(jobs)).Scan(ctx, &busy)
	if err != nil {
		return p, fmt.Errorf("look for live runs of %d jobs: %w", len(jobs), err)
	}
	for _, job := range busy {
		p.busy[job] = true
	}
	var used []struct{ Job, Key string }
	err = tx.NewRaw("SELECT job, upstream_key AS key FROM run_key WHERE (job, upstream_key) IN (VALUES ?)", keys).Scan(ctx, &used)
	if err != nil {
		return p, fmt.Errorf("look for runs of %d keys: %w", len(keys), err)
	}
	for _, k := range used {
		p.used[task.EntryID{Job: k.Job, Entry: k.Key}] = true
	}
	return p, nil
}

// plain reports whether a due time needs no second look: it makes no run, or the
// first version of one with nothing in its way.
func (p prospects) plain(d task.Accounted) bool {
	if d.Run == nil {
		return true
	}
	job, key := d.Run.Run.Job, task.EntryID{Job: d.Run.Run.Job, Entry: d.Run.Run.Key}
	alone := d.Run.Overlap != "" && d.Run.Overlap != task.OverlapAllow
	plain := d.Run.Concurrency == nil && !d.Run.Again && !p.used[key] && (!alone || !p.busy[job] && !p.placed[job])
	p.placed[job], p.used[key] = true, p.used[key] || key.Entry != ""
	if !plain {
		p.busy[job] = true // what comes behind it has to see it
	}
	return plain
}

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

// record writes the due times in the given order, and moves the watermarks. It answers
// for those that have been on record, and returns those whose runs are to be made. A
// run that is plain and put off waits from the beginning.
func (tx txn) record(ctx context.Context, due []task.Accounted, order []int, plain []bool, made []task.Created) ([]int, error) {
	rows := make([]occurrenceRow, len(order))
	marks := map[task.EntryID]instant{}
	for i, w := range order {
		o := due[w].Occurrence
		rows[i] = occurrenceRow{Job: o.Job, Entry: o.Entry, DueAt: instant{o.DueAt}, Outcome: o.Outcome, Reason: clean(o.Reason, maxLine), RunID: o.RunID, RecordedAt: tx.now}
		if d := due[w].Run; d != nil && plain[w] && d.NotBefore.After(tx.now.Time) {
			rows[i].Outcome, rows[i].Reason = task.DueWaiting, putOff(instant{d.NotBefore})
		}
		if id := (task.EntryID{Job: o.Job, Entry: o.Entry}); o.DueAt.After(marks[id].Time) {
			marks[id] = instant{o.DueAt}
		}
	}
	fresh := 0
	for part := range slices.Chunk(rows, entryPage) {
		res, err := tx.NewInsert().Model(&part).On("CONFLICT (job, entry, due_at) DO NOTHING").Returning("NULL").Exec(ctx)
		if err != nil {
			return nil, fmt.Errorf("record %d due times: %w", len(part), err)
		}
		n, err := res.RowsAffected()
		if err != nil {
			return nil, err
		}
		fresh += int(n)
	}
	if err := tx.moveMarks(ctx, marks); err != nil {
		return nil, err
	}
	which := slices.DeleteFunc(slices.Clone(order), func(w int) bool { return due[w].Run == nil })
	if fresh < len(rows) {
		return tx.unrecorded(ctx, due, which, made)
	}
	return which, nil
}

// moveMarks moves the watermarks of entries on.
func (tx txn) moveMarks(ctx context.Context, marks map[task.EntryID]instant) error {
	rows := make([]entryRow, 0, len(marks))
	for e, at := range marks {
		rows = append(rows, entryRow{Job: e.Job, Entry: e.Entry, Watermark: at, KnownSince: tx.now})
	}
	slices.SortFunc(rows, func(a, b entryRow) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Entry, b.Entry)) })
	for part := range slices.Chunk(rows, entryPage) {
		_, err := tx.NewInsert().Model(&part).Returning("NULL").
			On("CONFLICT (job, entry) DO UPDATE SET watermark = excluded.watermark WHERE excluded.watermark > e.watermark").Exec(ctx)
		if err != nil {
			return fmt.Errorf("move %d watermarks: %w", len(part), err)
		}
	}
	return nil
}

// unrecorded returns those whose occurrence points at the run to be made, and answers for
// the others: somebody was faster.
func (tx txn) unrecorded(ctx context.Context, due []task.Accounted, which []int, made []task.Created) ([]int, error) {
	ids := make([]string, len(which))
	for i, w := range which {
		ids[i] = due[w].Run.Run.ID
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var ours []string
	err := tx.NewRaw("SELECT CAST(o.run_id AS text) FROM occurrence o WHERE o.run_id IN (?) AND NOT EXISTS (SELECT 1 FROM run r WHERE r.id = o.run_id)", bun.List(ids)).Scan(ctx, &ours)
	if err != nil {
		return nil, fmt.Errorf("look which due times are new: %w", err)
	}
	var fresh []int
	for i, w := range which {
		if slices.Contains(ours, ids[i]) {
			fresh = append(fresh, w)
		} else if made[w], err = tx.runOfOccurrence(ctx, due[w].Occurrence); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

// createMany makes the first versions of runs that have nothing in their way, save
// that another one of the key may have come up in this moment.
func (tx txn) createMany(ctx context.Context, due []task.Accounted, which []int, made []task.Created) error {
	var rows []runRow
	var laid [][]task.Node
	for _, w := range which {
		n := *due[w].Run
		nodes, err := task.Lay(n.Tasks, false)
		if err == nil && len(nodes) == 0 {
			err = errors.New("a run needs at least one step")
		}
		row := runRow{}
		if err == nil {
			row, err = tx.newRow(ctx, n)
		}
		if err != nil {
			return fmt.Errorf("make a run of %s: %w", n.Run.Job, err)
		}
		row.LaterSteps = laterSteps(nodes)
		row.Version, row.OpenSteps = 1, len(nodes)-row.LaterSteps
		rows, laid = append(rows, row), append(laid, nodes)
	}
	if len(rows) == 0 {
		return nil
	}
	if err := tx.knowVersions(ctx, due, which); err != nil {
		return err
	}
	missed, err := tx.insertRuns(ctx, rows)
	if err != nil {
		return err
	}
	var kept batchRows
	for i, w := range which {
		n := *due[w].Run
		if missed[n.Run.ID] {
			if made[w], err = tx.liveRun(ctx, n); err != nil {
				return err
			}
			continue
		}
		made[w] = task.Created{Run: rows[i].run(), Outcome: n.Occurrence.Outcome, Reason: n.Occurrence.Reason}
		if n.NotBefore.After(tx.now.Time) {
			made[w].Outcome, made[w].Reason = task.DueWaiting, putOff(instant{n.NotBefore})
		}
		kept.add(tx, n, rows[i], laid[i])
	}
	return kept.insert(ctx, tx)
}

// insertRuns returns the runs that were left out because another one of their key is live.
func (tx txn) insertRuns(ctx context.Context, rows []runRow) (map[string]bool, error) {
	res, err := tx.NewInsert().Model(&rows).On(liveConflict).Returning("NULL").Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("insert %d runs: %w", len(rows), err)
	}
	n, err := res.RowsAffected()
	if err != nil || int(n) == len(rows) {
		return nil, err
	}
	missed := make(map[string]bool, len(rows))
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i], missed[r.ID] = r.ID, true
	}
	var there []string
	if err := tx.NewRaw("SELECT CAST(id AS text) FROM run WHERE id IN (?)", bun.List(ids)).Scan(ctx, &there); err != nil {
		return nil, err
	}
	for _, id := range there {
		delete(missed, id)
	}
	return missed, nil
}

// knowVersions notes the meanings of jobs that are not noted yet.
func (tx txn) knowVersions(ctx context.Context, due []task.Accounted, which []int) error {
	var ids tuples
	for _, w := range which {
		v := due[w].Run.Job
		ids = append(ids, task.EntryID{Job: v.Name, Entry: v.Digest})
	}
	var rows []struct{ Job, Digest string }
	err := tx.NewRaw("SELECT v.job, v.digest FROM job_version v JOIN job j ON j.name = v.job WHERE (v.job, v.digest) IN (VALUES ?)", ids).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("look which versions of %d jobs are noted: %w", len(ids), err)
	}
	known := map[task.EntryID]bool{}
	for _, r := range rows {
		known[task.EntryID{Job: r.Job, Entry: r.Digest}] = true
	}
	for i, w := range which {
		if known[ids[i]] {
			continue
		}
		known[ids[i]] = true
		if err := tx.saveJob(ctx, due[w].Run.Job); err != nil {
			return err
		}
	}
	return nil
}
