package engine

import (
	"context"
	"time"
)

// promoteLimit bounds one transaction of the promoter.
const promoteLimit = 1000

// promote makes tasks claimable whose time has come, and waits until the next
// one is due, at most the time of a poll.
func (e *Engine) promote(ctx context.Context) (time.Duration, error) {
	for {
		n, next, err := e.cfg.Queue.Promote(ctx, promoteLimit)
		if err != nil {
			return 0, err
		}
		if n > 0 {
			e.Wake()
		}
		if n < promoteLimit {
			return untilDue(next, jitter(e.cfg.Poll)), nil
		}
	}
}

// untilDue is the shorter of the wait until the next task is due, which is 0
// when none is known, and the longest wait.
func untilDue(next, longest time.Duration) time.Duration {
	if next > 0 && next < longest {
		return next
	}
	return longest
}
