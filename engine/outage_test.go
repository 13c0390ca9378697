package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// Two workers lose the database together, three times and each time for longer
// than a lease: neither may take the other for dead when it is back.
func TestFault_F06_ThreeOutagesAreNotThreeCrashes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down, done atomic.Bool
		w := newWorld(t, map[string]runner{"work": func(ctx context.Context, _ step.Input) (step.Output, error) {
			if done.Load() {
				return step.Output{}, nil
			}
			<-ctx.Done()
			return step.Output{}, ctx.Err()
		}})
		run := w.create("k", task.NewTask{Step: "a", Type: "work"}, task.NewTask{Step: "b", Type: "work"})
		refuse := func(string) error {
			if down.Load() {
				return errDown
			}
			return nil
		}
		for _, name := range []string{"one", "two"} {
			cfg := w.config(name)
			cfg.Slots = 1
			cfg.Queue = relay{Queue: w.db, before: refuse, after: pass}
			w.start(w.engine(cfg))
		}
		for range 3 {
			time.Sleep(time.Minute)
			down.Store(true)
			time.Sleep(time.Minute)
			down.Store(false)
		}
		done.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			w.wantMoves(run, name, "pending infrastructure", "pending infrastructure", "pending infrastructure", "success ")
			if got := w.task(run, name); got.Crashes != 0 || got.Attempt != 1 {
				t.Errorf("%s: %d crashes, %d attempts; want 0 and 1", name, got.Crashes, got.Attempt)
			}
		}
		w.wantStatus(run, task.RunSuccess)
		w.checkLog(run)
	})
}

func TestFault_F06_AClaimAnsweredTooLateIsHandedBackUnspent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Bool
		late.Store(true)
		var calls atomic.Int64
		w := newWorld(t, map[string]runner{"work": func(context.Context, step.Input) (step.Output, error) {
			calls.Add(1)
			return step.Output{}, nil
		}})
		run := w.create("k", task.NewTask{Step: "a", Type: "work"})
		cfg := w.config("one")
		cfg.Queue = relay{Queue: w.db, before: pass, after: func(call string) error {
			if call == "exchange" && late.CompareAndSwap(true, false) {
				time.Sleep(cfg.Lease * 9 / 10)
			}
			return nil
		}}
		w.start(w.engine(cfg))
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantMoves(run, "a", "pending infrastructure", "success ")
		if got := w.task(run, "a"); got.Crashes != 0 || got.Attempt != 1 || calls.Load() != 1 {
			t.Errorf("%d crashes, %d attempts, %d calls of the step; want 0, 1 and 1", got.Crashes, got.Attempt, calls.Load())
		}
		w.checkLog(run)
	})
}

// skipping tells the engine for a while that every lease was skipped.
type skipping struct {
	engine.Queue
	on *atomic.Bool
}

func (s skipping) Heartbeat(ctx context.Context, worker string, held []task.Hold, lease time.Duration) (task.Beat, error) {
	if s.on.Load() {
		return task.Beat{Skipped: slices.Clone(held)}, nil
	}
	return s.Queue.Heartbeat(ctx, worker, held, lease)
}

func TestHeartbeat_ALeaseThatWasSkippedIsNotTrustedForLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var on atomic.Bool
		stopped := map[int64]time.Duration{} // attempts by fence, one after the other
		w := newWorld(t, map[string]runner{"work": func(ctx context.Context, in step.Input) (step.Output, error) {
			on.Store(in.Task.Fence == 1)
			began := time.Now()
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
			on.Store(false)
			stopped[in.Task.Fence] = time.Since(began)
			return step.Output{}, ctx.Err()
		}})
		run := w.create("k", task.NewTask{Step: "a", Type: "work"})
		cfg := w.config("one")
		cfg.Queue = skipping{Queue: w.db, on: &on}
		stop := w.start(w.engine(cfg))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if d := stopped[1]; d == 0 || d >= cfg.Lease {
			t.Errorf("the attempt was cancelled after %s, want before its lease of %s was over", d, cfg.Lease)
		}
		w.wantMoves(run, "a", "pending infrastructure", "success ")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
