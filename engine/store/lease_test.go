package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

func TestHeartbeat_ExtendsWhatIsHeldAndNamesWhatIsLost(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, clock *clock) {
		if err := db.RegisterWorker(t.Context(), task.Worker{ID: worker, Host: "h", PID: 4, Version: "1"}); err != nil {
			t.Fatal(err)
		}
		create(t, db, newRun("k", steps(noop("a"), noop("b"))))
		held := claim(t, db, 2)
		stale := task.Hold{TaskID: held[1].TaskID, Fence: 9}
		clock.move(50 * time.Second)
		beat, err := db.Heartbeat(t.Context(), worker, []task.Hold{held[0].Hold, stale}, time.Minute)
		if err != nil || !slices.Equal(beat.Lost, []task.Hold{stale}) {
			t.Fatalf("lost = %v, %v; want the stale hold", beat.Lost, err)
		}
		clock.move(30 * time.Second)
		if n, err := db.Rescue(t.Context(), 10); n != 1 || err != nil {
			t.Errorf("Rescue = %d, %v; want 1: the one that was not extended", n, err)
		}
		beat, err = db.Heartbeat(t.Context(), worker, []task.Hold{held[0].Hold, held[1].Hold}, time.Minute)
		if err != nil || !slices.Equal(beat.Lost, []task.Hold{held[1].Hold}) {
			t.Errorf("lost after a rescue = %v, %v; want %v", beat.Lost, err, held[1].Hold)
		}
		seen, err := db.Workers(t.Context())
		if err != nil || len(seen) != 1 || !seen[0].SeenAt.Equal(clock.now()) || seen[0].StartedAt.Equal(clock.now()) {
			t.Errorf("workers = %+v, %v; want one, seen now", seen, err)
		}
		sound(t, db)
	})
}

func TestHeartbeat_NamesHoldsOfAStoppedRunAndKeepsThem(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"))))
		c := claim(t, db, 1)[0]
		write(t, db, "UPDATE task_queue SET stop = 'cancelled'")
		beat, err := db.Heartbeat(t.Context(), worker, []task.Hold{c.Hold}, time.Minute)
		if err != nil || !slices.Equal(beat.Stopped, []task.Hold{c.Hold}) || len(beat.Lost) != 0 {
			t.Errorf("beat = %+v, %v; want the hold of the stopped run as stopped", beat, err)
		}
	})
}

func TestHeartbeat_NamesWhatSomebodyHoldsAsSkippedUntilItIsFree(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Postgres(t), store.Options{})
	create(t, db, newRun("k", steps(noop("a"), noop("b"))))
	held := claim(t, db, 2)
	_, pool := db.SQL()
	tx, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), "SELECT FROM task_lease WHERE task_id = $1 FOR UPDATE", held[0].TaskID); err != nil {
		t.Fatal(err)
	}
	holds := []task.Hold{held[0].Hold, held[1].Hold}
	beat, err := db.Heartbeat(t.Context(), worker, holds, time.Minute)
	if err != nil || len(beat.Lost) != 0 || !slices.Equal(beat.Skipped, holds[:1]) {
		t.Errorf("while one is locked: %+v, %v; want it skipped and nothing lost", beat, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	beat, err = db.Heartbeat(t.Context(), worker, holds, time.Minute)
	if err != nil || len(beat.Lost)+len(beat.Skipped) != 0 {
		t.Errorf("afterwards: %+v, %v; want all extended", beat, err)
	}
}

func TestFault_F11_TheThirdCrashIsPoison(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, clock *clock) {
		s := noop("a")
		s.Retry.MaxAttempts = 50
		run := create(t, db, newRun("k", steps(s, noop("b", "a"))))
		var first task.Claimed
		for i := range 3 {
			c := claim(t, db, 1)[0]
			if c.Crashes != i || c.Attempt != i+1 {
				t.Errorf("claim %d says %d crashes, attempt %d", i+1, c.Crashes, c.Attempt)
			}
			if i == 0 {
				first = c
			}
			if n, err := db.Rescue(t.Context(), 10); n != 0 || err != nil {
				t.Errorf("Rescue before the lease is over = %d, %v", n, err)
			}
			clock.move(2 * time.Minute)
			if n, err := db.Rescue(t.Context(), 10); n != 1 || err != nil {
				t.Fatalf("Rescue = %d, %v; want 1", n, err)
			}
			sound(t, db)
		}
		if x := exchange(t, db, 5, ok(first)); len(x.Lost) != 1 || len(x.Claimed) != 0 {
			t.Errorf("the outcome of a rescued attempt gave %+v, want it lost", x)
		}
		work(t, db)
		tasks, err := db.Tasks(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		a := tasks[0]
		if a.State != task.Error || a.Reason != task.ReasonPoison || a.Failure == nil || a.Failure.Class != task.PoisonFailure || a.Crashes != 3 {
			t.Errorf("a = %+v", a)
		}
		if tasks[1].State != task.Skipped || status(t, db, run.ID) != task.RunError {
			t.Errorf("b is %s, run %s; want skipped, error", tasks[1].State, status(t, db, run.ID))
		}
		sound(t, db)
	})
}

func TestGuard_RefusesALostFenceAndHoldsTheTask(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, clock *clock) {
		create(t, db, newRun("k", steps(noop("a"))))
		c := claim(t, db, 1)[0]
		_, pool := db.SQL()
		guarded := func(h task.Hold) error {
			tx, err := pool.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			return db.Guard(h)(t.Context(), tx)
		}
		if err := guarded(c.Hold); err != nil {
			t.Errorf("Guard of a held task = %v", err)
		}
		if err := guarded(task.Hold{TaskID: c.TaskID, Fence: 7}); !errors.Is(err, step.ErrLeaseLost) {
			t.Errorf("Guard of another fence = %v, want lease lost", err)
		}
		tx, err := pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Guard(c.Hold)(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		clock.move(time.Hour)
		rescued := make(chan int, 1)
		go func() {
			n, err := db.Rescue(context.WithoutCancel(t.Context()), 10)
			if err != nil {
				t.Error(err)
			}
			rescued <- n
		}()
		passedOver := false // PostgreSQL leaves a locked row out, SQLite waits for its writer
		select {
		case n := <-rescued:
			passedOver = true
			if n != 0 {
				t.Errorf("Rescue during a guarded transaction moved %d tasks, want none", n)
			}
		case <-time.After(200 * time.Millisecond):
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if passedOver {
			go func() {
				n, err := db.Rescue(context.WithoutCancel(t.Context()), 10)
				if err != nil {
					t.Error(err)
				}
				rescued <- n
			}()
		}
		if n := <-rescued; n != 1 {
			t.Errorf("Rescue after the commit moved %d tasks, want 1", n)
		}
		if err := guarded(c.Hold); !errors.Is(err, step.ErrLeaseLost) {
			t.Errorf("Guard after a rescue = %v, want lease lost", err)
		}
	})
}
