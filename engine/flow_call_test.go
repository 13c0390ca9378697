package engine_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
)

func TestRun_StartsARunAndTakesItsOutputs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fail    string
		state   task.State
		message string
	}{
		{"", task.Success, ""},
		{"no file", task.Error, "of detail ended as error: step inner: no file"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, map[string]runner{"echo": echo})
			inner := echoes("inner", `{"entity":"${{ inputs.entity }}","fail":"`+c.fail+`"}`)
			sub := task.SubJob{
				Inputs: json.RawMessage(`{"entity":"${{ each.value }}"}`), Key: "detail/${{ each.key }}",
				Outputs: json.RawMessage(`{"made":"${{ steps.inner.outputs.entity }}"}`),
				Run:     task.NewRun{Run: task.Run{Job: "detail", JobDigest: "sha256:d", BaseDir: "/jobs"}, Tasks: []task.NewTask{inner}},
			}
			settings, err := json.Marshal(sub)
			if err != nil {
				t.Fatal(err)
			}
			call := task.NewTask{Step: "call", Type: task.TypeJob, Settings: settings, ForEach: json.RawMessage(`{"hk": "Hong Kong", "cn": "China"}`)}
			after := echoes("after", `{"got":"${{ steps.call.outputs }}"}`, "call")
			after.Refs, after.Condition = []string{"call"}, "always()"
			run := w.create("k", call, after)
			stop := w.start(w.engine(w.config("one")))
			w.untilOver(run)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if got := w.task(run, "call").State; got != c.state {
				t.Errorf("the step is %s, want %s\n%s", got, c.state, w.logs.String())
			}
			if got := w.task(run, "call").Failure; c.message != "" && (got == nil || !strings.Contains(got.Message, c.message)) {
				t.Errorf("the failure is %+v, want %q", got, c.message)
			}
			if got, want := w.outputs(run, "after"), `{"got":[{"made":"Hong Kong"},{"made":"China"}]}`; c.fail == "" && got != want {
				t.Errorf("outputs seen = %s, want %s", got, want)
			}
			made, err := w.db.Runs(t.Context(), store.RunFilter{Job: "detail"})
			if err != nil || len(made) != 2 || !slices.ContainsFunc(made, func(r task.Run) bool { return r.Key == "detail/hk" && r.Trigger == "job" }) {
				t.Errorf("made the runs %+v, %v", made, err)
			}
			w.check()
		})
	}
}

// untilOver waits until a run is over, a day at most.
func (w *world) untilOver(run task.Run) {
	w.Helper()
	for range 24 * 60 {
		got, err := w.db.Run(w.Context(), run.ID)
		if err != nil {
			w.Fatal(err)
		}
		if !got.Status.Live() {
			return
		}
		time.Sleep(time.Minute) // of the bubble
	}
	w.Fatalf("the run does not end\n%s", w.logs.String())
}

func TestRun_AStartedRunSeesInputsThatComeLate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, key, bad string
		want           task.State
		message        string
	}{
		{"keys and steps of the started run", "detail/${{ inputs.entity }}/${{ inputs.mode }}", "", task.Success, ""},
		{"a key that comes out empty", "${{ inputs.blank }}", "", task.Error, "the key is empty"},
		{"an input that is refused", "detail/${{ inputs.entity }}", "China", task.Error, "input entity is refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, map[string]runner{"echo": echo})
				inner := echoes("inner", `{"entity":"${{ inputs.entity }}","mode":"${{ inputs.mode }}"}`)
				inner.Limits = []task.Limit{{Key: "bank-${{ inputs.entity }}", Slots: 1}}
				sub := task.SubJob{
					Inputs: json.RawMessage(`{"entity":"${{ each.value }}"}`), Declared: json.RawMessage(`[]`), Late: true,
					Outputs: json.RawMessage(`{"made":"${{ steps.inner.outputs.entity }} ${{ steps.inner.outputs.mode }}"}`),
					Run: task.NewRun{
						Run:   task.Run{Job: "detail", JobDigest: "sha256:d", BaseDir: "/jobs", Key: c.key, Inputs: json.RawMessage(`{"mode":"$${{ full","blank":" "}`)},
						Tasks: []task.NewTask{inner},
					},
				}
				settings, err := json.Marshal(sub)
				if err != nil {
					t.Fatal(err)
				}
				call := task.NewTask{Step: "call", Type: task.TypeJob, Settings: settings, ForEach: json.RawMessage(`{"hk": "Hong Kong", "cn": "China"}`)}
				run := w.create("k", call)
				cfg := w.config("one")
				cfg.Gates = w.db
				cfg.CheckInputs = func(job string, _, inputs json.RawMessage) error {
					if c.bad != "" && strings.Contains(string(inputs), c.bad) {
						return errors.New("input entity is refused")
					}
					return nil
				}
				stop := w.start(w.engine(cfg))
				w.untilOver(run)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				got := w.task(run, "call")
				if got.State != c.want || c.message != "" && (got.Failure == nil || !strings.Contains(got.Failure.Message, c.message)) {
					t.Fatalf("the step is %s %+v, want %s %q\n%s", got.State, got.Failure, c.want, c.message, w.logs.String())
				}
				if c.want != task.Success {
					return
				}
				made, err := w.db.Runs(t.Context(), store.RunFilter{Job: "detail", Key: "detail/Hong Kong/$${{ full"})
				if err != nil || len(made) != 1 || string(made[0].Inputs) != `{"blank":" ","entity":"Hong Kong","mode":"$${{ full"}` {
					t.Errorf("made the runs %+v, %v; want one with the key and the inputs of Hong Kong", made, err)
				}
				w.check()
			})
		})
	}
}

func TestRunUntilOver_WorksAtTheRunsThatItsStepsStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"echo": echo})
		calls := func(name, job string, tasks ...task.NewTask) task.NewTask {
			settings, err := json.Marshal(task.SubJob{
				Outputs: json.RawMessage(`{"made":"${{ inputs.x }}"}`), Inputs: json.RawMessage(`{"x":"${{ run.job }}"}`),
				Run: task.NewRun{Run: task.Run{Job: job, JobDigest: "sha256:d", BaseDir: "/jobs"}, Tasks: tasks},
			})
			if err != nil {
				t.Fatal(err)
			}
			return task.NewTask{Step: name, Type: task.TypeJob, Settings: settings}
		}
		fan := calls("fan", "middle", calls("down", "bottom", echoes("inner", `{}`)))
		fan.ForEach = json.RawMessage(`[1, 2, 3, 4, 5]`)
		run := w.create("k", fan)
		other := w.create("other", echoes("alone", `{}`))
		if got := w.finish(run); got != task.RunSuccess {
			t.Errorf("the run is %s\n%s", got, w.logs.String())
		}
		kin, err := w.db.Kin(t.Context(), run.ID)
		if err != nil || len(kin) != 10 {
			t.Errorf("Kin = %d runs, %v; want five and one below each", len(kin), err)
		}
		for _, r := range kin {
			if r.Status != task.RunSuccess {
				t.Errorf("run %s of %s is %s", r.ID, r.Job, r.Status)
			}
		}
		if got, err := w.db.Run(t.Context(), other.ID); err != nil || got.Status != task.RunPending {
			t.Errorf("another run is %s, %v; want it left alone", got.Status, err)
		}
		w.check()
	})
}
