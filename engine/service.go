package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// A service is a piece of work that is done again and again beside the dispatcher.
type service struct {
	name  string
	once  func(ctx context.Context) (next time.Duration, err error) // returns how long to wait before the next time
	nudge chan struct{}                                             // ends the wait; nil: nothing does
}

// serve runs a service until ctx is done. Failures are taken for a database that
// is away: they are mentioned and followed by a growing wait.
func (e *Engine) serve(ctx context.Context, s service) {
	failures := 0
	for ctx.Err() == nil {
		next, err := guarded(ctx, s)
		nudged := s.nudge
		switch {
		case err == nil:
			failures = 0
			e.away.answered(ctx, s.name)
		case ctx.Err() == nil:
			failures++
			e.away.failed(ctx, s.name, err)
			next, nudged = backoff(failures), nil
		}
		rest(ctx, next, nudged)
	}
}

// guarded turns a panic of a service into an error, so that a bug in one does
// not take the others and all running tasks with it.
func guarded(ctx context.Context, s service) (next time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v\n%s", s.name, p, debug.Stack())
		}
	}()
	return s.once(ctx)
}

// rest waits until d is over, ctx is done, or somebody nudges.
func rest(ctx context.Context, d time.Duration, nudged <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-nudged:
	case <-ctx.Done():
	}
}
