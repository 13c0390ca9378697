package scheduler

import (
	"fmt"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
)

// punctual is how late a due time may be seen and still be on time: as long as
// the loop may sleep.
const punctual = time.Minute

// A Decision says what becomes of one due time.
type Decision struct {
	DueAt   time.Time       // in UTC
	Outcome task.DueOutcome // ran, caught_up or missed
	Reason  string          // "" when it ran on time
}

// makesRun reports whether the due time gets a run.
func (d Decision) makesRun() bool { return d.Outcome != task.DueMissed }

// Due decides about the due times of an entry after the watermark up to now,
// oldest first. It stops after limit runs or ten times as many due times that
// only have to be noted, and then says that there are more.
//
// While the oldest is at most a minute old, all are on time. Otherwise nobody
// looked for a while, and the entry's catchup says what becomes of each.
func Due(e jobs.Entry, watermark, now time.Time, limit int) (due []Decision, more bool) {
	runs := 0
	at := next(e, watermark)
	onTime := now.Sub(at) <= punctual
	for !at.IsZero() && !at.After(now) {
		if runs == limit || len(due) == 10*limit {
			return due, true
		}
		following := next(e, at)
		d := Decision{DueAt: at, Outcome: task.DueRan}
		if !onTime {
			d = late(e, at, now, !following.IsZero() && !following.After(now))
		}
		if d.makesRun() {
			runs++
		}
		due, at = append(due, d), following
	}
	return due, false
}

// late decides about a due time that passed while nobody looked; superseded says
// that a later one did so, too.
func late(e jobs.Entry, at, now time.Time, superseded bool) Decision {
	d := Decision{DueAt: at, Outcome: task.DueMissed}
	switch {
	case e.Window > 0 && now.Sub(at) > e.Window:
		d.Reason = fmt.Sprintf("came due while no scheduler ran, and catchup_window of %s is over", e.Window)
	case e.Catchup == jobs.CatchupNone:
		d.Reason = "came due while no scheduler ran, and catchup is none"
	case e.Catchup == jobs.CatchupLatest && superseded:
		d.Reason = "came due while no scheduler ran, and catchup is latest: a later one came due as well"
	default:
		d.Outcome, d.Reason = task.DueCaughtUp, "came due while no scheduler ran"
	}
	return d
}

// next returns the first due time of an entry after an instant, in UTC, or the
// zero time. A schedule that does not move on has none, so that every loop ends.
func next(e jobs.Entry, after time.Time) time.Time {
	at := e.Schedule.Next(after.UTC())
	if !at.After(after) {
		return time.Time{}
	}
	return at.UTC()
}
