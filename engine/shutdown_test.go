package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/task"
	"madeira/jobs/step"
)

func TestFault_F08_ShutdownFinishesShortStepsAndReleasesTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var second atomic.Bool
		w := newWorld(t, map[string]runner{"sleep": func(ctx context.Context, in step.Input) (step.Output, error) {
			d := 10 * time.Second
			if in.Task.Step == "long" && !second.Load() {
				d = time.Hour
			}
			select {
			case <-ctx.Done():
				return step.Output{}, fmt.Errorf("sleep: %w", ctx.Err())
			case <-time.After(d):
				return step.Output{}, nil
			}
		}})
		run := w.create("k",
			task.NewTask{Step: "short", Type: "sleep"}, task.NewTask{Step: "long", Type: "sleep"},
			task.NewTask{Step: "later", Type: "sleep", Needs: []string{"short"}})
		e := w.engine(w.config("one"))
		stop := w.start(e)
		time.Sleep(time.Second)
		asked := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		synctest.Wait()
		if e.Ready() {
			t.Error("a worker that shuts down says it is ready")
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(asked); took < 24*time.Second || took > 27*time.Second {
			t.Errorf("the shutdown took %s, want the grace of 25s", took)
		}
		w.wantMoves(run, "short", "success ")
		w.wantMoves(run, "long", "pending released")
		if got := w.task(run, "long"); got.Attempt != 0 {
			t.Errorf("the released step has spent %d attempts, want 0", got.Attempt)
		}
		if got := w.task(run, "later"); got.State != task.Pending || got.Fence != 0 {
			t.Errorf("the next step is %s after %d claims, want it left alone", got.State, got.Fence)
		}
		second.Store(true)
		if got := w.finish(run); got != task.RunSuccess {
			t.Errorf("the next worker ends the run as %s, want success", got)
		}
		w.checkLog(run)
	})
}

func TestFault_F08_ShutdownReleasesAStepThatIgnoresIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		w := newWorld(t, map[string]runner{"deaf": func(context.Context, step.Input) (step.Output, error) {
			<-let
			return step.Output{}, nil
		}})
		run := w.create("k", task.NewTask{Step: "a", Type: "deaf"})
		stop := w.start(w.engine(w.config("one")))
		synctest.Wait()
		asked := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(asked); took > 31*time.Second {
			t.Errorf("the shutdown took %s, want the grace and the patience", took)
		}
		w.wantMoves(run, "a", "pending released")
		close(let)
		synctest.Wait()
	})
}

func TestRun_LeavesWithAnErrorWhenTheDatabaseStaysAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		w := newWorld(t, map[string]runner{"work": func(context.Context, step.Input) (step.Output, error) {
			down.Store(true)
			return step.Output{}, nil
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
		asked := time.Now()
		err := stop()
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(w.task(run, "a").ID)) {
			t.Errorf("Run = %v, want an error that names the task", err)
		}
		if took := time.Since(asked); took > 36*time.Second {
			t.Errorf("the shutdown took %s", took)
		}
	})
}
