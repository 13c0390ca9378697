package scheduler

import (
	"testing"
	"time"
)

func TestAgenda_GivesEachInstantAShare(t *testing.T) {
	t.Parallel()
	var a agenda
	mark := at(t, "2026-10-31T06:00:00Z")
	add := func(n int, at time.Time) {
		for i := range n {
			a.add(&entry{at: at, rank: float64(i) / float64(n)})
		}
	}
	take := func(now time.Time) (counts [3]int) {
		for _, e := range a.take(now, 500) {
			counts[e.at.Sub(mark)/time.Second]++
		}
		return counts
	}
	add(2000, mark)
	add(3, mark.Add(time.Second))
	add(2, mark.Add(2*time.Second))
	if got, want := take(mark.Add(-time.Second)), [3]int{}; got != want || !a.first().Equal(mark) {
		t.Errorf("before anything is due, %v are taken and the first is at %s", got, a.first())
	}
	for i, want := range [][3]int{{500}, {497, 3}, {498, 0, 2}, {500}, {5}, {}} {
		if got := take(mark.Add(time.Duration(i) * time.Second)); got != want {
			t.Errorf("%d s after the first, %v are taken, want %v", i, got, want)
		}
	}
	if !a.first().IsZero() {
		t.Errorf("nothing is left, and the first is at %s", a.first())
	}
}
