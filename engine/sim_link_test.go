package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// A link is the line between one simulated process and the database.
type link struct {
	to *store.DB
	of *simWorker
}

var (
	errRefused = errors.New("connection refused")
	errBroken  = errors.New("connection reset by peer")
)

// disturbed makes a call on a bad line: it can be late, fail before it reaches
// the database, or lose its answer on the way back. A process that dies meanwhile
// has made it or not.
func disturbed[T any](ctx context.Context, l link, ask func() (T, error)) (T, error) {
	var none T
	if err := l.travel(ctx, errRefused); err != nil {
		return none, err
	}
	v, err := ask()
	if err != nil {
		return none, err
	}
	if err := l.travel(ctx, errBroken); err != nil {
		return none, err
	}
	return v, nil
}

// travel is the way of a call in one direction.
func (l link) travel(ctx context.Context, broken error) error {
	w := l.of
	if err := w.gate(); err != nil {
		return err
	}
	switch {
	case w.outage.Load(), w.chance(25):
		return broken
	case w.chance(10):
		if err := idle(ctx, w.upTo(simLease)); err != nil {
			return err
		}
	}
	return w.gate() // it may have been stopped on the way
}

// idle waits, not longer than the context lasts.
func idle(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l link) Exchange(ctx context.Context, worker string, done []task.Outcome, want task.Want) (task.Exchange, error) {
	return disturbed(ctx, l, func() (task.Exchange, error) {
		if l.of.plant.outcomes {
			done = l.refenced(ctx, done)
		}
		return l.to.Exchange(ctx, worker, done, want)
	})
}

// refenced is the planted bug: it lets every outcome pass the check of its fence.
func (l link) refenced(ctx context.Context, done []task.Outcome) []task.Outcome {
	read, _ := l.to.SQL()
	out := make([]task.Outcome, len(done))
	for i, o := range done {
		out[i] = o
		_ = read.QueryRowContext(ctx, "SELECT fence FROM task_queue WHERE id = ?", o.TaskID).Scan(&out[i].Fence) // where it fails the bug is not there
	}
	return out
}

// Attend lends what the process lends, while it is there. The answer can be late
// or lost like any other.
func (l link) Attend(lend func([]string) (task.Loan, bool)) (leave func()) {
	w := l.of
	return l.to.Attend(func(types []string) (task.Loan, bool) {
		w.mu.Lock()
		away := w.dead || w.paused != nil
		w.mu.Unlock()
		if away {
			return task.Loan{}, false
		}
		loan, ok := lend(types)
		repay := loan.Repay
		loan.Repay = func(claimed []task.Claimed, err error) {
			w.lent.Add(int64(len(claimed)))
			w.gone.Go(func() {
				if broken := l.travel(context.Background(), errBroken); broken != nil {
					claimed, err = nil, broken
				}
				repay(claimed, err)
			})
		}
		return loan, ok
	})
}

func (l link) Heartbeat(ctx context.Context, worker string, held []task.Hold, lease time.Duration) (task.Beat, error) {
	return disturbed(ctx, l, func() (task.Beat, error) { return l.to.Heartbeat(ctx, worker, held, lease) })
}

func (l link) Rescue(ctx context.Context, limit int) (int, error) {
	return disturbed(ctx, l, func() (int, error) { return l.to.Rescue(ctx, limit) })
}

func (l link) Promote(ctx context.Context, limit int) (int, time.Duration, error) {
	return l.timed(ctx, func() (int, time.Duration, error) { return l.to.Promote(ctx, limit) })
}

func (l link) Undecided(ctx context.Context, limit int) ([]task.Undecided, error) {
	return disturbed(ctx, l, func() ([]task.Undecided, error) { return l.to.Undecided(ctx, limit) })
}

func (l link) Decide(ctx context.Context, decisions []task.Decision) error {
	return l.tell(ctx, func() error { return l.to.Decide(ctx, decisions) })
}

func (l link) Scope(ctx context.Context, t task.Claimed) (task.Scope, error) {
	return disturbed(ctx, l, func() (task.Scope, error) { return l.to.Scope(ctx, t) })
}

func (l link) Expand(ctx context.Context, h task.Hold, elements []task.Element) error {
	return l.tell(ctx, func() error { return l.to.Expand(ctx, h, elements) })
}

func (l link) Elements(ctx context.Context, taskID int64) ([]task.ElementResult, error) {
	return disturbed(ctx, l, func() ([]task.ElementResult, error) { return l.to.Elements(ctx, taskID) })
}

