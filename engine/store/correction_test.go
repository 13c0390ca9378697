package store_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// reading works until nothing is left; sources read what is given.
func reading(t *testing.T, db *store.DB, digest string) {
	t.Helper()
	var done []task.Outcome
	for {
		x := exchange(t, db, 100, done...)
		if done = nil; len(x.Claimed) == 0 {
			return
		}
		for _, c := range x.Claimed {
			if c.Type == task.TypeCompare {
				if _, _, err := db.Compare(t.Context(), c.Hold, time.Millisecond); err != nil {
					t.Fatal(err)
				}
				continue
			}
			o := ok(c)
			if c.Type == "src" {
				o.Digest = digest
			}
			done = append(done, o)
		}
	}
}

// over makes a run, works at it and returns it as it ended.
func over(t *testing.T, db *store.DB, n task.NewRun, digest string) task.Run {
	t.Helper()
	id := create(t, db, n).ID
	reading(t, db, digest)
	run, err := db.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func set(step, value string) map[string]map[string]json.RawMessage {
	return map[string]map[string]json.RawMessage{step: {"of": json.RawMessage(`"` + value + `"`)}}
}

// corrections returns the sentences about what holds, and about what was left aside.
func corrections(t *testing.T, db *store.DB, run task.Run) (held, left string) {
	t.Helper()
	h, l, err := db.Corrections(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return task.Corrections(h), task.Corrections(l)
}

func wantText(t *testing.T, what, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%s: %q does not say %q", what, got, part)
		}
	}
	if len(parts) == 0 && got != "" {
		t.Errorf("%s: %q, want nothing", what, got)
	}
}

// What a person had a source read stands as long as the job itself finds nothing new.
func TestCompare_KeepsWhatWasSetByHandWhileNothingNewComes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		job := newRun("k", steps(source("bill"), noop("lines", "bill")))
		first := over(t, db, job, "cut")
		second := rerun(t, db, task.Rerun{RunID: first.ID, From: "bill", Overrides: set("bill", "whole.csv")})
		reading(t, db, "whole")
		third := rerun(t, db, task.Rerun{RunID: second.ID, From: "lines"}) // takes over what the second read
		reading(t, db, "nothing asks for it")

		again := over(t, db, job, "cut")
		if again.Status != task.RunRepeated || again.RepeatedOf != third.ID {
			t.Fatalf("asked again it is %s of %s, want repeated of version 3", again.Status, again.RepeatedOf)
		}
		wantText(t, "the reason of the repeated run", again.Reason, "kept as it was set by hand: version 2, by ann at ", "(the bill was corrected): bill.of = whole.csv")
		held, left := corrections(t, db, again)
		wantText(t, "what holds", held, "version 2, by ann", "bill.of = whole.csv")
		wantText(t, "what was left aside", left)

		next := over(t, db, job, "new")
		if next.Status != task.RunSuccess || next.Version != 4 {
			t.Fatalf("with a new file it is %s in version %d, want version 4", next.Status, next.Version)
		}
		wantText(t, "the reason of the next version", next.Reason, "without what was set by hand before: version 2, by ann at ", "bill.of = whole.csv")
		held, left = corrections(t, db, next)
		wantText(t, "what holds", held)
		wantText(t, "what was left aside", left, "version 2, by ann", "bill.of = whole.csv")

		last := over(t, db, job, "new")
		if last.Status != task.RunRepeated || last.Reason != "" {
			t.Errorf("after that it is %s because of %q, want repeated and nothing to say", last.Status, last.Reason)
		}
		sound(t, db)
	})
}

// A version that failed is followed at once: what was set by hand for it is not in the next.
func TestCreateRun_SaysWhatTheVersionBeforeHadSetByHand(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		job := newRun("k", steps(source("bill"), noop("lines", "bill"), noop("load", "lines")))
		first := create(t, db, job)
		failAt(t, db, "lines")
		second := rerun(t, db, task.Rerun{RunID: first.ID, From: "lines", Overrides: set("lines", "whole.csv"), Inputs: json.RawMessage(`{"b":2,"a":"x"}`)})
		failAt(t, db, "load")
		wantText(t, "the rerun", reasonOf(t, db, second.ID), "the bill was corrected")

		next := create(t, db, job)
		if next.Version != 3 {
			t.Fatalf("the next is version %d, want 3", next.Version)
		}
		wantText(t, "the reason of the next version", next.Reason, "without what was set by hand before: version 2, by ann at ", "lines.of = whole.csv, input b = 2")
		reading(t, db, "x")

		given := newRun("k", steps(source("bill"), noop("lines", "bill"), noop("load", "lines")))
		given.Run.Inputs, given.Again, given.Run.Reason = json.RawMessage(`{"b":2,"a":"x"}`), true, "asked for"
		given.Tasks[1].Settings = json.RawMessage(`{"of":"whole.csv"}`)
		fourth := rerun(t, db, task.Rerun{RunID: second.ID, OnlyFailed: true})
		reading(t, db, "x")
		held, _ := corrections(t, db, fourth)
		wantText(t, "what is taken over", held, "version 2, by ann", "lines.of = whole.csv, input b = 2")
		_, left := corrections(t, db, create(t, db, given))
		wantText(t, "what the job says by now itself", left)
		sound(t, db)
	})
}

func reasonOf(t *testing.T, db *store.DB, id string) string {
	t.Helper()
	run, err := db.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run.Reason
}

// A step that runs again as the job's file has it has lost what was set for it.
func TestRerun_FromTheFileDropsWhatWasSetByHand(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		job := newRun("k", steps(source("bill"), noop("lines", "bill"), noop("load", "lines")))
		first := over(t, db, job, "cut")
		second := rerun(t, db, task.Rerun{RunID: first.ID, From: "lines", Overrides: set("lines", "whole.csv")})
		reading(t, db, "cut")
		third := rerun(t, db, task.Rerun{RunID: second.ID, From: "lines", Now: &job})
		reading(t, db, "cut")
		if held, _ := corrections(t, db, third); held != "" || third.Overrides != nil {
			t.Errorf("the third version has %s by %q, want nothing set by hand", third.Overrides, held)
		}
		fourth := rerun(t, db, task.Rerun{RunID: second.ID, From: "load", Now: &job})
		reading(t, db, "cut")
		held, _ := corrections(t, db, fourth)
		wantText(t, "what is taken over", held, "lines.of = whole.csv")
		sound(t, db)
	})
}
