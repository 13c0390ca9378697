package store_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

var person = task.Action{Actor: "ann", Reason: "wrong file"}

func finally(s task.NewTask) task.NewTask {
	s.Phase = task.PhaseFinally
	return s
}

func onFailure(s task.NewTask) task.NewTask {
	s.Phase = task.PhaseOnFailure
	return s
}

func cancel(t *testing.T, db *store.DB, run string) task.Run {
	t.Helper()
	r, err := db.CancelRun(t.Context(), run, person)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func nextPhases(t *testing.T, db *store.DB) {
	t.Helper()
	if _, err := db.NextPhase(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
}

func TestCancelRun_EndsWhatHasNotBegunAndWaitsForWhatHas(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(noop("a"), noop("b", "a"), conditional(noop("c"), "no"), onFailure(noop("f")), finally(noop("z")))))
		a := claim(t, db, 1)[0]
		if r := cancel(t, db, run.ID); r.Stopped != "cancelled" || r.Status != task.RunRunning {
			t.Errorf("after the cancel the run is %s, stopped as %q; want running, cancelled", r.Status, r.Stopped)
		}
		sound(t, db)
		beat, err := db.Heartbeat(t.Context(), worker, []task.Hold{a.Hold}, time.Minute)
		if err != nil || len(beat.Stopped) != 1 || len(beat.Lost) != 0 {
			t.Errorf("the heartbeat says %+v, %v; want it to tell that the task was stopped", beat, err)
		}
		exchange(t, db, 5, task.Outcome{Hold: a.Hold, To: task.Cancelled, Reason: task.ReasonCancelled})
		nextPhases(t, db)
		z := claim(t, db, 1)
		if got := names(z); got[0] != "z" {
			t.Fatalf("after the cancel %v runs, want finally", got)
		}
		exchange(t, db, 5, ok(z[0]))
		want := map[string]task.State{"a": "cancelled", "b": "cancelled", "c": "cancelled", "f": "cancelled", "z": "success"}
		for step, state := range states(t, db, run.ID) {
			if state != want[step] {
				t.Errorf("%s is %s, want %s", step, state, want[step])
			}
		}
		if got := status(t, db, run.ID); got != task.RunCancelled {
			t.Errorf("the run ended as %s, want cancelled", got)
		}
		if again := cancel(t, db, run.ID); again.Status != task.RunCancelled {
			t.Errorf("cancelled again the run is %s", again.Status)
		}
		if n := count(t, db, "SELECT count(*) FROM audit_log WHERE action = 'cancel' AND actor = 'ann'"); n != 1 {
			t.Errorf("%d rows in the audit log, want 1", n)
		}
		sound(t, db)
	})
}

func TestCancelRun_OfARunThatIsOverOrUnknownIsAnError(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(noop("a"))))
		work(t, db)
		var over *store.RunStateError
		if _, err := db.CancelRun(t.Context(), run.ID, person); !errors.As(err, &over) || over.Status != task.RunSuccess {
			t.Errorf("cancel of a run that ended well: %v, want an error that names its status", err)
		}
		if _, err := db.CancelRun(t.Context(), "01900000-0000-7000-8000-000000000000", person); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("cancel of no run: %v, want ErrNotFound", err)
		}
		sound(t, db)
	})
}

func TestCancelRun_ARetryOrARescueOfAStoppedRunDoesNotComeBack(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		run := create(t, db, newRun("k", steps(noop("a"), noop("b"))))
		held := claim(t, db, 2)
		cancel(t, db, run.ID)
		exchange(t, db, 5, task.Outcome{Hold: held[0].Hold, To: task.Pending, Reason: task.ReasonRetry, Delay: time.Second})
		c.move(2 * time.Minute)
		if _, err := db.Rescue(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		if got := status(t, db, run.ID); got != task.RunCancelled {
			t.Errorf("the run is %s, want cancelled", got)
		}
		sound(t, db)
	})
}

func TestCancelRun_StopsTheRunsThatItStarted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		above := create(t, db, newRun("k", steps(noop("a"))))
		write(t, db, "UPDATE task_queue SET type = 'job' WHERE step = 'a'")
		write(t, db, "UPDATE task_ready SET type = 'job'")
		x, err := db.Exchange(t.Context(), worker, nil, task.Want{N: 1, Types: []string{task.TypeJob}, Lease: time.Minute})
		if err != nil || len(x.Claimed) != 1 {
			t.Fatalf("claimed %v, %v", x.Claimed, err)
		}
		below := newRun("below", steps(noop("inner")))
		below.Run.Trigger = "job"
		made, err := db.Spawn(t.Context(), x.Claimed[0].Hold, below)
		if err != nil {
			t.Fatal(err)
		}
		cancel(t, db, above.ID)
		for _, id := range []string{above.ID, made.Run.ID} {
			if got := status(t, db, id); got != task.RunCancelled {
				t.Errorf("run %s is %s, want cancelled", id, got)
			}
		}
		sound(t, db)
	})
}

