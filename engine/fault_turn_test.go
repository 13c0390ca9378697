package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"madeira/engine"
	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

var _ engine.Turns = (*store.DB)(nil)

// turning is the configuration of a worker that looks after everything.
func (r *rig) turning(name string, db *store.DB, types map[string]runner) engine.Config {
	r.Helper()
	cfg := r.worker(name, db, types)
	cfg.Gates, cfg.Flow, cfg.Turns, cfg.Bell = db, db, db, db
	return cfg
}

// turnRun is a run of two steps, the second of a type of its own.
func turnRun(job string, minute int) task.NewRun {
	two := func(name string, needs ...string) task.NewTask {
		return task.NewTask{Step: name, Type: "work", Needs: needs, Settings: json.RawMessage(`{}`), Priority: 100, Retry: task.Retry{MaxAttempts: 1}}
	}
	return task.NewRun{
		Run: task.Run{
			Job: job, JobDigest: "sha256:job", Trigger: "manual", Inputs: json.RawMessage(`{}`),
			DueAt: time.Date(2026, 11, 1, 0, minute, 0, 0, time.UTC),
		},
		Job:   task.JobVersion{Name: job, Digest: "sha256:job", Path: "job.yaml", Source: []byte("name: job\n")},
		Tasks: []task.NewTask{two("a"), two("b", "a")},
	}
}

func dueRun(job string, minute int, overlap task.Overlap) task.NewRun {
	n := turnRun(job, minute)
	n.Run.Trigger, n.Overlap = "schedule", overlap
	n.Occurrence = &task.Occurrence{Job: job, Entry: "* * * * *", DueAt: n.Run.DueAt, Outcome: task.DueRan}
	return n
}

// TestFault_F43 lets due times come while runs of the job are at work, starts more
// by hand, and redrives those that fail; one worker is cut off in the midst of it.
// Nothing of a job that must not overlap does, and no two runs under a key with
// one slot are at work at once.
func TestFault_F43_TurnsHoldAcrossDueTimesManualStartsRescuesAndRedrives(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := newRig(t, url)
		var cut atomic.Bool
		var begun atomic.Int64
		var failed sync.Map // runs that have failed once
		work := func(ctx context.Context, in step.Input) (step.Output, error) {
			if err := idle(ctx, 20*time.Millisecond); err != nil {
				return step.Output{}, err
			}
			if begun.Add(1)%4 == 0 {
				if _, again := failed.LoadOrStore(in.Task.Run, true); !again {
					return step.Output{}, step.Permanent(errors.New("the first time"))
				}
			}
			return step.Output{}, commit(ctx, r.db, in.Task, nop, nop)
		}
		lost := func(string) error {
			if cut.Load() {
				return errRefused
			}
			return nil
		}
		var taken atomic.Int64
		cutting := func(ctx context.Context, in step.Input) (step.Output, error) {
			if taken.Add(1) == 3 { // at work on it, the lease is surely its own
				cut.Store(true)
			}
			return work(ctx, in)
		}
		first := r.turning("first", r.db, map[string]runner{"work": cutting})
		first.Queue, first.Bell = relay{Queue: r.db, before: lost, after: lost}, nil
		r.start(first)

		var wg sync.WaitGroup
		start := func(n task.NewRun) {
			wg.Go(func() {
				if _, err := r.db.CreateRun(t.Context(), n); err != nil {
					t.Error(err)
				}
			})
		}
		come := func(minute int) {
			start(dueRun("queue", minute, task.OverlapQueue))
			start(dueRun("skip", minute, task.OverlapSkip))
			settle := dueRun("settle", minute, task.OverlapQueue)
			settle.Concurrency = &task.Limit{Key: "ledger", Slots: 1}
			start(settle)
			for _, job := range []string{"settle", "report"} {
				byHand := turnRun(job, minute)
				byHand.Concurrency = &task.Limit{Key: "ledger", Slots: 1}
				start(byHand)
			}
		}
		for minute := range 4 {
			come(minute)
		}
		wg.Wait()
		// First is cut off until its lease is over and somebody else has its task.
		r.eventually("the third task of the first", func(context.Context) (bool, error) { return cut.Load(), nil })
		r.start(r.turning("second", r.open(url, store.Options{}), map[string]runner{"work": work}))
		r.eventually("a rescue", func(ctx context.Context) (bool, error) {
			n, err := r.number(ctx, "SELECT count(*) FROM task_log WHERE reason = 'lease_lost'")
			return n > 0, err
		})
		cut.Store(false)
		for minute := 4; minute < 8; minute++ {
			come(minute)
		}
		wg.Wait()
		for {
			r.untilOver()
			again, err := r.db.Redrive(t.Context(), store.DeadFilter{}, 0, task.Action{Actor: "ann"})
			if err != nil {
				t.Fatal(err)
			}
			if again.Tasks == 0 {
				break
			}
			turns := turnRun("report", 60)
			turns.Concurrency = &task.Limit{Key: "ledger", Slots: 1}
			start(turns)
			wg.Wait()
		}
		r.wantTurns()
		r.wantSound()
	})
}

