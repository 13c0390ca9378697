package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"madeira/jobs"
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
