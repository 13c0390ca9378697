package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

var midnight = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// due is a run of a due time, so many hours after midnight.
func due(hour int, overlap task.Overlap) task.NewRun {
	n := newRun("", steps(noop("a"), noop("b", "a")))
	n.Run.Trigger, n.Run.DueAt, n.Overlap = "schedule", midnight.Add(time.Duration(hour)*time.Hour), overlap
	n.Occurrence = &task.Occurrence{Job: n.Run.Job, Entry: "hourly", DueAt: n.Run.DueAt, Outcome: task.DueCaughtUp, Reason: fmt.Sprintf("late %d", hour)}
	return n
}

// under is a run of a job that takes turns with others under the key.
func under(job, key string, slots int, tasks ...task.NewTask) task.NewRun {
	n := newRun("", tasks)
	n.Run.Job, n.Job.Name = job, job
	n.Concurrency = &task.Limit{Key: key, Slots: slots}
	return n
}

func made(t *testing.T, db *store.DB, n task.NewRun) task.Created {
	t.Helper()
	got, err := db.CreateRun(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// turns lets runs begin and fails unless it is that many.
func turns(t *testing.T, db *store.DB, want int) task.Turns {
	t.Helper()
	got, err := db.TakeTurns(t.Context(), 100)
	if err != nil || got.Begun != want {
		t.Fatalf("TakeTurns = %+v, %v; want %d begun", got, err, want)
	}
	return got
}

// finish ends a run of the steps a and b with success.
func finish(t *testing.T, db *store.DB, first task.Claimed) {
	t.Helper()
	b := exchange(t, db, 1, ok(first)).Claimed
	if len(b) != 1 || b[0].RunID != first.RunID || b[0].Step != "b" {
		t.Fatalf("after the first step of run %s claimed %+v, want its second", first.RunID, b)
	}
	exchange(t, db, 0, ok(b[0]))
}

// occurrence returns outcome and reason of the due time so many hours after midnight.
func occurrence(t *testing.T, db *store.DB, hour int) string {
	t.Helper()
	read, _ := db.SQL()
	at := midnight.Add(time.Duration(hour) * time.Hour)
	query, arg := "SELECT outcome || ': ' || coalesce(reason, '') || CASE WHEN run_id IS NULL THEN '' ELSE '!' END FROM occurrence WHERE due_at = $1", any(at)
	if _, err := read.ExecContext(t.Context(), "SELECT sqlite_version()"); err == nil {
		arg = at.UnixMicro()
	}
	var text string
	if err := read.QueryRowContext(t.Context(), query, arg).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTurns_OverlapSkipMakesNoRunWhileOneIsLive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		first := made(t, db, due(1, task.OverlapSkip))
		if first.Existing || first.Outcome != task.DueCaughtUp || first.Reason != "late 1" {
			t.Errorf("the first = %+v; want a run, caught up", first)
		}
		second := made(t, db, due(2, task.OverlapSkip))
		if !second.Existing || second.Run.ID != "" || second.Outcome != task.DueSkipped || !strings.Contains(second.Reason, first.Run.ID) {
			t.Errorf("the second = %+v; want no run, skipped because of %s", second, first.Run.ID)
		}
		if got := occurrence(t, db, 2); got != "skipped: run "+first.Run.ID+" is live (overlap: skip)" {
			t.Errorf("its due time is %q", got)
		}
		if again := made(t, db, due(2, task.OverlapSkip)); again.Run.ID != "" || again.Outcome != task.DueSkipped || again.Reason != second.Reason {
			t.Errorf("asked again = %+v, want the same", again)
		}
		sound(t, db)
		finish(t, db, claim(t, db, 1)[0])
		if third := made(t, db, due(3, task.OverlapSkip)); third.Existing {
			t.Errorf("after the first is over = %+v, want a run", third)
		}
		sound(t, db)
	})
}

func TestTurns_OverlapIsDecidedOnceWhateverAsksAtTheSameTime(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var wg sync.WaitGroup
		for hour := range 8 {
			wg.Go(func() {
				if _, err := db.CreateRun(t.Context(), due(hour, task.OverlapSkip)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := count(t, db, "SELECT count(*) FROM run"); n != 1 {
			t.Errorf("%d runs were made at once, want 1", n)
		}
		if n := count(t, db, "SELECT count(*) FROM occurrence WHERE outcome = 'skipped'"); n != 7 {
			t.Errorf("%d due times are skipped, want 7", n)
		}
		sound(t, db)
	})
}

func TestTurns_OverlapQueueGoesInTheOrderOfDueTimes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		first := made(t, db, due(1, task.OverlapQueue))
		third := made(t, db, due(3, task.OverlapQueue))
		second := made(t, db, due(2, task.OverlapQueue))
		if first.Outcome != task.DueCaughtUp || third.Outcome != task.DueWaiting || third.Run.Status != task.RunPending {
			t.Errorf("the first is %s, the third %s; want it to wait", first.Outcome, third.Outcome)
		}
		if got := occurrence(t, db, 3); got != "waiting: run "+first.Run.ID+" of job month-end is live (overlap: queue)!" {
			t.Errorf("the third due time is %q", got)
		}
		sound(t, db)
		turns(t, db, 0)
		a := claim(t, db, 1)[0]
		nothing(t, db)
		finish(t, db, a)
		turns(t, db, 1)
		turns(t, db, 0)
		sound(t, db)
		if a = claim(t, db, 1)[0]; a.RunID != second.Run.ID {
			t.Errorf("then ran %s, want the second, which was due before the third", a.RunID)
		}
		if got := occurrence(t, db, 2); got != "caught_up: late 2!" {
			t.Errorf("the second due time is %q, want as if it had not waited", got)
		}
		waits, err := db.Turns(t.Context(), []string{second.Run.ID, third.Run.ID})
		if w := waits[third.Run.ID]; err != nil || len(waits) != 1 || w.For != second.Run.ID {
			t.Errorf("Turns = %+v, %v; want the third to wait for the second", waits, err)
		}
		finish(t, db, a)
		turns(t, db, 1)
		finish(t, db, claim(t, db, 1)[0])
		if got := turns(t, db, 0); got.Waiting {
			t.Error("somebody waits still")
		}
		sound(t, db)
	})
}

