package store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func rerun(t *testing.T, db *store.DB, r task.Rerun) task.Run {
	t.Helper()
	r.Action = task.Action{Actor: "ann", Reason: "the bill was corrected"}
	run, err := db.Rerun(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// failAt works and fails the steps of that name, elements by their names.
func failAt(t *testing.T, db *store.DB, names ...string) {
	t.Helper()
	var done []task.Outcome
	for {
		x := exchange(t, db, 100, done...)
		done = nil
		for _, c := range x.Claimed {
			o := ok(c)
			o.Outputs = json.RawMessage(`{"of":"` + c.Step + c.Element + `"}`)
			for _, name := range names {
				if name == c.Step || name == c.Step+"["+c.Element+"]" {
					o = fail(c)
				}
			}
			if c.ForEach != nil && c.Woken == "" {
				if err := db.Expand(t.Context(), c.Hold, []task.Element{{Key: "hk", Value: []byte("1")}, {Key: "cn", Value: []byte("2")}}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			done = append(done, o)
		}
		decided := decideAll(t, db)
		n, err := db.NextPhase(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Claimed) == 0 && !decided && n == 0 {
			return
		}
	}
}

func TestRerun_FromAStepReusesWhatCameBefore(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		old := create(t, db, newRun("k", steps(source("a"), noop("b", "a"), noop("c", "b"), noop("other", "a"), finally(noop("z")))))
		failAt(t, db)
		before := picture(t, db, old.ID)
		run := rerun(t, db, task.Rerun{RunID: old.ID, From: "b", Overrides: map[string]map[string]json.RawMessage{"b": {"of": json.RawMessage(`"x"`)}}})
		if run.Version != 2 || run.RerunOf != old.ID || run.Actor != "ann" || string(run.Overrides) == "" {
			t.Errorf("the rerun is %+v; want version 2 that says what it is", run)
		}
		sound(t, db)
		got := states(t, db, run.ID)
		if got["a"] != task.Success || got["other"] != task.Success || got["b"] != task.Pending || got["c"] != task.Blocked || got["z"] != task.Blocked {
			t.Errorf("steps = %v", got)
		}
		b := claim(t, db, 1)[0]
		if b.Step != "b" || string(b.Settings) != `{"of":"x"}` {
			t.Errorf("claimed %s with %s, want b with its override", b.Step, b.Settings)
		}
		b.Refs = []string{"a"}
		scope, err := db.Scope(t.Context(), b)
		if err != nil || string(scope.Steps["a"].Outputs) != `{"of":"a"}` {
			t.Errorf("b sees %s of a, %v; want the old outputs", scope.Steps["a"].Outputs, err)
		}
		exchange(t, db, 0, ok(b))
		failAt(t, db)
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("the rerun ended as %s", got)
		}
		if after := picture(t, db, old.ID); after != before {
			t.Errorf("the rerun changed the old run:\n%s\nbefore\n%s", after, before)
		}
		if n := count(t, db, "SELECT count(*) FROM audit_log WHERE action = 'rerun' AND subject = 'run:"+old.ID+"'"); n != 1 {
			t.Errorf("%d rows in the audit log, want 1", n)
		}
		sound(t, db)
	})
}

func TestRerun_OnlyFailedKeepsElementsThatEndedWell(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		each := noop("each", "a")
		each.ForEach, each.MaxParallel = json.RawMessage(`[1, 2]`), 1
		old := create(t, db, newRun("k", steps(noop("a"), conditional(noop("no", "a"), "no"), each, noop("after", "each"))))
		failAtHeld(t, db, "each[hk]", "each[]")
		if got := status(t, db, old.ID); got != task.RunError {
			t.Fatalf("the run is %s", got)
		}
		sound(t, db)
		run := rerun(t, db, task.Rerun{RunID: old.ID, OnlyFailed: true})
		sound(t, db)
		failAtHeld(t, db)
		c.move(5 * time.Second) // the step looks again for its elements
		if _, _, err := db.Promote(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		failAtHeld(t, db)
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("the rerun ended as %s: %v", got, states(t, db, run.ID))
		}
		if n := count(t, db, "SELECT count(*) FROM task_queue WHERE run_id = '"+run.ID+"' AND reason = 'reused'"); n != 2 {
			t.Errorf("%d tasks are reused, want a and each[cn]", n)
		}
		sound(t, db)
	})
}

