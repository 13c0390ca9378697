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

func TestExchange_GivesTheOldestTheirShareWhateverTheirPriority(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for i, p := range []int{300, 200, 100, 100, 100} {
			s := noop(fmt.Sprint("s", i))
			s.Priority = p
			create(t, db, newRun(fmt.Sprint(i), steps(s)))
		}
		x, err := db.Exchange(t.Context(), worker, nil, task.Want{N: 3, Oldest: 1, Types: allTypes, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if got := names(x.Claimed); !slices.Equal(got, []string{"s2", "s3", "s0"}) {
			t.Errorf("claimed %v, want the oldest and the two most urgent, in order of priority", got)
		}
		if got := names(exchange(t, db, 5).Claimed); !slices.Equal(got, []string{"s4", "s1"}) {
			t.Errorf("then claimed %v, want the rest", got)
		}
		sound(t, db)
	})
}

func TestExchange_CountsHeavySlotsByThemselves(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"), noop("b"), source("x"), source("y"), source("z"))))
		x, err := db.Exchange(t.Context(), worker, nil, task.Want{N: 1, Types: []string{"noop"}, Heavy: 2, HeavyTypes: []string{"src"}, Lease: time.Minute})
		if err != nil || !slices.Equal(names(x.Claimed), []string{"a", "x", "y"}) {
			t.Errorf("claimed %v, %v; want one of one kind, two of the other", names(x.Claimed), err)
		}
		sound(t, db)
	})
}

func TestExchange_TellsOfDownstreamsAndNotesTheDead(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var list []task.NewTask
		for i := range 5 {
			s := noop(fmt.Sprint("s", i))
			s.Circuit = "fetch/bank"
			list = append(list, s)
		}
		create(t, db, newRun("k", append(list, noop("plain"))))
		c := claim(t, db, 6)
		if c[0].Circuit != "fetch/bank" || c[5].Circuit != "" {
			t.Errorf("circuits = %q, %q", c[0].Circuit, c[5].Circuit)
		}
		end := func(i int, to task.State, class task.Class) task.Outcome {
			return task.Outcome{Hold: c[i].Hold, To: to, Reason: task.ReasonRetry, Failure: &task.Failure{Class: class, Message: "no"}}
		}
		exchange(t, db, 0, ok(c[0]), end(1, task.Pending, task.TransientFailure), end(2, task.Error, task.TimeoutFailure),
			end(3, task.Error, task.PermanentFailure), end(4, task.Pending, task.InfrastructureFailure), end(5, task.Error, task.TransientFailure))
		if good, bad := count(t, db, "SELECT sum(good) FROM circuit_count"), count(t, db, "SELECT sum(bad) FROM circuit_count"); good != 1 || bad != 2 {
			t.Errorf("counted %d good and %d bad, want 1 and 2", good, bad)
		}
		if n := count(t, db, "SELECT count(*) FROM dead_letter WHERE class = 'timeout' OR class = 'permanent' OR class = 'transient'"); n != 3 {
			t.Errorf("%d dead letters, want 3", n)
		}
		sound(t, db)
	})
}

func TestExchange_LetsNoAttemptOfAStoppedRunComeBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(noop("a"), noop("b"), noop("c"))))
		c := claim(t, db, 3)
		write(t, db, "UPDATE run SET stopped = 'cancelled'")
		write(t, db, "UPDATE task_queue SET stop = 'cancelled'")
		exchange(t, db, 0, ok(c[0]),
			task.Outcome{Hold: c[1].Hold, To: task.Pending, Reason: task.ReasonRetry, Delay: time.Minute},
			task.Outcome{Hold: c[2].Hold, To: task.Pending, Reason: task.ReasonReleased, Unspent: true})
		got := states(t, db, run.ID)
		if got["a"] != task.Success || got["b"] != task.Cancelled || got["c"] != task.Cancelled {
			t.Errorf("states = %v; want a success, the others cancelled", got)
		}
		if s := status(t, db, run.ID); s != task.RunCancelled {
			t.Errorf("status = %s, want cancelled", s)
		}
		sound(t, db)
	})
}

