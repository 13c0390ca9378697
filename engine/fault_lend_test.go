package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// TestFault_F02 kills a process that claims its own tasks with the commit that makes
// them, at each point behind that commit.
func TestFault_F02_AProcessMayDieBehindTheCommitThatMakesAndClaimsATask(t *testing.T) {
	t.Parallel()
	points := []string{"claimed with its enqueue", "step begins", "effect before its commit", "effect after its commit"}
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := newRig(t, url)
		for _, point := range points {
			c := r.spawn(order{Worker: "dies " + point, Point: point, Makes: true})
			if code := r.wait(c); code != -1 {
				t.Errorf("%s: the process exits with %d, want it killed there", point, code)
			}
		}
		last := r.spawn(order{Worker: "last"})
		r.untilOver()
		r.retire(last)
		if n := r.count(lentAndLost); n != len(points) {
			t.Errorf("%d processes were lost with a task that was claimed by the commit that made it, want %d", n, len(points))
		}
		if n := r.count("SELECT count(*) FROM task_queue WHERE state <> 'success' OR attempt - crashes <> 1"); n != 0 {
			t.Errorf("%d tasks have not succeeded at their first attempt but for crashes", n)
		}
		if n, m := r.count("SELECT count(*) FROM target"), r.count("SELECT count(*) FROM task_queue"); n != m {
			t.Errorf("%d tasks have had %d effects", m, n)
		}
		r.wantSound()
	})
}

// A process may have had more than one such task when it died.
const lentAndLost = `SELECT count(DISTINCT l.worker) FROM task_log l JOIN task_queue q ON q.id = l.task_id
	WHERE l.reason = 'lease_lost' AND l.worker LIKE 'dies %' AND l.fence = 1 AND l.claimed_at = q.created_at`

// TestFault_F17 restarts the server under processes that claim their own tasks with
// the commit that makes them.
func TestFault_F17_ACommitThatMakesAndClaimsIsKnownOrGivenBack(t *testing.T) {
	t.Parallel()
	c, r := server(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	acked := map[int64]bool{}
	var making sync.WaitGroup
	for w := range 2 {
		db := r.open(r.url, store.Options{})
		registry, err := step.NewRegistry(step.Type{Name: "work", Light: true, Runner: steady(db)["work"]})
		if err != nil {
			t.Fatal(err)
		}
		cfg := r.worker(fmt.Sprint("w", w), db, nil)
		cfg.Lease, cfg.Door, cfg.Registry = 15*time.Second, db, registry
		_, stop := r.start(cfg)
		defer stop()
		making.Go(func() {
			for i := 0; idle(ctx, 5*time.Millisecond) == nil; i++ {
				l := task.Lone{Type: "work"}
				if i%2 == 0 {
					l.Key = fmt.Sprint(w, "/", i)
				}
				if made, err := db.Enqueue(ctx, []task.Lone{l}); err == nil {
					mu.Lock()
					acked[made[0].ID] = true
					mu.Unlock()
				}
			}
		})
	}
	for range 5 {
		r.workAfter(0)
		if err := c.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.workAfter(0)
	cancel()
	making.Wait()
	r.untilOver()
	for id := range acked {
		if n := r.count("SELECT count(*) FROM task_queue WHERE id = $1", id); n != 1 {
			t.Errorf("I01: task %d was acknowledged and is there %d times", id, n)
		}
	}
	lent := r.count("SELECT count(*) FROM task_queue WHERE claimed_at = created_at")
	t.Logf("%d tasks acknowledged, %d claimed by the commit that made them", len(acked), lent)
	if lent == 0 {
		t.Error("no task was claimed by the commit that made it: nothing was tested")
	}
	r.wantAll()
	r.wantSound()
}

// TestFault_F16 ends connections of processes that claim over the one which hears of
// work, and of the process that makes it, while they talk.
func TestFault_F16_WhoHearsAndClaimsLosesNothingWithItsConnection(t *testing.T) {
	t.Parallel()
	_, r := server(t)
	for w := range 2 {
		db := r.open(r.url, store.Options{Application: "team"})
		cfg := r.worker(fmt.Sprint("w", w), db, steady(db))
		cfg.Lease, cfg.Door, cfg.Bell = 15*time.Second, db, db
		_, stop := r.start(cfg)
		defer stop()
	}
	maker := r.open(r.url, store.Options{Application: "team"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var making sync.WaitGroup
	acked := 0
	making.Go(func() {
		for i := 0; idle(ctx, 10*time.Millisecond) == nil; i++ {
			if _, err := maker.Enqueue(ctx, []task.Lone{{Type: "work", Key: fmt.Sprint(i)}}); err == nil {
				acked++
			}
		}
	})
	for range 30 {
		r.workAfter(0)
		r.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'team' AND datname = current_database()")
	}
	cancel()
	making.Wait()
	r.untilOver()
	if n := r.count("SELECT count(*) FROM task_queue"); n < acked {
		t.Errorf("I01: %d tasks were acknowledged, %d are there", acked, n)
	}
	r.wantAll()
	r.wantSound()
}
