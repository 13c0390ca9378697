package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
)

const (
	// maxSleep bounds a sleep, so that a clock that was set, or a database that
	// thinks otherwise, is noticed soon.
	maxSleep = time.Minute
	// minSleep keeps the loop from spinning while the database's clock is a
	// little behind the timer that woke it.
	minSleep = 5 * time.Millisecond
	// retrySleep is how long the loop leaves alone what has failed: a database,
	// or an entry, for which it doubles up to maxSleep.
	retrySleep = time.Second
	// catchUpSleep spreads what is caught up: after maxRuns of an entry the
	// workers get a second before they are given more.
	catchUpSleep = time.Second
	// maxRuns is how many runs of one entry a pass makes. Each is a transaction
	// with all its tasks, and the entries of other jobs wait meanwhile.
	maxRuns = 100
)

// Options are what a Scheduler works with.
type Options struct {
	Store Store
	Jobs  []*jobs.Job  // those whose schedules Run follows until Follow says otherwise; Start takes any
	Log   *slog.Logger // nil: nothing is logged

	// Wake is called after runs were made, so that workers in this process look
	// at once; nil: they find out by themselves.
	Wake func()
}

// A Scheduler makes runs. Start may be called from many goroutines, also while
// Run is running, which is for one.
type Scheduler struct {
	store   Store
	entries []*entry
	log     *slog.Logger
	wake    func()

	mu      sync.Mutex
	follows []*jobs.Job   // that Run is to take up; nil: it has
	changed chan struct{} // holds one while follows is set
}

// An entry is a schedule entry with what this process knows about it.
type entry struct {
	jobs.Entry
	job   *jobs.Job
	known bool      // due is set
	due   time.Time // next due time that is not accounted for; zero: none

	failures int       // since it was last followed without one
	rest     time.Time // left alone until then, because it failed
}

// New returns a Scheduler for jobs. Nothing happens before Run or Start.
func New(o Options) *Scheduler {
	s := &Scheduler{store: o.Store, log: o.Log, wake: o.Wake, changed: make(chan struct{}, 1)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.wake == nil {
		s.wake = func() {}
	}
	s.take(o.Jobs)
	return s
}

// Follow replaces the jobs whose schedules Run follows; it may be called while Run
// is running, which takes them up within moments. An entry that is among the old and
// the new, by job and name, stays as it is; one of a changed cron line or zone is
// another one, and what it was due before now does not count. What is gone is
// followed no more. The jobs must not be changed afterwards.
func (s *Scheduler) Follow(list []*jobs.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follows = append([]*jobs.Job{}, list...)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// take follows the entries of the jobs, and keeps what is known of those it had.
func (s *Scheduler) take(list []*jobs.Job) {
	had := map[[2]string]*entry{}
	for _, e := range s.entries {
		had[[2]string{e.job.Name, e.Name}] = e
	}
	s.entries = nil
	for _, j := range list {
		for _, declared := range j.Schedule {
			e := &entry{}
			if old := had[[2]string{j.Name, declared.Name}]; old != nil {
				*e = *old
			}
			e.Entry, e.job = declared, j
			s.entries = append(s.entries, e)
		}
	}
}

// taken returns what Follow was given since, or nil.
func (s *Scheduler) taken() []*jobs.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.follows
	s.follows = nil
	return list
}

// Start makes a run of a job, or returns the one that holds its key. It is the
// one way in which runs come about. The error is a *RequestError when the
// request cannot be met, and otherwise the database's.
func (s *Scheduler) Start(ctx context.Context, job *jobs.Job, r Request) (task.Created, error) {
	return s.start(ctx, job, r, nil)
}

// start is Start for a due time, which is noted in the transaction that makes
// the run.
func (s *Scheduler) start(ctx context.Context, job *jobs.Job, r Request, due *task.Occurrence) (task.Created, error) {
	if r.DueAt.IsZero() {
		now, err := s.store.Now(ctx)
		if err != nil {
			return task.Created{}, fmt.Errorf("run job %s: read the database's clock: %w", job.Name, err)
		}
		r.DueAt = now
	}
	run, err := Freeze(job, r)
	if err != nil {
		return task.Created{}, err
	}
	run.Occurrence = due
	if err := s.store.SaveJob(ctx, run.Job); err != nil {
		return task.Created{}, fmt.Errorf("run job %s: save its file: %w", job.Name, err)
	}
	created, err := s.store.CreateRun(ctx, run)
	if err != nil {
		return task.Created{}, fmt.Errorf("run job %s: %w", job.Name, err)
	}
	if !created.Existing {
		s.wake()
	}
	return created, nil
}

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
			timer.Reset(s.pass(ctx))
		}
	}
}

