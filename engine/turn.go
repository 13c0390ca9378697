package engine

import (
	"context"
	"sync/atomic"
	"time"

	"madeira/engine/task"
)

// Turns is what the engine needs of runs that take turns: those of a job that must
// not overlap, those under a key with a limit, and those that were put off.
type Turns interface {
	// TakeTurns lets up to limit runs begin whose turn it is. Whoever calls it, in
	// whatever process, no limit is exceeded and nobody overtaken.
	TakeTurns(ctx context.Context, limit int) (task.Turns, error)
}

const (
	// turnLimit bounds how many runs begin at one look.
	turnLimit = 100

	// Looks are so far apart at least: while runs wait, and while none does and
	// somebody might have come.
	restBetweenTurns = 20 * time.Millisecond
	restWithoutTurns = 100 * time.Millisecond
)

// An usher lets runs begin whose turn it is.
type usher struct {
	nudge   chan struct{}
	waiting atomic.Bool // at the last look a run waited for its turn

	looked time.Time // by the clock of the engine; of the service alone
}

// ended notes that a run may be over.
func (u *usher) ended() {
	if u.waiting.Load() {
		nudge(u.nudge)
	}
}

// ended tells whoever waits for runs to be over that one may be.
func (e *Engine) ended() {
	nudge(e.written)
	e.turns.ended()
}

// turn lets runs begin. A run that comes when it can begin at once does not wait
// for this; the others wait until another run is over, of this process or, at the
// next poll, of any.
func (e *Engine) turn(ctx context.Context) (time.Duration, error) {
	u := &e.turns
	apart := restWithoutTurns
	if u.waiting.Load() {
		apart = restBetweenTurns
	}
	if rest := apart - e.cfg.Clock().Sub(u.looked); rest > 0 {
		return rest, nil
	}
	for {
		// Before the look: what ends meanwhile must not be missed.
		u.waiting.Store(true)
		sum, err := e.cfg.Turns.TakeTurns(ctx, turnLimit)
		u.looked = e.cfg.Clock()
		if err != nil {
			return 0, err
		}
		u.waiting.Store(sum.Waiting)
		if sum.Begun > 0 {
			e.Wake()
			if e.cfg.Bell != nil {
				e.cfg.Bell.Ring()
			}
		}
		if sum.Begun < turnLimit {
			return untilDue(sum.Next, jitter(e.cfg.Poll)), nil
		}
	}
}
