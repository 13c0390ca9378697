package scheduler

import (
	"fmt"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
)

const (
	// punctual is how late a due time may be seen and still be on time: as long as
	// the loop may sleep.
	punctual = time.Minute
	// maxCatchUp is how many due times of one entry are caught up after an outage,
	// the last ones. Earlier ones are recorded as missed, and a backfill makes them.
	maxCatchUp = 1000
)

// A Decision says what becomes of one due time.
type Decision struct {
	DueAt   time.Time       // in UTC
	Outcome task.DueOutcome // ran, caught_up, skipped or missed
	Reason  string          // "" when it ran on time, unmoved
}

// makesRun reports whether the due time gets a run.
func (d Decision) makesRun() bool { return d.Outcome == task.DueRan || d.Outcome == task.DueCaughtUp }

// A Span is the time whose due times an entry has to account for.
type Span struct {
	After   time.Time    // the watermark; its own due time is done
	UpTo    time.Time    // now
	Pauses  []task.Pause // of the job
	Lagging bool         // After is in the midst of what came due while no scheduler ran
	Since   time.Time    // the process that asks has run since then; zero: it has not
}

// Due decides about the due times of an entry in a span, oldest first. It stops
// after limit runs or ten times as many due times that only have to be noted, and
// then says that there are more.
//
// While the oldest is at most a minute old, all are on time. Otherwise nobody
// looked for a while, and the entry's catchup says what becomes of each.
//
// The error is the schedule's, which cannot tell what follows; what comes before is
// decided all the same.
func Due(e jobs.Entry, s Span, limit int) (due []Decision, more bool, err error) {
	runs := 0
	at, err := next(e, s.After)
	late := err == nil && !at.IsZero() && !at.At.After(s.UpTo) && (s.Lagging || s.UpTo.Sub(at.At) > punctual)
	var caught time.Time // the first that is caught up
	if late {
		caught = firstCaught(e, s)
	}
	for err == nil && !at.IsZero() && !at.At.After(s.UpTo) {
		if runs == limit || len(due) == 10*limit {
			return due, true, nil
		}
		d := Decision{DueAt: at.At, Outcome: task.DueRan}
		switch why := s.skips(at); {
		case why != "":
			d.Outcome, d.Reason = task.DueSkipped, why
		case late:
			d = belated(e, s, at.At, caught)
		}
		if d.makesRun() {
			runs++
			d.Reason = join(d.Reason, at.Note)
		}
		due = append(due, d)
		at, err = next(e, at.At)
	}
	return due, false, err
}

// ran reports whether the process that asks ran when an instant came that is at most
// a minute old.
func (s Span) ran(at time.Time) bool {
	return !s.Since.IsZero() && !at.Before(s.Since) && s.UpTo.Sub(at) <= punctual
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// skips returns why a due time makes no run whenever anybody looks, or "".
func (s Span) skips(at calendar.Due) string {
	if at.Skipped != "" {
		return at.Skipped
	}
	for _, p := range s.Pauses {
		if !at.At.Before(p.Since) && (p.Until.IsZero() || at.At.Before(p.Until)) {
			return Paused(p)
		}
	}
	return ""
}

// Paused says why nothing came of a due time in a pause of its job.
func Paused(p task.Pause) string {
	why := "paused"
	if p.Actor != "" {
		why += " by " + p.Actor
	}
	why += " since " + p.Since.UTC().Format(time.RFC3339)
	if p.Reason != "" {
		why += ": " + p.Reason
	}
	return why
}

// belated decides about a due time that passed while nobody looked; caught is the
// first of those that are caught up.
func belated(e jobs.Entry, s Span, at, caught time.Time) Decision {
	d := Decision{DueAt: at, Outcome: task.DueMissed}
	switch {
	case e.Window > 0 && s.UpTo.Sub(at) > e.Window:
		d.Reason = fmt.Sprintf("came due while no scheduler ran, and catchup_window of %s is over", e.Window)
	case e.Catchup == jobs.CatchupNone && s.ran(at):
		d.Outcome = task.DueRan // the database was away, and is back in time
	case e.Catchup == jobs.CatchupNone:
		d.Reason = "came due while no scheduler ran, and catchup is none"
	case e.Catchup == jobs.CatchupLatest && at.Before(caught):
		d.Reason = "came due while no scheduler ran, and catchup is latest: a later one came due as well"
	case at.Before(caught):
		d.Reason = fmt.Sprintf("came due while no scheduler ran, and more than %d came due after it; madeira backfill makes it", maxCatchUp)
	default:
		d.Outcome, d.Reason = task.DueCaughtUp, "came due while no scheduler ran"
	}
	return d
}

// firstCaught returns the first due time that the entry's catchup lets run, were
// there no window; the zero time lets all.
func firstCaught(e jobs.Entry, s Span) time.Time {
	switch e.Catchup {
	case jobs.CatchupNone:
		return time.Time{}
	case jobs.CatchupLatest:
		return last(e, s, 1)
	default:
		return last(e, s, maxCatchUp)
	}
}

// last returns the n-th last due time of the span that is not skipped, or the zero
// time when there are fewer. A schedule only goes forward, so it is asked from ever
// farther back.
func last(e jobs.Entry, s Span, n int) time.Time {
	ring := make([]time.Time, n)
	for back := time.Hour; ; back *= 4 {
		from := s.UpTo.Add(-back)
		whole := !from.After(s.After) || from.After(s.UpTo) // the second: farther back than there is time
		if whole {
			from = s.After
		}
		count := 0
		at, err := next(e, from)
		for err == nil && !at.IsZero() && !at.At.After(s.UpTo) {
			if s.skips(at) == "" {
				ring[count%n] = at.At
				count++
			}
			at, err = next(e, at.At)
		}
		switch {
		case count >= n:
			return ring[count%n]
		case whole:
			return time.Time{}
		}
	}
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
