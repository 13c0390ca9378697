package store

import (
	"context"
	"fmt"
	"time"

	"madeira/engine/task"
)

// maxCrashes is how many workers may die over a task before it is taken for the cause.
const maxCrashes = 3

// An expired lease, with how many workers had died over the task before.
type expired struct {
	task.Hold
	crashes int
}

// Heartbeat implements engine.Queue and notes that the worker was seen.
func (db *DB) Heartbeat(ctx context.Context, worker string, held []task.Hold, lease time.Duration) (task.Beat, error) {
	var beat task.Beat
	err := db.again(ctx, func() (err error) {
		beat, err = db.hot.heartbeat(ctx, worker, held, lease)
		return err
	})
	if err != nil {
		return task.Beat{}, fmt.Errorf("extend %d leases: %w", len(held), err)
	}
	return beat, nil
}

// Rescue implements engine.Queue. The attempt that crashed stays counted and gets
// its row in the log. It is written like any outcome, but only if the lease is
// still over by then.
func (db *DB) Rescue(ctx context.Context, limit int) (int, error) {
	var a answer
	over, err := db.hot.expired(ctx, limit)
	if err == nil && len(over) > 0 {
		b := batch{ended: make([]ended, len(over))}
		for i, e := range over {
			b.ended[i] = crash(e)
		}
		err = db.exchange(ctx, b, &a)
	}
	if err != nil {
		return 0, fmt.Errorf("rescue up to %d tasks: %w", limit, err)
	}
	return len(a.finished), nil
}

func crash(e expired) ended {
	o := task.Outcome{Hold: e.Hold, To: task.Pending, Reason: task.ReasonLeaseLost}
	if e.crashes+1 >= maxCrashes {
		o.To, o.Reason = task.Error, task.ReasonPoison
		o.Failure = &task.Failure{Class: task.PoisonFailure, Message: fmt.Sprintf("%d workers ended while they worked on this task; see why (memory, crashes), then ask for the run again", e.crashes+1)}
	}
	out := prepare(o)
	out.crashed = true
	return out
}

// Promote implements engine.Queue.
func (db *DB) Promote(ctx context.Context, limit int) (n int, next time.Duration, err error) {
	err = db.again(ctx, func() (err error) {
		n, next, err = db.hot.promote(ctx, limit)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("promote up to %d tasks: %w", limit, err)
	}
	return n, next, nil
}
