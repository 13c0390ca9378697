package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/scheduler"
)

// A stretch is from an instant up to another, the first included.
type stretch struct{ from, to time.Time }

func (s stretch) holds(at time.Time) bool { return !at.Before(s.from) && at.Before(s.to) }

// A history is what happens around a job, and its policy.
type history struct {
	every, phase int // minutes: it is due when minute % every == phase
	catchup      jobs.Catchup
	window       time.Duration
	holidays     int       // every so many-th of its due times is one; 0: none
	up           []stretch // in which a scheduler runs
	paused       []stretch
	start, end   time.Time
}

func (h history) due(at time.Time) bool { return at.Second() == 0 && minute(at)%h.every == h.phase }

func (h history) holiday(at time.Time) bool {
	return h.holidays > 0 && (minute(at)/h.every)%h.holidays == 0
}

func minute(at time.Time) int { return int(at.Unix() / 60) }

// Next lets the history be a schedule. What is expected never asks it.
func (h history) Next(t time.Time) (calendar.Due, error) {
	for t = minutely(t); !h.due(t); t = minutely(t) {
	}
	due := calendar.Due{At: t}
	if h.holiday(t) {
		due.Skipped = "it is a holiday"
	}
	return due, nil
}

// outcomes is the independent model: it goes through all minutes and decides about
// each on its own, from when somebody could look at it first. "" is a minute that is
// not due.
func (h history) outcomes() map[time.Time]string {
	all := map[time.Time]string{}
	for at := minutely(h.start); at.Before(h.end); at = at.Add(time.Minute) {
		if h.due(at) {
			if seen := h.seen(at); !seen.IsZero() {
				all[at] = h.outcome(at, seen)
			}
		}
	}
	return all
}

// seen returns when a scheduler sees that an instant has come, or the zero time.
func (h history) seen(at time.Time) time.Time {
	for _, u := range h.up {
		switch {
		case u.holds(at):
			return at
		case u.from.After(at):
			return u.from
		}
	}
	return time.Time{}
}

func (h history) outcome(at, seen time.Time) string {
	inPause := func(at time.Time) bool {
		return slices.ContainsFunc(h.paused, func(p stretch) bool { return p.holds(at) })
	}
	if h.holiday(at) || inPause(at) {
		return "skipped"
	}
	// The first that came due before somebody looked says whether there was an outage.
	first, latest := at, at
	for other := at.Add(-time.Minute); other.After(h.start); other = other.Add(-time.Minute) {
		if h.due(other) && h.seen(other).Equal(seen) {
			first = other
		}
	}
	for other := at; !other.After(seen); other = other.Add(time.Minute) {
		if h.due(other) && !h.holiday(other) && !inPause(other) {
			latest = other
		}
	}
	switch {
	case seen.Sub(first) <= time.Minute:
		return "ran"
	case h.catchup == jobs.CatchupNone, h.window > 0 && seen.Sub(at) > h.window, h.catchup == jobs.CatchupLatest && at.Before(latest):
		return "missed"
	}
	return "caught_up"
}

func (h history) String() string {
	s := fmt.Sprintf("every %d from %d, catchup %s within %s, holidays %d", h.every, h.phase, h.catchup, h.window, h.holidays)
	for what, list := range map[string][]stretch{"up": h.up, "paused": h.paused} {
		for _, l := range list {
			s += fmt.Sprintf(", %s %s-%s", what, l.from.UTC().Format("15:04:05.00"), l.to.UTC().Format("15:04:05.00"))
		}
	}
	return s
}

