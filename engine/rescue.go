package engine

import (
	"context"
	"time"
)

// rescueLimit bounds one transaction of the rescuer.
const rescueLimit = 200

// rescue takes tasks back whose worker has not renewed its lease. When the
// database was away nobody could: it renews those of this process, and gives
// the other workers the time of one heartbeat before it takes them for dead.
func (e *Engine) rescue(ctx context.Context) (time.Duration, error) {
	if e.unrescued {
		if _, err := e.heartbeat(ctx); err != nil {
			return 0, err
		}
		e.unrescued = false
		return max(e.cfg.Lease/3, comeback.Longest()), nil
	}
	for {
		n, err := e.cfg.Queue.Rescue(ctx, rescueLimit)
		if err != nil {
			e.unrescued = true
			return 0, err
		}
		if n > 0 {
			e.cfg.Logger.WarnContext(ctx, "took tasks back whose lease had run out", "tasks", n)
			e.Wake()
			nudge(e.decide)
			e.gates.hurry()
		}
		if n < rescueLimit {
			return jitter(e.cfg.Lease / 3), nil
		}
	}
}
