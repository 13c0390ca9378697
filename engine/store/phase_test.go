package store_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func in(p task.Phase, s task.NewTask) task.NewTask {
	s.Phase = p
	return s
}

func excused(s task.NewTask) task.NewTask {
	s.ContinueOnError = true
	return s
}

// settle works a run off: steps that are named fail, and the kit's rule decides.
func settle(t *testing.T, db *store.DB, failing ...string) {
	t.Helper()
	bad := map[string]bool{}
	for _, f := range failing {
		bad[f] = true
	}
	var done []task.Outcome
	for range 100 {
		x := exchange(t, db, 10, done...)
		done = nil
		for _, c := range x.Claimed {
			o := ok(c)
			if bad[c.Step] {
				o = fail(c)
			}
			done = append(done, o)
		}
		decided := decideAll(t, db)
		begun, err := db.NextPhase(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		sound(t, db)
		if len(x.Claimed) == 0 && !decided && begun == 0 {
			return
		}
	}
	t.Fatal("the runs do not end")
}

func TestNextPhase_RunsOnFailureAfterAFailureAndFinallyAlways(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		failing []string
		steps   []task.NewTask
		want    task.RunStatus
		states  map[string]task.State
	}{
		{"all well", nil, steps(noop("a"), in("on_failure", noop("f")), in("on_failure", noop("g", "f")), in("finally", noop("z"))),
			task.RunSuccess, map[string]task.State{"a": "success", "f": "skipped", "g": "skipped", "z": "success"}},
		{"a step failed", []string{"a"}, steps(noop("a"), noop("b", "a"), in("on_failure", noop("f")), in("on_failure", noop("g", "f")), in("finally", noop("z"))),
			task.RunError, map[string]task.State{"a": "error", "b": "skipped", "f": "success", "g": "success", "z": "success"}},
		{"on_failure fails too", []string{"a", "f"}, steps(noop("a"), in("on_failure", noop("f")), in("finally", noop("z"))),
			task.RunError, map[string]task.State{"a": "error", "f": "error", "z": "success"}},
		{"finally fails", []string{"y"}, steps(noop("a"), in("finally", noop("y")), in("finally", noop("z", "y"))),
			task.RunWarning, map[string]task.State{"a": "success", "y": "error", "z": "skipped"}},
		{"finally fails after a failure", []string{"a", "z"}, steps(noop("a"), in("finally", noop("z"))),
			task.RunError, map[string]task.State{"a": "error", "z": "error"}},
		{"only on_failure, and nothing failed", nil, steps(noop("a"), in("on_failure", noop("f"))),
			task.RunSuccess, map[string]task.State{"a": "success", "f": "skipped"}},
		{"a failure that is excused is none", []string{"a"}, steps(excused(noop("a")), noop("b", "a"), in("on_failure", noop("f"))),
			task.RunWarning, map[string]task.State{"a": "error", "b": "success", "f": "skipped"}},
		{"an excused failure beside one that is not", []string{"a", "b"}, steps(excused(noop("a")), noop("b", "a"), noop("c", "b")),
			task.RunError, map[string]task.State{"a": "error", "b": "error", "c": "skipped"}},
		{"conditions of later phases are decided in their time", nil,
			steps(noop("a"), in("finally", conditional(noop("y"), "no")), in("finally", conditional(noop("z", "y"), "always"))),
			task.RunSuccess, map[string]task.State{"a": "success", "y": "skipped", "z": "success"}},
		{"all of main is skipped", nil, steps(conditional(noop("a"), "no"), in("finally", noop("z"))),
			task.RunSuccess, map[string]task.State{"a": "skipped", "z": "success"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				run := create(t, db, newRun("k", c.steps))
				sound(t, db)
				settle(t, db, c.failing...)
				if got := states(t, db, run.ID); !maps.Equal(got, c.states) {
					t.Errorf("steps are %v, want %v", got, c.states)
				}
				if got := status(t, db, run.ID); got != c.want {
					t.Errorf("the run is %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestNextPhase_LetsNothingOfALaterPhaseBeginEarly(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"), in("on_failure", conditional(noop("f"), "always")), in("finally", noop("z")))))
		a := claim(t, db, 1)[0]
		for range 2 {
			if open, err := db.Undecided(t.Context(), 10); err != nil || len(open) != 0 {
				t.Errorf("Undecided = %+v, %v; want nothing before its phase", open, err)
			}
			if n, err := db.NextPhase(t.Context(), 10); err != nil || n != 0 {
				t.Errorf("NextPhase = %d, %v; want 0 while main is open", n, err)
			}
		}
		if x := exchange(t, db, 5, fail(a)); len(x.Claimed) != 0 {
			t.Errorf("claimed %v before the phase has begun", names(x.Claimed))
		}
		sound(t, db)
	})
}

func TestNextPhase_BeginsOnceWhoeverAsks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for i := range 20 {
			create(t, db, newRun(fmt.Sprint(i), steps(noop("a"), in("finally", noop("z")))))
		}
		var done []task.Outcome
		for _, c := range claim(t, db, 20) {
			done = append(done, ok(c))
		}
		exchange(t, db, 0, done...)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if _, err := db.NextPhase(t.Context(), 50); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		sound(t, db)
		if got := claim(t, db, 20); got[0].Step != "z" {
			t.Errorf("claimed %v", names(got))
		}
		if more := exchange(t, db, 10).Claimed; len(more) != 0 {
			t.Errorf("a phase began twice: %v", names(more))
		}
	})
}

