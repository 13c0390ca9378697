package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"madeira/jobs/step"
)

const (
	mostTries = 5                      // of a transaction that others got in the way of
	tryAgain  = 200 * time.Millisecond // at most, after the first one; doubled each time
)

// again runs do until it is not the victim of another transaction.
func again(ctx context.Context, do func() error) error {
	pause := tryAgain
	for try := 1; ; try++ {
		err := do()
		if err == nil || !victim(err) || try == mostTries || errors.Is(err, step.ErrLeaseLost) {
			return err
		}
		timer := time.NewTimer(rand.N(pause))
		pause *= 2
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}