func TestTurns_OverlapCountsWhatPeopleStartButNotWhatRunsStartOrPutOff(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		off := newRun("", steps(noop("a")))
		off.NotBefore = time.Now().Add(time.Hour)
		create(t, db, off)
		call := create(t, db, newRun("caller", steps(noop("call"))))
		c := claim(t, db, 1)[0]
		below := child("", noop("inner"))
		below.Run.Job = "month-end"
		spawn(t, db, c, below)
		finishing := claim(t, db, 1)[0]
		write(t, db, "UPDATE run SET job = 'other' WHERE id = '"+call.ID+"'")
		if got := made(t, db, due(1, task.OverlapQueue)); got.Outcome != task.DueCaughtUp {
			t.Errorf("beside a run of a run and one that is put off it is %s: %s; want it to begin", got.Outcome, got.Reason)
		}
		if got := made(t, db, due(2, task.OverlapSkip)); got.Outcome != task.DueSkipped {
			t.Errorf("beside a run at work it is %s, want skipped", got.Outcome)
		}
		exchange(t, db, 0, ok(finishing))
		sound(t, db)
	})
}

func TestTurns_NotBeforeKeepsEverythingPending(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		n := newRun("k", steps(noop("a"), conditional(noop("if", "a"), "yes")))
		n.NotBefore = c.now().Add(time.Hour)
		run := create(t, db, n)
		if r := row(t, db, run.ID, "a", ""); !r.RunAt.Equal(n.NotBefore) {
			t.Errorf("its first step is due at %s, want %s", r.RunAt, n.NotBefore)
		}
		sound(t, db)
		if got := turns(t, db, 0); got.Next != time.Hour || !got.Waiting {
			t.Errorf("TakeTurns = %+v, want the next in an hour", got)
		}
		if w, err := db.Turns(t.Context(), []string{run.ID}); err != nil || !w[run.ID].Until.Equal(n.NotBefore) {
			t.Errorf("Turns = %+v, %v", w, err)
		}
		c.move(time.Hour - time.Microsecond)
		turns(t, db, 0)
		nothing(t, db)
		if got := status(t, db, run.ID); got != task.RunPending {
			t.Errorf("it is %s, want pending", got)
		}
		c.move(time.Microsecond)
		turns(t, db, 1)
		work(t, db)
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("it is %s, want success", got)
		}
		sound(t, db)
	})
}

func TestTurns_ACancelOfARunThatWaits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		first := made(t, db, due(1, task.OverlapQueue))
		second := made(t, db, due(2, task.OverlapQueue))
		third := due(3, task.OverlapQueue)
		third.Tasks = append(third.Tasks, finally(noop("z")))
		last := made(t, db, third)
		if got := cancel(t, db, second.Run.ID); got.Status != task.RunCancelled {
			t.Errorf("it is %s, want cancelled", got.Status)
		}
		if got := cancel(t, db, last.Run.ID); got.Status != task.RunPending {
			t.Errorf("with steps of finally it is %s, want pending until its turn", got.Status)
		}
		nextPhases(t, db)
		for hour, run := range map[int]string{2: second.Run.ID, 3: last.Run.ID} {
			if got := occurrence(t, db, hour); got != "skipped: run "+run+" was cancelled before its turn came!" {
				t.Errorf("its due time is %q", got)
			}
		}
		sound(t, db)
		a := claim(t, db, 1)[0]
		if nothing(t, db); a.RunID != first.Run.ID {
			t.Errorf("claimed of %s", a.RunID)
		}
		finish(t, db, a)
		turns(t, db, 1)
		z := claim(t, db, 1)[0]
		if z.RunID != last.Run.ID || z.Step != "z" {
			t.Errorf("claimed %s of %s, want what finally has to do", z.Step, z.RunID)
		}
		exchange(t, db, 0, ok(z))
		if got := status(t, db, last.Run.ID); got != task.RunCancelled {
			t.Errorf("in the end it is %s, want cancelled", got)
		}
		sound(t, db)
	})
}
