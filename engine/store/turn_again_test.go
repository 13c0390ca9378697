package store_test

import (
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestTurns_ARedrivenRunTakesATurnAgain(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		n := under("month-end", "ledger", 1, noop("a"), noop("b", "a"), finally(noop("z")))
		n.Run.Timeout = time.Minute
		run := create(t, db, n)
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		decideAll(t, db)
		nextPhases(t, db)
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		other := create(t, db, under("other", "ledger", 1, noop("a"), noop("b", "a")))
		redrive(t, db, store.DeadFilter{}, 0)
		sound(t, db)
		at := claim(t, db, 1)[0]
		if at.RunID != other.ID {
			t.Fatalf("claimed of run %s, want of the one that has the turn", at.RunID)
		}
		nothing(t, db)
		c.move(time.Hour)
		if n, err := db.Expire(t.Context(), 10); n != 0 || err != nil {
			t.Errorf("Expire = %d, %v; want the time that it waits not to count", n, err)
		}
		finish(t, db, at)
		turns(t, db, 1)
		sound(t, db)
		at = claim(t, db, 1)[0]
		if at.RunID != run.ID || status(t, db, run.ID) != task.RunRunning {
			t.Errorf("then claimed of %s, which is %s", at.RunID, status(t, db, at.RunID))
		}
		c.move(2 * time.Minute)
		if n, err := db.Expire(t.Context(), 10); n != 1 || err != nil {
			t.Errorf("Expire = %d, %v; want its whole time from then", n, err)
		}
		exchange(t, db, 0, ok(at))
		sound(t, db)
	})
}

func TestTurns_ARedriveAtARateKeepsItsDueTimes(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		create(t, db, under("month-end", "ledger", 1, noop("a"), noop("b"), noop("c")))
		for _, x := range claim(t, db, 3) {
			exchange(t, db, 0, fail(x))
		}
		redrive(t, db, store.DeadFilter{}, 0.1)
		if n := count(t, db, "SELECT count(*) FROM task_later"); n != 0 {
			t.Errorf("%d tasks stand in task_later though their run waits for its turn", n)
		}
		sound(t, db)
		turns(t, db, 1)
		sound(t, db)
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		nothing(t, db)
		c.move(time.Minute)
		if _, _, err := db.Promote(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		for _, x := range claim(t, db, 2) {
			exchange(t, db, 0, ok(x))
		}
		sound(t, db)
	})
}

func TestTurns_ARerunTakesTheTurnOfItsJob(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		old := create(t, db, under("month-end", "ledger", 1, noop("a"), noop("b", "a")))
		finish(t, db, claim(t, db, 1)[0])
		create(t, db, under("other", "ledger", 1, noop("a"), noop("b", "a")))
		again := rerun(t, db, task.Rerun{RunID: old.ID, From: "b"})
		sound(t, db)
		c := claim(t, db, 1)[0]
		nothing(t, db)
		finish(t, db, c)
		turns(t, db, 1)
		if c = claim(t, db, 1)[0]; c.RunID != again.ID || c.Step != "b" {
			t.Errorf("then claimed %s of %s, want b of the rerun", c.Step, c.RunID)
		}
		exchange(t, db, 0, ok(c))
		sound(t, db)
	})
}

func TestTurns_ACancelOfARedrivenRunThatWaits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		again := made(t, db, due(1, task.OverlapSkip)).Run
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		decideAll(t, db)
		made(t, db, due(2, task.OverlapSkip))
		redrive(t, db, store.DeadFilter{}, 0)
		if w, err := db.Turns(t.Context(), []string{again.ID}); err != nil || len(w) != 1 {
			t.Errorf("Turns = %+v, %v; want the redriven run to wait for the one that is live", w, err)
		}
		sound(t, db)
		cancel(t, db, again.ID)
		if n := count(t, db, "SELECT count(*) FROM run_turn"); n != 0 {
			t.Errorf("%d runs wait for their turn after the only one was cancelled", n)
		}
		if got := occurrence(t, db, 1); got != "caught_up: late 1!" {
			t.Errorf("its due time is %q, want it as it was", got)
		}
		finish(t, db, claim(t, db, 1)[0])
		sound(t, db)
	})
}
