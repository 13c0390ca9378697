package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestRuns_NewestFirstPageByPage(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, clock *clock) {
		var want []string
		for i := range 7 {
			if i%2 == 0 {
				clock.move(time.Second) // every other pair shares an instant
			}
			n := newRun(fmt.Sprint("k", i), steps(noop("a")))
			if i == 3 {
				n.Run.Job = "other"
			}
			want = append(want, create(t, db, n).ID)
		}
		slices.Reverse(want)
		var got []string
		for before := ""; ; before = got[len(got)-1] {
			page, err := db.Runs(t.Context(), store.RunFilter{Limit: 3, Before: before})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				got = append(got, r.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("runs = %v, want %v", got, want)
		}
		exchange(t, db, 0, ok(claim(t, db, 1)[0])) // the oldest: k0
		for name, c := range map[string]struct {
			f    store.RunFilter
			want int
		}{
			"all":    {store.RunFilter{}, 7},
			"job":    {store.RunFilter{Job: "other"}, 1},
			"key":    {store.RunFilter{Key: "k0", Status: []task.RunStatus{task.RunSuccess}}, 1},
			"status": {store.RunFilter{Status: []task.RunStatus{task.RunPending, task.RunRunning}}, 6},
			"none":   {store.RunFilter{Job: "'; DROP TABLE run"}, 0},
		} {
			if runs, err := db.Runs(t.Context(), c.f); err != nil || len(runs) != c.want {
				t.Errorf("%s: %d runs, %v; want %d", name, len(runs), err, c.want)
			}
		}
	})
}

func TestRun_SaysAllThatItWasMadeWith(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := newRun("支付/2026-10", steps(noop("a")))
		n.Run.Period = []byte(`{"label":"2026-10"}`)
		made := create(t, db, n)
		r, err := db.Run(t.Context(), made.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r.Job != n.Run.Job || r.Key != n.Run.Key || r.JobDigest != n.Run.JobDigest || r.Trigger != "manual" || r.BaseDir != "/jobs" ||
			!r.DueAt.Equal(n.Run.DueAt) || !slices.Equal(r.Connections, n.Run.Connections) || r.CreatedAt.IsZero() || !r.StartedAt.IsZero() ||
			len(r.Period) == 0 || len(r.Inputs) == 0 {
			t.Errorf("run = %+v, want what %+v says", r, n.Run)
		}
	})
}

func TestFindRun_ByABeginningOfItsID(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		a, b := create(t, db, newRun("a", steps(noop("a")))), create(t, db, newRun("b", steps(noop("a"))))
		for _, prefix := range []string{a.ID, a.ID[:30], "0" + a.ID[1:20]} {
			if r, err := db.FindRun(t.Context(), prefix); err != nil && len(prefix) > 25 || err == nil && r.ID != a.ID {
				t.Errorf("FindRun(%s) = %s, %v; want %s", prefix, r.ID, err, a.ID)
			}
		}
		var several *store.AmbiguousError
		if _, err := db.FindRun(t.Context(), a.ID[:4]); !errors.As(err, &several) || !slices.Contains(several.IDs, b.ID) {
			t.Errorf("FindRun(%s) = %v, want both named", a.ID[:4], err)
		}
		for _, prefix := range []string{"", "../x", "ffffffff", "x", a.ID + "0", "%"} {
			if _, err := db.FindRun(t.Context(), prefix); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("FindRun(%q) = %v, want not found", prefix, err)
			}
			if _, err := db.Run(t.Context(), prefix); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("Run(%q) = %v, want not found", prefix, err)
			}
		}
	})
}

func TestTasks_InTheirOrderWithWhatTheyNeed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(noop("b"), noop("a"), noop("c", "b", "a"))))
		both := claim(t, db, 2)
		o := ok(both[0])
		o.Took = 1500 * time.Millisecond
		exchange(t, db, 0, o)
		tasks, err := db.Tasks(t.Context(), run.ID)
		if err != nil || len(tasks) != 3 {
			t.Fatalf("Tasks = %+v, %v", tasks, err)
		}
		b, a, c := tasks[0], tasks[1], tasks[2]
		if b.Step != "b" || b.Took != o.Took || b.FinishedAt.Before(b.ClaimedAt) || b.Worker != worker || b.State != task.Success {
			t.Errorf("b = %+v", b)
		}
		if a.Step != "a" || a.Took != 0 || a.State != task.Processing || !a.FinishedAt.IsZero() || a.Fence != 1 {
			t.Errorf("a = %+v", a)
		}
		if !slices.Equal(c.Needs, []string{"b", "a"}) || c.State != task.Blocked || !c.ClaimedAt.IsZero() {
			t.Errorf("c = %+v", c)
		}
	})
}
