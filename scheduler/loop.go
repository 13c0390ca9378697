package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"madeira/engine/task"
)

const (
	// maxSleep bounds a sleep, so that a clock that was set, or a database that
	// thinks otherwise, is noticed soon. So often all watermarks are read, too.
	maxSleep = time.Minute
	// minSleep keeps the loop from spinning while the database's clock is a
	// little behind the timer that woke it.
	minSleep = 5 * time.Millisecond
	// lull is how long the loop leaves alone what comes right after others, so that
	// what comes due within moments is followed together.
	lull = 50 * time.Millisecond
	// readTime is more than it takes to read all watermarks.
	readTime = time.Second
	// retrySleep is how long the loop leaves alone what has failed, doubled each
	// time: a database up to outageSleep, an entry up to maxSleep.
	retrySleep  = time.Second
	outageSleep = 5 * time.Second
	// catchUpSleep spreads what is caught up: after maxRuns of an entry the
	// workers get a second before they are given more.
	catchUpSleep = time.Second
	// maxRuns is how many runs of one entry are caught up at once.
	maxRuns = 100
	// maxEntries is how many entries of each agenda are looked at together, and maxBatch
	// how many runs are made in one transaction: what comes due meanwhile waits so long.
	// maxBytes bounds what the steps of those runs hold, and with it memory.
	maxEntries = 1000
	maxBatch   = 1000
	maxBytes   = 16 << 20
	// maxLooks is how often a pass takes from the agendas before Run looks for what
	// else there is to do.
	maxLooks = 20
)

// Run follows the schedules of all jobs until ctx is done, and then returns nil.
// What fails is logged and tried again; one job never stops another.
func (s *Scheduler) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
			if list := s.taken(); list != nil {
				s.take(list)
			}
			timer.Reset(0)
		case <-timer.C:
			timer.Reset(s.guard(ctx))
		}
	}
}

// guard does a pass. One that panics is answered like an outage: all entries are
// looked at again later.
func (s *Scheduler) guard(ctx context.Context) (wait time.Duration) {
	var err error
	defer func() {
		if err != nil {
			s.reload = time.Time{}
			s.plan()
			wait = s.outage(ctx, "follow schedules", err)
		}
	}()
	defer recovered(&err)
	return s.pass(ctx)
}

// pass makes and records a part of what is due now, what is on time first, and
// returns how long to sleep: not at all where there may be more.
func (s *Scheduler) pass(ctx context.Context) time.Duration {
	now, err := s.store.Now(ctx)
	if err != nil {
		return s.outage(ctx, "read the database's clock", err)
	}
	if s.since.IsZero() {
		s.since = now
	}
	if s.stale(now) {
		if err := s.read(ctx, now); err != nil {
			return s.outage(ctx, "read the watermarks", err)
		}
		s.reload = now.Add(maxSleep)
	}
	looked, err := s.followDue(ctx, now)
	if err != nil {
		s.plan() // with what was taken and not followed
		return s.outage(ctx, "follow schedules", err)
	}
	s.failures = 0
	switch {
	case looked.IsZero():
		return max(s.wait(now), minSleep)
	case s.wait(looked) <= 0:
		return 0
	}
	return lull // and then the clock says what is due by now
}

// followDue follows what is due, and returns when it looked last, or the zero time where
// nothing was. While there is much, it looks again for what has come due meanwhile.
func (s *Scheduler) followDue(ctx context.Context, now time.Time) (looked time.Time, err error) {
	w := writing{Scheduler: s}
	defer func() { err = cmp.Or(w.finish(ctx), err) }()
	for range maxLooks {
		list := s.punctual.take(now, maxEntries)
		most := len(list)
		list = append(list, s.lagging.take(now, maxEntries)...)
		most = max(most, len(list)-most)
		if most == 0 {
			break
		}
		looked = now
		if err = s.follow(ctx, &w, list, now); err != nil {
			break
		}
		if most < maxEntries {
			break
		}
		if now, err = s.store.Now(ctx); err != nil {
			break
		}
	}
	return looked, err
}

