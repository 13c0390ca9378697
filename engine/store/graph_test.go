package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestFault_F70_AChainOfAThousandIsWalkedInOrder(t *testing.T) {
	notRaced(t)
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		const n = 1000
		var chain []task.NewTask
		for i := range n {
			s := noop(fmt.Sprint("s", i))
			if i > 0 {
				s.Needs = []string{fmt.Sprint("s", i-1)}
			}
			chain = append(chain, s)
		}
		run := create(t, db, newRun("chain", chain))
		var done []task.Outcome
		for i := range n {
			x := exchange(t, db, 5, done...)
			if len(x.Claimed) != 1 || x.Claimed[0].Step != fmt.Sprint("s", i) {
				t.Fatalf("after %d steps claimed %v", i, names(x.Claimed))
			}
			done = []task.Outcome{ok(x.Claimed[0])}
		}
		exchange(t, db, 5, done...)
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("the run is %s", got)
		}
		sound(t, db)
	})
}

func TestFault_F70_AChainIsSkippedLayerByLayer(t *testing.T) {
	notRaced(t)
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		chain := steps(noop("s0"))
		for i := range 299 {
			chain = append(chain, noop(fmt.Sprint("s", i+1), fmt.Sprint("s", i)))
		}
		run := create(t, db, newRun("chain", chain))
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		decideAll(t, db)
		if got := status(t, db, run.ID); got != task.RunError {
			t.Errorf("the run is %s", got)
		}
		sound(t, db)
	})
}

// TestFault_F70_DiamondsReleaseEachJoinOnce has layers of which every step needs
// all of the layer before, finished by several workers at once.
func TestFault_F70_DiamondsReleaseEachJoinOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		const runs, layers, wide = 4, 8, 6
		for r := range runs {
			var all []task.NewTask
			var before []string
			for l := range layers {
				var layer []string
				for w := range wide {
					s := noop(fmt.Sprintf("s%d_%d", l, w), before...)
					all, layer = append(all, s), append(layer, s.Step)
				}
				before = layer
			}
			create(t, db, newRun(fmt.Sprint("diamond", r), all))
		}
		var mu sync.Mutex
		claims := map[string]int{}
		var open sync.WaitGroup
		for w := range 4 {
			open.Go(func() {
				var done []task.Outcome
				for {
					x, err := db.Exchange(t.Context(), fmt.Sprint("w", w), done, task.Want{N: 1 + w, Types: allTypes, Lease: time.Minute})
					if err != nil {
						t.Error(err)
						return
					}
					done = nil
					mu.Lock()
					for _, c := range x.Claimed {
						claims[c.RunID+c.Step]++
						done = append(done, ok(c))
					}
					over := len(claims) == runs*layers*wide
					mu.Unlock()
					if over && len(done) == 0 {
						return
					}
				}
			})
		}
		open.Wait()
		for name, n := range claims {
			if n != 1 {
				t.Errorf("%s was claimed %d times", name, n)
			}
		}
		if n := count(t, db, "SELECT count(*) FROM run WHERE status <> 'success'"); n != 0 {
			t.Errorf("%d runs did not end well", n)
		}
		sound(t, db)
	})
}
