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

// lone makes tasks of no run, one for each priority.
func lone(t *testing.T, db *store.DB, priorities ...int) {
	t.Helper()
	list := make([]task.Lone, len(priorities))
	for i, p := range priorities {
		list[i] = task.Lone{Type: "noop", Priority: p}
	}
	mustEnqueue(t, db, list...)
}

func priorities(claimed []task.Claimed) []int {
	got := []int{}
	for _, c := range claimed {
		got = append(got, c.Priority)
	}
	return got
}

func TestExchange_ClaimsStepsAmongTasksOfNoRunInOneCall(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		lone(t, db, 10, 20, 150, 160)
		run := create(t, db, newRun("k", steps(noop("a"), noop("b"))))
		got := claim(t, db, 5)
		if want := []int{10, 20, 100, 100, 150}; !slices.Equal(priorities(got), want) {
			t.Errorf("claimed tasks of priority %d, want %d", priorities(got), want)
		}
		for _, c := range got[2:4] {
			if c.RunID != run.ID || c.Step == "" || !c.NeedsRun {
				t.Errorf("claimed %+v, want a step of the run", c)
			}
		}
		if n := count(t, db, "SELECT count(*) FROM task_lease"); n != 5 {
			t.Errorf("%d leases, want 5", n)
		}
		sound(t, db)
	})
}

func TestExchange_TakesTheOldestWhereItMeetsASecondPriority(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		lone(t, db, 200)
		lone(t, db, slices.Repeat([]int{100}, 20)...)
		x, err := db.Exchange(t.Context(), worker, nil, task.Want{N: 8, Oldest: 1, Types: allTypes, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if want := append(slices.Repeat([]int{100}, 7), 200); !slices.Equal(priorities(x.Claimed), want) {
			t.Errorf("claimed tasks of priority %d, want %d", priorities(x.Claimed), want)
		}
		sound(t, db)
	})
}

func TestExchange_AHoldThatComesBetweenTwoClaimsHolds(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		lone(t, db, 100, 100, 100, 100)
		claim(t, db, 2)
		if _, err := db.Pause(t.Context(), task.Action{Actor: "ann", Action: "pause", Subject: "type:noop"}); err != nil {
			t.Fatal(err)
		}
		if x := exchange(t, db, 2); len(x.Claimed) != 0 {
			t.Errorf("claimed %d tasks of a type that is on hold", len(x.Claimed))
		}
	})
}

func TestExchange_TellsWhatIsSeldomOfATaskOfNoRun(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		want := task.Lone{Type: "noop", Key: "k", Payload: []byte(`{"b":1,"a":2}`), Circuit: "mail", Retry: task.Retry{MaxAttempts: 3}, Timeout: time.Second}
		if _, err := db.Enqueue(t.Context(), []task.Lone{want, {Type: "noop"}}); err != nil {
			t.Fatal(err)
		}
		got := claim(t, db, 2)
		c := got[0]
		if c.Key != want.Key || string(c.Settings) != string(want.Payload) || c.Circuit != want.Circuit || c.Retry.MaxAttempts != 3 || c.Timeout != want.Timeout ||
			c.Attempt != 1 || c.Fence != 1 || c.Type != "noop" || c.Lease != time.Minute || c.At.IsZero() || c.NeedsRun {
			t.Errorf("claimed %+v", c)
		}
		if c = got[1]; c.Key != "" || c.Circuit != "" || !c.Retry.IsZero() || c.Timeout != 0 || string(c.Settings) != "{}" {
			t.Errorf("claimed %+v, want all at its default", c)
		}
	})
}

func TestExchange_WhatAnUnansweredSecondClaimTookIsGivenBack(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Postgres(t), store.Options{})
	lone(t, db, 10, 20)
	create(t, db, newRun("k", steps(noop("a"), noop("b"))))
	db.LoseAnswerAfter(1)
	if got, want := priorities(exchange(t, db, 4).Claimed), []int{10, 20}; !slices.Equal(got, want) {
		t.Fatalf("claimed tasks of priority %d, want %d", got, want)
	}
	if n := count(t, db, "SELECT count(*) FROM task_lease"); n != 4 {
		t.Fatalf("%d leases, want those of 4 tasks", n)
	}
	got := claim(t, db, 2)
	for _, c := range got {
		if c.Attempt != 1 || c.Fence != 2 {
			t.Errorf("step %s comes back with attempt %d and fence %d, want 1 and 2", c.Step, c.Attempt, c.Fence)
		}
	}
	sound(t, db)
}

func TestExchange_OfSuccessesOfNoRunOnlyTheLostAreListed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		lone(t, db, 100, 100, 100)
		var done []task.Outcome
		for i, c := range claim(t, db, 3) {
			o := ok(c)
			o.Alone, o.Ungated, o.Took = true, true, time.Second
			if o.Outputs = []byte("{}"); i == 2 {
				o.Outputs = []byte(`{"n":1}`)
			}
			done = append(done, o)
		}
		done[1].Fence++
		x := exchange(t, db, 0, done...)
		if want := []task.Hold{done[1].Hold}; !slices.Equal(x.Lost, want) {
			t.Errorf("lost %v, want %v", x.Lost, want)
		}
		if x = exchange(t, db, 0, done...); len(x.Lost) != 1 {
			t.Errorf("handed in again, %v are lost, want the same", x.Lost)
		}
		for query, want := range map[string]int{
			"SELECT count(*) FROM task_queue WHERE state = 'success' AND finished_at IS NOT NULL":                                                  2,
			"SELECT count(*) FROM task_log WHERE to_state = 'success' AND from_state = 'pending' AND took_ms = 1000 AND attempt = 1 AND fence = 1": 2,
			"SELECT count(*) FROM task_lease": 1,
			fmt.Sprintf(`SELECT count(*) FROM task_queue WHERE id = %d AND CAST(outputs AS text) = '{"n":1}'`, done[2].TaskID): 1,
			fmt.Sprintf(`SELECT count(*) FROM task_queue WHERE id = %d AND CAST(outputs AS text) = '{}'`, done[0].TaskID):      1,
		} {
			if got := count(t, db, query); got != want {
				t.Errorf("%s = %d, want %d", query, got, want)
			}
		}
		done[1].Fence--
		if x = exchange(t, db, 0, done[1]); len(x.Lost) != 0 {
			t.Errorf("lost %v", x.Lost)
		}
		sound(t, db)
	})
}
