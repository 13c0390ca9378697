package store

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// A batch is one exchange as a hot path takes it.
type batch struct {
	worker string
	ended  []ended // ascending by task, each task once
	want   task.Want
	claim  int64 // random, marks what this transaction claims
	more   bool  // it asks for what the transaction before it left
}

// An answer is what came of a batch.
type answer struct {
	finished  []task.Hold // the outcomes that were written
	claimed   []task.Claimed
	claims    []int64     // what claimed is marked with
	rest      []task.Want // what is left to be asked for at once, in a transaction of its own
	undecided bool
	readied   int  // tasks that became claimable
	held      bool // a limit holds a task that became due
}

// An orphan is a claiming transaction whose answer did not reach the worker: it
// may have left tasks to the worker that the worker knows nothing of.
type orphan struct {
	claim  int64
	worker string
	lease  time.Duration
	since  time.Time
}

// Exchange implements engine.Queue. An outcome that this worker had written
// before, in a transaction whose answer was lost, counts as written.
func (db *DB) Exchange(ctx context.Context, worker string, done []task.Outcome, want task.Want) (task.Exchange, error) {
	b := batch{worker: worker, want: want, ended: make([]ended, len(done))}
	for i, o := range done {
		b.ended[i] = prepare(o)
	}
	var a answer
	err := db.exchange(ctx, b, &a)
	if err != nil && len(b.ended) > 0 {
		if f := db.dialect.fails(err); f == refused || f == blocked && len(b.ended) > 1 {
			a, err = db.oneByOne(ctx, b)
		}
	}
	if err != nil {
		return task.Exchange{}, fmt.Errorf("exchange %d outcomes for up to %d tasks: %w", len(done), want.N, err)
	}
	lost, err := db.lost(ctx, worker, done, a.finished)
	if err != nil {
		if len(a.claimed) > 0 {
			for _, b.claim = range a.claims {
				db.adopt(b.orphan(b.claim)) // committed, and the caller gets an error instead of them
			}
		}
		return task.Exchange{}, err
	}
	slices.SortFunc(a.claimed, func(x, y task.Claimed) int {
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(x.TaskID, y.TaskID))
	})
	return task.Exchange{Lost: lost, Claimed: a.claimed, Undecided: a.undecided, Readied: a.readied, Held: a.held}, nil
}

// oneByOne writes each outcome in a transaction of its own, the least of it where
// the database refuses the whole, and then claims. Where somebody holds the row of one
// for too long, the others are written all the same; nothing is claimed, and the error
// says which it is.
func (db *DB) oneByOne(ctx context.Context, b batch) (answer, error) {
	var all answer
	var held error
	for _, e := range b.ended {
		one := batch{worker: b.worker, ended: []ended{e}}
		err := db.exchange(ctx, one, &all)
		if err != nil && db.dialect.fails(err) == refused {
			one.ended[0] = fallback(e.Outcome, sqlState(err))
			err = db.exchange(ctx, one, &all)
		}
		switch {
		case err != nil && db.dialect.fails(err) == blocked:
			held = cmp.Or(held, fmt.Errorf("finish task %d: %w", e.TaskID, err))
		case err != nil:
			return answer{}, fmt.Errorf("finish task %d: %w", e.TaskID, err)
		}
	}
	if held != nil {
		return answer{}, held
	}
	b.ended, b.want = nil, b.want.Looking()
	err := db.exchange(ctx, b, &all)
	return all, err
}

// exchange runs the batch, again where that helps, and adds what came of it to a.
// Outcomes may be written twice: the second time hits no row.
func (db *DB) exchange(ctx context.Context, b batch, a *answer) error {
	slices.SortFunc(b.ended, func(x, y ended) int { return cmp.Compare(x.TaskID, y.TaskID) })
	b.ended = slices.CompactFunc(b.ended, func(x, y ended) bool { return x.Hold == y.Hold })
	return db.again(ctx, func() error {
		if err := db.release(ctx, b.worker); err != nil {
			return err
		}
		b.claim = rand.Int64()
		got, err := db.hot.exchange(ctx, b)
		if err != nil {
			if b.want.Any() && db.dialect.fails(err) == unsure {
				db.adopt(b.orphan(b.claim))
			}
			b.want = b.want.Looking() // what an outcome readied may be there already
			return err
		}
		a.finished = append(a.finished, got.finished...)
		a.claimed = append(a.claimed, got.claimed...)
		a.claims = append(a.claims, b.claim)
		a.undecided, a.readied, a.held = a.undecided || got.undecided, a.readied+got.readied, a.held || got.held
		for _, w := range got.rest {
			db.claimRest(ctx, b.worker, w, a)
		}
		return nil
	})
}

