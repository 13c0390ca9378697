package store_test

import (
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// A waiter is a worker without work that lends to who hears of tasks.
type waiter struct {
	free  int // light slots
	given chan []task.Claimed
}

func await(t *testing.T, db *store.DB, free int) *waiter {
	t.Helper()
	w := &waiter{free: free, given: make(chan []task.Claimed, 1000)}
	t.Cleanup(db.Attend(func(types []string) (task.Loan, bool) {
		return task.Loan{
			Worker: worker, Want: task.Want{N: w.free, Types: allTypes, Lease: time.Minute},
			Repay: func(claimed []task.Claimed, err error) {
				if err != nil {
					t.Errorf("the worker hears of %v", err)
				}
				w.given <- claimed
			},
		}, types == nil && w.free > 0
	}))
	return w
}

// gets waits for what the worker is given next that is something.
func (w *waiter) gets(t *testing.T) []task.Claimed {
	t.Helper()
	for {
		select {
		case claimed := <-w.given:
			if len(claimed) > 0 {
				return claimed
			}
		case <-time.After(bellWait):
			t.Fatal("the worker was given nothing")
		}
	}
}

// silentBell checks that nothing was heard of, up to what a ring from there tells now.
func silentBell(t *testing.T, from *store.DB, heard <-chan task.News) {
	t.Helper()
	from.Ring()
	select {
	case n := <-heard:
		if n != task.NewsAny {
			t.Errorf("heard of %d, want nothing but the last ring", n)
		}
	case <-time.After(bellWait):
		t.Fatal("nothing was heard")
	}
}

func twoProcesses(t *testing.T) (here, there *store.DB, heard <-chan task.News) {
	t.Helper()
	url := storetest.Postgres(t)
	here, there = storetest.Open(t, url, store.Options{}), storetest.Open(t, url, store.Options{})
	return here, there, listen(t, there)
}

func TestBell_WhoHearsOfATaskClaimsItForAWorkerWithoutWork(t *testing.T) {
	t.Parallel()
	here, there, heard := twoProcesses(t)
	w := await(t, there, 2)
	for _, list := range [][]task.Lone{
		{{Type: "noop", Key: "a", Priority: 7}},
		{{Type: "noop", Delay: time.Hour}, {Type: "noop", Key: "b"}},
	} {
		made := mustEnqueue(t, here, list...)
		got := w.gets(t)
		last := len(made) - 1
		if len(got) != 1 || got[0].TaskID != made[last].ID || got[0].Key != list[last].Key || got[0].Fence != 1 || got[0].Attempt != 1 {
			t.Errorf("the worker was given %+v of %+v", got, made)
		}
		exchange(t, there, 0, ok(got[0]))
	}
	silentBell(t, here, heard)
	sound(t, here)
}

func TestBell_WhoHearsOfMoreThanItCanTakeTellsOfTheRest(t *testing.T) {
	t.Parallel()
	here, there, heard := twoProcesses(t)
	w := await(t, there, 2)
	mustEnqueue(t, here, task.Lone{Type: "noop"}, task.Lone{Type: "noop"}, task.Lone{Type: "noop"})
	if got := w.gets(t); len(got) != 2 {
		t.Errorf("the worker was given %d tasks, want its 2 slots full", len(got))
	}
	hears(t, heard)
	claim(t, there, 1)
	sound(t, here)
}

func TestBell_WhoHearsOfATaskTellsWorkersThatAreBusy(t *testing.T) {
	t.Parallel()
	here, there, heard := twoProcesses(t)
	await(t, there, 0)
	mustEnqueue(t, here, task.Lone{Type: "noop"})
	if n := <-heard; n != task.NewsReady {
		t.Errorf("heard of %d, want of what is ready", n)
	}
	claim(t, there, 1)
}

func TestBell_NothingIsClaimedOfWhatIsOnHold(t *testing.T) {
	t.Parallel()
	here, there, heard := twoProcesses(t)
	w := await(t, there, 2)
	holding("type:noop")(t, here)
	mustEnqueue(t, here, task.Lone{Type: "noop"})
	if got := <-w.given; len(got) != 0 {
		t.Errorf("the worker was given %+v", got)
	}
	silentBell(t, here, heard)
	sound(t, here)
}

func TestBell_WhatAGateHoldsIsToldOfAsThat(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		here, there := storetest.Open(t, url, store.Options{}), storetest.Open(t, url, store.Options{})
		heard := listen(t, there)
		mustEnqueue(t, here, task.Lone{Type: "noop"}, task.Lone{Type: "noop", Limits: []task.Limit{{Key: "ledger", Slots: 1}}})
		for n := range heard {
			if n == task.NewsAny {
				return
			}
		}
	})
}

// TestBell_AProcessOfAnEarlierVersionIsHeard sends what such a process sends.
func TestBell_AProcessOfAnEarlierVersionIsHeard(t *testing.T) {
	t.Parallel()
	here, _, heard := twoProcesses(t)
	write(t, here, "SELECT pg_notify('madeira_ready', 'SOMENAME')")
	if n := <-heard; n != task.NewsAny {
		t.Errorf("heard of %d, want of anything", n)
	}
}

func TestBell_ListensOnAfterAClaimThatFailed(t *testing.T) {
	t.Parallel()
	here, there, heard := twoProcesses(t)
	w := await(t, there, 2)
	write(t, here, "ALTER TABLE task_lease ADD CHECK (worker <> '"+worker+"') NOT VALID")
	mustEnqueue(t, here, task.Lone{Type: "noop"})
	if n := <-heard; n != task.NewsReady {
		t.Errorf("heard of %d, want of what is ready", n)
	}
	if got := <-w.given; len(got) != 0 {
		t.Errorf("the worker was given %+v", got)
	}
	write(t, here, "ALTER TABLE task_lease DROP CONSTRAINT task_lease_worker_check")
	mustEnqueue(t, here, task.Lone{Type: "noop"})
	if got := w.gets(t); len(got) != 2 {
		t.Errorf("the worker was given %d tasks, want both", len(got))
	}
	sound(t, here)
}

func TestBell_WhoHearsOfMoreThanItsHeavySlotsTakeTellsOfTheRest(t *testing.T) {
	t.Parallel()
	here, there, heard := twoProcesses(t)
	given := make(chan []task.Claimed, 10)
	t.Cleanup(there.Attend(func(types []string) (task.Loan, bool) {
		want := task.Want{N: 5, Types: []string{"noop"}, Heavy: 1, HeavyTypes: []string{"src"}, Lease: time.Minute}
		return task.Loan{Worker: worker, Want: want, Repay: func(claimed []task.Claimed, _ error) { given <- claimed }}, types == nil
	}))
	mustEnqueue(t, here, task.Lone{Type: "src"}, task.Lone{Type: "src"})
	if got := <-given; len(got) != 1 {
		t.Errorf("the worker was given %d tasks, want its heavy slot full", len(got))
	}
	hears(t, heard)
	claim(t, there, 1)
	sound(t, here)
}
