package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"madeira/engine/task"
)

// A readyKey is the key of a row of task_ready.
type readyKey struct{ priority, id int64 }

func (tx *liteTx) claim(ctx context.Context, b batch, a *answer) error {
	if a.readied > 0 {
		b.want = b.want.Looking() // which costs little here
	}
	parts := b.want.Parts()
	if len(parts) == 0 {
		return nil
	}
	var holding bool
	if _, err := tx.one(ctx, liteHolding, nil, &holding); err != nil {
		return err
	}
	for _, w := range parts {
		ids, err := tx.pick(ctx, w, holding)
		if err != nil {
			return err
		}
		if err := tx.take(ctx, b, w, ids, a); err != nil {
			return err
		}
	}
	return tx.start(ctx, a.claimed)
}

// pick takes tasks out of task_ready and returns their ids, ascending. The oldest
// go first, so that the others are picked from what they leave.
func (tx *liteTx) pick(ctx context.Context, w task.Want, holding bool) ([]int64, error) {
	types, err := json.Marshal(w.Types)
	if err != nil {
		return nil, err
	}
	aged, text, args := litePickAged, litePick, []any{string(types), w.N}
	if holding {
		aged, text = litePickAgedFree, litePickFree
	}
	var ids []int64
	switch {
	case len(w.Kin) > 0:
		runs, err := json.Marshal(append([]string{w.RunID}, w.Kin...))
		if err != nil {
			return nil, err
		}
		text, args = litePickOfRuns, append(args, string(runs))
	case w.RunID != "" && holding:
		text, args = litePickOfRunFree, append(args, w.RunID)
	case w.RunID != "":
		text, args = litePickOfRun, append(args, w.RunID)
	case w.Oldest > 0:
		if ids, err = tx.pickBy(ctx, aged, []any{string(types), min(w.Oldest, w.N)}); err != nil {
			return nil, err
		}
		args[1] = w.N - len(ids)
	}
	more, err := tx.pickBy(ctx, text, args)
	ids = append(ids, more...)
	slices.Sort(ids)
	return ids, err
}

func (tx *liteTx) pickBy(ctx context.Context, text string, args []any) ([]int64, error) {
	var picked []readyKey
	err := tx.each(ctx, text, args, func(rows *sql.Rows) error {
		var k readyKey
		err := rows.Scan(&k.priority, &k.id)
		picked = append(picked, k)
		return err
	})
	if err != nil {
		return nil, err
	}
	var ids []int64
	for part := range stretches(picked, func(a, b *readyKey) bool { return a.priority == b.priority && b.id == a.id+1 }) {
		if _, err := tx.run(ctx, liteTake, part[0].id, part[len(part)-1].id, part[0].priority); err != nil {
			return nil, err
		}
		for _, k := range part {
			ids = append(ids, k.id)
		}
	}
	return ids, nil
}

// take claims the tasks that were picked.
func (tx *liteTx) take(ctx context.Context, b batch, w task.Want, picked []int64, a *answer) error {
	ids := make([]int64, 0, len(picked))
	a.claimed = slices.Grow(a.claimed, len(picked))
	for part := range stretches(picked, neighbours) {
		err := tx.each(ctx, liteRead, []any{part[0], part[len(part)-1]}, func(rows *sql.Rows) error {
			c, err := scanClaimed(rows)
			c.At, c.Lease = tx.now.Time, w.Lease
			a.claimed = append(a.claimed, c)
			ids = append(ids, c.TaskID)
			return err
		})
		if err != nil {
			return err
		}
	}
	if _, err := tx.along(ctx, ids, liteClaim, b.worker, tx.now.UnixMicro()); err != nil {
		return err
	}
	_, err := tx.along(ctx, ids, liteLease, b.claim, tx.now.Add(w.Lease).UnixMicro())
	return err
}

// scanClaimed reads text that may be NULL as bytes and numbers as they come:
// database/sql takes every other way through text.
func scanClaimed(rows *sql.Rows) (task.Claimed, error) {
	var c task.Claimed
	var run, step, key, payload, refs, retry, each, forEach, circuit, woken []byte
	var attempt, crashes, timeout, priority, parallel int64
	err := rows.Scan(&c.TaskID, &c.Fence, &run, &step, &c.Element, &c.Type, &key, &payload, &refs, &attempt, &crashes, &retry,
		&timeout, &priority, &each, &forEach, &parallel, &c.ContinueOnError, &c.Limited, &circuit, &woken)
	if err != nil {
		return c, err
	}
	c.RunID, c.Step, c.Key, c.Circuit, c.Woken = string(run), string(step), string(key), string(circuit), string(woken)
	c.Attempt, c.Crashes, c.Priority, c.MaxParallel = int(attempt), int(crashes), int(priority), int(parallel)
	c.Each, c.ForEach = each, forEach
	fillClaimed(&c, payload, refs, retry, timeout)
	return c, nil
}

// start notes that the runs of claimed steps have begun, or go on.
func (tx *liteTx) start(ctx context.Context, claimed []task.Claimed) error {
	started := map[string]bool{"": true}
	for i := range claimed {
		c := &claimed[i]
		if c.Step == "" || started[c.RunID] {
			continue
		}
		started[c.RunID] = true
		if _, err := tx.run(ctx, liteStart, c.RunID, tx.now.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}
