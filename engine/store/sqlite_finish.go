package store

import (
	"bytes"
	"context"
	"database/sql"
	"slices"

	"madeira/engine/task"
)

// A finished attempt is an outcome whose claim holds, with what the row of its
// task says about where it goes.
type finished struct {
	*ended
	to     task.State
	reason string

	fence, until         int64 // of the lease
	run, circuit, worker string
	stop                 string // why it must not go on
	phase                task.Phase
	step, element        bool
	excused, limited     bool
	priority             int
}

// finish writes outcomes and what follows from them.
func (tx *liteTx) finish(ctx context.Context, rows []ended, a *answer) error {
	if len(rows) == 0 {
		return nil
	}
	kept, err := tx.look(ctx, rows)
	if err != nil || len(kept) == 0 {
		return err
	}
	for _, f := range kept {
		a.finished = append(a.finished, f.Hold)
	}
	for _, write := range []func(context.Context, []finished) error{tx.write, tx.gates, tx.leftovers, tx.again, tx.effects} {
		if err := write(ctx, kept); err != nil {
			return err
		}
	}
	var made made
	tx.made = &made
	err = tx.advance(ctx, ending(kept))
	a.readied, a.held = a.readied+made.ready, a.held || made.held > 0
	return err
}

// look returns the outcomes whose claim holds, in the order of their tasks. Of
// tasks that nothing hangs on it reads no more than that.
func (tx *liteTx) look(ctx context.Context, rows []ended) ([]finished, error) {
	found := make(map[int64]finished, len(rows))
	for part := range stretches(rows, func(a, b *ended) bool { return b.TaskID-a.TaskID <= 1 && a.lone() == b.lone() }) {
		text, read := liteLook, readHung
		if part[0].lone() {
			text, read = liteLookAlone, readLone
		}
		err := tx.each(ctx, text, []any{part[0].TaskID, part[len(part)-1].TaskID}, func(rows *sql.Rows) error {
			id, f, err := read(rows)
			found[id] = f
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	kept := make([]finished, 0, len(found))
	for i := range rows {
		e := &rows[i]
		f, held := found[e.TaskID]
		if !held || f.fence != e.Fence || e.crashed && f.until >= tx.now.UnixMicro() {
			continue
		}
		f.ended, f.to, f.reason = e, e.To, e.Reason
		if f.stop != "" && (!e.To.Terminal() || e.To == task.Cancelled) { // an attempt of a stopped run does not come back
			f.to, f.reason = task.Cancelled, f.stop
		}
		kept = append(kept, f)
	}
	return kept, nil
}

// lone reports whether nothing but the task itself is written.
func (e *ended) lone() bool {
	return e.Alone && e.Ungated && len(e.messages) == 0 && len(e.Artifacts) == 0
}

func readLone(rows *sql.Rows) (id int64, f finished, err error) {
	err = rows.Scan(&id, &f.fence, &f.until)
	return id, f, err
}

func readHung(rows *sql.Rows) (id int64, f finished, err error) {
	err = rows.Scan(&id, &f.fence, &f.until, &f.run, &f.step, &f.element, &f.phase, &f.excused,
		&f.circuit, &f.stop, &f.worker, &f.limited, &f.priority)
	return id, f, err
}

// write gives up the leases, moves the tasks and logs the moves: neighbours that
// ended alike at once.
func (tx *liteTx) write(ctx context.Context, kept []finished) error {
	if _, err := tx.along(ctx, idsOf(kept, func(*finished) bool { return true }), liteFree); err != nil {
		return err
	}
	for part := range stretches(kept, func(a, b *finished) bool { return b.TaskID == a.TaskID+1 && a.like(b) }) {
		first, last := &part[0], part[len(part)-1].TaskID
		if err := tx.move(ctx, first, last); err != nil {
			return err
		}
		for told := range stretches(part, func(a, b *finished) bool { return a.Took.Milliseconds() == b.Took.Milliseconds() }) {
			_, err := tx.run(ctx, liteTell, told[0].TaskID, told[len(told)-1].TaskID, first.Unspent, first.logged.argument(), told[0].Took.Milliseconds(), tx.now.UnixMicro())
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// like reports whether two attempts ended alike, but for the time they took.
func (f *finished) like(g *finished) bool {
	return f.to == g.to && f.reason == g.reason && f.Unspent == g.Unspent && f.crashed == g.crashed && f.Delay == g.Delay &&
		f.Digest == g.Digest && f.Warning == g.Warning && sameText(f.outputs, g.outputs) && sameText(f.failure, g.failure) && sameText(f.logged, g.logged)
}

func sameText(a, b document) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// move writes what the tasks from the first to the last have become.
func (tx *liteTx) move(ctx context.Context, f *finished, last int64) error {
	now := tx.now.UnixMicro()
	if f.to == task.Success && f.outputs == nil && f.reason == "" && f.Digest == "" && f.Warning == "" && f.failure == nil && !f.Unspent && !f.crashed {
		_, err := tx.run(ctx, liteSucceed, f.TaskID, last, now)
		return err
	}
	var due, over *int64
	if f.to.Terminal() {
		over = &now
	} else {
		at := now + f.Delay.Microseconds()
		due = &at
	}
	_, err := tx.run(ctx, liteFinish, f.TaskID, last, string(f.to), nullable(f.reason), f.Unspent, f.crashed,
		f.outputs.argument(), nullable(f.Digest), nullable(f.Warning), f.failure.argument(), due, over)
	return err
}

// gates gives back the places under limits, and tells of downstreams.
func (tx *liteTx) gates(ctx context.Context, kept []finished) error {
	if _, err := tx.along(ctx, idsOf(kept, func(f *finished) bool { return f.limited }), liteVacate); err != nil {
		return err
	}
	spoke := idsOf(kept, func(f *finished) bool { return f.circuit != "" })
	if len(spoke) == 0 {
		return nil
	}
	if _, err := tx.along(ctx, spoke, liteProbed); err != nil {
		return err
	}
	type counter struct{ key, worker string }
	counts := map[counter]*[2]int{}
	for i := range kept {
		f := &kept[i]
		bad := f.Failure != nil && (f.Failure.Class == task.TransientFailure || f.Failure.Class == task.TimeoutFailure)
		if f.circuit == "" || f.to != task.Success && !bad {
			continue
		}
		c := counter{f.circuit, f.worker}
		if counts[c] == nil {
			counts[c] = &[2]int{}
		}
		counts[c][one(f.to != task.Success)]++
	}
	for c, n := range counts {
		if _, err := tx.run(ctx, liteCount, c.key, c.worker, tx.now.UnixMicro(), n[0], n[1]); err != nil {
			return err
		}
	}
	return nil
}

// leftovers notes what nobody tries again.
func (tx *liteTx) leftovers(ctx context.Context, kept []finished) error {
	dead := slices.DeleteFunc(slices.Clone(kept), func(f finished) bool { return f.to != task.Error })
	for part := range stretches(dead, func(a, b *finished) bool { return b.TaskID == a.TaskID+1 && a.class() == b.class() }) {
		if _, err := tx.run(ctx, liteDead, part[0].TaskID, part[len(part)-1].TaskID, nullable(part[0].class()), tx.now.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}

func (f *finished) class() string {
	if f.Failure == nil {
		return ""
	}
	return clean(string(f.Failure.Class), maxLine)
}

// again puts what is tried again or waits where it is found.
func (tx *liteTx) again(ctx context.Context, kept []finished) error {
	for i := range kept {
		if f := &kept[i]; !f.to.Terminal() && f.Delay > 0 {
			if _, err := tx.run(ctx, liteLater, f.TaskID, tx.now.UnixMicro()+f.Delay.Microseconds()); err != nil {
				return err
			}
		}
	}
	_, err := tx.due(ctx, idsOf(kept, func(f *finished) bool { return f.to == task.Pending && f.Delay <= 0 }))
	return err
}

// due puts pending tasks where claims find them, or under their first limit.
func (tx *liteTx) due(ctx context.Context, ids []int64) (int, error) {
	ready, err := tx.along(ctx, ids, liteReady)
	if err != nil || ready == len(ids) {
		return ready, err
	}
	held, err := tx.along(ctx, ids, liteHeld, tx.now.UnixMicro())
	return ready + held, err
}

// effects makes the tasks that send messages and notes the artifacts.
func (tx *liteTx) effects(ctx context.Context, kept []finished) error {
	now := tx.now.UnixMicro()
	for i := range kept {
		f := &kept[i]
		for _, m := range f.messages {
			var id int64
			fresh, err := tx.one(ctx, liteKey, []any{m.key}, &id)
			if err != nil {
				return err
			}
			if !fresh {
				continue // known: it is on its way or was sent
			}
			if _, err := tx.run(ctx, litePost, id, nullable(f.run), m.key, string(m.payload), f.priority, now); err != nil {
				return err
			}
			if _, err := tx.run(ctx, liteReady, id, id); err != nil {
				return err
			}
		}
		for _, k := range f.Artifacts {
			if _, err := tx.run(ctx, liteKeep, f.TaskID, nullable(f.run), k.Kind, k.Name, k.Digest, k.Size, k.Rows, nullable(k.Origin), now); err != nil {
				return err
			}
		}
	}
	return nil
}

// ending returns what is over and belongs to a run. An element counts for the row
// of its step and not for the run; a failure in finally warns.
func ending(kept []finished) []over {
	var gone []over
	for i := range kept {
		f := &kept[i]
		if f.run == "" || !f.to.Terminal() {
			continue
		}
		failed := f.to != task.Success
		mild := f.excused || f.phase == task.PhaseFinally
		gone = append(gone, over{
			id: f.TaskID, run: f.run, step: f.step && !f.element, bad: failed && !f.excused,
			failed: failed && !mild, warned: failed && mild || !failed && f.Warning != "",
		})
	}
	return gone
}

func idsOf(kept []finished, which func(*finished) bool) []int64 {
	var ids []int64
	for i := range kept {
		if which(&kept[i]) {
			ids = append(ids, kept[i].TaskID)
		}
	}
	return ids
}
