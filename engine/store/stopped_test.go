package store_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

func TestCancelRun_KeepsWhatIsAtWorkFromMakingMore(t *testing.T) {
	t.Parallel()
	cancel := task.Action{Actor: "test", Reason: "wrong file"}
	for name, more := range map[string]func(t *testing.T, db *store.DB, c task.Claimed) error{
		"elements": func(t *testing.T, db *store.DB, c task.Claimed) error {
			return db.Expand(t.Context(), c.Hold, numbered(3))
		},
		"a run": func(t *testing.T, db *store.DB, c task.Claimed) error {
			_, err := db.Spawn(t.Context(), c.Hold, child("", noop("inner")))
			return err
		},
		"a version": func(t *testing.T, db *store.DB, c task.Claimed) error {
			_, _, err := db.Compare(t.Context(), c.Hold, time.Millisecond)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				run := create(t, db, newRun("k", steps(each(noop("work")), noop("after", "work"), in("on_failure", noop("f")), in("finally", noop("z")))))
				c := claim(t, db, 1)[0]
				if _, err := db.CancelRun(t.Context(), run.ID, cancel); err != nil {
					t.Fatal(err)
				}
				sound(t, db)
				if err := more(t, db, c); !errors.Is(err, step.ErrLeaseLost) {
					t.Errorf("got %v, want %v", err, step.ErrLeaseLost)
				}
				if n := count(t, db, "SELECT (SELECT count(*) FROM run) + (SELECT count(*) FROM task_queue)"); n != 5 {
					t.Errorf("there are %d runs and tasks, want 1 and 4", n)
				}
				settle(t, db)
				want := map[string]task.State{"work": "cancelled", "after": "cancelled", "f": "cancelled", "z": "success"}
				if got := states(t, db, run.ID); !maps.Equal(got, want) {
					t.Errorf("steps are %v, want %v", got, want)
				}
				if got := status(t, db, run.ID); got != task.RunCancelled {
					t.Errorf("the run is %s", got)
				}
			})
		})
	}
}

func TestCancelRun_EndsElementsAndRunsThatAStepWaitsFor(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(each(noop("fan")), task.NewTask{Step: "call", Type: task.TypeJob, Priority: 100}, in("finally", noop("z")))))
		x, err := db.Exchange(t.Context(), worker, nil, task.Want{N: 2, Types: append([]string{task.TypeJob}, allTypes...), Lease: time.Minute})
		if err != nil || len(x.Claimed) != 2 {
			t.Fatalf("claimed %v, %v", names(x.Claimed), err)
		}
		expand(t, db, x.Claimed[0], numbered(3))
		made := spawn(t, db, x.Claimed[1], child("", noop("inner")))
		atWork := claim(t, db, 1)[0]
		if _, err := db.CancelRun(t.Context(), run.ID, task.Action{Actor: "test"}); err != nil {
			t.Fatal(err)
		}
		sound(t, db)
		exchange(t, db, 0, ok(atWork))
		settle(t, db)
		if got, below := status(t, db, run.ID), status(t, db, made.Run.ID); got != task.RunCancelled || below != task.RunCancelled {
			t.Errorf("the run is %s and the one it started %s, want both cancelled", got, below)
		}
		if got := states(t, db, run.ID)["z"]; got != task.Success {
			t.Errorf("finally is %s", got)
		}
	})
}