// claimRest claims what a transaction left. What it cannot get now the next call asks
// for again: what that transaction did is in any case done.
func (db *DB) claimRest(ctx context.Context, worker string, w task.Want, a *answer) {
	b := batch{worker: worker, want: w, claim: rand.Int64(), more: true}
	got, err := db.hot.exchange(ctx, b)
	if err != nil {
		if db.dialect.fails(err) == unsure {
			db.adopt(b.orphan(b.claim))
		}
		return
	}
	a.claimed = append(a.claimed, got.claimed...)
	a.claims = append(a.claims, b.claim)
}

func (b batch) orphan(claim int64) orphan {
	return orphan{claim: claim, worker: b.worker, lease: b.want.Lease, since: time.Now()}
}

func (db *DB) adopt(o orphan) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.orphan = append(db.orphan, o)
}

// release gives back, without an attempt spent, what orphaned transactions of
// the worker claimed. It forgets one when its tasks are given back or would have
// lost their lease: until then its commit may still arrive.
func (db *DB) release(ctx context.Context, worker string) error {
	db.mu.Lock()
	mine := slices.DeleteFunc(slices.Clone(db.orphan), func(o orphan) bool { return o.worker != worker })
	db.mu.Unlock()
	if len(mine) == 0 {
		return nil
	}
	claims := make([]int64, len(mine))
	for i, o := range mine {
		claims[i] = o.claim
	}
	var rows []struct {
		TaskID, Fence, Claim int64
	}
	if err := db.bun.NewRaw("SELECT task_id, fence, claim FROM task_lease WHERE claim IN (?) ORDER BY task_id", bun.List(claims)).Scan(ctx, &rows); err != nil {
		return fmt.Errorf("look for unanswered claims: %w", err)
	}
	b := batch{worker: worker}
	settled := map[int64]bool{}
	for _, r := range rows {
		settled[r.Claim] = true
		b.ended = append(b.ended, prepare(task.Outcome{
			Hold: task.Hold{TaskID: r.TaskID, Fence: r.Fence}, To: task.Pending, Reason: task.ReasonReleased, Unspent: true,
		}))
	}
	if len(b.ended) > 0 {
		if _, err := db.hot.exchange(ctx, b); err != nil {
			return fmt.Errorf("release unanswered claims: %w", err)
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.orphan = slices.DeleteFunc(db.orphan, func(o orphan) bool { return settled[o.claim] || time.Since(o.since) > o.lease })
	return nil
}

// lost returns the outcomes that were not written, now or before.
func (db *DB) lost(ctx context.Context, worker string, done []task.Outcome, finished []task.Hold) ([]task.Hold, error) {
	if len(finished) >= len(done) {
		return nil, nil
	}
	written := make(map[task.Hold]bool, len(finished))
	for _, h := range finished {
		written[h] = true
	}
	var ids []int64
	for _, o := range done {
		if !written[o.Hold] {
			ids = append(ids, o.TaskID)
		}
	}
	var rows []struct{ TaskID, Fence int64 }
	err := db.again(ctx, func() error {
		return db.bun.NewRaw(`SELECT task_id, fence FROM task_log
			WHERE task_id IN (?) AND worker = ? AND claimed_at IS NOT NULL
			AND coalesce(reason, '') NOT IN (?, ?)`, bun.List(ids), worker, task.ReasonLeaseLost, task.ReasonPoison).Scan(ctx, &rows)
	})
	if err != nil {
		return nil, fmt.Errorf("look for outcomes written before: %w", err)
	}
	for _, r := range rows {
		written[task.Hold{TaskID: r.TaskID, Fence: r.Fence}] = true
	}
	var lost []task.Hold
	for _, o := range done {
		if !written[o.Hold] {
			lost = append(lost, o.Hold)
		}
	}
	return lost, nil
}
