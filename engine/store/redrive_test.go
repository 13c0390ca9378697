package store_test

import (
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func redrive(t *testing.T, db *store.DB, f store.DeadFilter, rate float64) task.Redriven {
	t.Helper()
	got, err := db.Redrive(t.Context(), f, rate, task.Action{Actor: "ann", Reason: "upstream is back"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRedrive_TakesTheRunUpAgainWithWhatWasSkipped(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(noop("a"), noop("b", "a"), noop("c", "b"), conditional(noop("d", "a"), "always"),
			onFailure(noop("f")), finally(noop("z")))))
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		workPhases(t, db)
		if got := status(t, db, run.ID); got != task.RunError {
			t.Fatalf("the run is %s, want error", got)
		}
		sound(t, db)
		got := redrive(t, db, store.DeadFilter{Type: "noop", Job: "month-end"}, 0)
		if got.Tasks != 1 || got.Reopened != 2 || len(got.Refused) != 0 {
			t.Errorf("redriven = %+v, want 1 task and 2 behind it", got)
		}
		sound(t, db)
		if got := status(t, db, run.ID); got != task.RunRunning {
			t.Errorf("the run is %s, want running", got)
		}
		workPhases(t, db)
		want := map[string]task.State{"a": "success", "b": "success", "c": "success", "d": "success", "f": "success", "z": "success"}
		for step, state := range states(t, db, run.ID) {
			if state != want[step] {
				t.Errorf("%s is %s, want %s", step, state, want[step])
			}
		}
		if n := count(t, db, "SELECT count(*) FROM task_log l JOIN task_queue t ON t.id = l.task_id WHERE t.step IN ('d', 'f', 'z') AND l.to_state = 'success'"); n != 3 {
			t.Errorf("the steps that were not behind the failure ran %d times, want 3", n)
		}
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("the run is %s, want success", got)
		}
		if n := count(t, db, "SELECT count(*) FROM audit_log WHERE action = 'redrive'"); n != 1 {
			t.Errorf("%d rows in the audit log, want 1", n)
		}
		sound(t, db)
	})
}

func TestRedrive_RefusesWhatCannotGoOn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		old := create(t, db, newRun("k", steps(noop("a"))))
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		create(t, db, newRun("k", steps(noop("a")))) // the next version, live
		got := redrive(t, db, store.DeadFilter{Run: old.ID}, 0)
		if got.Tasks != 0 || len(got.Refused) != 1 || !strings.Contains(got.Refused[0].Why, "newer version") {
			t.Errorf("redrive under a live newer version = %+v, want a refusal that names it", got)
		}
		b := claim(t, db, 1)[0]
		_, err := db.Redrive(t.Context(), store.DeadFilter{IDs: []int64{b.TaskID}}, 0, person)
		if err == nil || !strings.Contains(err.Error(), "is no dead letter: it is processing") {
			t.Errorf("redrive of a task at work: %v", err)
		}
		exchange(t, db, 0, ok(b))
		got = redrive(t, db, store.DeadFilter{Run: old.ID}, 0)
		if got.Tasks != 0 || len(got.Refused) != 1 || !strings.Contains(got.Refused[0].Why, "newer version") {
			t.Errorf("redrive behind a newer version that ended well = %+v, want a refusal that names it", got)
		}
		sound(t, db)
	})
}

func TestRedrive_OfTwoVersionsTakesTheNewer(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for range 2 {
			create(t, db, newRun("k", steps(noop("a"))))
			exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		}
		if got := redrive(t, db, store.DeadFilter{}, 0); got.Tasks != 1 || len(got.Refused) != 1 {
			t.Errorf("redriven = %+v, want the newer version and a refusal of the older", got)
		}
		sound(t, db)
	})
}

