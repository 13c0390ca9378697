package engine

import (
	"context"
	"sync"
	"time"

	"madeira/engine/task"
)

const (
	// admitLimit bounds what one look at the gates moves.
	admitLimit = 1000

	// A look at the gates for which there is no good reason waits until the last
	// one is so old: whatever makes tasks asks for one.
	restBetweenLooks = 20 * time.Millisecond

	// Tokens of a rate are not waited for one by one when they come faster.
	shortestTokenWait = time.Millisecond
)

// A gatekeeper keeps what the dispatcher has seen that concerns the gates, until
// the service of the gates looks.
type gatekeeper struct {
	nudge chan struct{}

	mu     sync.Mutex
	urgent bool                    // a slot was freed, or a limit holds what became due
	failed map[string]task.Failure // the last failure that speaks against a circuit

	// Of the service alone, by the clock of the engine.
	looked time.Time // when it admitted
	swept  time.Time // when it judged all circuits
	due    time.Time // when it has to again
}

// take returns what was seen since the last call.
func (g *gatekeeper) take() (urgent bool, failed map[string]task.Failure) {
	g.mu.Lock()
	defer g.mu.Unlock()
	urgent, failed = g.urgent, g.failed
	g.urgent, g.failed = false, nil
	return urgent, failed
}

// hurry asks for a look at once.
func (g *gatekeeper) hurry() {
	g.mu.Lock()
	g.urgent = true
	g.mu.Unlock()
	nudge(g.nudge)
}

// ended notes what the outcome of an attempt means for limits and circuits.
func (g *gatekeeper) ended(c task.Claimed, o task.Outcome) {
	if c.Limited {
		g.hurry()
	}
	if c.Circuit == "" || o.Failure == nil || o.Failure.Class != task.TransientFailure && o.Failure.Class != task.TimeoutFailure {
		return
	}
	g.mu.Lock()
	if g.failed == nil {
		g.failed = map[string]task.Failure{}
	}
	g.failed[c.Circuit] = *o.Failure
	g.mu.Unlock()
	nudge(g.nudge)
}

// gate lets held tasks through whose limits have room, and now and then looks
// after pauses and circuits. What was seen and not acted on because of an error is
// found by the next full look.
func (e *Engine) gate(ctx context.Context) (time.Duration, error) {
	g := &e.gates
	urgent, failed := g.take()
	now := e.cfg.Clock()
	full := now.Sub(g.swept) >= e.cfg.Poll || !g.due.IsZero() && !now.Before(g.due)
	if rest := restBetweenLooks - now.Sub(g.looked); rest > 0 && !urgent && failed == nil && !full {
		return rest, nil
	}
	if full {
		failed = nil
	}
	if full || len(failed) > 0 {
		if err := e.judge(ctx, failed); err != nil {
			return 0, err
		}
		g.swept = now
	}
	g.looked = now
	next, err := e.admit(ctx)
	if err != nil {
		return 0, err
	}
	if !g.due.IsZero() {
		next = untilDue(max(g.due.Sub(e.cfg.Clock()), shortestTokenWait), untilDue(next, e.cfg.Poll))
	}
	return untilDue(next, jitter(e.cfg.Poll)), nil
}

// judge looks after circuits, tells of those that changed, and moves what is held
// or not held any more.
func (e *Engine) judge(ctx context.Context, failed map[string]task.Failure) error {
	changes, next, err := e.cfg.Gates.Judge(ctx, failed)
	for _, c := range changes {
		e.circuitChanged(ctx, c)
	}
	if err != nil {
		return err
	}
	e.gates.due = time.Time{}
	if next > 0 {
		e.gates.due = e.cfg.Clock().Add(next)
	}
	for {
		n, err := e.cfg.Gates.Sweep(ctx, admitLimit)
		if err != nil {
			return err
		}
		if n > 0 {
			nudge(e.wake)
		}
		if n < admitLimit {
			return nil
		}
	}
}

// admit lets through what there is room for, and returns how long until a token
// is there: 0 when none is waited for.
func (e *Engine) admit(ctx context.Context) (time.Duration, error) {
	for {
		n, next, err := e.cfg.Gates.Admit(ctx, admitLimit)
		if n > 0 {
			nudge(e.wake)
		}
		if err != nil {
			return 0, err
		}
		if n < admitLimit {
			if next > 0 {
				next = max(next, shortestTokenWait)
			}
			return next, nil
		}
	}
}

// circuitChanged tells of a change that this process made, and no other tells of.
func (e *Engine) circuitChanged(ctx context.Context, c task.CircuitChange) {
	log := e.cfg.Logger.With("circuit", c.Key, "from", c.From, "to", c.To)
	if c.To == task.CircuitOpen {
		log = log.With("probes_at", c.Until)
	}
	if c.Failure != nil {
		log = log.With("error", c.Failure.Message)
	}
	log.WarnContext(ctx, "the circuit of a downstream has changed its state")
	e.cfg.CircuitChanged(c)
}
