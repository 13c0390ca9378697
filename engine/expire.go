package engine

import (
	"context"
	"time"
)

// expireLimit bounds how many runs are stopped before the rest is looked at again.
const expireLimit = 100

// expire stops runs that are out of time. What of them is at work is told by its
// next heartbeat.
func (e *Engine) expire(ctx context.Context) (time.Duration, error) {
	for {
		n, err := e.cfg.Flow.Expire(ctx, expireLimit)
		if err != nil {
			return 0, err
		}
		if n > 0 {
			e.cfg.Logger.WarnContext(ctx, "stopped runs that were out of time", "runs", n)
			nudge(e.decide)
			e.ended()
		}
		if n < expireLimit {
			return jitter(e.cfg.Poll), nil
		}
	}
}