// stale reports whether all watermarks have to be read: at first, and then every
// maxSleep, which can wait while something is due, or so soon that it would be late.
func (s *Scheduler) stale(now time.Time) bool {
	left := s.reload.Sub(now)
	return s.reload.IsZero() || left > maxSleep || left < -maxSleep || left <= 0 && s.wait(now) > readTime
}

// wait returns how long it is until an entry has to be looked at, maxSleep at most.
func (s *Scheduler) wait(now time.Time) time.Duration {
	wait := maxSleep
	for _, first := range []time.Time{s.punctual.first(), s.lagging.first()} {
		if !first.IsZero() {
			wait = min(wait, first.Sub(now))
		}
	}
	return wait
}

// outage notes that the database does not work, and returns how long to leave it alone.
func (s *Scheduler) outage(ctx context.Context, what string, err error) time.Duration {
	s.failed(ctx, what, err)
	s.failures++
	return min(retrySleep<<min(s.failures-1, 10), outageSleep)
}

func (s *Scheduler) failed(ctx context.Context, what string, err error, attrs ...slog.Attr) {
	if ctx.Err() != nil {
		return // the cause is the shutdown
	}
	s.log.LogAttrs(ctx, slog.LevelError, what, append(attrs, slog.String("error", err.Error()))...)
}

// read reads the watermarks of all entries, and finds out when each is due next
// where it does not know.
func (s *Scheduler) read(ctx context.Context, now time.Time) error {
	marks, err := s.marks(ctx, s.entries)
	if err != nil {
		return err
	}
	for i, e := range s.entries {
		if e.failures == 0 && !e.mark.Equal(marks[i]) {
			e.mark = marks[i]
			if err := e.find(now); err != nil {
				s.rest(ctx, e, now, err)
			}
		}
	}
	s.plan()
	return nil
}

func (s *Scheduler) marks(ctx context.Context, list []*entry) ([]time.Time, error) {
	ids := make([]task.EntryID, len(list))
	for i, e := range list {
		ids[i] = e.id()
	}
	return s.store.FollowEntries(ctx, ids)
}

// find finds out when the entry is due next after its watermark.
func (e *entry) find(now time.Time) error {
	following, err := e.after(e.mark)
	if err != nil {
		return err
	}
	e.due, e.at = following, following
	e.lagging = e.lagging && !following.IsZero() && !following.After(now) || !following.IsZero() && now.Sub(following) > punctual
	return nil
}

// after returns the first due time after an instant, or the zero time. What a
// schedule panics with is an error of that entry.
func (e *entry) after(at time.Time) (_ time.Time, err error) {
	defer recovered(&err)
	due, err := next(e.Entry, at)
	return due.At, err
}

// panicked is an error that nothing but a mistake of a program explains.
type panicked struct{ error }

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = panicked{fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
	}
}

// rest leaves an entry alone for a while, because it failed. It is said once, and
// again when something else is wrong.
func (s *Scheduler) rest(ctx context.Context, e *entry, now time.Time, err error) {
	if ctx.Err() != nil {
		return
	}
	problem, _, _ := strings.Cut(err.Error(), "\n") // without the stack of a panic
	if problem != e.problem {
		e.problem = problem
		s.failed(ctx, "follow the schedule", err, slog.String("job", e.job.Name), slog.String("entry", e.Name))
		s.note(ctx, e)
	}
	e.at = now.Add(min(retrySleep<<min(e.failures, 10), maxSleep))
	e.failures++
}

// works notes that an entry can be followed.
func (s *Scheduler) works(ctx context.Context, e *entry) {
	e.failures = 0
	if e.problem != "" {
		e.problem = ""
		s.log.LogAttrs(ctx, slog.LevelInfo, "the schedule can be followed again", slog.String("job", e.job.Name), slog.String("entry", e.Name))
		s.note(ctx, e)
	}
}

func (s *Scheduler) note(ctx context.Context, e *entry) {
	if err := s.store.NoteProblem(ctx, e.id(), shorten(e.problem)); err != nil {
		s.failed(ctx, "note what is wrong with a schedule", err, slog.String("job", e.job.Name), slog.String("entry", e.Name))
	}
}