// wantTurns sweeps over what the log says was at work at the same time.
func (r *rig) wantTurns() {
	r.Helper()
	const together = `SELECT count(*) FROM task_log a JOIN task_queue x ON x.id = a.task_id JOIN run p ON p.id = x.run_id
		JOIN task_log b ON b.claimed_at < a.at AND b.at > a.claimed_at JOIN task_queue y ON y.id = b.task_id JOIN run q ON q.id = y.run_id
		WHERE p.id <> q.id AND `
	if n := r.count(together + "p.turn_key = q.turn_key"); n != 0 {
		r.Errorf("I14: %d pairs of attempts of different runs under a key with one slot were at work at once", n)
	}
	if n := r.count(together + "p.job = q.job AND p.overlap IS NOT NULL AND q.overlap IS NOT NULL"); n != 0 {
		r.Errorf("F43: %d pairs of attempts of due times that must not overlap were at work at once", n)
	}
	const within = ` p.id <> q.id AND p.started_at < q.started_at AND p.finished_at > q.started_at
		AND NOT EXISTS (SELECT 1 FROM task_queue t JOIN task_log l ON l.task_id = t.id AND l.reason = 'redrive' WHERE t.run_id = p.id)`
	if n := r.count("SELECT count(*) FROM run p JOIN run q ON" + within + " AND (p.turn_key = q.turn_key OR p.job = q.job AND p.overlap IS NOT NULL AND q.overlap IS NOT NULL)"); n != 0 {
		r.Errorf("F43: %d runs began between the steps of one that had the turn", n)
	}
	if n := r.count("SELECT count(*) FROM occurrence WHERE outcome NOT IN ('ran', 'skipped')"); n != 0 {
		r.Errorf("%d due times have another outcome than ran and skipped", n)
	}
	if n := r.count("SELECT count(*) FROM occurrence WHERE job = 'queue' AND outcome = 'ran'"); n != 8 {
		r.Errorf("%d due times of the job that waits ran, want 8", n)
	}
	if n := r.count("SELECT count(*) FROM task_log WHERE reason = 'redrive'"); n == 0 {
		r.Error("nothing was redriven: the test shows less than it says")
	}
	if n := r.count("SELECT count(*) FROM run_slot"); n != 0 {
		r.Errorf("%d slots are taken in the end", n)
	}
}

// TestTurns_TheNextRunBeginsSoonAfterTheEnd measures how long the turn is nobody's.
func TestTurns_TheNextRunBeginsSoonAfterTheEnd(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := newRig(t, url)
		cfg := r.turning("one", r.db, map[string]runner{"work": func(ctx context.Context, in step.Input) (step.Output, error) {
			return step.Output{}, errors.Join(idle(ctx, 50*time.Millisecond), commit(ctx, r.db, in.Task, nop, nop))
		}})
		cfg.Poll = time.Minute // nothing waits for it
		r.start(cfg)
		const runs = 20
		for minute := range runs {
			n := dueRun("queue", minute, task.OverlapQueue)
			n.Concurrency = &task.Limit{Key: "ledger", Slots: 1}
			if _, err := r.db.CreateRun(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		r.untilOver()
		gap := "(julianday(min(q.started_at) / 1e6, 'unixepoch') - julianday(p.finished_at / 1e6, 'unixepoch')) * 86400000"
		if read, pool := r.db.SQL(); read == pool {
			gap = "extract(epoch FROM min(q.started_at) - p.finished_at) * 1000"
		}
		gaps := fmt.Sprintf("SELECT CAST(%s AS integer) AS ms FROM run p JOIN run q ON q.started_at >= p.finished_at GROUP BY p.id, p.finished_at", gap)
		most, sum := r.count("SELECT max(ms) FROM ("+gaps+") AS g"), r.count("SELECT CAST(sum(ms) AS integer) FROM ("+gaps+") AS g")
		t.Logf("from the end of one run to the first claim of the next: %d ms on average, at most %d ms", sum/(runs-1), most)
		if sum/(runs-1) > 1000 {
			t.Errorf("it took %d ms on average, want well under a second", sum/(runs-1))
		}
		r.wantSound()
	})
}

func TestTurns_EveryEndOfARunLetsTheNextBegin(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := newRig(t, url)
		begun := make(chan string, 100)
		cfg := r.turning("one", r.db, map[string]runner{"work": func(ctx context.Context, in step.Input) (step.Output, error) {
			begun <- in.Task.Run
			return step.Output{}, idle(ctx, time.Hour)
		}})
		cfg.Poll = time.Minute
		r.start(cfg)
		var ids []string
		for minute := range 3 {
			n := dueRun("queue", minute, task.OverlapQueue)
			made, err := r.db.CreateRun(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, made.Run.ID)
		}
		late := turnRun("late", 1)
		late.NotBefore = time.Now().Add(300 * time.Millisecond)
		made, err := r.db.CreateRun(t.Context(), late)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{ids[0], made.Run.ID} {
			if got := <-begun; got != want {
				t.Fatalf("run %s has begun, want %s", got, want)
			}
		}
		for i, id := range ids[:2] {
			if _, err := r.db.CancelRun(t.Context(), id, task.Action{Actor: "ann"}); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-begun:
				if got != ids[i+1] {
					t.Errorf("after the end of %s began %s, want %s", id, got, ids[i+1])
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("nothing has begun after run %s was cancelled", id)
			}
		}
		for _, id := range []string{ids[2], made.Run.ID} {
			if _, err := r.db.CancelRun(t.Context(), id, task.Action{Actor: "ann"}); err != nil {
				t.Fatal(err)
			}
		}
		r.untilOver()
	})
}
