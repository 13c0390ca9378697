package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// echo leaves its settings as outputs, and fails where they say so.
func echo(_ context.Context, in step.Input) (step.Output, error) {
	var settings map[string]any
	if err := json.Unmarshal(in.Settings, &settings); err != nil {
		return step.Output{}, err
	}
	if text, bad := settings["fail"].(string); bad && text != "" {
		return step.Output{}, step.Permanent(errors.New(text))
	}
	return step.Output{Values: settings}, nil
}

func echoes(name string, settings string, needs ...string) task.NewTask {
	return task.NewTask{Step: name, Type: "echo", Settings: json.RawMessage(settings), Needs: needs, Retry: task.Retry{MaxAttempts: 1}}
}

func (w *world) outputs(run task.Run, name string) string { return string(w.task(run, name).Outputs) }

func (w *world) check() {
	w.Helper()
	broken, err := storetest.Check(w.Context(), w.db)
	if err != nil {
		w.Fatal(err)
	}
	for _, b := range broken {
		w.Error(b)
	}
}

func TestRun_ForEachMakesATaskForEachElementAndJoinsThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, forEach, fail string
		want                string // what the step after it sees
		state               task.State
		failure             string
	}{
		{"an expression", `"${{ steps.list.outputs.files }}"`, "", `[{"index":0,"key":"0","value":"x"},{"index":1,"key":"1","value":"y"}]`, task.Success, ""},
		{"a literal list", `["p", {"q": "${{ run.job }}"}]`, "", `[{"index":0,"key":"0","value":"p"},{"index":1,"key":"1","value":{"q":"month-end"}}]`, task.Success, ""},
		{"a literal map keeps its order", `{"hk": 1, "cn": 2}`, "", `[{"index":0,"key":"hk","value":1},{"index":1,"key":"cn","value":2}]`, task.Success, ""},
		{"no elements", `[]`, "", `[]`, task.Success, ""},
		{"one fails", `["p", "q", "r"]`, `${{ each.index == 1 ? "no " + each.value : "" }}`, `[{"index":0,"key":"0","value":"p"},null,{"index":2,"key":"2","value":"r"}]`, task.Error, "1 of 3 elements did not end well: load[1]; the first of them: no q"},
		{"not a list", `"${{ run.job }}"`, "", `null`, task.Error, "a list or an object"},
		{"not there", `"${{ steps.list.outputs.nothing }}"`, "", `null`, task.Error, "there is no nothing here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, map[string]runner{"echo": echo})
				load := echoes("load", `{"key":"${{ each.key }}","value":"${{ each.value }}","index":"${{ each.index }}"}`, "list")
				if c.fail != "" {
					load.Settings = json.RawMessage(`{"key":"${{ each.key }}","value":"${{ each.value }}","index":"${{ each.index }}","fail":` + quoted(c.fail) + `}`)
				}
				load.ForEach, load.Refs = json.RawMessage(c.forEach), []string{"list"}
				after := echoes("after", `{"got":"${{ steps.load.outputs }}"}`, "load")
				after.Refs, after.Condition = []string{"load"}, "always()"
				run := w.create("k", echoes("list", `{"files":["x","y"]}`), load, after)
				w.finish(run)
				got := w.task(run, "load")
				if got.State != c.state || c.failure != "" && (got.Failure == nil || !strings.Contains(got.Failure.Message, c.failure)) {
					t.Errorf("the step is %s %+v, want %s %q", got.State, got.Failure, c.state, c.failure)
				}
				want := `{"got":` + c.want + `}`
				if out := strings.ReplaceAll(w.outputs(run, "after"), `"fail":"",`, ""); out != want {
					t.Errorf("outputs seen = %s, want %s", out, want)
				}
				w.check()
			})
		})
	}
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // a text always marshals
	return string(b)
}

