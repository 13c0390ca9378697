package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
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

// A Scheduler makes runs. Start and Follow may be called from many goroutines, also
// while Run is running, which is for one.
type Scheduler struct {
	store Store
	log   *slog.Logger
	wake  func()

	mu      sync.Mutex
	follows []*jobs.Job   // that Run is to take up; nil: it has
	changed chan struct{} // holds one while follows is set

	// What Run works with.
	place    float64  // where it begins among what is due at once, from 0 to 1
	entries  []*entry // all, by job and name
	punctual agenda   // those whose next due time is to come, or just came
	lagging  agenda   // those with due times that came while no scheduler ran
	reload   time.Time
	since    time.Time // its first pass, by the database's clock
	failures int       // of the database, since it last answered
}

// New returns a Scheduler for jobs. Nothing happens before Run or Start.
func New(o Options) *Scheduler {
	s := &Scheduler{store: o.Store, log: o.Log, wake: o.Wake, changed: make(chan struct{}, 1), place: rand.Float64()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.wake == nil {
		s.wake = func() {}
	}
	s.take(o.Jobs)
	return s
}

// Start makes a run of a job, or returns the one that holds its key. It is the
// one way in which runs come about. The error is a *RequestError when the
// request cannot be met, and otherwise the database's.
func (s *Scheduler) Start(ctx context.Context, job *jobs.Job, r Request) (task.Created, error) {
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
