package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

const downstream = "noop/bank"

// behind returns n tasks that speak with the downstream.
func behind(n int) []task.NewTask {
	list := parallel(n)
	for i := range list {
		list[i].Circuit = downstream
		list[i].Retry = task.Retry{MaxAttempts: 50}
	}
	return list
}

func broken(c task.Claimed) task.Outcome {
	return task.Outcome{
		Hold: c.Hold, To: task.Pending, Reason: task.ReasonRetry, Delay: time.Hour,
		Failure: &task.Failure{Class: task.TransientFailure, Message: "503"},
	}
}

// judge wants the circuit to change to that state, or not at all.
func judge(t *testing.T, db *store.DB, to task.CircuitState) task.CircuitChange {
	t.Helper()
	changes, _, err := db.Judge(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if to == "" && len(changes) == 0 {
		return task.CircuitChange{}
	}
	if len(changes) != 1 || changes[0].To != to {
		t.Fatalf("Judge = %+v, want one change to %q", changes, to)
	}
	return changes[0]
}

// attempts makes that many good and bad ones.
func attempts(t *testing.T, db *store.DB, good, bad int) {
	t.Helper()
	var done []task.Outcome
	for i, c := range claim(t, db, good+bad) {
		if i < good {
			done = append(done, ok(c))
		} else {
			done = append(done, broken(c))
		}
	}
	exchange(t, db, 0, done...)
}

func TestFault_F50_ACircuitOpensAtFiveBadOnesOfTenAndNotAtFour(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		create(t, db, newRun("k", behind(40)))
		other := noop("other")
		other.Circuit = "noop/ledger"
		create(t, db, newRun("other", steps(other, noop("none"))))

		attempts(t, db, 0, 4)
		judge(t, db, "") // too few
		attempts(t, db, 6, 0)
		judge(t, db, "") // 4 of 10
		c.move(6 * time.Minute)
		attempts(t, db, 5, 4)
		judge(t, db, "") // 4 of 9: the first ten are out of the window
		attempts(t, db, 0, 1)
		changes, next, err := db.Judge(t.Context(), map[string]task.Failure{downstream: {Class: task.TransientFailure, Message: "503"}})
		if err != nil || len(changes) != 1 {
			t.Fatalf("Judge = %v, %v; want a change at 5 of 10", changes, err)
		}
		ch := changes[0]
		if ch.Key != downstream || ch.From != task.CircuitClosed || ch.To != task.CircuitOpen || !ch.Until.Equal(c.now().Add(30*time.Second)) || ch.Failure == nil || ch.Failure.Message != "503" {
			t.Errorf("change = %+v, want %s open for 30 s because of 503", ch, downstream)
		}
		if next != 30*time.Second {
			t.Errorf("the next look is in %s, want 30 s", next)
		}
		judge(t, db, "") // told once
		if holds, err := db.Holds(t.Context()); err != nil || len(holds) != 1 || holds[0].Reason != "503" {
			t.Errorf("Holds = %+v, %v; want the circuit with the failure that opened it", holds, err)
		}
		got := claim(t, db, 2)
		for _, g := range got {
			if g.Circuit == downstream {
				t.Errorf("claimed %s behind the open circuit", g.Step)
			}
		}
		sweep(t, db, 0)
		sound(t, db)
		if n := count(t, db, "SELECT count(*) FROM task_held WHERE gate = 'circuit:"+downstream+"'"); n != 20 {
			t.Errorf("%d tasks are held, want 20", n)
		}
		if n := count(t, db, "SELECT coalesce(max(attempt), 0) FROM task_queue WHERE id IN (SELECT task_id FROM task_held)"); n != 0 {
			t.Errorf("a held task has spent %d attempts, want 0", n)
		}
		admit(t, db, 0)
	})
}

// tripped leaves the circuit open, everything behind it held.
func tripped(t *testing.T, db *store.DB) {
	t.Helper()
	attempts(t, db, 0, 10)
	judge(t, db, task.CircuitOpen)
	sweep(t, db, 0)
}

func TestFault_F51_ThreeProbesCloseACircuitAndItDrainsAtAGrowingRate(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		create(t, db, newRun("k", behind(260)))
		tripped(t, db)
		c.move(29 * time.Second)
		judge(t, db, "")
		admit(t, db, 0)
		c.move(time.Second)
		judge(t, db, task.CircuitHalfOpen)
		admit(t, db, 3)
		admit(t, db, 0)
		probes := claim(t, db, 3)
		exchange(t, db, 0, ok(probes[0]))
		judge(t, db, task.CircuitRamp)
		exchange(t, db, 0, ok(probes[1]), ok(probes[2]))
		want := 3
		for range 6 {
			admit(t, db, want)
			admit(t, db, 0) // not before the next second
			sound(t, db)
			attempts(t, db, want, 0)
			judge(t, db, "")
			want *= 2
			c.move(time.Second)
		}
		judge(t, db, task.CircuitClosed)
		sweep(t, db, 260-10-3-189)
		claim(t, db, 58)
		holds, err := db.Holds(t.Context())
		if err != nil || len(holds) != 0 {
			t.Errorf("Holds = %v, %v; want none", holds, err)
		}
		sound(t, db)
		onlyProbes(t, db)
	})
}

