package store

import (
	"context"
	"errors"

	"madeira/engine/task"
)

// startCalled makes the run that a step starts, or does one again as a rerun of
// the calling run asks for.
func (tx txn) startCalled(ctx context.Context, n task.NewRun) (task.Created, error) {
	redo := n.Redo
	n.Redo = nil
	switch {
	case redo == nil:
		return tx.createRun(ctx, n)
	case redo.RunID != "":
		made, done, err := tx.redo(ctx, n, *redo)
		if err != nil || done {
			return made, err
		}
	default:
		n.Again = true
	}
	n.Run.Reason = redo.Reason
	return tx.createRun(ctx, n)
}

// redo does again what failed of the run that a task had started, or of a later
// version of its key. It reports false where that is not possible or not wanted: a
// later version ended well or is live, the run is gone, it is handed other inputs
// by now, or its steps are laid out otherwise. What the key says holds then.
func (tx txn) redo(ctx context.Context, n task.NewRun, redo task.Redo) (task.Created, bool, error) {
	old, err := tx.newestVersion(ctx, redo.RunID)
	if errors.Is(err, ErrNotFound) {
		return task.Created{}, false, nil
	}
	if err != nil {
		return task.Created{}, false, err
	}
	if old.Status != task.RunError && old.Status != task.RunCancelled || old.Key != n.Run.Key || !task.SameJSON(old.Inputs, n.Run.Inputs) {
		return task.Created{}, false, nil
	}
	r := task.Rerun{RunID: old.ID, OnlyFailed: true, Action: task.Action{Actor: n.Run.Actor, Reason: redo.Reason}}
	if !redo.Frozen {
		r.Now = &n
	}
	run, err := tx.rerun(ctx, r, asRun{id: n.Run.ID, trigger: n.Run.Trigger, parent: n.Run.ParentTask})
	var senseless *task.RerunError
	var graph *task.GraphError
	var live *RunStateError
	if errors.As(err, &senseless) || errors.As(err, &graph) || errors.As(err, &live) {
		return task.Created{}, false, nil
	}
	return task.Created{Run: run}, err == nil, err
}

// newestVersion returns the last version of the key of a run: itself where it has
// no key. ErrNotFound says that there is none at work or in the archive.
func (tx txn) newestVersion(ctx context.Context, id string) (task.Run, error) {
	run, err := tx.anyRun(ctx, id)
	if err != nil || run.Key == "" {
		return run, err
	}
	var last []string
	err = tx.NewRaw("SELECT CAST(run_id AS text) FROM run_key WHERE job = ? AND upstream_key = ? ORDER BY version DESC LIMIT 1", run.Job, run.Key).Scan(ctx, &last)
	if err != nil || len(last) == 0 || last[0] == id {
		return run, err
	}
	return tx.anyRun(ctx, last[0])
}

// anyRun returns a run at work or in the archive, or ErrNotFound.
func (tx txn) anyRun(ctx context.Context, id string) (task.Run, error) {
	run, err := tx.findRun(ctx, id)
	if !errors.Is(err, ErrNotFound) {
		return run, err
	}
	var rows []runRow
	err = tx.NewSelect().Model(&rows).ModelTableExpr("run_archive AS r").Where("id = ?", id).Scan(ctx)
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return task.Run{}, err
	}
	return rows[0].run(), nil
}