func TestNextPhase_AfterAStopOnlyFinallyRuns(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for stopped, want := range map[string]task.RunStatus{"cancelled": task.RunCancelled, "timeout": task.RunError} {
			run := create(t, db, newRun(stopped, steps(noop("a"), in("on_failure", noop("f")), in("finally", noop("z")))))
			a := claim(t, db, 1)[0]
			write(t, db, "UPDATE run SET stopped = '"+stopped+"' WHERE id = '"+run.ID+"'")
			exchange(t, db, 0, fail(a))
			settle(t, db)
			if got, want := states(t, db, run.ID), map[string]task.State{"a": "error", "f": "skipped", "z": "success"}; !maps.Equal(got, want) {
				t.Errorf("%s: steps are %v, want %v", stopped, got, want)
			}
			if got := status(t, db, run.ID); got != want {
				t.Errorf("%s: the run is %s, want %s", stopped, got, want)
			}
		}
	})
}

func TestScope_ShowsLaterPhasesTheFirstFailure(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(excused(noop("x")), noop("a"), noop("b", "a"), in("on_failure", conditional(noop("f"), "always")))))
		var done []task.Outcome
		for _, c := range claim(t, db, 2) {
			if scope, err := db.Scope(t.Context(), c); err != nil || scope.Failure != nil || scope.Phase != task.PhaseMain {
				t.Errorf("in main: %+v, %v", scope, err)
			}
			o := fail(c)
			o.Failure.Message = "no " + c.Step
			done = append(done, o)
		}
		exchange(t, db, 0, done...)
		decideAll(t, db)
		if n, err := db.NextPhase(t.Context(), 1); n != 1 || err != nil {
			t.Fatalf("NextPhase = %d, %v", n, err)
		}
		open, err := db.Undecided(t.Context(), 10)
		if err != nil || len(open) != 1 || open[0].Phase != task.PhaseOnFailure {
			t.Fatalf("Undecided = %+v, %v", open, err)
		}
		want := task.RunFailure{Step: "a", Error: "no a", Attempts: 1}
		if f := open[0].Scope.Failure; f == nil || *f != want {
			t.Errorf("the failure is %+v, want %+v", f, want)
		}
		decideAll(t, db)
		scope, err := db.Scope(t.Context(), claim(t, db, 1)[0])
		if err != nil || scope.Failure == nil || *scope.Failure != want {
			t.Errorf("the failure is %+v, %v; want %+v", scope.Failure, err, want)
		}
	})
}

func TestUndecided_TellsThatAFailureIsExcused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(excused(noop("a")), conditional(noop("b", "a"), "always"))))
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		open, err := db.Undecided(t.Context(), 10)
		if err != nil || len(open) != 1 || !open[0].Needs["a"].Excused {
			t.Errorf("Undecided = %+v, %v; want a excused", open, err)
		}
		if n := count(t, db, "SELECT count(*) FROM dead_letter"); n != 1 {
			t.Errorf("%d dead letters, want the excused one", n)
		}
	})
}

func TestWake_MovesAWaitingTaskOnceAndSaysWhy(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, clock *clock) {
		run := create(t, db, newRun("k", steps(noop("a"), noop("b", "a"))))
		waits := func(c task.Claimed, expire time.Duration) task.Outcome {
			return task.Outcome{Hold: c.Hold, To: task.Waiting, Reason: task.ReasonWait, Unspent: true, Delay: expire}
		}
		c := claim(t, db, 1)[0]
		if x := exchange(t, db, 5, waits(c, time.Hour)); len(x.Claimed) != 0 || len(x.Lost) != 0 {
			t.Fatalf("a wait gave %+v", x)
		}
		sound(t, db)
		for _, want := range []bool{true, false} {
			if got, err := db.Wake(t.Context(), c.TaskID, task.WakeAnswered); err != nil || got != want {
				t.Errorf("Wake = %t, %v; want %t", got, err, want)
			}
		}
		sound(t, db)
		c = claim(t, db, 1)[0]
		if c.Woken != task.WakeAnswered || c.Attempt != 1 {
			t.Errorf("claimed %+v, want it answered, in attempt 1", c)
		}
		// What was woken is known until the task ends, however often it is tried.
		c = exchange(t, db, 5, task.Outcome{Hold: c.Hold, To: task.Pending, Reason: task.ReasonRetry}).Claimed[0]
		if c.Woken != task.WakeAnswered || c.Attempt != 2 {
			t.Errorf("tried again as %+v, want it answered, in attempt 2", c)
		}
		exchange(t, db, 0, waits(c, time.Minute))
		if n, next, err := db.Promote(t.Context(), 10); n != 0 || next != time.Minute || err != nil {
			t.Errorf("Promote = %d, %s, %v; want 0, 1m", n, next, err)
		}
		clock.move(time.Hour)
		if n, _, err := db.Promote(t.Context(), 10); n != 1 || err != nil {
			t.Errorf("Promote = %d, %v; want 1", n, err)
		}
		sound(t, db)
		c = claim(t, db, 1)[0]
		if c.Woken != task.WakeExpired {
			t.Errorf("woken as %q, want %q", c.Woken, task.WakeExpired)
		}
		exchange(t, db, 0, ok(c))
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("the run is %s", got)
		}
		sound(t, db)
	})
}