// onlyProbes is I15 in a run whose circuit was open from the tenth failure on for
// 30 s.
func onlyProbes(t *testing.T, db *store.DB) {
	t.Helper()
	begin := newClock().at
	query := fmt.Sprintf("SELECT count(*) FROM task_log WHERE claimed_at > '%s' AND claimed_at < '%s'", begin.Format(time.RFC3339), begin.Add(30*time.Second).Format(time.RFC3339))
	if read, write := db.SQL(); read != write {
		query = fmt.Sprintf("SELECT count(*) FROM task_log WHERE claimed_at > %d AND claimed_at < %d", begin.UnixMicro(), begin.Add(30*time.Second).UnixMicro())
	}
	if n := count(t, db, query); n != 0 {
		t.Errorf("I15 %d attempts began behind the open circuit, want none", n)
	}
}

// Somebody who knows that the downstream is back need not wait for the cool-down; the
// probes still decide.
func TestTryCircuit_SendsTheProbesAtOnce(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		action := task.Action{Actor: "ann", Action: "resume", Subject: "circuit:" + downstream, Reason: "the bank is back"}
		if open, err := db.TryCircuit(t.Context(), action); err != nil || open {
			t.Errorf("TryCircuit of one that nobody knows = %v, %v, want false", open, err)
		}
		create(t, db, newRun("k", behind(20)))
		tripped(t, db)
		c.move(time.Second)
		judge(t, db, "")
		if open, err := db.TryCircuit(t.Context(), action); err != nil || !open {
			t.Fatalf("TryCircuit = %v, %v, want true", open, err)
		}
		judge(t, db, task.CircuitHalfOpen)
		admit(t, db, 3)
		if open, err := db.TryCircuit(t.Context(), action); err != nil || open {
			t.Errorf("TryCircuit of one that is being tried = %v, %v, want false", open, err)
		}
		if n := count(t, db, "SELECT count(*) FROM audit_log WHERE actor = 'ann' AND subject = 'circuit:"+downstream+"'"); n != 1 {
			t.Errorf("%d rows in the audit log, want 1", n)
		}
		if _, err := db.TryCircuit(t.Context(), task.Action{Actor: "ann", Subject: "type:noop"}); err == nil {
			t.Error("a type is tried like a circuit")
		}
		sound(t, db)
	})
}

func TestFault_F51_AFailedProbeOpensTheCircuitForLonger(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		create(t, db, newRun("k", behind(60)))
		tripped(t, db)
		for _, wait := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
			c.move(10 * time.Minute)
			judge(t, db, task.CircuitHalfOpen)
			admit(t, db, 3)
			probe := claim(t, db, 1)[0]
			exchange(t, db, 0, broken(probe))
			if ch := judge(t, db, task.CircuitOpen); ch.Until.Sub(c.now()) != wait {
				t.Errorf("open for %s, want %s", ch.Until.Sub(c.now()), wait)
			}
			nothing(t, db) // the two others are no probes any more
			sweep(t, db, 0)
			sound(t, db)
		}
	})
}

func TestFault_F51_ADeadProberGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		create(t, db, newRun("k", behind(20)))
		tripped(t, db)
		c.move(30 * time.Second)
		judge(t, db, task.CircuitHalfOpen)
		admit(t, db, 3)
		claim(t, db, 3)
		c.move(2 * time.Minute)
		admit(t, db, 0)
		if n, err := db.Rescue(t.Context(), 10); n != 3 || err != nil {
			t.Fatalf("Rescue = %d, %v; want 3", n, err)
		}
		judge(t, db, "") // a crash says nothing of the downstream
		sweep(t, db, 0)
		admit(t, db, 3)
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		judge(t, db, task.CircuitRamp)
		sound(t, db)
	})
}

func TestJudge_GivesEachChangeToOneProcess(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", behind(12)))
		attempts(t, db, 0, 10)
		var mu sync.Mutex
		var told []task.CircuitChange
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				changes, _, err := db.Judge(t.Context(), nil)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				told = append(told, changes...)
			})
		}
		all.Wait()
		if len(told) != 1 || told[0].To != task.CircuitOpen {
			t.Errorf("8 processes were told %+v, want one opening", told)
		}
	})
}

func TestJudge_ForgetsOldAttempts(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		create(t, db, newRun("k", behind(9)))
		attempts(t, db, 0, 9)
		c.move(11 * time.Minute)
		judge(t, db, "")
		if n := count(t, db, "SELECT count(*) FROM circuit_count"); n != 0 {
			t.Errorf("%d rows of circuit_count are left, want 0", n)
		}
	})
}
