package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// child is a run of another job.
func child(key string, tasks ...task.NewTask) task.NewRun {
	n := newRun(key, tasks)
	n.Run.Job, n.Job.Name = "detail", "detail"
	n.Run.Trigger = "job"
	return n
}

func spawn(t *testing.T, db *store.DB, c task.Claimed, n task.NewRun) task.Created {
	t.Helper()
	made, err := db.Spawn(t.Context(), c.Hold, n)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestSpawn_WakesTheTaskWhenTheRunIsOver(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, end := range []func(task.Claimed) task.Outcome{ok, fail} {
			run := create(t, db, newRun("", steps(noop("call"), noop("after", "call"))))
			call := claim(t, db, 1)[0]
			made := spawn(t, db, call, child("", noop("inner")))
			if made.Existing || made.Run.ParentTask != call.TaskID || made.Run.Job != "detail" {
				t.Errorf("made %+v", made)
			}
			sound(t, db)
			if again := spawn(t, db, call, child("", noop("inner"))); again.Run.ID != made.Run.ID {
				t.Errorf("asked again after the answer was lost it made %s beside %s", again.Run.ID, made.Run.ID)
			}
			if r := row(t, db, run.ID, "call", ""); r.State != task.Waiting || r.Reason != task.ReasonChild || r.Attempt != 0 {
				t.Errorf("the task is %s %s in attempt %d", r.State, r.Reason, r.Attempt)
			}
			inner := claim(t, db, 1)[0]
			x := exchange(t, db, 1, end(inner))
			if len(x.Claimed) != 1 || x.Claimed[0].TaskID != call.TaskID || x.Claimed[0].Woken != task.WakeChild {
				t.Fatalf("after the run claimed %+v, want the task that waited for it", x.Claimed)
			}
			scope, err := db.Child(t.Context(), call.TaskID, []string{"inner"})
			if err != nil || scope.Run.ID != made.Run.ID || scope.Run.Status.Live() || scope.Steps["inner"].State != end(inner).To {
				t.Errorf("Child = %+v, %v", scope, err)
			}
			if failed := scope.Failure != nil; failed != (scope.Run.Status == task.RunError) {
				t.Errorf("the run is %s, its failure %+v", scope.Run.Status, scope.Failure)
			}
			exchange(t, db, 0, ok(x.Claimed[0]))
			exchange(t, db, 0, ok(claim(t, db, 1)[0]))
			sound(t, db)
		}
	})
}

func TestSpawn_DropsALostClaim(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("call"))))
		call := claim(t, db, 1)[0]
		exchange(t, db, 0, task.Outcome{Hold: call.Hold, To: task.Pending, Reason: task.ReasonRetry})
		if _, err := db.Spawn(t.Context(), call.Hold, child("", noop("inner"))); !errors.Is(err, step.ErrLeaseLost) {
			t.Errorf("Spawn = %v, want %v", err, step.ErrLeaseLost)
		}
		if n := count(t, db, "SELECT count(*) FROM run"); n != 1 {
			t.Errorf("there are %d runs, want 1", n)
		}
		sound(t, db)
	})
}

func TestSpawn_WaitsForALiveRunOfTheKey(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, clock *clock) {
		live := create(t, db, child("2026-10", noop("inner")))
		inner := claim(t, db, 1)[0]
		create(t, db, newRun("one", steps(noop("call"))))
		create(t, db, newRun("two", steps(noop("call"))))
		calls := claim(t, db, 2)
		for _, c := range calls {
			if made := spawn(t, db, c, child("2026-10", noop("inner"))); !made.Existing || made.Run.ID != live.ID {
				t.Errorf("made %+v, want the run that is live", made)
			}
		}
		sound(t, db)
		first := exchange(t, db, 5, ok(inner)).Claimed
		if len(first) != 1 || first[0].TaskID != calls[0].TaskID || first[0].Woken != task.WakeChild {
			t.Fatalf("the end of the run woke %+v, want the first that waits", first)
		}
		clock.move(31 * time.Second)
		if n, _, err := db.Promote(t.Context(), 10); n != 1 || err != nil {
			t.Fatalf("Promote = %d, %v; want the second", n, err)
		}
		second := claim(t, db, 1)[0]
		if second.Woken != task.WakeExpired {
			t.Errorf("the second is woken as %q", second.Woken)
		}
		made := spawn(t, db, second, child("2026-10", noop("inner")))
		if made.Existing || made.Run.Version != 0 {
			t.Errorf("asked again it made %+v, want a run that compares", made)
		}
		sound(t, db)
	})
}

func TestSpawn_RefusesARunThatWaitsForIt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("call"))))
		outer := claim(t, db, 1)[0]
		spawn(t, db, outer, child("k", noop("call")))
		inner := claim(t, db, 1)[0]
		for _, again := range []task.NewRun{newRun("k", steps(noop("call"))), child("k", noop("call"))} {
			var permanent *step.PermanentError
			if _, err := db.Spawn(t.Context(), inner.Hold, again); !errors.As(err, &permanent) || !strings.Contains(err.Error(), "waits for this task") {
				t.Errorf("a run of %s that waits for itself: %v", again.Run.Job, err)
			}
		}
		sound(t, db)
		for range 40 {
			if _, err := db.Spawn(t.Context(), inner.Hold, child("", noop("call"))); err != nil {
				if !strings.Contains(err.Error(), "without an end") {
					t.Error(err)
				}
				return
			}
			inner = claim(t, db, 1)[0]
		}
		t.Error("a job can call itself without an end")
	})
}

func TestSpawn_ARepeatedRunWakesTheTaskToo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, child("k", source("bill"), noop("inner", "bill")))
		work(t, db)
		create(t, db, newRun("", steps(noop("call"))))
		call := claim(t, db, 1)[0]
		made := spawn(t, db, call, child("k", source("bill"), noop("inner", "bill")))
		bill := claim(t, db, 1)[0]
		o := ok(bill)
		o.Digest = "same"
		compare := exchange(t, db, 1, o).Claimed[0]
		if _, _, err := db.Compare(t.Context(), compare.Hold, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if got := status(t, db, made.Run.ID); got != task.RunRepeated {
			t.Fatalf("the run is %s, want repeated", got)
		}
		woken := claim(t, db, 1)[0]
		if woken.TaskID != call.TaskID || woken.Woken != task.WakeChild {
			t.Errorf("claimed %+v, want the task that waited", woken)
		}
		scope, err := db.Child(t.Context(), call.TaskID, []string{"inner"})
		if err != nil || scope.Steps["inner"].State != task.Success {
			t.Errorf("Child = %+v, %v; want the steps of the run that had done it", scope, err)
		}
		sound(t, db)
	})
}
