package engine

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"madeira/engine/task"
)

// awayEvery is how often an unreachable database is mentioned in the log.
const awayEvery = 5 * time.Second

// comeback spreads the attempts to reach a database that is away: the longest
// wait is short enough for work to go on within five seconds of its return.
var comeback = task.Retry{Delay: 200 * time.Millisecond, Factor: 2, MaxDelay: 4 * time.Second}

// backoff is the wait after so many failures in a row.
func backoff(failures int) time.Duration { return comeback.Wait(failures, rand.Float64()) }

// An away tells the log that the database cannot be reached: all goroutines of
// the process together once in awayEvery, and once when it is back.
type away struct {
	clock func() time.Time
	log   *slog.Logger

	mu     sync.Mutex
	open   map[string]bool // calls that failed the last time
	said   time.Time       // the last line
	silent int             // failures since then
	since  time.Time       // zero: it is there
}

// failed notes that a call was not answered.
func (a *away) failed(ctx context.Context, call string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	if a.since.IsZero() {
		a.since, a.open = now, map[string]bool{}
	}
	a.open[call] = true
	if !a.said.IsZero() && now.Sub(a.said) < awayEvery {
		a.silent++
		return
	}
	a.log.WarnContext(ctx, "the state database does not answer; trying again", "call", call, "error", err, "more_failures", a.silent)
	a.said, a.silent = now, 0
}

// answered notes that a call was answered. The database is back when all calls are
// answered that were not.
func (a *away) answered(ctx context.Context, call string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() {
		return
	}
	if delete(a.open, call); len(a.open) > 0 {
		return
	}
	a.log.InfoContext(ctx, "the state database answers again", "away", a.clock().Sub(a.since))
	a.since = time.Time{}
}