// failAtHeld is failAt for tasks under limits.
func failAtHeld(t *testing.T, db *store.DB, names ...string) {
	t.Helper()
	for {
		failAt(t, db, names...)
		n, _, err := db.Admit(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

func TestRerun_OneElementAlone(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		each := noop("each", "a")
		each.ForEach = json.RawMessage(`[1, 2]`)
		old := create(t, db, newRun("k", steps(noop("a"), each, noop("after", "each"), finally(noop("z")))))
		failAt(t, db)
		run := rerun(t, db, task.Rerun{RunID: old.ID, Step: "each[hk]"})
		sound(t, db)
		failAt(t, db)
		c.move(5 * time.Second)
		if _, _, err := db.Promote(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		failAt(t, db)
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("the rerun ended as %s: %v", got, states(t, db, run.ID))
		}
		if n := count(t, db, "SELECT count(*) FROM task_queue WHERE run_id = '"+run.ID+"' AND element = 'hk' AND fence = 1"); n != 1 {
			t.Errorf("the element ran %d times, want once", n)
		}
		if got := states(t, db, run.ID); got["after"] != task.Skipped || got["z"] != task.Skipped || run.JobDigest != "part of sha256:1" {
			t.Errorf("steps = %v of job %s; want what was not asked for skipped", got, run.JobDigest)
		}
		if whole := rerun(t, db, task.Rerun{RunID: run.ID, From: "after"}); whole.JobDigest != "sha256:1" {
			t.Errorf("going on from there gives the digest %s", whole.JobDigest)
		}
		sound(t, db)
		failAt(t, db)
		if _, err := db.Rerun(t.Context(), task.Rerun{RunID: old.ID, Step: "each[xx]"}); err == nil || !strings.Contains(err.Error(), "it has hk, cn") {
			t.Errorf("rerun of no element: %v", err)
		}
		sound(t, db)
	})
}

func TestRerun_OfAnArchivedRun(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		old := create(t, db, newRun("k", steps(noop("a"), noop("b", "a"))))
		failAt(t, db, "b")
		c.move(2 * time.Hour)
		archive(t, db)
		run := rerun(t, db, task.Rerun{RunID: old.ID, OnlyFailed: true})
		sound(t, db)
		failAt(t, db)
		if got := states(t, db, run.ID); got["a"] != task.Success || got["b"] != task.Success {
			t.Errorf("steps = %v", got)
		}
		sound(t, db)
	})
}

func TestRerun_RefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		old := create(t, db, newRun("k", steps(noop("a"), finally(noop("z")))))
		var state *store.RunStateError
		if _, err := db.Rerun(t.Context(), task.Rerun{RunID: old.ID}); !errors.As(err, &state) || state.Status != task.RunPending {
			t.Errorf("rerun of a live run: %v", err)
		}
		failAt(t, db)
		for want, r := range map[string]task.Rerun{
			`no step "x"; it has a, z`: {RunID: old.ID, From: "x"},
			"belongs to finally":       {RunID: old.ID, Step: "z"},
			"no step of run":           {RunID: old.ID, OnlyFailed: true},
			`sets no "off" there; it`:  {RunID: old.ID, Overrides: map[string]map[string]json.RawMessage{"a": {"off": json.RawMessage(`"x"`)}}},
			"not an expression":        {RunID: old.ID, Overrides: map[string]map[string]json.RawMessage{"a": {"of": json.RawMessage(`"${{ run.id }}"`)}}},
		} {
			if _, err := db.Rerun(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("rerun %+v: %v; want %s", r, err, want)
			}
		}
		live := create(t, db, task.NewRun{Run: newRun("k", nil).Run, Again: true, Tasks: steps(noop("a")), Job: newRun("k", nil).Job})
		if _, err := db.Rerun(t.Context(), task.Rerun{RunID: old.ID}); !errors.As(err, &state) || state.Run != live.ID {
			t.Errorf("rerun while the key is live: %v, want an error that names run %s", err, live.ID)
		}
		sound(t, db)
	})
}