func TestRun_AnElementThatItsConditionRulesOutIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"echo": echo})
		load := echoes("load", `{"value":"${{ each.value }}"}`, "first")
		load.ForEach, load.EachCondition = json.RawMessage(`[1, 2, 3]`), "each.value != 2 && needs.first.result == 'success'"
		after := echoes("after", `{"got":"${{ steps.load.outputs }}"}`, "load")
		after.Refs = []string{"load"}
		run := w.create("k", echoes("first", `{}`), load, after)
		if got := w.finish(run); got != task.RunSuccess {
			t.Errorf("the run is %s\n%s", got, w.logs.String())
		}
		if got, want := w.outputs(run, "after"), `{"got":[{"value":1},null,{"value":3}]}`; got != want {
			t.Errorf("outputs seen = %s, want %s", got, want)
		}
		w.check()
	})
}

func TestRun_ContinueOnErrorLetsWhatFollowsGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]runner{"echo": echo})
		bad := echoes("bad", `{"fail":"no","x":1}`)
		bad.ContinueOnError = true
		after := echoes("after", `{"result":"${{ needs.bad.result }}","x":"${{ steps.bad.outputs.x }}"}`, "bad")
		after.Refs = []string{"bad"}
		fan := echoes("fan", `{"fail":"${{ each.value }}"}`, "after")
		fan.ForEach, fan.ContinueOnError = json.RawMessage(`["", "no"]`), true
		run := w.create("k", bad, after, fan, echoes("last", `{}`, "fan"))
		if got := w.finish(run); got != task.RunWarning {
			t.Errorf("the run is %s, want warning\n%s", got, w.logs.String())
		}
		if got, want := w.outputs(run, "after"), `{"result":"success","x":null}`; got != want {
			t.Errorf("outputs of after = %s, want %s", got, want)
		}
		if got := w.task(run, "last").State; got != task.Success {
			t.Errorf("what follows the elements is %s", got)
		}
		w.check()
	})
}

func TestRun_OnFailureSeesTheFailureAndFinallyHowTheRunWent(t *testing.T) {
	t.Parallel()
	later := func(p task.Phase, condition, name, settings string) task.NewTask {
		s := echoes(name, settings)
		s.Phase, s.Condition = p, condition
		return s
	}
	for _, c := range []struct {
		fail string
		want map[string]task.State
	}{
		{"", map[string]task.State{"tell": "skipped", "plain": "skipped", "good": "success", "bad": "skipped", "stopped": "skipped", "value": "success", "clean": "success"}},
		{"no disk", map[string]task.State{"tell": "success", "plain": "success", "good": "skipped", "bad": "success", "stopped": "skipped", "value": "success", "clean": "success"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, map[string]runner{"echo": echo})
			run := w.create("k",
				echoes("work", `{"fail":"`+c.fail+`"}`),
				later(task.PhaseOnFailure, "", "tell", `{"step":"${{ failure.step }}","error":"${{ failure.error }}","attempts":"${{ failure.attempts }}"}`),
				later(task.PhaseOnFailure, "run.trigger == 'manual'", "plain", `{}`),
				later(task.PhaseFinally, "success()", "good", `{}`),
				later(task.PhaseFinally, "failure()", "bad", `{}`),
				later(task.PhaseFinally, "cancelled()", "stopped", `{}`),
				later(task.PhaseFinally, "run.trigger == 'manual'", "value", `{}`),
				later(task.PhaseFinally, "", "clean", `{"failed":"${{ failure.step }}"}`))
			status := w.finish(run)
			if want := map[bool]task.RunStatus{true: task.RunSuccess, false: task.RunError}[c.fail == ""]; status != want {
				t.Errorf("the run is %s, want %s\n%s", status, want, w.logs.String())
			}
			for name, want := range c.want {
				if got := w.task(run, name).State; got != want {
					t.Errorf("failing %q: %s is %s, want %s", c.fail, name, got, want)
				}
			}
			if got, want := w.outputs(run, "tell"), `{"attempts":1,"error":"no disk","step":"work"}`; c.fail != "" && got != want {
				t.Errorf("on_failure saw %s, want %s", got, want)
			}
			if got := w.outputs(run, "clean"); (got == `{"failed":null}`) != (c.fail == "") {
				t.Errorf("failing %q: finally saw %s", c.fail, got)
			}
			w.check()
		})
	}
}

