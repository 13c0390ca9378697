package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
)

// callsDetail is a step that runs the job detail for hk and cn.
func callsDetail(t *testing.T, n task.NewRun) task.NewTask {
	t.Helper()
	settings, err := json.Marshal(task.SubJob{Run: n})
	if err != nil {
		t.Fatal(err)
	}
	return task.NewTask{Step: "call", Type: task.TypeJob, Settings: settings, Priority: 100, ForEach: json.RawMessage(`["hk", "cn"]`)}
}

// carry works like an engine, for runs that start runs; steps of the given names fail.
func carry(t *testing.T, db *store.DB, c *clock, names ...string) {
	t.Helper()
	var done []task.Outcome
	for range 100 {
		x, err := db.Exchange(t.Context(), worker, done, task.Want{N: 100, Types: append([]string{task.TypeJob}, allTypes...), Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		done = nil
		for _, k := range x.Claimed {
			if o, over := carryOne(t, db, k, names); over {
				done = append(done, o)
			}
		}
		decided := decideAll(t, db)
		n, err := db.NextPhase(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Claimed) > 0 || decided || n > 0 {
			continue
		}
		c.move(5 * time.Second)
		if n, _, err := db.Promote(t.Context(), 100); err != nil || n == 0 {
			return
		}
	}
	t.Fatal("there is no end to it")
}

func carryOne(t *testing.T, db *store.DB, k task.Claimed, names []string) (task.Outcome, bool) {
	t.Helper()
	if k.ForEach != nil && k.Woken == "" {
		if err := db.Expand(t.Context(), k.Hold, []task.Element{{Key: "hk", Value: []byte(`"hk"`)}, {Key: "cn", Value: []byte(`"cn"`)}}); err != nil {
			t.Fatal(err)
		}
		return task.Outcome{}, false
	}
	o := ok(k)
	o.Outputs = json.RawMessage(`{"of":"` + k.Step + k.Element + `"}`)
	switch {
	case k.Type == task.TypeJob && k.ForEach == nil && k.Woken == "":
		var sub task.SubJob
		if err := json.Unmarshal(k.Settings, &sub); err != nil {
			t.Fatal(err)
		}
		n := sub.Run
		n.Run.Trigger, n.Run.Inputs, n.Redo = "job", json.RawMessage(`{"entity":`+string(valueOf(t, k.Each))+`}`), sub.Redo
		n.Run.Key = "detail/" + k.Element
		if _, err := db.Spawn(t.Context(), k.Hold, n); err != nil {
			t.Fatal(err)
		}
		return o, false
	case k.Type == task.TypeJob && k.ForEach == nil:
		scope, err := db.Child(t.Context(), k.TaskID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if scope.Run.Status == task.RunError {
			return fail(k), true
		}
	case k.ForEach != nil:
		results, err := db.Elements(t.Context(), k.TaskID)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.State == task.Error {
				return fail(k), true
			}
		}
	default:
		run, err := db.Run(t.Context(), k.RunID)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if name == k.Step || name == run.Key+"/"+k.Step {
				return fail(k), true
			}
		}
	}
	return o, true
}

func valueOf(t *testing.T, each json.RawMessage) json.RawMessage {
	t.Helper()
	var e struct{ Value json.RawMessage }
	if err := json.Unmarshal(each, &e); err != nil {
		t.Fatal(err)
	}
	return e.Value
}

func TestRerun_OnlyFailedGoesOnInsideTheRunThatFailed(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		detail := child("", noop("fetch"), noop("load", "fetch"), noop("tell", "load"))
		old := create(t, db, newRun("k", steps(noop("a"), callsDetail(t, detail), noop("sum", "call"))))
		carry(t, db, c, "detail/hk/load")
		if got := status(t, db, old.ID); got != task.RunError {
			t.Fatalf("the run is %s", got)
		}
		run := rerun(t, db, task.Rerun{RunID: old.ID, OnlyFailed: true})
		sound(t, db)
		carry(t, db, c)
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Fatalf("the rerun ended as %s: %v", got, states(t, db, run.ID))
		}
		again, err := db.LastVersion(t.Context(), "detail", "detail/hk")
		if err != nil || again.Version != 2 || again.Status != task.RunSuccess || again.RerunOf == "" || again.Trigger != "job" {
			t.Fatalf("the run that failed is done again as %+v, %v", again, err)
		}
		if n := count(t, db, "SELECT count(*) FROM task_queue WHERE run_id = '"+again.ID+"' AND step = 'fetch' AND reason = 'reused'"); n != 1 {
			t.Errorf("the step that had ended well inside of it is not reused: %v", states(t, db, again.ID))
		}
		if good, err := db.LastVersion(t.Context(), "detail", "detail/cn"); err != nil || good.Version != 1 {
			t.Errorf("the run that ended well has version %d, %v; want it left alone", good.Version, err)
		}
		kin, err := db.Kin(t.Context(), run.ID)
		if err != nil || len(kin) != 1 || kin[0].ID != again.ID {
			t.Errorf("the rerun started %+v, %v; want the one that had failed", kin, err)
		}
		sound(t, db)
	})
}

