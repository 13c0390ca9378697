package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/scheduler"
)

func TestFollow_ReplacesTheJobsWhileRunRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		stays := ticking(t, "stays", "* * * * *", jobs.CatchupAll)
		goes := ticking(t, "goes", "* * * * *", jobs.CatchupAll)
		comes := ticking(t, "comes", "* * * * *", jobs.CatchupAll)
		time.Sleep(time.Second)
		start := time.Now()
		s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{stays, goes}})
		var mid time.Time
		during(t, func() {
			time.Sleep(150 * time.Second)
			mid = time.Now()
			again := *stays
			again.Digest = "sha256:changed"
			s.Follow([]*jobs.Job{comes, &again})
			time.Sleep(150 * time.Second)
		}, s)
		checkMinutes(t, db, "stays", start, time.Now())
		checkMinutes(t, db, "goes", start, mid)
		checkMinutes(t, db, "comes", mid, time.Now())
		if n := count(t, db, "SELECT count(*) FROM run WHERE job = 'stays' AND job_digest = 'sha256:changed'"); n != 3 {
			t.Errorf("%d runs are of the job as it was given last, want 3", n)
		}
	})
}

func TestFollow_AChangedLineIsAnEntryOfItsOwnThatStartsNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{ticking(t, "job", "*/2 * * * *", jobs.CatchupAll)}})
		time.Sleep(time.Second)
		during(t, func() {
			time.Sleep(5 * time.Minute)
			s.Follow([]*jobs.Job{ticking(t, "job", "*/3 * * * *", jobs.CatchupAll)})
			time.Sleep(5 * time.Minute)
		}, s)
		var got string
		for _, o := range occurrences(t, db, "job") {
			got += o.due.Format("04 ")
		}
		if want := "02 04 06 09 "; got != want {
			t.Errorf("due at minutes %s, want %s", got, want)
		}
	})
}

func TestFollow_AsksTheScheduleAgainWhenOnlyItsCalendarHasChanged(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]time.Duration{"later": 30 * time.Minute, "never": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c clock
				db := open(t, &c)
				start := time.Now()
				// once is a job that is due once, so long after the start; 0: never.
				once := func(after time.Duration) *jobs.Job {
					job := ticking(t, "job", "* * * * *", jobs.CatchupAll)
					job.Schedule[0].Schedule = notion(func(at time.Time) (calendar.Due, error) {
						if due := start.Add(after); due.After(at) {
							return calendar.Due{At: due}, nil
						}
						return calendar.Due{}, nil
					})
					return job
				}
				time.Sleep(time.Second)
				s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{once(before)}})
				during(t, func() {
					time.Sleep(90 * time.Second)
					s.Follow([]*jobs.Job{once(5 * time.Minute)})
					time.Sleep(10 * time.Minute)
				}, s)
				if got := told(t, db, "job"); got != "00:05 ran" {
					t.Errorf("on record is %q, want the due time of the calendar as it is now", got)
				}
			})
		})
	}
}