// made makes up a history of six hours.
func made(r *rand.Rand, start time.Time) history {
	h := history{start: start, end: start.Add(6 * time.Hour)}
	h.every = []int{1, 2, 7, 15}[r.IntN(4)]
	h.phase = r.IntN(h.every)
	h.catchup = []jobs.Catchup{jobs.CatchupAll, jobs.CatchupLatest, jobs.CatchupNone}[r.IntN(3)]
	h.window = []time.Duration{0, 0, 5 * time.Minute, 40 * time.Minute}[r.IntN(4)]
	h.holidays = []int{0, 0, 2, 5}[r.IntN(4)]
	// Each kind of change has a part of a second of its own, and none is at a whole
	// one, so that the order of what happens is known.
	half := func(most time.Duration) time.Duration {
		return time.Duration(r.Int64N(int64(most/time.Second)))*time.Second + 500*time.Millisecond
	}
	for at := start; at.Before(h.end); {
		up := stretch{at, at.Add(half(50 * time.Minute))}
		h.up = append(h.up, up)
		at = up.to.Add(half(50 * time.Minute))
	}
	for at := start.Add(150*time.Millisecond + half(2*time.Hour)); at.Before(h.end); {
		p := stretch{at, at.Add(half(time.Hour))}
		h.paused = append(h.paused, p)
		at = p.to.Add(half(2 * time.Hour))
	}
	return h
}

// act lets the history happen.
func (h history) act(t *testing.T, db *store.DB, job *jobs.Job) {
	t.Helper()
	type event struct {
		at time.Time
		do func()
	}
	var events []event
	var stop func()
	for _, u := range h.up {
		events = append(events,
			event{u.from, func() {
				ctx, cancel := context.WithCancel(context.Background())
				over := make(chan struct{})
				s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}})
				go func() { defer close(over); _ = s.Run(ctx) }()
				stop = func() { cancel(); <-over }
			}},
			event{u.to, func() { stop(); stop = nil }})
	}
	for _, p := range h.paused {
		a := task.Action{Actor: "ann", Action: "pause", Subject: "job:" + job.Name}
		for at, do := range map[time.Time]func(context.Context, task.Action) (bool, error){p.from: db.Pause, p.to: db.Resume} {
			events = append(events, event{at, func() {
				if ok, err := do(context.Background(), a); err != nil || !ok {
					t.Error(ok, err)
				}
			}})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	for _, e := range events {
		if e.at.Before(h.end) {
			time.Sleep(time.Until(e.at))
			synctest.Wait()
			e.do()
		}
	}
	time.Sleep(time.Until(h.end))
	if stop != nil {
		stop()
	}
}

// TestInvariant_I13 holds what is on record against a model of its own: every due
// time between the first look and the watermark is there once, with the outcome that
// policy, outages and pauses ask for, a reason where it did not run at its time, and
// a run of its own or none.
func TestInvariant_I13_EveryDueTimeIsAccountedForAsAModelSays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c clock
				db := open(t, &c)
				h := made(rand.New(rand.NewPCG(seed, 13)), time.Now().Add(250*time.Millisecond))
				job := ticking(t, "job", "* * * * *", h.catchup)
				job.Schedule[0].Schedule, job.Schedule[0].Window = h, h.window
				h.act(t, db, job)
				want := h.outcomes()
				// What came in the last moments of a catch-up may still be to come.
				mark, err := db.Watermark(context.Background(), job.Name, job.Schedule[0].Name)
				if err != nil {
					t.Fatal(err)
				}
				got := occurrences(t, db, "job")
				for _, o := range got {
					if o.outcome != want[o.due.Local()] && o.outcome != want[o.due] {
						t.Errorf("%s: %s is %s (%s), want %q", h, o.due, o.outcome, o.reason, want[o.due])
					}
					if (o.reason == "") != (o.outcome == "ran") || (o.run != "") != (o.outcome == "ran" || o.outcome == "caught_up") {
						t.Errorf("%s is %s, because %q, run %q", o.due, o.outcome, o.reason, o.run)
					}
				}
				n := 0
				for at := range want {
					if !at.After(mark) {
						n++
					}
				}
				if n != len(got) || len(want)-n > 1 {
					t.Errorf("%s: %d due times are on record, want %d up to the watermark %s of %d", h, len(got), n, mark, len(want))
				}
				if runs := count(t, db, "SELECT count(*) FROM run"); runs != count(t, db, "SELECT count(DISTINCT run_id) FROM occurrence WHERE outcome IN ('ran', 'caught_up')") {
					t.Errorf("there are %d runs, not one for each due time that has one", runs)
				}
				sound(t, db)
			})
		})
	}
}