func TestRun_AStepThatWaitsHoldsNoSlotAndIsCalledAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var woken []string
		w := newWorld(t, map[string]runner{"approval": func(_ context.Context, in step.Input) (step.Output, error) {
			mu.Lock()
			defer mu.Unlock()
			if woken = append(woken, fmt.Sprint(in.Task.Woken, in.Task.Attempt)); in.Task.Woken == "expired" {
				return step.Output{}, nil
			}
			return step.Output{
				Values:  map[string]any{"asked": "finance"},
				Effects: []step.Effect{step.Wait{Expire: 5 * time.Minute}},
			}, nil
		}, "echo": echo})
		run := w.create("k", task.NewTask{Step: "sign", Type: "approval", Timeout: time.Minute}, echoes("beside", `{}`))
		cfg := w.config("one")
		cfg.Slots, cfg.Poll = 1, time.Minute
		stop := w.start(w.engine(cfg))
		time.Sleep(time.Minute) // of the bubble
		sign := w.task(run, "sign")
		if sign.State != task.Waiting || sign.Attempt != 0 || string(sign.Outputs) != `{"asked":"finance"}` || w.task(run, "beside").State != task.Success {
			t.Errorf("the step is %s in attempt %d with %s, the one beside it %s", sign.State, sign.Attempt, sign.Outputs, w.task(run, "beside").State)
		}
		if _, err := w.db.Wake(t.Context(), sign.ID, task.WakeAnswered); err != nil {
			t.Fatal(err)
		}
		w.untilOver(run)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if want := []string{"1", "answered1", "expired1"}; !slices.Equal(woken, want) {
			t.Errorf("called as %q, want %q", woken, want)
		}
		w.wantStatus(run, task.RunSuccess)
		w.check()
	})
}

// TestRun_LosesNoElementWhateverCallIsLost fails the N-th call of the flow, before
// and after it was made, until a run passes without.
func TestRun_LosesNoElementWhateverCallIsLost(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 1; n < 20; n++ {
			broken := false
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, map[string]runner{"echo": echo})
				load := echoes("load", `{"value":"${{ each.value }}"}`)
				load.ForEach = json.RawMessage(`[1, 2, 3]`)
				last := echoes("last", `{}`)
				last.Phase = task.PhaseFinally
				run := w.create("k", load, echoes("after", `{}`, "load"), last)
				faulty := &faultyFlow{Flow: w.db, left: n, after: after}
				cfg := w.config("one")
				cfg.Flow, cfg.RunID = faulty, run.ID
				if got, err := w.engine(cfg).RunUntilOver(t.Context(), w.db); got != task.RunSuccess || err != nil {
					t.Errorf("call %d, after %t: the run is %s, %v\n%s", n, after, got, err, w.logs.String())
				}
				broken = faulty.left <= 0
				w.check()
				w.checkLog(run)
			})
			if !broken {
				if n < 4 {
					t.Errorf("only %d calls were made", n-1)
				}
				break
			}
		}
	}
}

// A faultyFlow loses one call, or its answer.
type faultyFlow struct {
	engine.Flow
	mu    sync.Mutex
	left  int // calls until then
	after bool
}

var errLost = errors.New("connection reset by peer")

func (f *faultyFlow) through(call func() error) error {
	f.mu.Lock()
	f.left--
	lost := f.left == 0
	f.mu.Unlock()
	if lost && !f.after {
		return errLost
	}
	if err := call(); err != nil {
		return err
	}
	if lost {
		return errLost
	}
	return nil
}

func (f *faultyFlow) Expand(ctx context.Context, h task.Hold, e []task.Element) error {
	return f.through(func() error { return f.Flow.Expand(ctx, h, e) })
}

func (f *faultyFlow) Elements(ctx context.Context, id int64) (got []task.ElementResult, err error) {
	err = f.through(func() (err error) { got, err = f.Flow.Elements(ctx, id); return err })
	return got, err
}

func (f *faultyFlow) NextPhase(ctx context.Context, limit int) (n int, err error) {
	err = f.through(func() (err error) { n, err = f.Flow.NextPhase(ctx, limit); return err })
	return n, err
}
