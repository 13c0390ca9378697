package engine

import (
	"context"
	"time"
)

// rescueLimit bounds one transaction of the rescuer.
const rescueLimit = 200

// rescue takes tasks back whose worker has not renewed its lease.
func (e *Engine) rescue(ctx context.Context) (time.Duration, error) {
	for {
		n, err := e.cfg.Queue.Rescue(ctx, rescueLimit)
		if err != nil {
			return 0, err
		}
		if n > 0 {
			e.cfg.Logger.WarnContext(ctx, "took tasks back whose lease had run out", "tasks", n)
			e.Wake()
			nudge(e.decide)
		}
		if n < rescueLimit {
			return jitter(e.cfg.Lease / 3), nil
		}
	}
}