func TestExchange_WaitsAndWakesWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, clock *clock) {
		run := create(t, db, newRun("k", steps(noop("a"), noop("never"))))
		c := claim(t, db, 2)
		exchange(t, db, 0, task.Outcome{Hold: c[0].Hold, To: task.Waiting, Unspent: true, Delay: time.Hour}, task.Outcome{Hold: c[1].Hold, To: task.Waiting, Unspent: true})
		if got := states(t, db, run.ID); got["a"] != task.Waiting || got["never"] != task.Waiting {
			t.Fatalf("states = %v, want both waiting", got)
		}
		sound(t, db)
		clock.move(2 * time.Hour)
		if n, next, err := db.Promote(t.Context(), 10); n != 1 || next != 0 || err != nil {
			t.Fatalf("Promote = %d, %s, %v; want 1, 0", n, next, err)
		}
		again := claim(t, db, 1)[0]
		if again.Step != "a" || again.Woken != task.WakeExpired || again.Attempt != 1 || again.Fence != 2 {
			t.Errorf("claimed %+v; want a, woken because it expired, in its first attempt", again)
		}
		exchange(t, db, 0, ok(again))
		sound(t, db)
	})
}

func TestExchange_GivesARunItsDeadlineWithTheFirstClaim(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, clock *clock) {
		n := newRun("k", steps(noop("a"), noop("b", "a")))
		n.Run.Timeout = 90 * time.Second
		create(t, db, n)
		if got := count(t, db, "SELECT count(*) FROM run WHERE deadline IS NOT NULL"); got != 0 {
			t.Error("a run has a deadline before it has begun")
		}
		a := claim(t, db, 1)[0]
		clock.move(time.Minute)
		exchange(t, db, 1, ok(a))
		if got := count(t, db, "SELECT count(*) FROM run WHERE deadline IS NOT NULL AND deadline > started_at"); got != 1 {
			t.Error("the run has no deadline")
		}
		if got := count(t, db, "SELECT count(DISTINCT deadline) FROM run"); got != 1 {
			t.Error("the deadline has moved")
		}
	})
}

func TestExchange_WritesNeighboursThatEndedDifferentlyEachAsItEnded(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		enqueue(t, db, 40)
		c := claim(t, db, 40)
		var done []task.Outcome
		for i, x := range c {
			o := ok(x)
			o.Alone, o.Ungated = i%2 == 0, i%2 == 0 // known or not
			switch i % 5 {
			case 1:
				o.Outputs = []byte(fmt.Sprintf(`{"n":%d}`, i))
			case 2:
				o.Took = time.Duration(i) * time.Millisecond
			case 3:
				o = fail(x)
			case 4:
				o.To, o.Reason = task.Pending, task.ReasonReleased
			}
			if i != 20 { // a gap
				done = append(done, o)
			}
		}
		x := exchange(t, db, 0, done...)
		if len(x.Lost) != 0 {
			t.Errorf("lost %v", x.Lost)
		}
		for query, want := range map[string]int{
			"SELECT count(*) FROM task_queue WHERE state = 'success'":        23,
			"SELECT count(*) FROM task_queue WHERE outputs IS NOT NULL":      8,
			"SELECT count(DISTINCT CAST(outputs AS text)) FROM task_queue":   8,
			"SELECT count(DISTINCT took_ms) FROM task_log WHERE took_ms > 0": 8,
			"SELECT count(*) FROM dead_letter":                               8,
			"SELECT count(*) FROM task_ready":                                8,
			"SELECT count(*) FROM task_lease":                                1,
		} {
			if got := count(t, db, query); got != want {
				t.Errorf("%s = %d, want %d", query, got, want)
			}
		}
		sound(t, db)
	})
}
