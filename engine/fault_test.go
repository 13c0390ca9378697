package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine"
	"madeira/engine/task"
	"madeira/jobs/step"
)

func exitGoroutine() { runtime.Goexit() }

// renewals counts the holds that heartbeats renew.
type renewals struct {
	engine.Queue
	n *atomic.Int64
}

func (r renewals) Heartbeat(ctx context.Context, worker string, held []task.Hold, lease time.Duration) (task.Beat, error) {
	r.n.Add(int64(len(held)))
	return r.Queue.Heartbeat(ctx, worker, held, lease)
}

var errDown = errors.New("connection refused")

// TestFault_F02 fails the N-th call of the engine to the database, once before
// it reaches it and once after it was committed, for every N that a whole run needs.
func TestFault_F02_AnyCallMayFailBeforeOrAfterItsCommit(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			for n := int64(1); ; n++ {
				failed := false
				synctest.Test(t, func(t *testing.T) { failed = oneCallFails(t, n, when) })
				if t.Failed() {
					t.Fatalf("failing call %d %s its commit", n, when)
				}
				if !failed {
					if n < 8 {
						t.Errorf("the run made only %d calls", n-1)
					}
					return
				}
			}
		})
	}
}

// oneCallFails reports whether the run made n calls before it was over.
func oneCallFails(t *testing.T, n int64, when string) (failed bool) {
	effects := map[string]bool{}
	var mu sync.Mutex
	count := func(_ context.Context, in step.Input) (step.Output, error) {
		mu.Lock()
		defer mu.Unlock()
		effects[in.Task.Identity()] = true
		return step.Output{Effects: []step.Effect{step.Message{Channel: "c", Template: in.Task.Step}}}, nil
	}
	messages := 0
	w := newWorld(t, map[string]runner{
		"ok": count, "bad": func(context.Context, step.Input) (step.Output, error) { return step.Output{}, step.Permanent(errDown) },
		"deliver": func(context.Context, step.Input) (step.Output, error) {
			mu.Lock()
			defer mu.Unlock()
			messages++
			return step.Output{}, nil
		},
	})
	run := w.create("k",
		task.NewTask{Step: "a", Type: "ok"}, task.NewTask{Step: "b", Type: "bad", Needs: []string{"a"}},
		task.NewTask{Step: "c", Type: "ok", Needs: []string{"b"}}, task.NewTask{Step: "d", Type: "ok", Needs: []string{"b"}, Condition: "always()"})
	var calls atomic.Int64
	hit := func(call string) error {
		if call == "heartbeat" || calls.Add(1) != n {
			return nil
		}
		failed = true
		return fmt.Errorf("%s: %w", call, errDown)
	}
	r := relay{Queue: w.db, before: pass, after: pass}
	if when == "before" {
		r.before = hit
	} else {
		r.after = hit
	}
	cfg := w.config("one")
	cfg.RunID, cfg.Queue = run.ID, r
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	status, err := w.engine(cfg).RunUntilOver(ctx, w.db)
	if err != nil || status != task.RunError {
		t.Errorf("the run is %s, %v, want error\n%s", status, err, w.logs.String())
	}
	if len(effects) != 2 {
		t.Errorf("effects = %v, want those of a and d", effects)
	}
	pending, dead, err := w.db.OpenDeliveries(t.Context(), run.ID)
	if err != nil || pending != 0 || dead != 0 || messages < 2 {
		t.Errorf("deliveries: %d made, %d pending, %d dead, %v; want 2 made", messages, pending, dead, err)
	}
	w.checkLog(run)
	return failed
}

