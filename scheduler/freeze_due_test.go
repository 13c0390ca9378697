package scheduler_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"madeira/jobs"
	"madeira/scheduler"
)

func TestRun_SkipsADueTimeWhoseRunWouldBeTooLargeAndMakesTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		good := ticking(t, "good", "* * * * *", jobs.CatchupAll)
		large := ticking(t, "large", "* * * * *", jobs.CatchupAll)
		below := &jobs.Job{Name: "below", Source: []byte(strings.Repeat("#", 1<<20)), Steps: large.Steps}
		large.Steps = []jobs.Step{{ID: "call", Uses: "job", Call: &jobs.Call{Job: below}}}
		time.Sleep(time.Second)
		s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{good, large}})
		during(t, func() { time.Sleep(2 * time.Minute) }, s)
		if got := told(t, db, "good"); got != "00:01 ran\n00:02 ran" {
			t.Errorf("good: %s", got)
		}
		lines := strings.Split(told(t, db, "large"), "\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "00:01 skipped: ") || !strings.Contains(lines[1], "bytes of JSON where a step may have") {
			t.Errorf("large: %q, want each due time skipped, and why", lines)
		}
		sound(t, db)
	})
}
