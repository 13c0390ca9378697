package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

func (tx txn) findRun(ctx context.Context, id string) (task.Run, error) { return findRun(ctx, tx, id) }

func findRun(ctx context.Context, db bun.IDB, id string) (task.Run, error) {
	var row runRow
	err := db.NewSelect().Model(&row).Where("id = ?", id).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return task.Run{}, fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return task.Run{}, fmt.Errorf("read run %s: %w", id, err)
	}
	return row.run(), nil
}

// resultRow is a step as others refer to it.
type resultRow struct {
	TaskID  int64
	RunID   string
	Step    string
	State   task.State
	Reason  sql.NullString
	Warning sql.NullString
	Outputs document
	Failure document
}

func (r resultRow) result() task.StepResult {
	s := task.StepResult{State: r.State, Reason: r.Reason.String, Warning: r.Warning.String, Outputs: json.RawMessage(r.Outputs)}
	if f := readFailure(r.Failure); f != nil {
		s.Error = f.Message
	}
	return s
}

const resultColumns = "t.id AS task_id, t.run_id, t.step, t.state, t.reason, t.warning, t.outputs, t.failure"

// steps returns the results of the named steps of a run.
func steps(ctx context.Context, db bun.IDB, run string, names []string) (map[string]task.StepResult, error) {
	found := make(map[string]task.StepResult, len(names))
	if len(names) == 0 {
		return found, nil
	}
	var rows []resultRow
	err := db.NewRaw("SELECT "+resultColumns+" FROM task_queue AS t WHERE t.run_id = ? AND t.step IN (?) AND t.element = ''",
		run, bun.List(names)).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read steps of run %s: %w", run, err)
	}
	for _, r := range rows {
		found[r.Step] = r.result()
	}
	return found, nil
}

// Scope implements engine.Queue.
func (db *DB) Scope(ctx context.Context, t task.Claimed) (task.Scope, error) {
	if t.RunID == "" {
		return task.Scope{}, nil
	}
	run, err := findRun(ctx, db.read, t.RunID)
	if err != nil {
		return task.Scope{}, fmt.Errorf("read what task %d refers to: %w", t.TaskID, err)
	}
	s := task.Scope{Run: run}
	if s.Steps, err = steps(ctx, db.read, t.RunID, t.Refs); err != nil {
		return task.Scope{}, fmt.Errorf("read what task %d refers to: %w", t.TaskID, err)
	}
	if run.Key == "" || t.Step == "" {
		return s, nil
	}
	s.Earlier, err = db.earlier(ctx, run, t)
	return s, err
}

// earlier returns the outputs of the same step in the last version that ended well.
func (db *DB) earlier(ctx context.Context, run task.Run, t task.Claimed) (map[string]json.RawMessage, error) {
	var outputs document
	err := db.read.NewRaw(`SELECT t.outputs FROM run_key k
		JOIN run r ON r.id = k.run_id AND r.status IN ('success', 'warning')
		JOIN task_queue t ON t.run_id = k.run_id AND t.step = ? AND t.element = ? AND t.state = 'success'
		WHERE k.job = ? AND k.upstream_key = ? AND k.run_id <> ? ORDER BY k.version DESC LIMIT 1`,
		t.Step, t.Element, run.Job, run.Key, run.ID).Scan(ctx, &outputs)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && outputs == nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what step %s left in an earlier version: %w", t.Step, err)
	}
	var earlier map[string]json.RawMessage
	if err := json.Unmarshal(outputs, &earlier); err != nil {
		return nil, fmt.Errorf("read what step %s left in an earlier version: %w", t.Step, err)
	}
	return earlier, nil
}
