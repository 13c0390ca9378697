package store_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func limited(s task.NewTask, limits ...task.Limit) task.NewTask {
	s.Limits = limits
	return s
}

func slots(key string, n int) task.Limit { return task.Limit{Key: key, Slots: n} }

// parallel returns n steps without needs under the same limits.
func parallel(n int, limits ...task.Limit) []task.NewTask {
	list := make([]task.NewTask, n)
	for i := range list {
		list[i] = limited(noop(fmt.Sprintf("s%03d", i)), limits...)
	}
	return list
}

// admit wants exactly n tasks to be let through.
func admit(t *testing.T, db *store.DB, want int) time.Duration {
	t.Helper()
	n, next, err := db.Admit(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	if n != want {
		t.Fatalf("Admit = %d tasks, want %d", n, want)
	}
	return next
}

func TestAdmit_LetsThroughAsManyAsTheLimitHasSlots(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", parallel(5, slots("db", 2))))
		nothing(t, db)
		sound(t, db)
		admit(t, db, 2)
		got := claim(t, db, 2)
		if want := []string{"s000", "s001"}; !slices.Equal(names(got), want) {
			t.Errorf("claimed %v, want %v", names(got), want)
		}
		if !got[0].Limited {
			t.Error("the claim does not say that it holds a slot")
		}
		admit(t, db, 0)
		exchange(t, db, 0, ok(got[0]))
		admit(t, db, 1)
		exchange(t, db, 0, fail(got[1]), fail(claim(t, db, 1)[0]))
		admit(t, db, 2)
		sound(t, db)
		for _, c := range claim(t, db, 2) {
			exchange(t, db, 0, ok(c))
		}
		if n := count(t, db, "SELECT count(*) FROM task_slot"); n != 0 {
			t.Errorf("%d slots are taken at the end, want 0", n)
		}
		sound(t, db)
	})
}

func TestAdmit_TakesAllLimitsOfATaskOrNone(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		both := limited(noop("both"), slots("a", 1), slots("b", 1))
		rate := limited(noop("rate"), slots("a", 1), task.Limit{Key: "r", Rate: 1})
		create(t, db, newRun("k", steps(limited(noop("first"), slots("b", 1)), both, rate)))
		admit(t, db, 2) // both goes without: "rate" passes it
		got := claim(t, db, 2)
		if want := []string{"first", "rate"}; !slices.Equal(names(got), want) {
			t.Errorf("claimed %v, want %v", names(got), want)
		}
		exchange(t, db, 0, ok(got[0]))
		admit(t, db, 0)
		if n := count(t, db, "SELECT count(*) FROM task_slot"); n != 1 {
			t.Errorf("%d slots are taken, want the one of %s", n, got[1].Step)
		}
		exchange(t, db, 0, ok(got[1]))
		admit(t, db, 1)
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		sound(t, db)
	})
}

func TestAdmit_HoldsATaskByItsOwnNumberWhereOthersSayAnother(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(
			limited(noop("a"), slots("db", 3)), limited(noop("b"), slots("db", 3)), limited(noop("c"), slots("db", 1)), limited(noop("d"), slots("db", 3)))))
		admit(t, db, 3)
		got := claim(t, db, 3)
		if want := []string{"a", "b", "d"}; !slices.Equal(names(got), want) {
			t.Errorf("claimed %v, want %v", names(got), want)
		}
		exchange(t, db, 0, ok(got[1]), ok(got[2]))
		admit(t, db, 0) // slot 1 is a's
		exchange(t, db, 0, ok(got[0]))
		admit(t, db, 1)
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		sound(t, db)
	})
}

func TestAdmit_LetsThroughWhatTheRateAllows(t *testing.T) {
	notRaced(t)
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		create(t, db, newRun("k", parallel(120, task.Limit{Key: "api", Rate: 10, Burst: 5})))
		n, began := 0, c.now()
		for c.now().Sub(began) < 10*time.Second {
			got, next, err := db.Admit(t.Context(), 1000)
			if err != nil {
				t.Fatal(err)
			}
			if n += got; n == 5 && got == 0 && next == 0 {
				t.Fatal("Admit does not say when the next token is there")
			}
			if limit := 5 + c.now().Sub(began).Seconds()*10 + 1e-3; float64(n) > limit {
				t.Fatalf("%d tasks went through in %s, more than %.1f", n, c.now().Sub(began), limit)
			}
			c.move(max(next, time.Millisecond))
		}
		if math.Abs(float64(n-105)) > 1 {
			t.Errorf("%d tasks went through in 10 s at 10 a second with a burst of 5, want 105", n)
		}
		c.move(time.Hour)
		admit(t, db, 5) // a bucket holds no more than its burst
		sound(t, db)
	})
}

func TestAdmit_LetsTheOldestThroughNowAndThen(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		old := limited(noop("old"), slots("db", 1))
		old.Priority = 900
		create(t, db, newRun("old", steps(old)))
		urgent := limited(noop("urgent"), slots("db", 1))
		urgent.Priority = 1
		create(t, db, newRun("first", steps(urgent)))
		for i := range 200 { // one in eight is for the oldest: missed 200 times by one chance in 10^11
			create(t, db, newRun(fmt.Sprint("next", i), steps(urgent)))
			admit(t, db, 1)
			c := claim(t, db, 1)[0]
			exchange(t, db, 0, ok(c))
			if c.Step == "old" {
				sound(t, db)
				return
			}
		}
		t.Error("200 urgent tasks went before the oldest")
	})
}

