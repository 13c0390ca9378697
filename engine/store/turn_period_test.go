package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestRun_KnowsThePeriodOfTheLastThatEndedWell(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		monthly := func(month int) task.NewRun {
			n := newRun(fmt.Sprint(month), steps(noop("a")))
			n.Run.DueAt = time.Date(2026, time.Month(month), 5, 0, 0, 0, 0, time.UTC)
			n.Run.Period = []byte(fmt.Sprintf(`{"label":"2026-%02d"}`, month-1))
			return n
		}
		want := func(run task.Run, label string) {
			t.Helper()
			if !strings.Contains(string(run.PreviousPeriod), label) || label == "" && run.PreviousPeriod != nil {
				t.Errorf("run of %s has the period %s before it, want %q", run.Period, run.PreviousPeriod, label)
			}
		}
		want(create(t, db, monthly(3)), "")
		want(create(t, db, monthly(4)), "")
		for _, c := range claim(t, db, 2) {
			exchange(t, db, 0, ok(c))
		}
		want(create(t, db, monthly(4+4)), "2026-03")
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		want(create(t, db, monthly(3)), "")
		if _, err := db.Archive(t.Context(), -time.Hour, 1_000_000); err != nil {
			t.Fatal(err)
		}
		run := create(t, db, monthly(9))
		want(run, "2026-03")
		var c task.Claimed
		for _, x := range claim(t, db, 2) {
			if x.RunID == run.ID {
				c = x
			}
		}
		scope, err := db.Scope(t.Context(), c)
		if want(scope.Run, "2026-03"); err != nil {
			t.Error(err)
		}
		if c.Run != nil {
			want(*c.Run, "2026-03")
		}
		other := monthly(10)
		other.Run.Job, other.Job.Name = "other", "other"
		want(create(t, db, other), "")
	})
}