func TestRerun_ANamedStepDoesTheRunItCallsAgainAsAWhole(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		detail := child("", source("fetch"), noop("load", "fetch"))
		old := create(t, db, newRun("k", steps(callsDetail(t, detail), noop("sum", "call"))))
		carry(t, db, c)
		run := rerun(t, db, task.Rerun{RunID: old.ID, Step: "call[hk]"})
		sound(t, db)
		carry(t, db, c)
		again, err := db.LastVersion(t.Context(), "detail", "detail/hk")
		if err != nil || again.Version != 2 || again.RerunOf != "" || again.Reason != "the bill was corrected" {
			t.Errorf("the run of hk is %+v, %v; want a whole second version with the reason", again, err)
		}
		if other, err := db.LastVersion(t.Context(), "detail", "detail/cn"); err != nil || other.Version != 1 {
			t.Errorf("the run of cn has version %d, %v", other.Version, err)
		}
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("the rerun ended as %s", got)
		}
		sound(t, db)
	})
}

func TestRerun_WhatFailedInsideMayHaveBeenMendedMeanwhile(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		detail := child("", source("fetch"), noop("load", "fetch"))
		old := create(t, db, newRun("k", steps(callsDetail(t, detail))))
		carry(t, db, c, "detail/hk/load")
		failed, err := db.LastVersion(t.Context(), "detail", "detail/hk")
		if err != nil {
			t.Fatal(err)
		}
		rerun(t, db, task.Rerun{RunID: failed.ID, OnlyFailed: true})
		carry(t, db, c)
		run := rerun(t, db, task.Rerun{RunID: old.ID, OnlyFailed: true})
		made := claimCall(t, db)
		if made.Run.Version != 0 || made.Run.RerunOf != "" {
			t.Errorf("the step started %+v; want a run that compares with the one that ended well", made.Run)
		}
		if got := status(t, db, run.ID); !got.Live() {
			t.Errorf("the rerun is %s", got)
		}
		sound(t, db)
	})
}

// claimCall claims until it has the element that calls a run, and starts that.
func claimCall(t *testing.T, db *store.DB) task.Created {
	t.Helper()
	for range 5 {
		x, err := db.Exchange(t.Context(), worker, nil, task.Want{N: 1, Types: []string{task.TypeJob}, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range x.Claimed {
			if k.ForEach != nil {
				carryOne(t, db, k, nil)
				continue
			}
			var sub task.SubJob
			if err := json.Unmarshal(k.Settings, &sub); err != nil {
				t.Fatal(err)
			}
			n := sub.Run
			n.Run.Trigger, n.Redo, n.Run.Key = "job", sub.Redo, "detail/"+k.Element
			n.Run.Inputs = json.RawMessage(`{"entity":` + string(valueOf(t, k.Each)) + `}`)
			made, err := db.Spawn(t.Context(), k.Hold, n)
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
	}
	t.Fatal("nothing calls a run")
	return task.Created{}
}