func TestRerun_TakesStepsThatRunAgainFromTheJobsFile(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		list := []task.NewTask{noop("a"), noop("b", "a"), each(noop("each", "b")), noop("c", "each")}
		old := create(t, db, newRun("k", list))
		failAt(t, db, "b")
		mended := newRun("k", steps(noop("a"), noop("b", "a"), each(noop("each", "b")), conditional(noop("c", "each"), "no")))
		mended.Run.JobDigest, mended.Job.Digest = "sha256:2", "sha256:2"
		mended.Tasks[1].Settings, mended.Tasks[1].Retry = json.RawMessage(`{"of":"mended"}`), task.Retry{MaxAttempts: 7}
		run := rerun(t, db, task.Rerun{RunID: old.ID, OnlyFailed: true, Now: &mended, Inputs: json.RawMessage(`{"a":"y"}`)})
		sound(t, db)
		if run.JobDigest != "sha256:2" || string(run.Inputs) != `{"a":"y"}` {
			t.Errorf("the rerun is of %s with %s", run.JobDigest, run.Inputs)
		}
		b := claim(t, db, 1)[0]
		if b.Step != "b" || string(b.Settings) != `{"of":"mended"}` || b.Retry.MaxAttempts != 7 {
			t.Errorf("claimed %s with %s and %+v, want b as it is mended", b.Step, b.Settings, b.Retry)
		}
		exchange(t, db, 0, ok(b))
		failAt(t, db)
		c.move(5 * time.Second)
		if got := states(t, db, run.ID); got["c"] != task.Skipped || got["a"] != task.Success {
			t.Errorf("steps = %v; want c skipped by its new condition", got)
		}
		sound(t, db)
		changed := mended
		changed.Tasks = append([]task.NewTask{}, mended.Tasks...)
		changed.Tasks[0].Settings, changed.Run.JobDigest = json.RawMessage(`{"of":"other"}`), "sha256:3"
		if mixed := rerun(t, db, task.Rerun{RunID: old.ID, OnlyFailed: true, Now: &changed}); mixed.JobDigest != old.JobDigest {
			t.Errorf("a rerun that reuses a step which has changed has the digest %s, want that of the old run", mixed.JobDigest)
		}
		sound(t, db)
	})
}

func TestRerun_RefusesAFileWithAnotherGraph(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		old := create(t, db, newRun("k", steps(noop("a"), noop("b", "a"), each(noop("each", "a")), finally(noop("z")))))
		failAt(t, db, "b")
		other := each(noop("each", "a"))
		other.ForEach = json.RawMessage(`[1, 2, 3]`)
		for want, r := range map[string]task.Rerun{
			"step x is new":                    {From: "b", Now: &task.NewRun{Tasks: steps(noop("a"), noop("b", "a"), each(noop("each", "a")), finally(noop("z")), noop("x"))}},
			"step z is gone":                   {From: "b", Now: &task.NewRun{Tasks: steps(noop("a"), noop("b", "a"), each(noop("each", "a")))}},
			"step b needs [] and needed [a]":   {From: "b", Now: &task.NewRun{Tasks: steps(noop("a"), noop("b"), each(noop("each", "a")), finally(noop("z")))}},
			"step z belongs to main":           {From: "b", Now: &task.NewRun{Tasks: steps(noop("a"), noop("b", "a"), each(noop("each", "a")), noop("z"))}},
			"step each runs for each element":  {From: "b", Now: &task.NewRun{Tasks: steps(noop("a"), noop("b", "a"), noop("each", "a"), finally(noop("z")))}},
			"step each runs for other element": {Step: "each[hk]", Now: &task.NewRun{Tasks: steps(noop("a"), noop("b", "a"), other, finally(noop("z")))}},
		} {
			r.RunID = old.ID
			var graph *task.GraphError
			if _, err := db.Rerun(t.Context(), r); !errors.As(err, &graph) || !strings.Contains(err.Error(), want) {
				t.Errorf("rerun: %v; want %s", err, want)
			}
		}
		sound(t, db)
	})
}
