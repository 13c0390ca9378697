package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// TestDispatch_AChainNeedsOneCallAStep counts the calls between the begin of the
// first step and that of the last: each step is handed in, and the next one claimed,
// with one of them, and no other call looks for more.
func TestDispatch_AChainNeedsOneCallAStep(t *testing.T) {
	t.Parallel()
	const steps = 10
	r := newRig(t, storetest.Postgres(t))
	var calls, begun, first, last atomic.Int64
	cfg := r.worker("one", r.open(r.url, store.Options{}), map[string]runner{"work": func(context.Context, step.Input) (step.Output, error) {
		switch begun.Add(1) {
		case 1:
			first.Store(calls.Load())
		case steps:
			last.Store(calls.Load())
		}
		return step.Output{}, nil
	}})
	cfg.Poll, cfg.Lease = time.Minute, time.Minute
	cfg.Queue = relay{Queue: cfg.Queue, after: pass, before: func(call string) error {
		if call == "exchange" {
			calls.Add(1)
		}
		return nil
	}}
	chain := []task.NewTask{{Step: "s0"}}
	for i := 1; i < steps; i++ {
		chain = append(chain, task.NewTask{Step: fmt.Sprint("s", i), Needs: []string{fmt.Sprint("s", i-1)}})
	}
	r.mustCreate("k", chain...)
	_, stop := r.start(cfg)
	r.untilOver()
	stop()
	if n := last.Load() - first.Load(); n > steps+2 {
		t.Errorf("%d calls for %d steps in a row", n, steps-1)
	}
	if n := r.count("SELECT count(*) FROM run WHERE status = 'success'"); n != 1 {
		t.Errorf("%d runs succeeded, want 1", n)
	}
}
