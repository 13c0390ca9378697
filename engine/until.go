package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"madeira/engine/task"
)

// A Watcher tells how far a run is.
type Watcher interface {
	Run(ctx context.Context, id string) (task.Run, error)

	// OpenDeliveries returns how many messages of a run are still to be
	// delivered, and how many were given up.
	OpenDeliveries(ctx context.Context, runID string) (pending, failed int, err error)

	// Kin returns the runs that steps of a run started, however far down.
	Kin(ctx context.Context, runID string) ([]task.Run, error)
}

// kinInterval is how often a watch looks for runs that other processes started for
// its run: those of this process it knows of at once.
const kinInterval = 15 * time.Second

// deliveryTime is how long a run that is over waits for its deliveries. What is
// left then is sent by the next process that works on the same database.
const deliveryTime = 30 * time.Second

// errRunOver ends an engine that works for one run.
var errRunOver = errors.New("the run is over")

// RunUntilOver works until Config.RunID is over and its messages are delivered,
// for which it takes at most 30 seconds more, or until ctx is done, as Run does.
// Runs that its steps start are worked at too, and theirs, with their messages.
// It returns the status of the run as last seen.
func (e *Engine) RunUntilOver(ctx context.Context, w Watcher) (task.RunStatus, error) {
	if e.cfg.RunID == "" {
		return "", errors.New("work until a run is over: Config.RunID is empty")
	}
	working, finish := context.WithCancelCause(ctx)
	defer finish(nil)
	watch := watch{engine: e, watcher: w, finish: finish}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		e.serve(working, service{name: "watch", once: watch.look, nudge: e.written})
	}()
	err := e.Run(working)
	finish(nil)
	<-watched
	return watch.status, err
}

// A watch ends the work of an engine when its run is over.
type watch struct {
	engine  *Engine
	watcher Watcher
	finish  context.CancelCauseFunc
	status  task.RunStatus
	over    time.Time // when the run was first seen to be over
	related time.Time // when it last looked for kin
}

func (w *watch) look(ctx context.Context) (time.Duration, error) {
	id := w.engine.cfg.RunID
	run, err := w.watcher.Run(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("look at run %s: %w", id, err)
	}
	w.status = run.Status
	if err := w.relate(ctx, id); err != nil {
		return 0, err
	}
	if run.Status.Live() {
		return jitter(w.engine.cfg.Poll), nil
	}
	deliveries := 0
	for _, of := range append([]string{id}, w.engine.kin.list()...) {
		open, _, err := w.watcher.OpenDeliveries(ctx, of)
		if err != nil {
			return 0, fmt.Errorf("look at the deliveries of run %s: %w", of, err)
		}
		deliveries += open
	}
	now := w.engine.cfg.Clock()
	if w.over.IsZero() {
		w.over = now
	}
	left := deliveryTime - now.Sub(w.over)
	if deliveries > 0 && left > 0 {
		return min(left, jitter(w.engine.cfg.Poll)), nil
	}
	if deliveries > 0 {
		w.engine.cfg.Logger.WarnContext(ctx, "the run is over and messages are still to be delivered; the next process on this database sends them", "run_id", id, "messages", deliveries)
	}
	w.finish(errRunOver)
	return 0, nil
}
