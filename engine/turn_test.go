package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/task"
	"madeira/jobs/step"
)

func TestValues_KnowThePeriodOfTheLastRunThatEndedWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"echo": func(_ context.Context, in step.Input) (step.Output, error) {
			return step.Output{Values: map[string]any{"saw": in.Settings}}, nil
		}})
		for month, want := range []string{`{"label":null,"whole":null}`, `{"label":"2026-01","whole":{"label":"2026-01","start":"2026-01-01"}}`} {
			n := task.NewRun{
				Run: task.Run{
					Job: "month-end", JobDigest: "sha256:job", Trigger: "manual", Inputs: json.RawMessage(`{}`),
					DueAt:  time.Date(2026, time.Month(month+2), 5, 0, 0, 0, 0, time.UTC),
					Period: json.RawMessage([]string{`{"label":"2026-01","start":"2026-01-01"}`, `{"label":"2026-02","start":"2026-02-01"}`}[month]),
				},
				Tasks: []task.NewTask{{Step: "a", Type: "echo", Priority: 100, Settings: json.RawMessage(
					`{"label":"${{ run.previous_success.period?.label }}","whole":"${{ run.previous_success.period }}"}`)}},
			}
			made, err := w.db.CreateRun(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.finish(made.Run); got != task.RunSuccess {
				t.Fatalf("the run is %s\n%s", got, w.logs.String())
			}
			var out struct{ Saw json.RawMessage }
			if err := json.Unmarshal(w.task(made.Run, "a").Outputs, &out); err != nil || string(out.Saw) != want {
				t.Errorf("it saw %s, %v; want %s", out.Saw, err, want)
			}
		}
	})
}

// TestTurns_WaitForNoPoll begins the next run at the end of the one before, in
// virtual time: what it takes is the rest between two looks.
func TestTurns_WaitForNoPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"slow": func(ctx context.Context, _ step.Input) (step.Output, error) {
			return step.Output{}, idle(ctx, time.Second)
		}})
		cfg := w.config("one")
		cfg.Turns, cfg.Poll = w.db, time.Hour
		var last task.Run
		for range 4 {
			n := task.NewRun{
				Run:         task.Run{Job: "month-end", JobDigest: "sha256:job", Trigger: "manual", Inputs: json.RawMessage(`{}`), DueAt: time.Now()},
				Tasks:       []task.NewTask{{Step: "a", Type: "slow", Priority: 100, Settings: json.RawMessage(`{}`)}},
				Concurrency: &task.Limit{Key: "ledger", Slots: 1},
			}
			made, err := w.db.CreateRun(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			last = made.Run
		}
		began := time.Now()
		stop := w.start(w.engine(cfg))
		for {
			if r, err := w.db.Run(t.Context(), last.ID); err != nil || !r.Status.Live() {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took > 4*time.Second+200*time.Millisecond {
			t.Errorf("four runs of a second each took %s one after the other, want no more than a moment between them", took)
		}
		w.wantStatus(last, task.RunSuccess)
		if err := stop(); err != nil {
			t.Error(err)
		}
		w.check()
	})
}
