package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// TestFault_F06 cuts one worker off for three leases while it works, and lets the
// other take over.
func TestFault_F06_AWorkerThatIsCutOffStopsBeforeTheOtherBegins(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.Postgres(t))
	wire := newWire(t, r.url)
	begun := make(chan struct{})
	var stopped atomic.Int64 // when the step of the first worker saw that it is cancelled
	far := r.open(wire.URL, store.Options{})
	first, stopFirst := r.start(r.worker("first", far, map[string]runner{"work": func(ctx context.Context, in step.Input) (step.Output, error) {
		if in.Task.Step != "a" {
			return step.Output{}, commit(ctx, far, in.Task, nop, nop)
		}
		close(begun)
		<-ctx.Done()
		stopped.Store(time.Now().UnixMicro())
		return step.Output{}, commit(context.WithoutCancel(ctx), far, in.Task, nop, nop) // as a step does that does not listen
	}}))
	r.mustCreate("k", task.NewTask{Step: "a"})
	<-begun

	wire.blackhole()
	_, stopSecond := r.start(r.worker("second", r.db, steady(r.db)))
	r.untilOver()
	time.Sleep(rigLease) // the rest of the three leases: that is what is tested
	if !first.Ready() {
		t.Error("the worker that is cut off says that it is not ready, although its slots are free")
	}
	wire.restore()
	r.mustCreate("k2", mixed(2, 8)...)
	stopSecond()
	r.untilOver() // by the first, which claims again
	stopFirst()

	claimed := r.count("SELECT CAST(extract(epoch FROM claimed_at) * 1000000 AS bigint) FROM task_log WHERE fence = 2")
	if at := stopped.Load(); at == 0 || at >= int64(claimed) {
		t.Errorf("the first attempt was cancelled at %d and the second claimed at %d: want it before", at, claimed)
	}
	if n := strings.Count(r.logs.String(), "lease lost"); n != 1 {
		t.Errorf("lease lost is in the log %d times, want once\n%s", n, r.logs.String())
	}
	if n := r.count("SELECT count(*) FROM witness w JOIN task_queue q ON q.id = w.task_id WHERE q.step = 'a' AND w.fence = 1"); n != 0 {
		t.Errorf("the first attempt has had %d effects after it was cut off, want none", n)
	}
	r.wantSound()
}

// panicking panics once in each call to the database.
type panicking struct {
	relay
	mu   sync.Mutex
	done map[string]bool
}

func (p *panicking) once(call string) error {
	p.mu.Lock()
	first := !p.done[call]
	p.done[call] = true
	p.mu.Unlock()
	if first {
		panic("a bug in " + call)
	}
	return nil
}

func TestFault_F10_APanicInTheBackgroundHarmsNobody(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := newRig(t, url)
		p := &panicking{relay: relay{Queue: r.db, after: pass}, done: map[string]bool{}}
		p.before = p.once
		cfg := r.worker("one", r.db, steady(r.db))
		cfg.Queue = p.relay
		_, stop := r.start(cfg)
		r.mustCreate("k", mixed(0, 5)...)
		r.mustCreate("k2", task.NewTask{Step: "a"}, task.NewTask{Step: "b", Needs: []string{"a"}, Refs: []string{"a"}, Condition: "always()"})
		r.untilOver()
		stop()
		for _, call := range []string{"exchange", "promote", "rescue", "undecided", "scope"} {
			if !p.done[call] {
				t.Errorf("%s was never called", call)
			}
		}
		if n := r.count("SELECT count(*) FROM task_queue WHERE state <> 'success'"); n != 0 {
			t.Errorf("%d tasks have not succeeded\n%s", n, r.logs.String())
		}
		r.wantSound()
	})
}

// TestFault_F13 starts fifty workers on twenty connections; each has one slot,
// and every task waits until all are at work.
func TestFault_F13_FiftyWorkersOnTwentyConnectionsAreAtWorkWithinTenSeconds(t *testing.T) {
	t.Parallel()
	const workers = 50
	r := newRig(t, storetest.Postgres(t))
	var together sync.WaitGroup
	together.Add(workers)
	types := map[string]runner{"meet": func(ctx context.Context, _ step.Input) (step.Output, error) {
		together.Done()
		met := make(chan struct{})
		go func() {
			together.Wait()
			close(met)
		}()
		select {
		case <-met:
		case <-ctx.Done():
			return step.Output{}, ctx.Err()
		}
		return step.Output{}, nil
	}}
	steps := make([]task.NewTask, workers)
	for i := range steps {
		steps[i] = task.NewTask{Step: fmt.Sprint("s", i), Type: "meet"}
	}
	r.mustCreate("k", steps...)
	db := r.open(r.url, store.Options{MaxConns: 20})
	began := time.Now()
	for i := range workers {
		cfg := r.worker(fmt.Sprint("w", i), db, types)
		cfg.Slots, cfg.Lease = 1, 15*time.Second
		if err := db.RegisterWorker(t.Context(), task.Worker{ID: cfg.Worker, Host: "h", PID: i, Version: "1"}); err != nil {
			t.Fatal(err)
		}
		r.start(cfg)
	}
	r.untilOver()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("all are at work after %s, want 10s", took)
	}
	r.wantAll()
	r.wantSound()
}

// TestFault_F15 gives two workers the same name, as a cloned container has it.
func TestFault_F15_TwoWorkersOfOneNameDoNothingTwice(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := newRig(t, url)
		for range 2 {
			db := r.open(url, store.Options{})
			r.start(r.worker("clone", db, steady(db)))
		}
		for i := range 6 {
			r.mustCreate(fmt.Sprint("k", i), mixed(i, 10)...)
		}
		r.untilOver()
		r.wantAll()
		r.wantSound()
	})
}

// TestFault_F29 lets the clocks of workers be wrong and jump while they work.
func TestFault_F29_AWorkersClockDecidesNothing(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := newRig(t, url)
		for i, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			db := r.open(url, store.Options{})
			cfg := r.worker(fmt.Sprint("w", i), db, map[string]runner{"work": func(ctx context.Context, in step.Input) (step.Output, error) {
				if in.Task.Attempt == 1 {
					return step.Output{}, step.RetryAfter(time.Second, errors.New("503"))
				}
				return step.Output{}, commit(ctx, db, in.Task, nop, nop)
			}})
			cfg.Clock = func() time.Time { return time.Now().Add(off) }
			r.start(cfg)
		}
		steps := mixed(2, 20)
		for i := range steps {
			steps[i].Retry = task.Retry{MaxAttempts: 2, Delay: time.Millisecond, MaxDelay: time.Second}
		}
		r.mustCreate("k", steps...)
		r.untilOver()
		if n := r.count("SELECT count(*) FROM task_queue WHERE state <> 'success' OR attempt <> 2 OR crashes <> 0"); n != 0 {
			t.Errorf("%d of 20 tasks have not succeeded at their second attempt\n%s", n, r.logs.String())
		}
		apart := "extract(epoch FROM b.claimed_at - a.at) * 1000000"
		if strings.HasPrefix(url, "sqlite:") {
			apart = "b.claimed_at - a.at"
		}
		if n := r.count("SELECT count(*) FROM task_log a JOIN task_log b ON b.task_id = a.task_id AND b.fence = a.fence + 1 WHERE " + apart + " NOT BETWEEN 999000 AND 20000000"); n != 0 {
			t.Errorf("%d tasks were tried again before or long after their second was over", n)
		}
		r.wantSound()
	})
}