func TestFault_F03_AFrozenWorkerDropsItsResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var frozen atomic.Bool
		thaw := make(chan struct{})
		var contexts sync.Map
		w := newWorld(t, map[string]runner{"work": func(ctx context.Context, in step.Input) (step.Output, error) {
			contexts.Store(in.Task.Fence, ctx)
			if in.Task.Fence == 1 {
				<-thaw
				return step.Output{Values: map[string]any{"by": "frozen"}}, nil
			}
			return step.Output{Values: map[string]any{"by": "second"}}, nil
		}})
		run := w.create("k", task.NewTask{Step: "a", Type: "work"})
		block := func(string) error {
			if frozen.Load() {
				<-thaw
			}
			return nil
		}
		cfg := w.config("first")
		cfg.Queue = relay{Queue: w.db, before: block, after: pass}
		stopFirst := w.start(w.engine(cfg))
		synctest.Wait()
		frozen.Store(true)

		time.Sleep(2 * time.Second)
		stopSecond := w.start(w.engine(w.config("second")))
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantMoves(run, "a", "pending lease_lost", "success ")
		if ctx, ok := contexts.Load(int64(1)); !ok || ctx.(context.Context).Err() == nil {
			t.Error("the frozen attempt was not cancelled at its deadline")
		}

		frozen.Store(false)
		close(thaw)
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantMoves(run, "a", "pending lease_lost", "success ")
		if got := string(w.task(run, "a").Outputs); !strings.Contains(got, "second") {
			t.Errorf("outputs = %s, want those of the second worker", got)
		}
		if n := strings.Count(w.logs.String(), "lease lost"); n != 1 {
			t.Errorf("lease lost is in the log %d times, want once\n%s", n, w.logs.String())
		}
		w.wantStatus(run, task.RunSuccess)
		w.checkLog(run)
		for _, stop := range []func() error{stopFirst, stopSecond} {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestFault_F06_AnAttemptEndsBeforeItsLeaseWhenTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var stopped atomic.Int64 // since the start of the attempt
		w := newWorld(t, map[string]runner{"work": func(ctx context.Context, in step.Input) (step.Output, error) {
			if in.Task.Fence > 1 {
				return step.Output{}, nil
			}
			began := time.Now()
			<-ctx.Done()
			stopped.Store(int64(time.Since(began)))
			return step.Output{}, ctx.Err()
		}})
		run := w.create("k", task.NewTask{Step: "a", Type: "work"})
		refuse := func(string) error {
			if down.Load() {
				return errDown
			}
			return nil
		}
		cfg := w.config("one")
		cfg.Queue = relay{Queue: w.db, before: refuse, after: pass}
		stop := w.start(w.engine(cfg))
		synctest.Wait()
		down.Store(true)
		time.Sleep(3 * cfg.Lease)
		if d := time.Duration(stopped.Load()); d == 0 || d >= cfg.Lease {
			t.Errorf("the attempt was cancelled after %s, want before its lease of %s was over", d, cfg.Lease)
		}
		w.wantMoves(run, "a")

		down.Store(false)
		back := time.Now()
		for w.task(run, "a").State != task.Success && time.Since(back) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(back); d > 10*time.Second {
			t.Errorf("the task was done %s after the database came back", d)
		}
		w.wantStatus(run, task.RunSuccess)
		w.wantMoves(run, "a", "pending infrastructure", "success ")
		if a := w.task(run, "a"); a.Attempt != 1 || a.Crashes != 0 {
			t.Errorf("the outage cost %d attempts and %d crashes, want none", a.Attempt-1, a.Crashes)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestFault_F06_HeartbeatsKeepALongStepAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"long": func(ctx context.Context, _ step.Input) (step.Output, error) {
			select {
			case <-ctx.Done():
				return step.Output{}, context.Cause(ctx)
			case <-time.After(10 * time.Minute):
				return step.Output{}, nil
			}
		}})
		run := w.create("k", task.NewTask{Step: "a", Type: "long"})
		if got := w.finish(run); got != task.RunSuccess {
			t.Errorf("status = %s, want success\n%s", got, w.logs.String())
		}
		w.wantMoves(run, "a", "success ")
	})
}

func TestFault_F19_ADatabaseThatIsAwayIsMentionedOnceInFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		w := newWorld(t, map[string]runner{"ok": succeed})
		run := w.create("k", task.NewTask{Step: "a", Type: "ok"})
		cfg := w.config("one")
		cfg.Queue = relay{Queue: w.db, after: pass, before: func(string) error {
			if down.Load() {
				return errDown
			}
			return nil
		}}
		stop := w.start(w.engine(cfg))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(w.logs.String(), "does not answer"); n < 2 || n > 12 {
			t.Errorf("%d lines in 60 s, want one in 5 s at most\n%s", n, w.logs.String())
		}
		down.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		w.wantStatus(run, task.RunSuccess)
		if n := strings.Count(w.logs.String(), "answers again"); n != 1 {
			t.Errorf("the return of the database is in the log %d times, want once", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestDispatch_LetsTheBatchGrowWhileACallIsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls, idle atomic.Int64
		w := newWorld(t, map[string]runner{"ok": succeed})
		var steps []task.NewTask
		for i := range 200 {
			steps = append(steps, task.NewTask{Step: fmt.Sprintf("s%d", i), Type: "ok"})
		}
		run := w.create("k", steps...)
		cfg := w.config("one")
		cfg.Slots = 50
		cfg.Poll = time.Hour
		cfg.Queue = relay{Queue: w.db, after: pass, before: func(call string) error {
			if call == "exchange" {
				calls.Add(1)
				time.Sleep(100 * time.Millisecond)
			} else {
				idle.Add(1)
			}
			return nil
		}}
		stop := w.start(w.engine(cfg))
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantStatus(run, task.RunSuccess)
		if n := calls.Load(); n < 5 || n > 12 {
			t.Errorf("200 tasks in 50 slots took %d calls, want about 5", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
