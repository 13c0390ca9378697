package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// create makes the first versions of runs, save that another one of the key may have
// come up in this moment.
func (a *accounting) create(ctx context.Context, which []int) error {
	if len(which) == 0 {
		return nil
	}
	rows := make([]*runRow, len(which))
	for i, w := range which {
		rows[i] = &a.drafts[w].run
		rows[i].stamp(a.now)
	}
	if err := a.knowVersions(ctx, which); err != nil {
		return err
	}
	if err := a.previousPeriods(ctx, rows); err != nil {
		return err
	}
	missed, err := a.insertRuns(ctx, rows)
	if err != nil {
		return err
	}
	kept := batchRows{runs: make([]newTasks, 0, len(which)), keys: make([]runKeyRow, 0, len(which))}
	var waiting []int
	for i, w := range which {
		d, n := &a.due[w], a.due[w].Run
		if missed[rows[i].ID] {
			if a.made[w], err = a.liveRun(ctx, whole(d)); err != nil {
				return err
			}
			continue
		}
		a.made[w] = task.Created{Run: rows[i].run(), Outcome: d.Occurrence.Outcome, Reason: d.Occurrence.Reason}
		turn := n.NotBefore.After(a.began.Time)
		if turn {
			a.made[w].Outcome, a.made[w].Reason = task.DueWaiting, putOff(instant{n.NotBefore})
		}
		if a.ways[w] == queued && takesTurn(*n) {
			turn, waiting = true, append(waiting, w)
		}
		kept.add(newTasks{d, &a.drafts[w], turn}, a.now)
	}
	if err := kept.insert(ctx, a.txn); err != nil {
		return err
	}
	return a.enterTurns(ctx, waiting)
}

// insertRuns returns the runs that were left out because another one of their key is live.
func (tx txn) insertRuns(ctx context.Context, rows []*runRow) (map[string]bool, error) {
	written, err := insertMany(ctx, tx, rows, "ON "+liveConflict)
	if err != nil {
		return nil, fmt.Errorf("insert %d runs: %w", len(rows), err)
	}
	if written == len(rows) {
		return nil, nil
	}
	missed := make(map[string]bool, len(rows))
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i], missed[r.ID] = r.ID, true
	}
	var there []string
	if err := tx.NewRaw("SELECT CAST(id AS text) FROM run WHERE id IN (?)", bun.List(ids)).Scan(ctx, &there); err != nil {
		return nil, fmt.Errorf("look which runs were left out: %w", err)
	}
	for _, id := range there {
		delete(missed, id)
	}
	return missed, nil
}

// knowVersions notes the meanings of jobs that are not noted yet.
func (a *accounting) knowVersions(ctx context.Context, which []int) error {
	for _, w := range which {
		v := a.due[w].Run.Job
		id := task.EntryID{Job: v.Name, Entry: v.Digest}
		if !a.fresh[id] {
			continue
		}
		if err := a.saveJob(ctx, v); err != nil {
			return err
		}
		delete(a.fresh, id)
	}
	return nil
}

// enterTurns lets those of new runs begin whose turn it is, and says of the others what
// they wait for.
func (a *accounting) enterTurns(ctx context.Context, which []int) error {
	if len(which) == 0 {
		return nil
	}
	ids := make([]string, len(which))
	var keys []string
	for i, w := range which {
		n := a.due[w].Run
		ids[i] = a.drafts[w].run.ID
		if n.Concurrency != nil {
			keys = append(keys, n.Concurrency.Key)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	look := func(limit int) (lineup, error) { return lineUpNew(ctx, a.txn, a.now, limit, ids, keys) }
	if _, err := a.takeTurns(ctx, max(turnsAtOnce, len(which)), look); err != nil {
		return err
	}
	waits, err := turnsOf(ctx, a.txn, ids, a.now)
	if err != nil {
		return err
	}
	reasons := relation{{kind: kindUUID}, {kind: kindText}}
	for i, w := range which {
		if wait, ok := waits[ids[i]]; ok {
			a.made[w].Outcome, a.made[w].Reason = task.DueWaiting, wait.Why
			reasons.add(ids[i], wait.Why)
		}
	}
	if len(reasons[0].values) == 0 {
		return nil
	}
	err = a.exec(ctx, "UPDATE occurrence SET outcome = ?, reason = u.column2 FROM (?) AS u WHERE occurrence.run_id = u.column1", task.DueWaiting, reasons)
	if err != nil {
		return fmt.Errorf("note what %d runs wait for: %w", len(waits), err)
	}
	return nil
}

// lineUpNew reads who may begin of new runs and those that wait under their keys.
func lineUpNew(ctx context.Context, db bun.IDB, now instant, limit int, runs, keys []string) (lineup, error) {
	l := lineup{taken: map[string]map[int]bool{}}
	err := l.add(ctx, db, "q.run_id IN (?) AND q.key IS NULL AND q.overlap AND "+dueNow+" AND "+firstOfJob, bun.List(runs), now, now)
	if err == nil {
		err = l.add(ctx, db, "q.run_id IN (?) AND q.key IS NULL AND NOT q.overlap AND "+dueNow, bun.List(runs), now)
	}
	if err == nil && len(keys) > 0 {
		err = l.add(ctx, db, "q.key IN (?) AND q.overlap AND "+dueNow+" AND "+firstOfJob, bun.List(keys), now, now)
	}
	for _, key := range keys {
		if err == nil {
			err = l.add(ctx, db, "q.key = ? AND NOT q.overlap AND "+dueNow+inOrder, key, now, limit)
		}
	}
	if err == nil && len(keys) > 0 {
		err = l.readSlots(ctx, db, now, keys)
	}
	if err != nil {
		return l, fmt.Errorf("look whether it is the turn of %d runs: %w", len(runs), err)
	}
	return l, nil
}
