package engine

import (
	"context"
	"slices"
	"time"

	"madeira/engine/task"
)

// cancelWithin is the longest time between heartbeats: they tell running attempts
// that their run was stopped, which has to reach them within five seconds.
const cancelWithin = 3 * time.Second

// heartbeat renews the leases of everything this process holds in one call, and
// cancels what is no longer its own.
func (e *Engine) heartbeat(ctx context.Context) (time.Duration, error) {
	every := min(e.cfg.Lease/3, cancelWithin)
	sent := e.cfg.Clock()
	held := e.board.held()
	call, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	beat, err := e.cfg.Queue.Heartbeat(call, e.cfg.Worker, held, e.cfg.Lease)
	if err != nil {
		return 0, err
	}
	for _, hold := range beat.Lost {
		e.board.lose(hold)
	}
	for _, hold := range beat.Stopped {
		e.board.stop(hold)
	}
	now := sent.Add(max(e.cfg.Clock().Sub(sent), 0)) // a clock that was put back makes no lease longer
	held = slices.DeleteFunc(held, func(h task.Hold) bool { return slices.Contains(beat.Skipped, h) })
	e.board.extend(held, trusted(sent, e.cfg.Lease).Sub(now))
	return max(every-now.Sub(sent), 0), nil
}

// trusted is until when a lease that was asked for at an instant is relied on: a
// fifth of it is left for the attempt to stop before another worker may begin.
func trusted(asked time.Time, lease time.Duration) time.Time {
	return asked.Add(lease - lease/5)
}