func TestExpire_StopsRunsThatAreOutOfTime(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		n := newRun("k", steps(noop("a"), noop("b", "a"), finally(noop("z"))))
		n.Run.Timeout = time.Minute
		run := create(t, db, n)
		a := claim(t, db, 1)[0]
		c.move(59 * time.Second)
		if n, err := db.Expire(t.Context(), 10); err != nil || n != 0 {
			t.Fatalf("Expire before the time is over = %d, %v", n, err)
		}
		c.move(2 * time.Second)
		if n, err := db.Expire(t.Context(), 10); err != nil || n != 1 {
			t.Fatalf("Expire = %d, %v, want 1", n, err)
		}
		exchange(t, db, 0, task.Outcome{Hold: a.Hold, To: task.Cancelled, Reason: task.ReasonCancelled})
		nextPhases(t, db)
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		if got := status(t, db, run.ID); got != task.RunError {
			t.Errorf("the run ended as %s, want error", got)
		}
		if n := count(t, db, "SELECT count(*) FROM task_queue WHERE state = 'cancelled' AND reason = 'run_timeout'"); n != 2 {
			t.Errorf("%d tasks were cancelled because the run was out of time, want 2", n)
		}
		sound(t, db)
	})
}

// TestFault_F71_CancelledOrFinishedAndNeverBoth cancels at random instants while
// workers go on.
func TestFault_F71_CancelledOrFinishedAndNeverBoth(t *testing.T) {
	notRaced(t)
	t.Parallel()
	storetest.EachWith(t, store.Options{MaxConns: 24}, func(t *testing.T, db *store.DB) {
		const cancellers, each = 4, 125
		stop := make(chan struct{})
		var workers, people sync.WaitGroup
		for range 3 {
			workers.Go(func() { toil(t, db, stop) })
		}
		var late atomic.Int64
		for range cancellers {
			people.Go(func() { late.Add(int64(cancelSome(t, db, each))) })
		}
		people.Wait()
		finished := int(late.Load())
		close(stop)
		workers.Wait()
		workPhases(t, db)
		if n := count(t, db, "SELECT count(*) FROM run WHERE status NOT IN ('success', 'cancelled')"); n != 0 {
			t.Errorf("%d runs are neither finished nor cancelled", n)
		}
		if n := count(t, db, "SELECT count(*) FROM run WHERE status = 'success'"); n != finished {
			t.Errorf("%d runs ended well; %d cancels came too late", n, finished)
		}
		if n := count(t, db, `SELECT count(*) FROM task_queue t JOIN run r ON r.id = t.run_id
			WHERE t.phase = 'main' AND t.claimed_at > r.stopped_at`); n != 0 {
			t.Errorf("%d steps began after the cancel", n)
		}
		t.Logf("%d of %d runs had finished before their cancel", finished, cancellers*each)
		sound(t, db)
	})
}

// cancelSome makes runs, cancels each at a random instant of its life, and returns
// how many were over by then.
func cancelSome(t *testing.T, db *store.DB, n int) int {
	finished := 0
	for range n {
		made, err := db.CreateRun(t.Context(), newRun("", steps(noop("a"), noop("b", "a"), noop("c", "a"), noop("d", "b", "c"), finally(noop("z")))))
		if err != nil {
			t.Error(err)
			return finished
		}
		<-time.After(rand.N(60 * time.Millisecond))
		_, err = db.CancelRun(t.Context(), made.Run.ID, person)
		var over *store.RunStateError
		if errors.As(err, &over) {
			finished++
		} else if err != nil {
			t.Error(err)
		}
	}
	return finished
}

// toil claims and finishes, as a worker whose attempts end as cancelled when the
// heartbeat says so.
func toil(t *testing.T, db *store.DB, stop <-chan struct{}) {
	name := time.Now().String() + string(rune('a'+rand.IntN(26)))
	var done []task.Outcome
	for {
		x, err := db.Exchange(t.Context(), name, done, task.Want{N: 4, Types: allTypes, Lease: time.Minute})
		if err != nil {
			t.Error(err)
			return
		}
		held := make([]task.Hold, len(x.Claimed))
		for i, c := range x.Claimed {
			held[i] = c.Hold
		}
		beat, err := db.Heartbeat(t.Context(), name, held, time.Minute)
		if err != nil {
			t.Error(err)
		}
		done = done[:0]
		for _, c := range x.Claimed {
			o := ok(c)
			if slices.Contains(beat.Stopped, c.Hold) {
				o = task.Outcome{Hold: c.Hold, To: task.Cancelled, Reason: task.ReasonCancelled}
			}
			done = append(done, o)
		}
		if _, err := db.NextPhase(t.Context(), 10); err != nil {
			t.Error(err)
		}
		select {
		case <-stop:
			if len(done) == 0 {
				return
			}
		default:
		}
	}
}

// workPhases works until nothing is left, later phases included.
func workPhases(t *testing.T, db *store.DB) {
	t.Helper()
	for {
		work(t, db)
		n, err := db.NextPhase(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}
