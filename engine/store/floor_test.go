package store

import (
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/task"
)

func TestFloors_StandAfterSlowClaimsInARowAndUntilTheNextIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		want := task.Want{N: 10, Types: []string{"noop"}}
		got := []task.Claimed{{Hold: task.Hold{TaskID: 7}, Priority: 100}, {Hold: task.Hold{TaskID: 5}, Priority: 100}}
		const took = 100 * time.Millisecond
		var f floors
		stands := func(when string, expected bool) {
			t.Helper()
			if _, stands := f.of(want); stands != expected {
				t.Errorf("%s: a floor stands: %t, want %t", when, stands, expected)
			}
		}
		for range slowInARow {
			stands("before so many slow claims", false)
			f.scanned(want, got, took)
		}
		low, _ := f.of(want)
		stands("after so many", true)
		if low.priority != 100 || low.id != 5 {
			t.Errorf("the floor is %+v, want task 5 of priority 100", low)
		}
		if _, stands := f.of(task.Want{N: 10, Types: []string{"other"}}); stands {
			t.Error("a floor of one list of types stands for another")
		}
		time.Sleep(restOfScan*took - time.Millisecond)
		stands("there was no time for work yet", true)
		time.Sleep(time.Millisecond)
		stands("there was", false)

		f.claimed([]task.Claimed{{Hold: task.Hold{TaskID: 70}, Priority: 50}})
		f.scanned(want, nil, took)
		stands("after a slow claim that got nothing", true)
		if low, _ := f.of(want); low != (rank{50, 70}) {
			t.Errorf("the floor is %+v, want the newest task there was", low)
		}
		f.scanned(want, nil, slowClaim-time.Millisecond)
		stands("after a claim that was not that slow", true)

		f.scanned(want, got, time.Millisecond)
		stands("after a fast claim", false)
		var fresh floors
		for range 2 * slowInARow {
			fresh.scanned(want, nil, took)
		}
		if _, stands := fresh.of(want); stands {
			t.Error("there is a floor although no task was ever seen")
		}
		byAge := task.Want{N: 2, Oldest: 2, Types: want.Types}
		f.scanned(byAge, got, took)
		stands("after a claim by age", false)
	})
}

func TestFloors_LendNothingWhileTheLookForWhatComesBeforeIsSlow(t *testing.T) {
	t.Parallel()
	var f floors
	for range slowInARow - 1 {
		f.lent(time.Second)
	}
	f.lent(time.Millisecond)
	for range slowInARow - 1 {
		f.lent(time.Second)
	}
	if !f.lend() {
		t.Errorf("nothing is lent after %d slow commits in a row, want it after %d", slowInARow-1, slowInARow)
	}
	f.lent(time.Second)
	if f.lend() {
		t.Errorf("slots are lent after %d slow commits in a row", slowInARow)
	}
	f.keep = time.Now()
	if !f.lend() {
		t.Error("nothing is lent when the time is over")
	}
	f.lent(time.Second)
	if f.lend() {
		t.Error("slots are lent after one more slow commit")
	}
}
