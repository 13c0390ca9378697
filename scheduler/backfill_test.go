package scheduler_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
	"madeira/scheduler"
)

// end lets a worker end the one task that is to be done.
func end(t *testing.T, db *store.DB, to task.State) {
	t.Helper()
	want := task.Want{N: 1, Types: []string{"query"}, Lease: time.Minute}
	x, err := db.Exchange(t.Context(), "w1", nil, want)
	if err != nil || len(x.Claimed) != 1 {
		t.Fatalf("%d tasks are claimed, %v; want 1", len(x.Claimed), err)
	}
	o := task.Outcome{Hold: x.Claimed[0].Hold, To: to, Digest: "sha256:1"}
	if to == task.Error {
		o = task.Outcome{Hold: x.Claimed[0].Hold, To: to, Reason: "permanent", Failure: &task.Failure{Class: task.PermanentFailure, Message: "no"}}
	}
	if _, err := db.Exchange(t.Context(), "w1", []task.Outcome{o}, task.Want{N: 0, Types: want.Types, Lease: time.Minute}); err != nil {
		t.Fatal(err)
	}
}

func TestFill_LeavesADueTimeWhoseRunSomebodyElseHasMadeMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before    bool       // the plan has seen a run that ended badly
		meanwhile task.State // how the run ends that is made after the plan; "": it is at work
		action    string
		reason    string
	}{
		"a gap, good meanwhile":    {false, task.Success, scheduler.FillGood, "ended as success"},
		"a gap, bad meanwhile":     {false, task.Error, scheduler.FillLive, "ended as error"},
		"a gap, at work meanwhile": {false, "", scheduler.FillLive, "somebody else has just made its run"},
		"bad, good meanwhile":      {true, task.Success, scheduler.FillGood, "ended as success"},
		"bad, at work meanwhile":   {true, "", scheduler.FillLive, "somebody else has just made its run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c clock
			db := open(t, &c)
			job := ticking(t, "loose", "0 6 * * *", jobs.CatchupAll)
			job.Key = "" // each run is its own
			s := scheduler.New(scheduler.Options{Store: db})
			day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			b := scheduler.Backfill{From: day, To: day.Add(24 * time.Hour), Actor: "ann"}
			plan := func() scheduler.Fill {
				t.Helper()
				fills, err := scheduler.PlanBackfill(context.Background(), db, job, b)
				if err != nil || len(fills) != 1 || fills[0].Action != scheduler.FillRun {
					t.Fatalf("the plan is %+v, %v; want one run", fills, err)
				}
				return fills[0]
			}
			fill := func(f scheduler.Fill) scheduler.Fill {
				t.Helper()
				f, err := s.Fill(context.Background(), job, b, f)
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			runs := 1
			if tt.before {
				fill(plan())
				end(t, db, task.Error)
				runs++
			}
			mine := plan()
			other := fill(plan())
			if other.Action != scheduler.FillRun {
				t.Fatalf("the other one did %+v", other)
			}
			if tt.meanwhile != "" {
				end(t, db, tt.meanwhile)
			}
			got := fill(mine)
			if got.Action != tt.action || !strings.Contains(got.Reason, tt.reason) || got.RunID != other.RunID {
				t.Errorf("the fill is %+v, want %s because %q with run %s", got, tt.action, tt.reason, other.RunID)
			}
			if n := count(t, db, "SELECT count(*) FROM run"); n != runs {
				t.Errorf("there are %d runs, want %d", n, runs)
			}
			if n := count(t, db, "SELECT count(*) FROM occurrence WHERE run_id = ?", other.RunID); n != 1 {
				t.Error("the due time does not show the run that was made for it")
			}
			sound(t, db)
		})
	}
}
