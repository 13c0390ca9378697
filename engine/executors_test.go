package engine

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

func TestExecutors_OneThatBlocksKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newExecutors()
		var mu sync.Mutex
		var begun []int
		blocked := make(chan struct{})
		for i := range 100 {
			x.run(func() {
				mu.Lock()
				begun = append(begun, i)
				mu.Unlock()
				switch i % 3 {
				case 0:
					<-blocked
				case 1:
					runtime.Goexit()
				}
			})
		}
		synctest.Wait()
		mu.Lock()
		if n := len(begun); n != 100 {
			t.Errorf("%d pieces of work have begun while others block, want 100", n)
		}
		mu.Unlock()
		x.stop()
		close(blocked)
	})
}

func TestExecutors_EachPieceIsWorkedOnce(t *testing.T) {
	t.Parallel()
	x := newExecutors()
	defer x.stop()
	const pieces = 1000
	var all sync.WaitGroup
	all.Add(pieces)
	var mu sync.Mutex
	var order []int
	for i := range pieces {
		x.run(func() {
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			all.Done()
		})
	}
	all.Wait()
	slices.Sort(order)
	if len(order) != pieces || len(slices.Compact(order)) != pieces {
		t.Errorf("%d pieces were worked, want %d", len(order), pieces)
	}
}

func TestExecutors_WorkThatWaitsWhenTheyAreStoppedIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newExecutors()
		n := 0
		var mu sync.Mutex
		for range 10 {
			x.run(func() {
				mu.Lock()
				defer mu.Unlock()
				n++
			})
		}
		x.stop()
		synctest.Wait()
		if n != 10 {
			t.Errorf("%d pieces were worked, want 10", n)
		}
	})
}
