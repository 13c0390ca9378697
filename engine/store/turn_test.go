package store_test

import (
	"fmt"
	"slices"
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

func TestRun_KnowsThePeriodOfTheLastThatEndedWell(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		monthly := func(month int) task.NewRun {
			n := newRun(fmt.Sprint(month), steps(noop("a")))
			n.Run.DueAt = time.Date(2026, time.Month(month), 5, 0, 0, 0, 0, time.UTC)
			n.Run.Period = []byte(fmt.Sprintf(`{"label":"2026-%02d"}`, month-1))
			return n
		}
		want := func(run task.Run, label string) {
			t.Helper()
			if !strings.Contains(string(run.PreviousPeriod), label) || label == "" && run.PreviousPeriod != nil {
				t.Errorf("run of %s has the period %s before it, want %q", run.Period, run.PreviousPeriod, label)
			}
		}
		want(create(t, db, monthly(3)), "")
		want(create(t, db, monthly(4)), "")
		for _, c := range claim(t, db, 2) {
			exchange(t, db, 0, ok(c))
		}
		want(create(t, db, monthly(4+4)), "2026-03")
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		want(create(t, db, monthly(3)), "")
		if _, err := db.Archive(t.Context(), -time.Hour, 1_000_000); err != nil {
			t.Fatal(err)
		}
		run := create(t, db, monthly(9))
		want(run, "2026-03")
		var c task.Claimed
		for _, x := range claim(t, db, 2) {
			if x.RunID == run.ID {
				c = x
			}
		}
		scope, err := db.Scope(t.Context(), c)
		if want(scope.Run, "2026-03"); err != nil {
			t.Error(err)
		}
		if c.Run != nil {
			want(*c.Run, "2026-03")
		}
		other := monthly(10)
		other.Run.Job, other.Job.Name = "other", "other"
		want(create(t, db, other), "")
	})
}

// TestCheck_SeesPlantedViolationsOfTurns plants into runs at work and in line.
func TestCheck_SeesPlantedViolationsOfTurns(t *testing.T) {
	t.Parallel()
	plants := []plant{
		{"I14", "DELETE FROM run_slot"},
		{"I14", "UPDATE run_slot SET slot = 2"},
		{"I14", "UPDATE run_slot SET key = 'other'"},
		{"I14", "INSERT INTO run_slot (key, slot, run_id) SELECT 'ledger', 2, run_id FROM run_turn WHERE key = 'ledger'"},
		{"I14", "INSERT INTO run_slot (key, slot, run_id) SELECT 'ledger', 2, id FROM run WHERE job = 'gone'"},
		{"trn", "INSERT INTO run_turn (run_id, job, child, overlap, priority, due_at, since) SELECT id, job, false, true, 1, due_at, due_at FROM run WHERE job = 'gone'"},
		{"trn", "UPDATE task_queue SET state = 'processing' WHERE run_id IN (SELECT run_id FROM run_turn)"},
		{"I18", "INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM task_queue WHERE state = 'pending' AND run_id IN (SELECT run_id FROM run_turn)"},
		{"trn", "DELETE FROM run_turn WHERE overlap"},
		{"I18", "DELETE FROM run_turn WHERE key IS NOT NULL"},
		{"trn", "UPDATE occurrence SET outcome = 'waiting'"},
		{"trn", "DELETE FROM run_slot WHERE run_id NOT IN (SELECT run_id FROM run_turn)"},
	}
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		gone := newRun("", steps(noop("a")))
		gone.Run.Job, gone.Job.Name = "gone", "gone"
		create(t, db, gone)
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		create(t, db, under("one", "ledger", 1, noop("a")))
		create(t, db, under("one", "ledger", 1, noop("a")))
		made(t, db, due(1, task.OverlapQueue))
		made(t, db, due(2, task.OverlapQueue))
		claim(t, db, 2)
		c.move(time.Hour)
		if err := db.RegisterWorker(t.Context(), task.Worker{ID: "w9", Host: "h", PID: 1}); err != nil {
			t.Fatal(err)
		}
		sound(t, db)
		planted(t, db, plants)
	})
}
