package engine

import (
	"context"
	"errors"
	"time"
)

// lastCalls is how long the way out may wait for the database after the last
// attempt has ended.
const lastCalls = 5 * time.Second

// A wayOut is how a dispatcher ends: no more claims, then the grace, then what
// still runs is cancelled, then at last it goes whatever the database says.
type wayOut struct {
	begun   bool
	release context.CancelCauseFunc // cancels all attempts
	abandon context.CancelFunc      // gives up calls to the database
	timers  []*time.Timer
}

// leave begins the way out; it does nothing when that has begun.
func (d *dispatcher) leave(cause error) {
	if d.way.begun {
		return
	}
	d.way.begun = true
	d.board.close()
	grace := d.cfg.Grace
	if errors.Is(cause, errRunOver) {
		grace = 0
	}
	d.cfg.Logger.DebugContext(d.calls, "no more claims", "working", d.board.working(), "grace", grace)
	d.way.timers = []*time.Timer{
		time.AfterFunc(grace, func() { d.way.release(errShutdown) }),
		time.AfterFunc(grace+d.cfg.Patience+lastCalls, d.way.abandon),
	}
}

// over reports whether there is nothing left to wait for: no attempt was working
// before the last outcomes were taken, and all of them are written.
func (d *dispatcher) over(working int) bool {
	if !d.way.begun {
		return false
	}
	return d.calls.Err() != nil || working == 0 && len(d.unsent) == 0
}

func (w *wayOut) stop() {
	for _, t := range w.timers {
		t.Stop()
	}
}
