package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine"
	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs/step"
)

var _ engine.Gates = (*store.DB)(nil)

// gated is the configuration of a worker that looks after limits. Nothing waits
// for a poll unless the test says so.
func (w *world) gated(run task.Run) engine.Config {
	cfg := w.config("one")
	cfg.Gates, cfg.RunID, cfg.Poll, cfg.Slots = w.db, run.ID, time.Hour, 8
	return cfg
}

func (w *world) until(run task.Run, cfg engine.Config, want task.RunStatus) time.Duration {
	w.Helper()
	began := time.Now()
	if got, err := w.engine(cfg).RunUntilOver(w.Context(), w.db); got != want || err != nil {
		w.Errorf("status = %s, %v, want %s\n%s", got, err, want, w.logs.String())
	}
	w.checkLog(run)
	w.check()
	return time.Since(began)
}

func TestGates_ALimitHoldsAndAFreedSlotIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		w := newWorld(t, map[string]runner{"slow": func(context.Context, step.Input) (step.Output, error) {
			for n := now.Add(1); n > most.Load(); {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return step.Output{}, nil
		}})
		var list []task.NewTask
		for i := range 6 {
			s := task.NewTask{Step: fmt.Sprint("s", i), Type: "slow", Limits: []task.Limit{{Key: "db", Slots: 2}}}
			if i >= 4 {
				s.Needs = []string{"s0", "s1", "s2", "s3"}
			}
			list = append(list, s)
		}
		run := w.create("k", list...)
		took := w.until(run, w.gated(run), task.RunSuccess)
		if most.Load() != 2 {
			t.Errorf("%d tasks were at work at once, want 2", most.Load())
		}
		if took > 3200*time.Millisecond {
			t.Errorf("6 tasks of a second, two at once, took %s, want 3 s", took)
		}
	})
}

func TestGates_ARateIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"quick": succeed})
		var list []task.NewTask
		for i := range 21 {
			list = append(list, task.NewTask{Step: fmt.Sprint("s", i), Type: "quick", Limits: []task.Limit{{Key: "api", Rate: 4}}})
		}
		run := w.create("k", list...)
		if took := w.until(run, w.gated(run), task.RunSuccess); took < 5*time.Second || took > 5500*time.Millisecond {
			t.Errorf("21 tasks at 4 a second took %s, want 5 s", took)
		}
	})
}

func TestGates_ACircuitIsToldOfOnceAndDrainsWhenTheDownstreamIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls []time.Duration // of attempts, from the beginning
		began := time.Now()
		back := began.Add(40 * time.Second)
		w := newWorld(t, map[string]runner{"call": func(context.Context, step.Input) (step.Output, error) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, time.Since(began))
			if time.Now().Before(back) {
				return step.Output{}, errors.New("503")
			}
			return step.Output{}, nil
		}})
		var list []task.NewTask
		for i := range 60 {
			list = append(list, task.NewTask{Step: fmt.Sprint("s", i), Type: "call", Circuit: "call/bank", Retry: task.Retry{MaxAttempts: 20}})
		}
		run := w.create("k", list...)
		var told []string
		cfg := w.gated(run)
		cfg.Poll, cfg.Slots = time.Second, 4
		cfg.CircuitChanged = func(c task.CircuitChange) { told = append(told, string(c.To)) }
		other := w.config("two") // shares the circuit, and tells of nothing twice
		other.Gates, other.RunID, other.CircuitChanged = w.db, run.ID, cfg.CircuitChanged
		stop := w.start(w.engine(other))
		w.until(run, cfg, task.RunSuccess)
		if err := stop(); err != nil {
			t.Error(err)
		}
		want := []string{"open", "half_open", "open", "half_open", "ramp", "closed"}
		if !slices.Equal(told, want) && !slices.Equal(told, want[:5]) {
			t.Errorf("changes = %v, want %v", told, want)
		}
		if n := strings.Count(w.logs.String(), "to=open "); n != 2 {
			t.Errorf("the log tells of %d openings, want 2", n)
		}
		early := slices.DeleteFunc(slices.Clone(calls), func(at time.Duration) bool { return at >= 30*time.Second })
		if len(early) > 45 {
			t.Errorf("%d attempts before the first probe, want fewer than all, most of them held", len(early))
		}
		probes := slices.DeleteFunc(slices.Clone(calls), func(at time.Duration) bool { return at < 30*time.Second || at >= 60*time.Second })
		if len(probes) < 1 || len(probes) > 3 {
			t.Errorf("%d probes after the first wait, want 1 to 3", len(probes))
		}
	})
}

func TestTypes_AWorkerTakesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"a": succeed, "b": succeed})
		run := w.create("k", task.NewTask{Step: "one", Type: "a"}, task.NewTask{Step: "two", Type: "b"})
		cfg := w.config("only b")
		cfg.Types = []string{"b"}
		stop := w.start(w.engine(cfg))
		time.Sleep(5 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if one, two := w.task(run, "one").State, w.task(run, "two").State; one != task.Pending || two != task.Success {
			t.Errorf("one is %s and two is %s, want pending and success", one, two)
		}
		cfg.Types = []string{"c"}
		if _, err := engine.New(cfg); err == nil || !strings.Contains(err.Error(), `"c"`) {
			t.Errorf("New with an unknown type gave %v, want an error that names it", err)
		}
	})
}

func TestFault_F66_AnEndlessUrgentStreamDoesNotStarveWhatIsNotUrgent(t *testing.T) {
	t.Parallel()
	for _, limits := range [][]task.Limit{nil, {{Key: "db", Slots: 1}}} {
		t.Run(fmt.Sprint(len(limits), " limits"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				served := make(chan struct{})
				var w *world
				var made atomic.Int64
				urgent := func() {
					w.create(fmt.Sprint("urgent", made.Add(1)), task.NewTask{Step: "s", Type: "urgent", Priority: 1, Limits: limits})
				}
				w = newWorld(t, map[string]runner{
					"urgent": func(ctx context.Context, _ step.Input) (step.Output, error) {
						time.Sleep(200 * time.Millisecond)
						if ctx.Err() == nil {
							urgent()
						}
						return step.Output{}, nil
					},
					"patient": func(context.Context, step.Input) (step.Output, error) {
						close(served)
						return step.Output{}, nil
					},
				})
				run := w.create("patient", task.NewTask{Step: "s", Type: "patient", Priority: 900, Limits: limits})
				for range 20 {
					urgent()
				}
				cfg := w.config("one")
				cfg.Gates, cfg.Slots = w.db, 1
				stop := w.start(w.engine(cfg))
				select {
				case <-served:
				case <-time.After(time.Minute):
					t.Errorf("after a minute and %d urgent tasks the patient one has not begun", made.Load())
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				w.checkLog(run)
			})
		})
	}
}
