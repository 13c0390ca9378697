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
	d.cfg.Logger.DebugContext(d.calls, "no more claims", "open", d.board.open(), "grace", grace)
	d.way.timers = []*time.Timer{
		time.AfterFunc(grace, func() { d.way.release(errShutdown) }),
		time.AfterFunc(grace+d.cfg.Patience+lastCalls, d.way.abandon),
	}
}

// over reports whether there is nothing left to wait for, or no time left.
func (d *dispatcher) over() bool {
	return d.way.begun && (d.calls.Err() != nil || d.flying == 0 && d.lent.total() == 0 && d.board.open() == 0)
}

func (w *wayOut) stop() {
	for _, t := range w.timers {
		t.Stop()
	}
}
