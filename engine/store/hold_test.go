package store_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func pause(t *testing.T, db *store.DB, subject string) {
	t.Helper()
	fresh, err := db.Pause(t.Context(), task.Action{Actor: "ann", Action: "pause", Subject: subject, Reason: "the bank is closed"})
	if err != nil || !fresh {
		t.Fatalf("Pause(%s) = %t, %v; want true", subject, fresh, err)
	}
}

func resume(t *testing.T, db *store.DB, subject string) {
	t.Helper()
	ended, err := db.Resume(t.Context(), task.Action{Actor: "ann", Action: "resume", Subject: subject})
	if err != nil || !ended {
		t.Fatalf("Resume(%s) = %t, %v; want true", subject, ended, err)
	}
}

func sweep(t *testing.T, db *store.DB, want int) {
	t.Helper()
	n, err := db.Sweep(t.Context(), 1000)
	if err != nil || n != want {
		t.Fatalf("Sweep = %d, %v; want %d", n, err, want)
	}
}

func TestPause_KeepsATypeFromBeingClaimed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		list := steps(source("paused"), limited(source("under"), slots("db", 1)), limited(noop("other"), slots("db", 1)))
		create(t, db, newRun("k", list))
		admit(t, db, 1)
		pause(t, db, "type:src")
		nothing(t, db)  // filtered, though still among the ready
		sweep(t, db, 0) // and now set aside
		sound(t, db)
		if n := count(t, db, "SELECT count(*) FROM task_slot"); n != 0 {
			t.Errorf("%d slots are taken by what is paused, want 0", n)
		}
		admit(t, db, 1)
		got := claim(t, db, 1)
		if got[0].Step != "other" {
			t.Errorf("claimed %v, want the task of another type", names(got))
		}
		holds, err := db.Holds(t.Context())
		if err != nil || len(holds) != 1 || holds[0].Gate != "type:src" || holds[0].Held != 2 || holds[0].Actor != "ann" || holds[0].Reason != "the bank is closed" {
			t.Errorf("Holds = %+v, %v; want type:src with 2 tasks, by ann", holds, err)
		}
		if again, err := db.Pause(t.Context(), task.Action{Actor: "bob", Action: "pause", Subject: "type:src"}); again || err != nil {
			t.Errorf("a second Pause = %t, %v; want false", again, err)
		}
		resume(t, db, "type:src")
		sweep(t, db, 1)
		admit(t, db, 0)
		exchange(t, db, 0, ok(got[0]))
		admit(t, db, 1)
		if got := names(claim(t, db, 2)); !slices.Equal(got, []string{"paused", "under"}) {
			t.Errorf("claimed %v after the pause, want both in order", got)
		}
		if n := count(t, db, "SELECT count(*) FROM audit_log WHERE subject = 'type:src' AND actor = 'ann' AND action IN ('pause', 'resume')"); n != 2 {
			t.Errorf("%d rows in audit_log, want 2", n)
		}
		sound(t, db)
	})
}

func TestPause_KeepsAJobFromBeingClaimedAndWhatIsAtWorkGoesOn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"), noop("b", "a"))))
		other := newRun("k", steps(noop("c")))
		other.Run.Job, other.Job.Name = "other", "other"
		create(t, db, other)
		a := claim(t, db, 1)[0]
		pause(t, db, "job:month-end")
		if got := names(exchange(t, db, 5, ok(a)).Claimed); !slices.Equal(got, []string{"c"}) {
			t.Errorf("claimed %v, want c of the other job", got)
		}
		sweep(t, db, 0)
		pause(t, db, "type:noop")
		resume(t, db, "job:month-end")
		sweep(t, db, 1) // given back, and set aside by the other pause at once
		nothing(t, db)
		sweep(t, db, 0)
		sound(t, db)
		resume(t, db, "type:noop")
		sweep(t, db, 1)
		claim(t, db, 1)
		if ended, err := db.Resume(t.Context(), task.Action{Actor: "ann", Action: "resume", Subject: "type:noop"}); ended || err != nil {
			t.Errorf("a second Resume = %t, %v; want false", ended, err)
		}
		if _, err := db.Pause(t.Context(), task.Action{Actor: "ann", Subject: "circuit:x"}); err == nil {
			t.Error("Pause of a circuit gave no error")
		}
		sound(t, db)
	})
}

func TestPause_HoldsForEveryClaimThatBeginsAfterIt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", parallel(300)))
		var mu sync.Mutex
		var begun []time.Time // of the claims that got something
		stop := make(chan struct{})
		var claimers sync.WaitGroup
		for range 4 {
			claimers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					at := time.Now()
					x, err := db.Exchange(t.Context(), worker, nil, task.Want{N: 2, Types: allTypes, Lease: time.Minute})
					if err != nil {
						t.Error(err)
						return
					}
					if len(x.Claimed) > 0 {
						mu.Lock()
						begun = append(begun, at)
						mu.Unlock()
					}
				}
			})
		}
		for started := false; !started; {
			mu.Lock()
			started = len(begun) > 10
			mu.Unlock()
		}
		pause(t, db, "type:noop")
		paused := time.Now()
		left := count(t, db, "SELECT count(*) FROM task_ready")
		for range 3 {
			if _, err := db.Sweep(t.Context(), 50); err != nil {
				t.Fatal(err)
			}
		}
		close(stop)
		claimers.Wait()
		for _, at := range begun {
			if at.After(paused) {
				t.Errorf("a claim got something that began %s after the pause", at.Sub(paused))
			}
		}
		t.Logf("%d claims before the pause, %d tasks left ready", len(begun), left)
		sound(t, db)
	})
}

func TestResume_KeepsThePauseForDueTimesThatNobodyHasNoted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		now := func() time.Time {
			at, err := db.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		begun := now()
		pause(t, db, "job:settle")
		pause(t, db, "type:query")
		list, err := db.Pauses(t.Context(), begun)
		if err != nil || len(list) != 1 || list[0].Job != "settle" || list[0].Actor != "ann" || list[0].Reason != "the bank is closed" || list[0].Since.Before(begun) || !list[0].Until.IsZero() {
			t.Fatalf("Pauses = %+v, %v; want settle, by ann", list, err)
		}
		before := now()
		resume(t, db, "job:settle")
		resume(t, db, "type:query")
		list, err = db.Pauses(t.Context(), begun)
		if err != nil || len(list) != 1 || list[0].Job != "settle" || list[0].Actor != "ann" || list[0].Until.Before(before) {
			t.Errorf("Pauses = %+v, %v; want that of settle, which is over", list, err)
		}
		if list, err = db.Pauses(t.Context(), now()); err != nil || len(list) != 0 {
			t.Errorf("Pauses = %v, %v; want none that goes on now", list, err)
		}
	})
}
