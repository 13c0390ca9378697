package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestTurns_AKeyIsSharedByJobsEachUnderItsOwnLimit(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		one := create(t, db, under("one", "ledger", 1, noop("a"), noop("b", "a")))
		low := create(t, db, under("two", "ledger", 2, noop("a"), noop("b", "a")))
		wide := create(t, db, under("two", "ledger", 2, noop("a"), noop("b", "a")))
		urgent := under("one", "ledger", 1, noop("a"), noop("b", "a"))
		urgent.Tasks[0].Priority = 1
		first := create(t, db, urgent)
		create(t, db, under("other", "report", 1, noop("a")))
		sound(t, db)
		got := claim(t, db, 3) // one, low, and that of another key
		if names := []string{got[0].RunID, got[1].RunID}; !slices.Equal(names, []string{one.ID, low.ID}) {
			t.Errorf("claimed of %v, want of %s and %s: two at once is what the second allows", names, one.ID, low.ID)
		}
		exchange(t, db, 0, ok(got[2]))
		finish(t, db, got[0])
		turns(t, db, 0) // the urgent one wants to be alone, and holds up those behind it
		waits, err := db.Turns(t.Context(), []string{first.ID, wide.ID})
		if w := waits[first.ID]; err != nil || w.For != low.ID || w.Taken != 1 || w.Slots != 1 || !strings.Contains(w.Why, "1 of 1 taken, by run "+low.ID) {
			t.Errorf("Turns = %+v, %v", waits, err)
		}
		if w := waits[wide.ID]; w.For != first.ID {
			t.Errorf("the one behind waits for %+v, want for %s", w, first.ID)
		}
		sound(t, db)
		finish(t, db, got[1])
		turns(t, db, 2) // and then the one behind, for which one beside it is no matter
		got = claim(t, db, 2)
		if names := []string{got[0].RunID, got[1].RunID}; !slices.Equal(names, []string{first.ID, wide.ID}) {
			t.Errorf("then claimed of %v, want of %s and %s", names, first.ID, wide.ID)
		}
		for _, c := range got {
			finish(t, db, c)
		}
		if n := count(t, db, "SELECT count(*) FROM run_slot"); n != 0 {
			t.Errorf("%d slots are taken in the end", n)
		}
		sound(t, db)
	})
}

func TestTurns_APausedJobLetsOthersThrough(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		pause(t, db, "job:one")
		one := create(t, db, under("one", "ledger", 1, noop("a"), noop("b", "a")))
		two := create(t, db, under("two", "ledger", 1, noop("a"), noop("b", "a")))
		c := claim(t, db, 1)[0]
		if c.RunID != two.ID {
			t.Errorf("claimed of %s, want of the job that is not paused", c.RunID)
		}
		if w, err := db.Turns(t.Context(), []string{one.ID}); err != nil || w[one.ID].Why != "job one is paused" {
			t.Errorf("Turns = %+v, %v", w, err)
		}
		finish(t, db, c)
		turns(t, db, 0)
		sound(t, db)
		resume(t, db, "job:one")
		turns(t, db, 1)
		finish(t, db, claim(t, db, 1)[0])
		sound(t, db)
	})
}

func TestTurns_WhatWaitsUnderOtherKeysCostsANewRunNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		statements := db.CountStatements()
		cost := func(key string) int {
			before := *statements
			create(t, db, under("one", key, 1, noop("a")))
			return *statements - before
		}
		alone := cost("own")
		for i := range 50 {
			cost(fmt.Sprint("other-", i%25)) // every second one waits
		}
		if n := cost("mine"); alone < 5 || n > alone {
			t.Errorf("it takes %d statements where others wait under 25 keys, and %d where nobody does", n, alone)
		}
		claim(t, db, 27)
		nothing(t, db)
		sound(t, db)
	})
}

func TestTurns_ADueTimeThatWaitsForItsJobKeepsItsPlaceUnderItsKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		holder := create(t, db, under("other", "ledger", 1, noop("a"), noop("b", "a")))
		urgent := due(1, task.OverlapQueue)
		urgent.Concurrency = &task.Limit{Key: "ledger", Slots: 1}
		urgent.Tasks[0].Priority = 1
		first := made(t, db, urgent).Run
		late := create(t, db, under("third", "ledger", 2, noop("a")))
		c := claim(t, db, 1)[0]
		if nothing(t, db); c.RunID != holder.ID {
			t.Fatalf("claimed of %s, want of the first", c.RunID)
		}
		sound(t, db)
		finish(t, db, c)
		turns(t, db, 2)
		if got := claim(t, db, 2); got[0].RunID != first.ID || got[1].RunID != late.ID {
			t.Errorf("then claimed of %s and %s, want the due time first", got[0].RunID, got[1].RunID)
		}
		sound(t, db)
	})
}
