package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// A walk is a database on which several workers do at random whatever workers do.
type walk struct {
	*testing.T
	ctx    context.Context
	db     *store.DB
	faults bool // calls may fail because their connection was killed
	seed   uint64
}

const (
	walkLease   = 150 * time.Millisecond
	walkRuns    = 25
	walkWorkers = 3
)

// TestFault_F01_RandomWalksKeepEveryInvariant lets workers claim, finish, fail,
// release, forget and outlive their leases, and then holds the rows against the
// invariants. A witness table that steps write under Guard shows I09.
func TestFault_F01_RandomWalksKeepEveryInvariant(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWalk(t, db)
		w.toTheEnd(func(context.Context) {})
	})
}

// TestFault_F16_KilledBackendsLoseAndDoubleNothing does the same while the
// server keeps ending the connections, in the middle of a commit too.
func TestFault_F16_KilledBackendsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	w := newWalk(t, storetest.Open(t, url, store.Options{Application: "walk"}))
	w.faults = true
	admin, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	w.toTheEnd(func(ctx context.Context) {
		every(ctx, 200*time.Millisecond, func() bool {
			_, err := admin.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name = 'walk' AND datname = current_database() ORDER BY random() LIMIT 1`)
			return err == nil
		})
	})
}

func newWalk(t *testing.T, db *store.DB) *walk {
	t.Helper()
	at := "timestamptz NOT NULL DEFAULT clock_timestamp()"
	if read, write := db.SQL(); read != write {
		at = "integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))"
	}
	write(t, db, "CREATE TABLE witness (task_id bigint NOT NULL, fence bigint NOT NULL, at "+at+")")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return &walk{T: t, ctx: ctx, db: db, seed: seed}
}

// untilOver makes the runs and works until none is live. Disturb runs beside the
// workers until half of the runs are over.
func (w *walk) untilOver(disturb func(context.Context)) {
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	calm, calmDown := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { w.create(ctx) })
	wg.Go(func() { disturb(calm) })
	for i := range walkWorkers {
		wg.Go(func() { w.work(ctx, fmt.Sprint("w", i), rand.New(rand.NewPCG(w.seed, uint64(i)))) })
		wg.Go(func() { w.tend(ctx) })
	}
	every(ctx, 20*time.Millisecond, func() bool {
		over := 0
		runs, err := w.db.Runs(ctx, store.RunFilter{Limit: walkRuns})
		for _, r := range runs {
			over += btoi(!r.Status.Live())
		}
		if err == nil && over >= walkRuns/2 {
			calmDown()
		}
		return err != nil || over < walkRuns
	})
	stop()
	calmDown()
	wg.Wait()
	if w.ctx.Err() != nil {
		w.Error("the runs are not over in time")
	}
}

// toTheEnd works until everything is over and checks what is left.
func (w *walk) toTheEnd(disturb func(context.Context)) {
	w.untilOver(disturb)
	sound(w.T, w.db)
	if n := count(w.T, w.db, `SELECT count(*) FROM witness w JOIN task_log l ON l.task_id = w.task_id AND l.fence > w.fence
		AND l.claimed_at IS NOT NULL AND l.claimed_at < w.at`); n != 0 {
		w.Errorf("I09: %d effects were committed after a later claim of their task", n)
	}
	if n := count(w.T, w.db, `SELECT count(*) FROM task_queue t WHERE t.state = 'success' AND t.type = 'noop'
		AND NOT EXISTS (SELECT 1 FROM witness w WHERE w.task_id = t.id AND w.fence = t.fence)`); n != 0 {
		w.Errorf("%d tasks succeeded without their effect", n)
	}
	w.Logf("%d moves", count(w.T, w.db, "SELECT count(*) FROM task_log"))
}

// every calls fn until it returns false or the context is done.
func every(ctx context.Context, d time.Duration, fn func() bool) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for ctx.Err() == nil && fn() {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// failed reports a call that should not have failed.
func (w *walk) failed(ctx context.Context, call string, err error) bool {
	if err != nil && !w.faults && ctx.Err() == nil {
		w.Errorf("%s: %v", call, err)
	}
	return err != nil
}

// create makes runs of random shape, one key for every two.
func (w *walk) create(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.seed, 99))
	for i := 0; i < walkRuns && ctx.Err() == nil; {
		n := newRun(fmt.Sprint("k", i/2), nil)
		n.Again = true
		for j := range 1 + r.IntN(12) {
			s := noop(fmt.Sprint("s", j))
			s.Needs = []string{}
			s.Retry = task.Retry{MaxAttempts: 2, Delay: time.Millisecond}
			for before := range j {
				if r.IntN(4) == 0 {
					s.Needs = append(s.Needs, fmt.Sprint("s", before))
				}
			}
			s.Condition = []string{"", "", "", "always", "no"}[r.IntN(5)]
			n.Tasks = append(n.Tasks, s)
		}
		made, err := w.db.CreateRun(ctx, n)
		if w.failed(ctx, "CreateRun", err) {
			continue
		}
		if made.Existing {
			every(ctx, 10*time.Millisecond, func() bool {
				run, err := w.db.Run(ctx, made.Run.ID)
				return err != nil || run.Status.Live()
			})
			continue
		}
		i++
	}
}

// work claims tasks and ends them somehow, handing an outcome in again when the
// call failed, as an engine does.
func (w *walk) work(ctx context.Context, name string, r *rand.Rand) {
	var done []task.Outcome
	every(ctx, time.Millisecond, func() bool {
		x, err := w.db.Exchange(ctx, name, done, task.Want{N: 1 + r.IntN(5), Types: allTypes, Lease: walkLease})
		if w.failed(ctx, "Exchange", err) {
			return true
		}
		done = done[:0]
		for _, c := range x.Claimed {
			if o, reported := w.end(ctx, c, r); reported {
				done = append(done, o)
			}
		}
		return true
	})
}

// end decides what becomes of an attempt; false means that its worker died.
func (w *walk) end(ctx context.Context, c task.Claimed, r *rand.Rand) (task.Outcome, bool) {
	o := task.Outcome{Hold: c.Hold, To: task.Success, Outputs: json.RawMessage(`{"n":1}`)}
	switch n := r.IntN(100); {
	case n < 6:
		return o, false
	case n < 16:
		o.To, o.Reason, o.Unspent = task.Pending, task.ReasonReleased, true
		return o, true
	case n < 26 && c.Attempt < c.Retry.Attempts():
		o.To, o.Reason, o.Delay = task.Pending, task.ReasonRetry, time.Duration(r.IntN(5))*time.Millisecond
		return o, true
	case n < 32:
		return fail(c), true
	case n < 36:
		every(ctx, walkLease*2, func() bool { n--; return n >= 31 }) // outlives its lease
	}
	if c.Type == "noop" && !w.witness(ctx, c) {
		return o, false
	}
	o.Messages = []task.Message{{Key: c.RunID + c.Step, Channel: "log", Template: "t", Payload: json.RawMessage(`{}`)}}
	return o, true
}

// witness writes the effect of an attempt, and reports whether it was committed.
func (w *walk) witness(ctx context.Context, c task.Claimed) bool {
	_, pool := w.db.SQL()
	tx, err := pool.BeginTx(ctx, nil)
	if w.failed(ctx, "begin", err) {
		return false
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, "INSERT INTO witness (task_id, fence) VALUES ($1, $2)", c.TaskID, c.Fence)
	if w.failed(ctx, "witness", err) {
		return false
	}
	err = w.db.Guard(c.Hold)(ctx, tx)
	if errors.Is(err, step.ErrLeaseLost) || w.failed(ctx, "Guard", err) {
		return false
	}
	return !w.failed(ctx, "commit", tx.Commit())
}

// tend does what engines do beside working.
func (w *walk) tend(ctx context.Context) {
	every(ctx, 10*time.Millisecond, func() bool {
		_, err := w.db.Rescue(ctx, 100)
		w.failed(ctx, "Rescue", err)
		_, _, err = w.db.Promote(ctx, 100)
		w.failed(ctx, "Promote", err)
		open, err := w.db.Undecided(ctx, 100)
		w.failed(ctx, "Undecided", err)
		var decisions []task.Decision
		for _, u := range open {
			decisions = append(decisions, decide(u))
		}
		w.failed(ctx, "Decide", w.db.Decide(ctx, decisions))
		return true
	})
}
