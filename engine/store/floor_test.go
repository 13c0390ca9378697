package store

import (
	"testing"
	"time"

	"madeira/engine/task"
)

func TestFloors_StandOnlyAfterSlowClaimsInARowAndUntilSomethingComesIn(t *testing.T) {
	t.Parallel()
	want := task.Want{N: 10, Types: []string{"noop"}}
	got := []task.Claimed{{Hold: task.Hold{TaskID: 7}, Priority: 100}, {Hold: task.Hold{TaskID: 5}, Priority: 100}}
	var f floors
	for n := 1; n <= slowInARow; n++ {
		if _, stands := f.of(want); stands {
			t.Fatalf("a floor stands after %d slow claims, want %d", n-1, slowInARow)
		}
		f.scanned(want, got, time.Second)
	}
	low, stands := f.of(want)
	if !stands || low.priority != 100 || low.id != 5 {
		t.Errorf("the floor is %+v, %t; want task 5 of priority 100", low, stands)
	}
	if _, stands := f.of(task.Want{N: 10, Types: []string{"other"}}); stands {
		t.Error("a floor of one list of types stands for another")
	}
	f.forget()
	if _, stands := f.of(want); stands {
		t.Error("a floor stands although something came in")
	}
	for range 2 * slowInARow {
		f.scanned(want, nil, time.Second)
	}
	if _, stands := f.of(want); stands {
		t.Error("a floor stands on a claim that got nothing")
	}
}
