package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// A steppingClock is put back by ten minutes while a heartbeat is on its way.
type steppingClock struct{ off, beats atomic.Int64 }

func (c *steppingClock) now() time.Time { return time.Now().Add(time.Duration(c.off.Load())) }

func (c *steppingClock) stepBack(call string) error {
	if call == "heartbeat" && c.beats.Add(1) == 3 {
		c.off.Store(int64(-10 * time.Minute))
	}
	return nil
}

func TestFault_F29_AClockThatStepsBackDuringAHeartbeatCostsNoLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c steppingClock
		w := newWorld(t, map[string]runner{"long": func(ctx context.Context, _ step.Input) (step.Output, error) {
			return step.Output{}, idle(ctx, 2*time.Minute)
		}})
		run := w.create("k", task.NewTask{Step: "a", Type: "long"})
		cfg := w.config("one")
		cfg.Clock, cfg.Queue = c.now, relay{Queue: w.db, after: pass, before: c.stepBack}
		stop := w.start(w.engine(cfg))
		synctest.Wait() // it has the task
		stopOther := w.start(w.engine(w.config("other")))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		w.wantMoves(run, "a", "success ")
		for _, stop := range []func() error{stop, stopOther} {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestFault_F06_AClockThatStepsBackDoesNotMakeALeaseLonger takes the database away
// after that, and wants the attempt to end before another may begin.
func TestFault_F06_AClockThatStepsBackDoesNotMakeALeaseLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c steppingClock
		var stopped atomic.Int64
		var down atomic.Bool
		w := newWorld(t, map[string]runner{"long": func(ctx context.Context, in step.Input) (step.Output, error) {
			if in.Task.Fence > 1 {
				return step.Output{}, nil
			}
			<-ctx.Done()
			stopped.Store(time.Now().UnixMicro())
			return step.Output{}, ctx.Err()
		}})
		w.create("k", task.NewTask{Step: "a", Type: "long"})
		cfg := w.config("one")
		cfg.Clock, cfg.Queue = c.now, relay{Queue: w.db, after: pass, before: func(call string) error {
			if down.Load() {
				return errDown
			}
			return c.stepBack(call)
		}}
		stop := w.start(w.engine(cfg))
		for c.off.Load() == 0 {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		down.Store(true)
		went := time.Now()
		time.Sleep(time.Minute)
		synctest.Wait()
		if took := time.UnixMicro(stopped.Load()).Sub(went); stopped.Load() == 0 || took > cfg.Lease {
			t.Errorf("the attempt was cancelled after %s, want before its lease of %s was over", took, cfg.Lease)
		}
		down.Store(false)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
