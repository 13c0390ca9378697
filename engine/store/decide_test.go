package store_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestDecide_SkipsALongChainLayerByLayer(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		list := steps(noop("s0"))
		for i := range 30 {
			list = append(list, noop(fmt.Sprint("s", i+1), fmt.Sprint("s", i)))
		}
		list = append(list, conditional(noop("tell", "s30"), "always"))
		run := create(t, db, newRun("k", list))
		x := exchange(t, db, 5, fail(claim(t, db, 1)[0]))
		if !x.Undecided {
			t.Error("Exchange did not say that something is undecided")
		}
		sound(t, db)
		work(t, db)
		got := states(t, db, run.ID)
		if got["s0"] != task.Error || got["s1"] != task.Skipped || got["s30"] != task.Skipped || got["tell"] != task.Success {
			t.Errorf("states = %v", got)
		}
		if s := status(t, db, run.ID); s != task.RunError {
			t.Errorf("status = %s, want error", s)
		}
		sound(t, db)
	})
}

func TestDecide_AStepSkippedByItsOwnConditionCountsAsSuccess(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(noop("a"), conditional(noop("b", "a"), "no"), noop("c", "b"))))
		work(t, db)
		want := map[string]task.State{"a": "success", "b": "skipped", "c": "success"}
		if got := states(t, db, run.ID); !maps.Equal(got, want) {
			t.Errorf("states = %v, want %v", got, want)
		}
		if s := status(t, db, run.ID); s != task.RunSuccess {
			t.Errorf("status = %s, want success", s)
		}
		sound(t, db)
	})
}

func TestDecide_ARunWhoseFirstStepsAreSkippedEndsWithoutAClaim(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(conditional(noop("a"), "no"))))
		if x := exchange(t, db, 5); len(x.Claimed) != 0 || !x.Undecided {
			t.Errorf("a first step with a condition: claimed %d, undecided %v; want 0, true", len(x.Claimed), x.Undecided)
		}
		work(t, db)
		r, err := db.Run(t.Context(), run.ID)
		if err != nil || r.Status != task.RunSuccess || r.StartedAt.IsZero() {
			t.Errorf("run = %+v, %v; want success, started", r, err)
		}
		sound(t, db)
	})
}

func TestDecide_AConditionThatCannotBeReadEndsTheRunInError(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(conditional(noop("a"), "broken"))))
		u, err := db.Undecided(t.Context(), 10)
		if err != nil || len(u) != 1 {
			t.Fatalf("Undecided = %v, %v", u, err)
		}
		d := task.Decision{TaskID: u[0].TaskID, To: task.Skipped, Reason: "condition_error", Detail: "broken\x00 \xff"}
		for range 2 { // the second is that of an engine that was slower
			if err := db.Decide(t.Context(), []task.Decision{d}); err != nil {
				t.Fatal(err)
			}
		}
		if s := status(t, db, run.ID); s != task.RunError {
			t.Errorf("status = %s, want error", s)
		}
		if err := db.Decide(t.Context(), []task.Decision{{TaskID: u[0].TaskID, To: task.Success}}); err == nil {
			t.Error("a decision for success was taken")
		}
		sound(t, db)
	})
}

func TestUndecided_TellsWhatConditionsReferTo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := conditional(noop("b", "a", "x"), "steps.far.outputs.n > 0")
		b.Refs = []string{"far"}
		run := create(t, db, newRun("k", steps(noop("far"), noop("a", "far"), noop("x", "far"), b)))
		far := ok(claim(t, db, 1)[0])
		far.Outputs = json.RawMessage(`{"n": 3}`)
		two := exchange(t, db, 2, far).Claimed
		warned := ok(two[0])
		warned.Warning = "look"
		exchange(t, db, 0, warned, fail(two[1]))
		open, err := db.Undecided(t.Context(), 10)
		if err != nil || len(open) != 1 {
			t.Fatalf("Undecided = %+v, %v", open, err)
		}
		u := open[0]
		if u.Step != "b" || u.RunID != run.ID || u.Condition != b.Condition || u.Scope.Run.Key != "k" || u.Scope.Run.Connections[0] != "ledger" {
			t.Errorf("undecided = %+v", u)
		}
		if n := u.Needs; len(n) != 2 || n["a"].State != task.Success || n["a"].Warning != "look" || n["x"].State != task.Error || n["x"].Error != "no" || n["x"].Reason != "permanent" {
			t.Errorf("needs = %+v", n)
		}
		var outputs struct{ N int }
		if s := u.Scope.Steps; len(s) != 1 || json.Unmarshal(s["far"].Outputs, &outputs) != nil || outputs.N != 3 {
			t.Errorf("steps = %+v", s)
		}
	})
}