func TestRedrive_AnElementTakesItsStepAlong(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		each := noop("a")
		each.ForEach = []byte(`[1, 2]`)
		run := create(t, db, newRun("k", steps(each, noop("b", "a"))))
		if err := db.Expand(t.Context(), claim(t, db, 1)[0].Hold, []task.Element{{Key: "0", Value: []byte("1")}, {Key: "1", Value: []byte("2")}}); err != nil {
			t.Fatal(err)
		}
		both := claim(t, db, 2)
		exchange(t, db, 0, ok(both[0]), fail(both[1]))
		joined := claim(t, db, 1)[0]
		exchange(t, db, 0, fail(joined))
		decideAll(t, db)
		sound(t, db)
		if got := redrive(t, db, store.DeadFilter{IDs: []int64{both[1].TaskID}}, 0); got.Tasks != 2 || got.Reopened != 1 {
			t.Errorf("redriven = %+v, want the element and its step, and b behind them", got)
		}
		sound(t, db)
		again := claim(t, db, 2)
		exchange(t, db, 0, ok(again[0]), ok(again[1]))
		workPhases(t, db)
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("the run is %s, want success", got)
		}
		sound(t, db)
	})
}

func TestFault_F73_TenThousandDeadLettersAreRedrivenAtARate(t *testing.T) {
	notRaced(t)
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		const letters = 10_000
		var list []task.NewTask
		for i := range 500 {
			list = append(list, noop("s"+string(rune('a'+i%26))+strings.Repeat("x", i/26)))
		}
		for range letters / len(list) {
			create(t, db, newRun("", list))
		}
		for x := exchange(t, db, 500); len(x.Claimed) > 0; {
			var failed []task.Outcome
			for _, claimed := range x.Claimed {
				failed = append(failed, fail(claimed))
			}
			x = exchange(t, db, 500, failed...)
		}
		if n := count(t, db, "SELECT count(*) FROM dead_letter"); n != letters {
			t.Fatalf("%d dead letters, want %d", n, letters)
		}
		got := redrive(t, db, store.DeadFilter{}, 1000)
		if got.Tasks != letters || !got.Last.Equal(c.now().Add((letters-1)*time.Millisecond)) {
			t.Errorf("redriven = %d, the last due %s from now; want %d in 10 s", got.Tasks, got.Last.Sub(c.now()), letters)
		}
		if n := count(t, db, "SELECT count(*) FROM audit_log WHERE action = 'redrive'"); n != letters {
			t.Errorf("%d rows in the audit log, want %d", n, letters)
		}
		for second := range 10 {
			if _, _, err := db.Promote(t.Context(), letters); err != nil {
				t.Fatal(err)
			}
			if n := count(t, db, "SELECT count(*) FROM task_ready"); n > second*1000+1 {
				t.Errorf("%d tasks are due after %d s, want at most %d", n, second, second*1000+1)
			}
			c.move(time.Second)
		}
		if _, _, err := db.Promote(t.Context(), letters); err != nil {
			t.Fatal(err)
		}
		work(t, db)
		if n := count(t, db, "SELECT count(*) FROM run WHERE status <> 'success'"); n != 0 {
			t.Errorf("%d runs did not end well", n)
		}
		sound(t, db)
	})
}

func TestDead_ListsNewestFirstInPages(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		var want []int64
		for range 5 {
			create(t, db, newRun("", steps(noop("a"))))
			x := claim(t, db, 1)[0]
			exchange(t, db, 0, fail(x))
			want = append([]int64{x.TaskID}, want...)
			c.move(time.Second)
		}
		for _, most := range []int{3, 5, 9} {
			if n, err := db.CountDead(t.Context(), most); err != nil || n != min(most, len(want)) {
				t.Errorf("counted %d up to %d, %v; want %d", n, most, err, min(most, len(want)))
			}
		}
		var got []int64
		for f := (store.DeadFilter{Limit: 2, Job: "month-end"}); ; {
			page, err := db.Dead(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, d := range page {
				got = append(got, d.ID)
			}
			f.After = store.DeadCursor(page[len(page)-1])
		}
		if len(got) != len(want) {
			t.Fatalf("listed %v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("listed %v, want %v", got, want)
			}
		}
		if none, err := db.Dead(t.Context(), store.DeadFilter{Class: "poison"}); err != nil || len(none) != 0 {
			t.Errorf("of class poison: %v, %v; want none", none, err)
		}
	})
}
