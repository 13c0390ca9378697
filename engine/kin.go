package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"madeira/engine/task"
)

// kin are the runs that steps of Config.RunID started, however far down: an engine
// that works for one run works for them too. They are never taken out, because a
// run that is over may have messages to deliver.
type kin struct {
	mu  sync.Mutex
	ids []string // replaced and never changed
}

// list returns them. The caller does not change it.
func (k *kin) list() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ids
}

// add reports whether a run was not known.
func (k *kin) add(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Contains(k.ids, id) {
		return false
	}
	k.ids = append(slices.Clip(k.ids), id)
	return true
}

// joined takes a run among those that this engine works for, if it works for one.
// A run that another one started counts as well: a step waits for it.
func (e *Engine) joined(run task.Run) {
	if e.cfg.RunID != "" && run.ID != "" && e.kin.add(run.ID) {
		e.Wake()
	}
}

// relate takes in the runs that other processes, or an earlier one, started.
func (w *watch) relate(ctx context.Context, id string) error {
	now := w.engine.cfg.Clock()
	if !w.related.IsZero() && now.Sub(w.related) < kinInterval {
		return nil
	}
	runs, err := w.watcher.Kin(ctx, id)
	if err != nil {
		return fmt.Errorf("look for the runs that run %s started: %w", id, err)
	}
	w.related = now
	for _, run := range runs {
		w.engine.joined(run)
	}
	return nil
}
