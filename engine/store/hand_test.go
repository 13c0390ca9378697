package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// hand finishes tasks and asks for no more than what that readies.
func hand(t *testing.T, db *store.DB, next int, done ...task.Outcome) task.Exchange {
	t.Helper()
	x, err := db.Exchange(t.Context(), worker, done, task.Want{Next: next, Types: []string{"noop"}, HeavyNext: 1, HeavyTypes: []string{"src"}, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestHand_ClaimsWhatAStepReadiesAndNothingElse(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := noop("b", "a")
		s.Timeout, s.Retry = time.Second, task.Retry{MaxAttempts: 3}
		run := create(t, db, newRun("k", steps(noop("a"), s, noop("c", "b"))))
		a := claim(t, db, 1)[0]
		x := hand(t, db, 5, ok(a))
		if len(x.Lost) != 0 || !slices.Equal(names(x.Claimed), []string{"b"}) || x.Readied != 1 {
			t.Fatalf("got %+v, want b", x)
		}
		b := x.Claimed[0]
		if b.Attempt != 1 || b.Fence != 1 || b.Type != "noop" || b.RunID != run.ID || b.Timeout != time.Second || b.Retry.MaxAttempts != 3 ||
			b.Lease != time.Minute || b.At.IsZero() || string(b.Settings) != `{"of":"b"}` || b.Priority != 100 || !b.NeedsRun {
			t.Errorf("claimed %+v", b)
		}
		for query, want := range map[string]int{
			"SELECT count(*) FROM task_ready": 0,
			"SELECT count(*) FROM task_lease": 1,
			"SELECT count(*) FROM task_log":   2,
			"SELECT count(*) FROM task_log WHERE from_state = 'blocked' AND to_state = 'pending' AND attempt = 0 AND fence = 0 AND worker IS NULL": 1,
		} {
			if got := count(t, db, query); got != want {
				t.Errorf("%s = %d, want %d", query, got, want)
			}
		}
		sound(t, db)
		if x = hand(t, db, 5, ok(b)); len(x.Claimed) != 1 {
			t.Fatalf("got %+v, want c", x)
		}
		hand(t, db, 5, ok(x.Claimed[0]))
		if s := status(t, db, run.ID); s != task.RunSuccess {
			t.Errorf("the run is %s", s)
		}
		sound(t, db)
	})
}

func TestHand_FillsNoMoreSlotsThanThereAre(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		list := []task.NewTask{noop("a")}
		for i := range 5 {
			list = append(list, noop(fmt.Sprint("b", i), "a"), source(fmt.Sprint("c", i), "a"))
		}
		create(t, db, newRun("k", list))
		x := hand(t, db, 3, ok(claim(t, db, 1)[0]))
		light, heavy := 0, 0
		for _, c := range x.Claimed {
			if c.Type == "noop" {
				light++
			} else {
				heavy++
			}
		}
		if light > 3 || heavy > 1 || x.Readied != 10 {
			t.Errorf("claimed %v of %d, want at most three of one kind and one of the other", names(x.Claimed), x.Readied)
		}
		if rest := claim(t, db, 10-len(x.Claimed)); len(rest)+len(x.Claimed) != 10 {
			t.Errorf("then claimed %v", names(rest))
		}
		sound(t, db)
	})
}

func TestHand_LeavesWhatIsNotForTheWorkerOrNotYet(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		limited, other := noop("limited", "a"), noop("other", "a")
		limited.Limits = []task.Limit{{Key: "ledger", Slots: 1}}
		other.Type = "elsewhere"
		create(t, db, newRun("k", steps(noop("a"), limited, other, conditional(noop("condition", "a"), "true"), noop("open", "a", "z"), noop("z"))))
		c := claim(t, db, 2)
		x := hand(t, db, 10, ok(c[0]))
		if len(x.Claimed) != 0 || !x.Undecided || !x.Held {
			t.Errorf("got %+v, want nothing claimed, one undecided, one held", x)
		}
		if n := count(t, db, "SELECT count(*) FROM task_ready"); n != 1 {
			t.Errorf("%d tasks are ready, want the one of another worker's type", n)
		}
		sound(t, db)
		if x = hand(t, db, 10, ok(c[1])); !slices.Equal(names(x.Claimed), []string{"open"}) {
			t.Errorf("claimed %v, want what waited for two", names(x.Claimed))
		}
		sound(t, db)
	})
}

func TestHand_ClaimsNothingUnderAPause(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"), noop("b", "a"))))
		a := claim(t, db, 1)[0]
		if _, err := db.Pause(t.Context(), task.Action{Actor: "ann", Subject: "type:noop"}); err != nil {
			t.Fatal(err)
		}
		if x := hand(t, db, 10, ok(a)); len(x.Claimed) != 0 || len(x.Lost) != 0 {
			t.Errorf("got %+v, want nothing", x)
		}
		sound(t, db)
	})
}

func TestHand_AFailureHandsNothingOn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"), noop("b", "a"))))
		if x := hand(t, db, 10, fail(claim(t, db, 1)[0])); len(x.Claimed) != 0 || !x.Undecided {
			t.Errorf("got %+v, want b undecided", x)
		}
		sound(t, db)
	})
}

func TestHand_AnAttemptThatLostItsLeaseHandsNothingOn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"), noop("b", "a"))))
		a := claim(t, db, 1)[0]
		a.Fence--
		if x := hand(t, db, 10, ok(a)); len(x.Claimed) != 0 || len(x.Lost) != 1 {
			t.Errorf("got %+v, want the outcome lost", x)
		}
		sound(t, db)
	})
}

func TestFault_F17_WhatAnUnansweredCommitHandedOnIsClaimedAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"), noop("b", "a"))))
		a := claim(t, db, 1)[0]
		db.LoseAnswers(2)
		x := hand(t, db, 10, ok(a))
		if len(x.Lost) != 0 || !slices.Equal(names(x.Claimed), []string{"b"}) || x.Claimed[0].Attempt != 1 {
			t.Errorf("after two lost answers: %+v; want b, no attempt spent, nothing lost", x)
		}
		sound(t, db)
	})
}
