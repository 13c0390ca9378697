package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// succeed is a step that does nothing.
func succeed(context.Context, step.Input) (step.Output, error) { return step.Output{}, nil }

func TestRun_RetriesWithBackOffUntilItSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls []time.Time
		w := newWorld(t, map[string]runner{"flaky": func(_ context.Context, in step.Input) (step.Output, error) {
			calls = append(calls, time.Now())
			if in.Task.Attempt < 3 {
				return step.Output{}, step.RetryAfter(time.Minute, errors.New("503"))
			}
			return step.Output{}, nil
		}})
		run := w.create("k", task.NewTask{Step: "call", Type: "flaky"})
		cfg := w.config("one")
		cfg.RunID, cfg.Poll = run.ID, time.Hour // nothing here may depend on a poll
		if got, err := w.engine(cfg).RunUntilOver(t.Context(), w.db); got != task.RunSuccess || err != nil {
			t.Errorf("status = %s, %v, want success", got, err)
		}
		w.wantMoves(run, "call", "pending retry", "pending retry", "success ")
		for i := 1; i < len(calls); i++ {
			if wait := calls[i].Sub(calls[i-1]); wait < time.Minute-time.Millisecond || wait > time.Minute+5*time.Second {
				t.Errorf("attempt %d came after %s, want a minute", i+1, wait)
			}
		}
		w.checkLog(run)
	})
}

func TestFault_F10_APanicIsAFailedAttemptWithItsStack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{
			"crash": func(context.Context, step.Input) (step.Output, error) {
				var nobody step.Output
				nobody.Values["x"] = 1
				return nobody, nil
			},
			"ok": succeed,
		})
		run := w.create("k",
			task.NewTask{Step: "crash", Type: "crash", Retry: task.Retry{MaxAttempts: 2}},
			task.NewTask{Step: "other", Type: "ok"})
		if got := w.finish(run); got != task.RunError {
			t.Errorf("status = %s, want error", got)
		}
		w.wantMoves(run, "crash", "pending retry", "error transient")
		if other := w.task(run, "other"); other.State != task.Success {
			t.Errorf("the step beside it is %s, want success", other.State)
		}
		log, err := w.db.Log(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		last := log[len(log)-1].Failure
		if last == nil || last.Code != "step.panic" || !strings.Contains(last.Stack, "engine_test.go") || !strings.Contains(last.Message, "nil map") {
			t.Errorf("failure = %+v, want the panic with its stack", last)
		}
	})
}

func TestRun_ARunnerThatEndsItsGoroutineIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"gone": func(context.Context, step.Input) (step.Output, error) {
			exitGoroutine()
			return step.Output{}, nil
		}})
		run := w.create("k", task.NewTask{Step: "gone", Type: "gone", Retry: task.Retry{MaxAttempts: 1}})
		if got := w.finish(run); got != task.RunError {
			t.Errorf("status = %s, want error", got)
		}
		if f := w.task(run, "gone").Failure; f == nil || !strings.Contains(f.Message, "without returning") {
			t.Errorf("failure = %+v", f)
		}
	})
}

func TestFault_F12_AStepThatIgnoresItsTimeoutKeepsOnlyItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		var heldLater atomic.Int64
		w := newWorld(t, map[string]runner{"deaf": func(context.Context, step.Input) (step.Output, error) {
			<-let
			return step.Output{}, nil
		}})
		run := w.create("k", task.NewTask{Step: "deaf", Type: "deaf", Timeout: time.Minute, Retry: task.Retry{MaxAttempts: 1}})
		cfg := w.config("one")
		cfg.Slots = 1
		cfg.Queue = renewals{Queue: w.db, n: &heldLater}
		e := w.engine(cfg)
		stop := w.start(e)

		time.Sleep(2 * time.Minute)
		synctest.Wait()
		w.wantMoves(run, "deaf", "error timeout")
		w.wantStatus(run, task.RunError)
		if e.Ready() {
			t.Error("the worker says it is ready although its only slot is stuck")
		}
		heldLater.Store(0)
		time.Sleep(time.Minute)
		if n := heldLater.Load(); n != 0 {
			t.Errorf("its lease was renewed %d times after the timeout", n)
		}

		close(let)
		synctest.Wait()
		if !e.Ready() {
			t.Error("the worker is not ready although its slot is free again")
		}
		next := w.create("k2", task.NewTask{Step: "deaf", Type: "deaf"})
		e.Wake()
		time.Sleep(time.Second)
		w.wantStatus(next, task.RunSuccess)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestWake_StartsNewWorkWithoutAPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"ok": succeed})
		cfg := w.config("one")
		cfg.Poll = time.Hour
		e := w.engine(cfg)
		stop := w.start(e)
		synctest.Wait()
		run := w.create("k", task.NewTask{Step: "a", Type: "ok"}, task.NewTask{Step: "b", Type: "ok", Needs: []string{"a"}})
		began := time.Now()
		e.Wake()
		synctest.Wait()
		w.wantStatus(run, task.RunSuccess)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAdvance_DecidesWhatFollowsAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{
			"ok": succeed,
			"bad": func(context.Context, step.Input) (step.Output, error) {
				return step.Output{}, step.Permanent(errors.New("no"))
			},
		})
		run := w.create("k",
			task.NewTask{Step: "recon", Type: "bad"},
			task.NewTask{Step: "load", Type: "ok", Needs: []string{"recon"}},
			task.NewTask{Step: "after_load", Type: "ok", Needs: []string{"load"}},
			task.NewTask{Step: "tell", Type: "ok", Needs: []string{"recon", "load"}, Condition: "always()"},
			task.NewTask{Step: "mend", Type: "ok", Needs: []string{"recon"}, Condition: "failure()"},
			task.NewTask{Step: "cheer", Type: "ok", Needs: []string{"mend"}, Condition: "run.job == 'other'"},
			task.NewTask{Step: "end", Type: "ok", Needs: []string{"cheer"}},
		)
		if got := w.finish(run); got != task.RunError {
			t.Errorf("status = %s, want error\n%s", got, w.logs.String())
		}
		for name, want := range map[string]string{
			"recon": "error permanent", "load": "skipped needs_failed", "after_load": "skipped needs_failed", "tell": "success ",
			"mend": "success ", "cheer": "skipped condition", "end": "success ",
		} {
			got := w.task(run, name)
			if s := string(got.State) + " " + got.Reason; s != want {
				t.Errorf("%s is %q, want %q", name, s, want)
			}
		}
		w.checkLog(run)
	})
}

