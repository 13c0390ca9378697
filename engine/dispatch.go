package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"madeira/engine/task"
)

// A dispatcher is the conversation of one Run with the queue.
type dispatcher struct {
	*Engine
	calls    context.Context // of calls; done only when the way out has taken too long
	attempts context.Context // of attempts; cancelled at the end of the grace
	way      wayOut
	unsent   []task.Outcome // ended and not known to be written
	failures int            // calls that failed in a row
}

// dispatch hands in what has ended and claims what free slots can take, until
// ctx is done and everything is handed in.
func (e *Engine) dispatch(ctx context.Context) error {
	calls, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	attempts, release := context.WithCancelCause(calls)
	defer release(errShutdown)
	d := &dispatcher{Engine: e, calls: calls, attempts: attempts, way: wayOut{release: release, abandon: abandon}}
	defer d.way.stop()
	for {
		if ctx.Err() != nil {
			d.leave(context.Cause(ctx))
		}
		done, free := e.board.take()
		d.unsent = append(d.unsent, done...)
		answered := d.speak(free) //nolint:contextcheck // what is written must be written although ctx is done
		if d.over() {
			return d.unwritten()
		}
		if !answered {
			d.pause(ctx, backoff(d.failures))
			continue
		}
		d.listen(ctx)
	}
}

// speak makes one call when there is a reason for it, and reports whether it was answered.
func (d *dispatcher) speak(free int) bool {
	want := d.want(free)
	if len(d.unsent) == 0 && want.N == 0 {
		return true
	}
	if err := d.exchange(want); err != nil {
		d.failures++
		d.away.failed(d.calls, "exchange", err)
		return false
	}
	d.failures = 0
	d.away.answered(d.calls)
	return true
}

func (d *dispatcher) want(free int) task.Want {
	if d.way.begun {
		free = 0
	}
	return task.Want{N: max(free, 0), Types: d.types, RunID: d.cfg.RunID, Lease: d.cfg.Lease}
}

// exchange makes one call and acts on the answer.
func (d *dispatcher) exchange(want task.Want) error {
	asked := d.cfg.Clock()
	ctx, cancel := context.WithTimeout(d.calls, d.cfg.Lease)
	defer cancel()
	answer, err := d.cfg.Queue.Exchange(ctx, d.cfg.Worker, d.unsent, want)
	if err != nil {
		return fmt.Errorf("hand in %d outcomes and claim up to %d tasks: %w", len(d.unsent), want.N, err)
	}
	d.settle(answer.Lost)
	for _, c := range answer.Claimed {
		d.start(c, asked)
	}
	if answer.Undecided {
		nudge(d.decide)
	}
	if answer.Held {
		d.gates.hurry()
	}
	return nil
}

// settle closes the books on what was handed in.
func (d *dispatcher) settle(lost []task.Hold) {
	gone := make(map[task.Hold]bool, len(lost))
	for _, h := range lost {
		gone[h] = true
	}
	for _, o := range d.unsent {
		a := d.board.written(o.Hold)
		switch {
		case a == nil:
		case gone[o.Hold]:
			d.logger(a.Claimed).WarnContext(d.calls, "lease lost: the result is dropped, another attempt owns the task")
		default:
			d.cfg.Observer.Ended(a.Claimed, o)
			d.gates.ended(a.Claimed, o)
		}
		if o.To == task.Pending {
			nudge(d.due)
		}
	}
	if len(d.unsent) > 0 {
		nudge(d.written)
	}
	d.unsent = d.unsent[:0:0]
}

// start runs a claimed task in a goroutine of its own. When the answer took so
// long that the lease can no longer be trusted, it hands the task back instead.
func (d *dispatcher) start(c task.Claimed, asked time.Time) {
	lease := c.Lease
	if lease <= 0 {
		lease = d.cfg.Lease
	}
	now := d.cfg.Clock()
	left := trusted(asked, lease).Sub(now)
	ctx, cancel := context.WithCancelCause(d.attempts)
	a := &attempt{Claimed: c, began: now, cancel: cancel}
	a.deadline = time.AfterFunc(left, func() { cancel(errUnrenewed) })
	d.board.add(a)
	d.cfg.Observer.Started(c)
	if left <= 0 {
		d.logger(c).WarnContext(d.calls, "the claim was answered too late to begin; the task is handed back", "took", now.Sub(asked))
		cancel(errUnrenewed)
		d.conclude(ctx, a, ending{Err: errUnrenewed, Cause: errUnrenewed})
		d.board.free(a)
		return
	}
	go d.run(ctx, a)
}

// listen waits for a reason to speak.
func (d *dispatcher) listen(ctx context.Context) {
	poll := time.NewTimer(jitter(d.cfg.Poll))
	defer poll.Stop()
	select {
	case <-d.board.changed:
	case <-d.wake:
	case <-poll.C:
	case <-d.asked(ctx):
	case <-d.calls.Done():
	}
}

// pause waits before the next call after one that failed.
func (d *dispatcher) pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.asked(ctx):
	case <-d.calls.Done():
	}
}

// asked is done when the end is asked for, and never once that is known.
func (d *dispatcher) asked(ctx context.Context) <-chan struct{} {
	if d.way.begun {
		return nil
	}
	return ctx.Done()
}

// unwritten is the error for outcomes that could not be handed in.
func (d *dispatcher) unwritten() error {
	if len(d.unsent) == 0 {
		return nil
	}
	ids := make([]int64, len(d.unsent))
	for i, o := range d.unsent {
		ids[i] = o.TaskID
	}
	return fmt.Errorf("hand in the outcomes of tasks %d before leaving: %w; they run again when their leases have run out", ids, errUnreachable)
}

// errUnreachable ends a shutdown that the database did not answer.
var errUnreachable = errors.New("the state database did not answer")
