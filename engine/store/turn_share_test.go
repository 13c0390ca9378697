package store_test

import (
	"errors"
	"testing"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

func TestTurns_ARunThatAnotherWaitsForSharesItsTurn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, under("caller", "ledger", 1, noop("call"), noop("adopt")))
		elsewhere := child("mine", noop("x"))
		elsewhere.Concurrency = &task.Limit{Key: "ledger", Slots: 1}
		mine := create(t, db, elsewhere)
		stranger := create(t, db, under("other", "ledger", 1, noop("a"), noop("b", "a")))
		for _, c := range claim(t, db, 2) {
			below := child("", noop("inner"))
			if c.Step == "adopt" {
				below = child("mine", noop("x"))
			}
			below.Concurrency = &task.Limit{Key: "ledger", Slots: 1}
			spawn(t, db, c, below)
		}
		turns(t, db, 1) // that of somebody else, which a step waits for now
		sound(t, db)
		inner := claim(t, db, 2)
		if inner[0].Step != "x" || inner[0].RunID != mine.ID || inner[1].Step != "inner" {
			t.Errorf("claimed %v, want what the caller waits for", names(inner))
		}
		nothing(t, db)
		exchange(t, db, 0, ok(inner[0]), ok(inner[1]))
		turns(t, db, 0)
		for _, c := range claim(t, db, 2) {
			exchange(t, db, 0, ok(c))
		}
		turns(t, db, 1)
		if c := claim(t, db, 1)[0]; c.RunID != stranger.ID {
			t.Errorf("then claimed of %s, want of the stranger", c.RunID)
		}
		sound(t, db)
	})
}

// called is a run that takes turns under the key ledger.
func called(key string, tasks ...task.NewTask) task.NewRun {
	n := child(key, tasks...)
	n.Concurrency = &task.Limit{Key: "ledger", Slots: 1}
	return n
}

func TestTurns_ARunThatManyWaitForSharesTheTurnOfAnyOfThem(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		holder := create(t, db, under("holder", "ledger", 1, noop("call")))
		other := create(t, db, newRun("", steps(noop("call"))))
		calls := map[string]task.Claimed{}
		for _, c := range claim(t, db, 2) {
			calls[c.RunID] = c
		}
		mine := spawn(t, db, calls[other.ID], called("mine", noop("x"))).Run
		nothing(t, db)
		for range 2 { // the second as after an answer that was lost
			if got := spawn(t, db, calls[holder.ID], called("mine", noop("x"))); got.Run.ID != mine.ID || !got.Existing {
				t.Fatalf("the one that has the slot started %+v, want to wait for %s", got, mine.ID)
			}
		}
		sound(t, db)
		turns(t, db, 1)
		sound(t, db)
		x := claim(t, db, 1)[0]
		if x.RunID != mine.ID {
			t.Fatalf("claimed of %s, want of the run that both wait for", x.RunID)
		}
		woken := exchange(t, db, 1, ok(x)).Claimed
		if len(woken) != 1 || woken[0].RunID != other.ID {
			t.Errorf("in the end it woke %v, want the one that started it", names(woken))
		}
		if n := count(t, db, "SELECT count(*) FROM run_waiter"); n != 0 {
			t.Errorf("%d tasks are noted to wait for a run that is over", n)
		}
		sound(t, db)
	})
}

func TestTurns_ARunSharesTheTurnOfWhatComesToWaitForThoseThatWaitForIt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		holder := create(t, db, under("holder", "ledger", 1, noop("call")))
		other := create(t, db, newRun("", steps(noop("call"))))
		between := child("between", noop("call"))
		between.Run.Job, between.Job.Name = "between", "between"
		middle := create(t, db, between)
		calls := map[string]task.Claimed{}
		for _, c := range claim(t, db, 3) {
			calls[c.RunID] = c
		}
		mine := spawn(t, db, calls[other.ID], called("mine", noop("x"))).Run
		spawn(t, db, calls[middle.ID], called("mine", noop("x")))
		turns(t, db, 0) // neither of the two has a slot
		spawn(t, db, calls[holder.ID], between)
		turns(t, db, 1)
		if x := claim(t, db, 1)[0]; x.RunID != mine.ID {
			t.Errorf("claimed of %s, want of the run at the end of the line", x.RunID)
		}
		sound(t, db)
	})
}

func TestTurns_ARunThatIsStoppedSharesItsTurnNoMore(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		holder := create(t, db, under("holder", "ledger", 1, noop("call"), noop("long")))
		other := create(t, db, newRun("", steps(noop("call"))))
		var call task.Claimed
		for _, c := range claim(t, db, 3) {
			switch {
			case c.RunID == other.ID:
				spawn(t, db, c, called("mine", noop("x")))
			case c.Step == "call":
				call = c
			}
		}
		spawn(t, db, call, called("mine", noop("x")))
		cancel(t, db, holder.ID)
		turns(t, db, 0) // its other step is still at work
		sound(t, db)
	})
}

func TestSpawn_NoRunWaitsForItselfThroughOneThatItFoundLive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		circle := newRun("circle", steps(noop("call")))
		first := create(t, db, newRun("", steps(noop("call"))))
		second := create(t, db, circle)
		calls := map[string]task.Claimed{}
		for _, c := range claim(t, db, 2) {
			calls[c.RunID] = c
		}
		spawn(t, db, calls[first.ID], child("mine", noop("x")))
		spawn(t, db, calls[second.ID], child("mine", noop("x")))
		x := claim(t, db, 1)[0]
		_, err := db.Spawn(t.Context(), x.Hold, circle)
		var failed *step.PermanentError
		if !errors.As(err, &failed) || failed.Code != "job.waits_for_itself" {
			t.Errorf("a run that waits for what waits for it: %v, want job.waits_for_itself", err)
		}
		sound(t, db)
	})
}