// TestAdmit_EightAtOnceNeverExceedALimit is I14.
func TestAdmit_EightAtOnceNeverExceedALimit(t *testing.T) {
	notRaced(t)
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		const tasks = 120
		list := parallel(tasks)
		for i := range list { // each under two of three keys, in either order
			a, b := i%3, (i+1+i%2)%3
			list[i].Limits = []task.Limit{slots(fmt.Sprint("key", a), a+1), slots(fmt.Sprint("key", b), b+1)}
		}
		run := create(t, db, newRun("k", list))
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for {
					if _, _, err := db.Admit(t.Context(), 10); err != nil {
						t.Error(err)
						return
					}
					x, err := db.Exchange(t.Context(), worker, nil, task.Want{N: 3, Types: allTypes, Lease: time.Minute})
					if err != nil {
						t.Error(err)
						return
					}
					var done []task.Outcome
					for _, c := range x.Claimed {
						done = append(done, ok(c))
					}
					if _, err := db.Exchange(t.Context(), worker, done, task.Want{Types: allTypes}); err != nil {
						t.Error(err)
						return
					}
					if r, err := db.Run(t.Context(), run.ID); err != nil || !r.Status.Live() {
						return
					}
				}
			})
		}
		workers.Wait()
		if s := status(t, db, run.ID); s != task.RunSuccess {
			t.Fatalf("status = %s, want success", s)
		}
		withinLimits(t, db, run.ID, list)
		sound(t, db)
	})
}

// withinLimits sweeps over the attempts of a run as its log tells of them.
func withinLimits(t *testing.T, db *store.DB, run string, list []task.NewTask) {
	t.Helper()
	limits, most := map[string][]task.Limit{}, map[string]int{}
	for _, s := range list {
		limits[s.Step] = s.Limits
		for _, l := range s.Limits {
			most[l.Key] = max(most[l.Key], l.Slots)
		}
	}
	moves, err := db.Log(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	type edge struct {
		at  time.Time
		add int
	}
	edges := map[string][]edge{}
	for _, m := range moves {
		if m.ClaimedAt.IsZero() {
			continue
		}
		for _, l := range limits[m.Step] {
			edges[l.Key] = append(edges[l.Key], edge{m.ClaimedAt, 1}, edge{m.At, -1})
		}
	}
	for key, list := range edges {
		slices.SortFunc(list, func(x, y edge) int {
			if c := x.at.Compare(y.at); c != 0 {
				return c
			}
			return x.add - y.add
		})
		at := 0
		for _, e := range list {
			if at += e.add; at > most[key] {
				t.Errorf("I14 %d tasks were at work under %s at %s, the limit is %d", at, key, e.at, most[key])
			}
		}
	}
}

func TestFault_F43_ALimitHoldsAcrossARescueAndAManualStart(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		one := limited(noop("a"), slots("ledger", 1))
		scheduled := newRun("scheduled", steps(one))
		manual := newRun("manual", steps(one))
		create(t, db, scheduled)
		create(t, db, manual)
		admit(t, db, 1)
		dead := claim(t, db, 1)[0]
		admit(t, db, 0)
		c.move(2 * time.Minute) // its worker died
		admit(t, db, 0)
		if n, err := db.Rescue(t.Context(), 10); n != 1 || err != nil {
			t.Fatalf("Rescue = %d, %v; want 1", n, err)
		}
		sound(t, db)
		admit(t, db, 1)
		again := claim(t, db, 1)[0]
		if x := exchange(t, db, 5, ok(dead)); len(x.Lost) != 1 || len(x.Claimed) != 0 {
			t.Errorf("the late outcome: lost %v, claimed %v; want it lost and nothing claimed", x.Lost, x.Claimed)
		}
		admit(t, db, 0)
		exchange(t, db, 0, ok(again))
		admit(t, db, 1)
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		sound(t, db)
	})
}

func TestSweep_FreesTheSlotsOfTasksThatAreNoLongerThere(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", parallel(2, slots("db", 3))))
		admit(t, db, 2)
		write(t, db, "INSERT INTO task_slot (key, slot, task_id) VALUES ('db', 3, 999999)")
		write(t, db, "INSERT INTO circuit_probe (key, slot, task_id) VALUES ('c', 3, 999999)")
		if n, err := db.Sweep(t.Context(), 100); n != 0 || err != nil {
			t.Fatalf("Sweep = %d, %v; want 0", n, err)
		}
		if n := count(t, db, "SELECT count(*) + 10 * (SELECT count(*) FROM circuit_probe) FROM task_slot"); n != 2 {
			t.Errorf("slots and probes = %d, want the slots of the two tasks", n)
		}
		sound(t, db)
	})
}

// nothing wants no task to be claimable.
func nothing(t *testing.T, db *store.DB) {
	t.Helper()
	if x := exchange(t, db, 5); len(x.Claimed) > 0 {
		t.Fatalf("claimed %v, want nothing", names(x.Claimed))
	}
}
