package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// TestCancel_ReachesWhatRunsWithinFiveSeconds also shows that the attempt ends as
// cancelled and is not dropped.
func TestCancel_ReachesWhatRunsWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, told := make(chan struct{}), make(chan time.Time, 1)
		w := newWorld(t, map[string]runner{
			"long": func(ctx context.Context, _ step.Input) (step.Output, error) {
				close(began)
				<-ctx.Done()
				told <- time.Now()
				return step.Output{}, ctx.Err()
			},
			"echo": echo,
		})
		run := w.create("k", task.NewTask{Step: "a", Type: "long"}, echoes("b", `{}`, "a"), finallyStep(echoes("z", `{}`)))
		cfg := w.config("w1")
		cfg.Flow, cfg.Lease = w.db, time.Minute
		stop := w.start(w.engine(cfg))
		<-began
		asked := time.Now()
		if _, err := w.db.CancelRun(t.Context(), run.ID, task.Action{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		if after := (<-told).Sub(asked); after > 5*time.Second {
			t.Errorf("the attempt was told after %s, want within 5s", after)
		}
		w.finish(run)
		w.wantStatus(run, task.RunCancelled)
		for name, want := range map[string]task.State{"a": task.Cancelled, "b": task.Cancelled, "z": task.Success} {
			if got := w.task(run, name).State; got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		w.check()
	})
}

func TestExpire_EndsARunThatIsOutOfTimeAsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{
			"long": func(ctx context.Context, _ step.Input) (step.Output, error) {
				<-ctx.Done()
				return step.Output{}, ctx.Err()
			},
		})
		made, err := w.db.CreateRun(t.Context(), task.NewRun{
			Run:   task.Run{Job: "j", JobDigest: "sha256:1", Trigger: "manual", Timeout: time.Minute},
			Tasks: []task.NewTask{{Step: "a", Type: "long"}}, Job: task.JobVersion{Name: "j", Digest: "sha256:1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		cfg := w.config("w1")
		cfg.Flow = w.db
		stop := w.start(w.engine(cfg))
		w.finish(made.Run)
		w.wantStatus(made.Run, task.RunError)
		if a := w.task(made.Run, "a"); a.State != task.Cancelled || a.Reason != task.ReasonRunTimeout {
			t.Errorf("a is %s, %s; want cancelled because the run was out of time", a.State, a.Reason)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		w.check()
	})
}

func finallyStep(s task.NewTask) task.NewTask {
	s.Phase = task.PhaseFinally
	return s
}