func (l link) Spawn(ctx context.Context, h task.Hold, run task.NewRun) (task.Created, error) {
	return disturbed(ctx, l, func() (task.Created, error) { return l.to.Spawn(ctx, h, run) })
}

func (l link) Child(ctx context.Context, taskID int64, steps []string) (task.Scope, error) {
	return disturbed(ctx, l, func() (task.Scope, error) { return l.to.Child(ctx, taskID, steps) })
}

func (l link) NextPhase(ctx context.Context, limit int) (int, error) {
	return disturbed(ctx, l, func() (int, error) { return l.to.NextPhase(ctx, limit) })
}

func (l link) Expire(ctx context.Context, limit int) (int, error) {
	return disturbed(ctx, l, func() (int, error) { return l.to.Expire(ctx, limit) })
}

func (l link) TakeTurns(ctx context.Context, limit int) (task.Turns, error) {
	return disturbed(ctx, l, func() (task.Turns, error) { return l.to.TakeTurns(ctx, limit) })
}

func (l link) Admit(ctx context.Context, limit int) (int, time.Duration, error) {
	return l.timed(ctx, func() (int, time.Duration, error) { return l.to.Admit(ctx, limit) })
}

func (l link) Sweep(ctx context.Context, limit int) (int, error) {
	return disturbed(ctx, l, func() (int, error) { return l.to.Sweep(ctx, limit) })
}

func (l link) Judge(ctx context.Context, failed map[string]task.Failure) ([]task.CircuitChange, time.Duration, error) {
	type judged struct {
		changes []task.CircuitChange
		next    time.Duration
	}
	j, err := disturbed(ctx, l, func() (j judged, err error) {
		j.changes, j.next, err = l.to.Judge(ctx, failed)
		return j, err
	})
	return j.changes, j.next, err
}

// tell is a call whose only answer is that it was done.
func (l link) tell(ctx context.Context, do func() error) error {
	_, err := disturbed(ctx, l, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// timed is a call that says how much it did and when there is more to do.
func (l link) timed(ctx context.Context, do func() (int, time.Duration, error)) (int, time.Duration, error) {
	type done struct {
		n    int
		next time.Duration
	}
	d, err := disturbed(ctx, l, func() (d done, err error) {
		d.n, d.next, err = do()
		return d, err
	})
	return d.n, d.next, err
}

// work is a step: it takes its time, sometimes deaf to its cancellation, and has
// one effect, which it commits under the guard of its lease. What it returns says
// under which fence that was.
func (w *simWorker) work(ctx context.Context, in step.Input) (step.Output, error) {
	took := w.upTo(simLease / 3)
	if w.roll(4) == 0 {
		took = w.upTo(simDeaf)
	}
	deaf := ctx
	if w.roll(3) == 0 {
		deaf = context.WithoutCancel(ctx)
	}
	if err := idle(deaf, took); err != nil {
		return step.Output{}, fmt.Errorf("work: %w", err)
	}
	switch end := w.roll(20); {
	case end < 3:
		return step.Output{}, errors.New("the upstream answers 503")
	case end < 4:
		return step.Output{}, step.Permanent(errors.New("column missing"))
	case end < 5:
		panic("a bug of the step")
	}
	if err := w.effect(context.WithoutCancel(ctx), in.Task); err != nil {
		return step.Output{}, err
	}
	out := step.Output{Values: map[string]any{"fence": in.Task.Fence}}
	if w.roll(4) == 0 && in.Task.Run != "" {
		out.Effects = []step.Effect{step.Message{Channel: "c", Template: "t"}}
	}
	return out, nil
}

// deliver is the step that a message becomes.
func (w *simWorker) deliver(ctx context.Context, in step.Input) (step.Output, error) {
	if err := idle(ctx, w.upTo(time.Second)); err != nil {
		return step.Output{}, err
	}
	return step.Output{Values: map[string]any{"fence": in.Task.Fence}}, w.effect(ctx, in.Task)
}

// effect commits what an attempt does to the world.
func (w *simWorker) effect(ctx context.Context, t step.Task) error {
	if err := w.gate(); err != nil {
		return err
	}
	_, pool := w.db.SQL()
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return step.Infrastructure(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "INSERT INTO witness (kind, task_id, fence) VALUES ('effect', ?, ?)", t.ID, t.Fence); err != nil {
		return step.Infrastructure(err)
	}
	if !w.plant.effects {
		if err := w.guarded(ctx, tx, t); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return step.Infrastructure(err)
	}
	return w.gate()
}

func (w *simWorker) guarded(ctx context.Context, tx *sql.Tx, t step.Task) error {
	return w.db.Guard(task.Hold{TaskID: t.ID, Fence: t.Fence})(ctx, tx)
}
