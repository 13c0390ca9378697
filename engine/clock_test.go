package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// TestLease_AClockThatIsPutBackMakesNoneLonger puts the clock back between the call of
// a claim and its answer, and lets no heartbeat through.
func TestLease_AClockThatIsPutBackMakesNoneLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var back, trusted atomic.Int64
		w := newWorld(t, map[string]runner{"echo": func(ctx context.Context, _ step.Input) (step.Output, error) {
			began := time.Now()
			<-ctx.Done()
			trusted.CompareAndSwap(0, int64(time.Since(began)))
			return step.Output{}, ctx.Err()
		}})
		cfg := w.config("one")
		cfg.Clock = func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
		cfg.Queue = relay{Queue: w.db, before: func(call string) error {
			if call == "heartbeat" {
				return errors.New("no answer")
			}
			return nil
		}, after: func(call string) error {
			if call == "exchange" {
				back.Store(int64(time.Hour))
			}
			return nil
		}}
		w.create("k", task.NewTask{Step: "a", Type: "echo"})
		stop := w.start(w.engine(cfg))
		time.Sleep(2 * cfg.Lease)
		if got := time.Duration(trusted.Load()); got == 0 || got > cfg.Lease {
			t.Errorf("the lease was relied on for %s, want less than %s", got, cfg.Lease)
		}
		if err := stop(); err != nil {
			t.Log(err)
		}
	})
}