func TestBadInput_B31_AnExpressionThatFailsIsAPermanentError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"ok": succeed})
		run := w.create("k", task.NewTask{Step: "a", Type: "ok", Settings: json.RawMessage(`{"path": "x/${{ steps.nowhere.outputs.file }}"}`)})
		if got := w.finish(run); got != task.RunError {
			t.Errorf("status = %s, want error", got)
		}
		w.wantMoves(run, "a", "error permanent")
		if f := w.task(run, "a").Failure; f == nil || !strings.HasPrefix(f.Code, "expr.") {
			t.Errorf("failure = %+v, want the code of the expression", f)
		}
	})
}

func TestRun_RemovesScratchFoldersAndUncommittedFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var folders []string
		w := newWorld(t, map[string]runner{"messy": func(ctx context.Context, in step.Input) (step.Output, error) {
			for range 2 {
				folder, err := in.Files.Scratch(ctx)
				if err != nil {
					return step.Output{}, err
				}
				folders = append(folders, folder)
				if err := os.WriteFile(filepath.Join(folder, "spill"), []byte("rows"), 0o600); err != nil {
					return step.Output{}, err
				}
			}
			if _, err := in.Files.Create(ctx, "half", ""); err != nil {
				return step.Output{}, err
			}
			panic("in the middle of it")
		}})
		w.finish(w.create("k", task.NewTask{Step: "a", Type: "messy", Retry: task.Retry{MaxAttempts: 1}}))
		if len(folders) != 2 || folders[0] == folders[1] {
			t.Fatalf("scratch folders = %q, want two", folders)
		}
		for _, folder := range folders {
			if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("scratch folder %s: %v, want it gone", folder, err)
			}
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(w.files.Scratch())), "tmp", "*")); err != nil || len(left) != 0 {
			t.Errorf("temporary files left: %q, %v", left, err)
		}
	})
}

func TestRunning_TellsHowFarAStepIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		w := newWorld(t, map[string]runner{"slow": func(_ context.Context, in step.Input) (step.Output, error) {
			in.Progress.Report(3, 10, "rows")
			<-let
			return step.Output{}, nil
		}})
		run := w.create("k", task.NewTask{Step: "a", Type: "slow"})
		e := w.engine(w.config("one"))
		stop := w.start(e)
		synctest.Wait()
		got := e.Running()
		if len(got) != 1 || got[0].Step != "a" || got[0].RunID != run.ID || got[0].Done != 3 || got[0].Total != 10 || got[0].Unit != "rows" {
			t.Errorf("Running() = %+v", got)
		}
		close(let)
		synctest.Wait()
		if got := e.Running(); len(got) != 0 {
			t.Errorf("Running() after the end = %+v", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestNew_ListsEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := engine.New(engine.Config{Slots: -1, Lease: time.Second, Poll: -1})
	if err == nil {
		t.Fatal("an empty configuration was accepted")
	}
	for _, part := range []string{"Queue", "Registry", "Artifacts", "Connections", "Clock", "Worker", "Scratch", "slots (-1)", "lease of 1s", "poll (-1ns)"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not speak of %s: %v", part, err)
		}
	}
}

func TestFault_F14_AnUnknownTypeIsLeftForWorkersThatKnowIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"old": succeed})
		run := w.create("k", task.NewTask{Step: "a", Type: "new"})
		stop := w.start(w.engine(w.config("old")))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.task(run, "a"); got.State != task.Pending || got.Fence != 0 {
			t.Errorf("the task is %s after %d claims, want pending and none", got.State, got.Fence)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
