package store_test

import (
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestFault_F17_AnUnansweredCommitIsReadBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(noop("a"), noop("b", "a"), noop("c", "b"))))
		a := claim(t, db, 1)[0]
		db.LoseAnswers(2)
		x := exchange(t, db, 5, ok(a))
		if len(x.Lost) != 0 || len(x.Claimed) != 1 || x.Claimed[0].Step != "b" || x.Claimed[0].Attempt != 1 {
			t.Fatalf("after two lost answers: %+v; want b claimed, no attempt spent, nothing lost", x)
		}
		if got := states(t, db, run.ID)["a"]; got != task.Success {
			t.Errorf("a is %s, want success", got)
		}
		sound(t, db)
	})
}

func TestFault_F17_WhatAnUnansweredCommitClaimedIsGivenBackLater(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"))))
		db.LoseAnswers(5) // more than one call tries
		want := task.Want{N: 1, Types: allTypes, Lease: time.Minute}
		if _, err := db.Exchange(t.Context(), worker, nil, want); err == nil {
			t.Fatal("no answer and no error")
		}
		if n := db.Orphans(); n == 0 {
			t.Fatal("the claim of the last try is forgotten")
		}
		x := exchange(t, db, 1)
		if len(x.Claimed) != 1 || x.Claimed[0].Attempt != 1 {
			t.Errorf("the next call got %+v, want the task with no attempt spent", x.Claimed)
		}
		if n := db.Orphans(); n > 4 {
			t.Errorf("%d claims are still waiting to be given back", n)
		}
		sound(t, db)
	})
}

func TestFault_F17_ClaimsAreGivenBackWhenTheReadBackOfOutcomesFails(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"), noop("b"))))
		a := claim(t, db, 1)[0]
		a.Fence += 7        // not to be written, so that the log is asked
		db.FailReadBacks(5) // as many as one call tries
		want := task.Want{N: 1, Types: allTypes, Lease: time.Minute}
		if x, err := db.Exchange(t.Context(), worker, []task.Outcome{ok(a)}, want); err == nil {
			t.Fatalf("got %+v, want an error", x)
		}
		if n := db.Orphans(); n != 1 {
			t.Errorf("%d claims wait to be given back, want the committed one", n)
		}
		x := exchange(t, db, 5, ok(a))
		if len(x.Claimed) != 1 || x.Claimed[0].Step != "b" || x.Claimed[0].Attempt != 1 || x.Claimed[0].Crashes != 0 {
			t.Errorf("the next call got %+v, want b with no attempt spent", x.Claimed)
		}
		if n := db.Orphans(); n != 0 || len(x.Lost) != 1 {
			t.Errorf("%d claims are still waiting, lost = %v; want none, and the outcome of the other fence", n, x.Lost)
		}
		sound(t, db)
	})
}

func TestFault_F17_TheReadBackOfOutcomesIsTriedAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"), noop("b"))))
		a := claim(t, db, 1)[0]
		a.Fence += 7
		db.FailReadBacks(1)
		x := exchange(t, db, 5, ok(a))
		if len(x.Claimed) != 1 || len(x.Lost) != 1 || db.Orphans() != 0 {
			t.Errorf("after one broken look: %+v and %d claims to give back, want b, the lost outcome and none", x, db.Orphans())
		}
	})
}
