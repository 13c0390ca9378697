package scheduler

import (
	"fmt"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
)

// punctual is how late a due time may be seen and still be on time: as long as
// the loop may sleep.
const punctual = time.Minute

// A Decision says what becomes of one due time.
type Decision struct {
	DueAt   time.Time       // in UTC
	Outcome task.DueOutcome // ran, caught_up, skipped or missed
	Reason  string          // "" when it ran on time
}

// makesRun reports whether the due time gets a run.
func (d Decision) makesRun() bool { return d.Outcome == task.DueRan || d.Outcome == task.DueCaughtUp }

// Due decides about the due times of an entry after the watermark up to now,
// oldest first. It stops after limit runs or ten times as many due times that
// only have to be noted, and then says that there are more.
//
// While the oldest is at most a minute old, all are on time. Otherwise nobody
// looked for a while, and the entry's catchup says what becomes of each.
//
// The error is the schedule's, which cannot tell what follows; what comes before is
// decided all the same.
func Due(e jobs.Entry, watermark, now time.Time, limit int) (due []Decision, more bool, err error) {
	runs := 0
	at, err := next(e, watermark)
	onTime := now.Sub(at.At) <= punctual
	for err == nil && !at.IsZero() && !at.At.After(now) {
		if runs == limit || len(due) == 10*limit {
			return due, true, nil
		}
		var following calendar.Due
		following, err = next(e, at.At)
		d := Decision{DueAt: at.At, Outcome: task.DueRan}
		switch {
		case at.Skipped != "":
			d.Outcome, d.Reason = task.DueSkipped, at.Skipped
		case !onTime:
			d = late(e, at.At, now, !following.IsZero() && !following.At.After(now))
		}
		if d.makesRun() {
			runs++
		}
		due, at = append(due, d), following
	}
	return due, false, err
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
func next(e jobs.Entry, after time.Time) (calendar.Due, error) {
	due, err := e.Schedule.Next(after.UTC())
	if err != nil || !due.At.After(after) {
		return calendar.Due{}, err
	}
	due.At = due.At.UTC()
	return due, nil
}