// pass makes and records what is due now, and returns how long to sleep.
func (s *Scheduler) pass(ctx context.Context) time.Duration {
	now, err := s.store.Now(ctx)
	if err != nil {
		s.failed(ctx, "read the database's clock", err)
		return retrySleep
	}
	sleep := maxSleep
	for _, e := range s.entries {
		if ctx.Err() != nil {
			return 0
		}
		sleep = min(sleep, s.visit(ctx, e, now))
	}
	return max(sleep, minSleep)
}

// visit follows an entry unless it rests after a failure, and returns how long
// it is until it has to be visited again.
func (s *Scheduler) visit(ctx context.Context, e *entry, now time.Time) time.Duration {
	if rest := e.rest.Sub(now); rest > 0 && rest <= maxSleep {
		return rest
	}
	wait, err := s.follow(ctx, e, now)
	if err == nil {
		e.failures = 0
		return wait
	}
	s.failed(ctx, "follow the schedule", err, slog.String("job", e.job.Name), slog.String("entry", e.Name))
	rest := min(retrySleep<<min(e.failures, 10), maxSleep)
	e.failures, e.rest = e.failures+1, now.Add(rest)
	return rest
}

func (s *Scheduler) failed(ctx context.Context, what string, err error, attrs ...slog.Attr) {
	if ctx.Err() != nil {
		return // the cause is the shutdown
	}
	s.log.LogAttrs(ctx, slog.LevelError, what, append(attrs, slog.String("error", err.Error()))...)
}

// follow accounts for the due times of one entry up to now and returns how long
// it is until the next. What a schedule panics with is an error of that entry.
func (s *Scheduler) follow(ctx context.Context, e *entry, now time.Time) (wait time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if e.known && (e.due.IsZero() || e.due.After(now)) {
		return e.until(now), nil
	}
	watermark, err := s.store.Watermark(ctx, e.job.Name, e.Name)
	if err != nil {
		return 0, fmt.Errorf("read the watermark: %w", err)
	}
	decisions, more, broken := Due(e.Entry, watermark, now, maxRuns)
	for _, d := range decisions {
		if err := s.account(ctx, e, d); err != nil {
			return 0, err
		}
		watermark = d.DueAt
	}
	if broken != nil {
		return 0, fmt.Errorf("find the next due time after %s: %w", watermark.Format(time.RFC3339), broken)
	}
	following, err := next(e.Entry, watermark)
	if err != nil {
		return 0, fmt.Errorf("find the next due time after %s: %w", watermark.Format(time.RFC3339), err)
	}
	e.due, e.known = following.At, !more
	switch {
	case !more:
		return e.until(now), nil
	case decisions[len(decisions)-1].makesRun():
		return catchUpSleep, nil
	}
	return 0, nil
}

// until returns how long it is to the next due time, counted from now.
func (e *entry) until(now time.Time) time.Duration {
	if e.due.IsZero() {
		return maxSleep
	}
	return e.due.Sub(now)
}

// account gives a due time its run, or a row that says why it has none.
func (s *Scheduler) account(ctx context.Context, e *entry, d Decision) error {
	occurrence := task.Occurrence{Job: e.job.Name, Entry: e.Name, DueAt: d.DueAt, Outcome: d.Outcome, Reason: d.Reason}
	if !d.makesRun() {
		return s.record(ctx, occurrence)
	}
	created, err := s.start(ctx, e.job, Request{Trigger: TriggerSchedule, DueAt: d.DueAt}, &occurrence)
	var bad *RequestError
	if errors.As(err, &bad) {
		s.failed(ctx, "skip a due time", err, slog.String("job", e.job.Name), slog.Time("due_at", d.DueAt))
		occurrence.Outcome, occurrence.Reason = task.DueSkipped, shorten(err.Error())
		return s.record(ctx, occurrence)
	}
	if err != nil {
		return fmt.Errorf("due at %s: %w", d.DueAt.Format(time.RFC3339), err)
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "due", slog.String("job", e.job.Name), slog.Time("due_at", d.DueAt),
		slog.String("outcome", string(d.Outcome)), slog.String("run_id", created.Run.ID))
	return nil
}

func (s *Scheduler) record(ctx context.Context, o task.Occurrence) error {
	if err := s.store.RecordOccurrence(ctx, o); err != nil {
		return fmt.Errorf("record that %s was %s: %w", o.DueAt.Format(time.RFC3339), o.Outcome, err)
	}
	return nil
}

// shorten keeps the reason of an occurrence to what a table shows.
func shorten(s string) string {
	const limit = 500
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return s
}
