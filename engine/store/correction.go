package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// Corrections returns what people had set by hand, the last first: what holds in a
// run or in the one that it repeats, and what held in the version before and does
// not in this one.
func (db *DB) Corrections(ctx context.Context, run task.Run) (held, left []task.Correction, err error) {
	switch {
	case run.RepeatedOf != "":
		run, err = anyRun(ctx, db.read, run.RepeatedOf)
		if err != nil {
			return nil, nil, fmt.Errorf("read what was set by hand: %w", err)
		}
		fallthrough
	case run.RerunOf != "":
		held, err = corrections(ctx, db.read, run)
	case run.Version > 1:
		left, err = leftAside(ctx, db.read, run, run.Version, nil)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read what was set by hand for run %s: %w", run.ID, err)
	}
	return held, left, nil
}

// keptByHand says what was set by hand for a run that stands, or "".
func (tx txn) keptByHand(ctx context.Context, good task.Run) (string, error) {
	list, err := corrections(ctx, tx, good)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return "kept as it was set by hand: " + task.Corrections(list), nil
}

// noteLeftOf is noteLeft for a run whose steps are there already.
func (tx txn) noteLeftOf(ctx context.Context, run task.Run) error {
	return tx.noteLeft(ctx, run, run.Version, nil)
}

// noteLeft writes into a run without a reason what was set by hand for the version
// before it and is not in it. Settings are those of its steps, nil to look for them.
func (tx txn) noteLeft(ctx context.Context, run task.Run, version int, settings map[string]json.RawMessage) error {
	list, err := leftAside(ctx, tx, run, version, settings)
	if err != nil || len(list) == 0 {
		return err
	}
	why := clean("without what was set by hand before: "+task.Corrections(list), maxLine)
	return tx.exec(ctx, "UPDATE run SET reason = ? WHERE id = ? AND reason IS NULL", why, run.ID)
}

// leftAside returns what was set by hand for the version before a run's and does not
// hold in the run.
func leftAside(ctx context.Context, db bun.IDB, run task.Run, version int, settings map[string]json.RawMessage) ([]task.Correction, error) {
	var id []string
	err := db.NewRaw("SELECT CAST(run_id AS text) FROM run_key WHERE job = ? AND upstream_key = ? AND version = ?", run.Job, run.Key, version-1).Scan(ctx, &id)
	if err != nil || len(id) == 0 {
		return nil, err
	}
	before, err := anyRun(ctx, db, id[0])
	if errors.Is(err, ErrNotFound) {
		return nil, nil // the archive has dropped it
	}
	if err != nil {
		return nil, err
	}
	all, err := corrections(ctx, db, before)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if settings == nil {
		if settings, err = settingsOfRun(ctx, db, run.ID); err != nil {
			return nil, err
		}
	}
	var left []task.Correction
	for _, c := range all {
		if c = c.Without(settings, run.Inputs); !c.Empty() {
			left = append(left, c)
		}
	}
	return left, nil
}

// corrections goes back through what a rerun takes over from.
func corrections(ctx context.Context, db bun.IDB, run task.Run) ([]task.Correction, error) {
	var list []task.Correction
	for newest := run; run.RerunOf != ""; {
		before, err := anyRun(ctx, db, run.RerunOf)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		c, err := task.CorrectionOf(run, before)
		if err == nil {
			c, err = c.Within(newest)
		}
		if err != nil {
			return nil, err
		}
		if !c.Empty() {
			list = append(list, c)
		}
		run = before
	}
	return list, nil
}

// unaided returns the last run, from a rerun back, in which a step was as the job
// has it, or one that is not there.
func (tx txn) unaided(ctx context.Context, run task.Run, step string) (string, error) {
	for {
		steps, err := run.Overrode()
		if err != nil || !slices.Contains(steps, step) {
			return run.ID, err
		}
		if run.RerunOf == "" {
			return nobody, nil
		}
		before, err := anyRun(ctx, tx, run.RerunOf)
		if errors.Is(err, ErrNotFound) {
			return nobody, nil
		}
		if err != nil {
			return "", err
		}
		run = before
	}
}

// nobody is the id of no run.
const nobody = "00000000-0000-0000-0000-000000000000"

func settingsOf(tasks []task.NewTask) map[string]json.RawMessage {
	all := make(map[string]json.RawMessage, len(tasks))
	for _, t := range tasks {
		all[t.Step] = t.Settings
	}
	return all
}

// settingsOfRun returns the settings of the steps of a run.
func settingsOfRun(ctx context.Context, db bun.IDB, id string) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, s := range shelves() {
		var rows []struct {
			Step    string
			Payload document
		}
		err := db.NewRaw("SELECT step, payload FROM "+s.tasks+" WHERE run_id = ? AND step IS NOT NULL AND parent_id IS NULL", id).Scan(ctx, &rows)
		if err != nil {
			return nil, fmt.Errorf("read the settings of run %s: %w", id, err)
		}
		for _, row := range rows {
			all[row.Step] = json.RawMessage(row.Payload)
		}
	}
	return all, nil
}

// anyRun finds a run, at work or in the archive.
func anyRun(ctx context.Context, db bun.IDB, id string) (task.Run, error) {
	run, err := findRun(ctx, db, id)
	if !errors.Is(err, ErrNotFound) {
		return run, err
	}
	return archivedRun(ctx, db, id)
}
