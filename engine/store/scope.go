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
	row, err := findRunRow(ctx, db, id)
	if err != nil {
		return task.Run{}, err
	}
	return row.run(), nil
}

func findRunRow(ctx context.Context, db bun.IDB, id string) (runRow, error) {
	var row runRow
	err := db.NewSelect().Model(&row).Where("id = ?", id).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return row, fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return row, fmt.Errorf("read run %s: %w", id, err)
	}
	return row, nil
}

// resultRow is a step as others refer to it.
type resultRow struct {
	TaskID          int64
	RunID           string
	Step            string
	State           task.State
	Reason          sql.NullString
	Warning         sql.NullString
	Outputs         document
	Failure         document
	ContinueOnError bool
	Listed          bool  // it has elements
	Kept            int64 // the row whose elements those are
}

func (r resultRow) result() task.StepResult {
	s := task.StepResult{State: r.State, Reason: r.Reason.String, Warning: r.Warning.String, Outputs: json.RawMessage(r.Outputs)}
	if f := readFailure(r.Failure); f != nil {
		s.Error = f.Message
	}
	s.Excused = r.ContinueOnError && (r.State == task.Error || r.State == task.Skipped && s.Reason != task.ReasonCondition && s.Reason != task.ReasonNeedsFailed)
	return s
}

// steps returns the results of the named steps of a run.
func steps(ctx context.Context, db bun.IDB, run string, names []string) (map[string]task.StepResult, error) {
	found := make(map[string]task.StepResult, len(names))
	if len(names) == 0 {
		return found, nil
	}
	var rows []resultRow
	for _, table := range []string{"task_queue", "task_archive"} {
		err := db.NewRaw(`SELECT t.id AS task_id, t.run_id, t.step, t.state, t.reason, t.warning, t.outputs, t.failure, t.continue_on_error,
			t.for_each IS NOT NULL AS listed, coalesce(t.reused_of, t.id) AS kept
			FROM `+table+` AS t WHERE t.run_id = ? AND t.step IN (?) AND t.element = ''`, run, bun.List(names)).Scan(ctx, &rows)
		if err != nil {
			return nil, fmt.Errorf("read steps of run %s: %w", run, err)
		}
		if len(rows) > 0 {
			break
		}
	}
	var err error
	for _, r := range rows {
		if r.Listed && (r.State == task.Success || r.State == task.Error) {
			if r.Outputs, err = elementOutputs(ctx, db, r.Kept); err != nil {
				return nil, fmt.Errorf("read step %s of run %s: %w", r.Step, run, err)
			}
			if r.State == task.Error && string(r.Outputs) == "[]" {
				r.Outputs = nil // it did not come to elements
			}
		}
		found[r.Step] = r.result()
	}
	return found, nil
}

// Scope implements engine.Queue.
func (db *DB) Scope(ctx context.Context, t task.Claimed) (task.Scope, error) {
	if t.RunID == "" {
		return task.Scope{}, nil
	}
	run, err := findRunRow(ctx, db.read, t.RunID)
	if err != nil {
		return task.Scope{}, fmt.Errorf("read what task %d refers to: %w", t.TaskID, err)
	}
	s, err := scopeOf(ctx, db.read, run, t.Refs)
	if err != nil {
		return task.Scope{}, fmt.Errorf("read what task %d refers to: %w", t.TaskID, err)
	}
	if t.Step == "" {
		return s, nil
	}
	if s.ByHand, err = corrections(ctx, db.read, s.Run); err != nil {
		return task.Scope{}, fmt.Errorf("read what was set by hand for task %d: %w", t.TaskID, err)
	}
	if run.Key == "" {
		return s, nil
	}
	s.Earlier, err = db.earlier(ctx, s.Run, t)
	return s, err
}

// scopeOf returns what tasks of a run see that refer to the named steps.
func scopeOf(ctx context.Context, db bun.IDB, run runRow, names []string) (s task.Scope, err error) {
	s.Run, s.Phase = run.run(), run.Phase
	if s.Steps, err = steps(ctx, db, run.ID, names); err != nil || run.Phase == task.PhaseMain || run.FailedSteps == 0 {
		return s, err
	}
	s.Failure, err = firstFailure(ctx, db, run.ID)
	return s, err
}

// firstFailure returns the step of main that failed first. A condition that could
// not be evaluated is one too.
func firstFailure(ctx context.Context, db bun.IDB, run string) (*task.RunFailure, error) {
	var rows []struct {
		Step    string
		Attempt int
		Detail  sql.NullString
		Failure document
	}
	err := db.NewRaw(`SELECT step, attempt, detail, failure FROM task_queue
		WHERE run_id = ? AND phase = 'main' AND step IS NOT NULL AND parent_id IS NULL AND NOT continue_on_error
		AND (state = 'error' OR state = 'skipped' AND reason NOT IN (?))
		ORDER BY CASE WHEN state = 'error' THEN 0 ELSE 1 END, finished_at, id LIMIT 1`,
		run, bun.List([]string{task.ReasonCondition, task.ReasonNeedsFailed})).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	first := &task.RunFailure{Step: rows[0].Step, Attempts: rows[0].Attempt, Error: rows[0].Detail.String}
	if f := readFailure(rows[0].Failure); f != nil {
		first.Error = f.Message
	}
	return first, nil
}

// earlier returns the outputs of the same step in the last version that ended well.
func (db *DB) earlier(ctx context.Context, run task.Run, t task.Claimed) (map[string]json.RawMessage, error) {
	var found []struct{ Outputs document }
	for _, tables := range [][2]string{{"run", "task_queue"}, {"run_archive", "task_archive"}} { // what is archived is older
		err := db.read.NewRaw(`SELECT t.outputs FROM run_key k
			JOIN `+tables[0]+` r ON r.id = k.run_id AND r.status IN ('success', 'warning')
			JOIN `+tables[1]+` t ON t.run_id = k.run_id AND t.step = ? AND t.element = ? AND t.state = 'success'
			WHERE k.job = ? AND k.upstream_key = ? AND k.run_id <> ? ORDER BY k.version DESC LIMIT 1`,
			t.Step, t.Element, run.Job, run.Key, run.ID).Scan(ctx, &found)
		if err != nil {
			return nil, fmt.Errorf("read what step %s left in an earlier version: %w", t.Step, err)
		}
		if len(found) > 0 {
			break
		}
	}
	if len(found) == 0 || found[0].Outputs == nil {
		return nil, nil
	}
	var earlier map[string]json.RawMessage
	if err := json.Unmarshal(found[0].Outputs, &earlier); err != nil {
		return nil, fmt.Errorf("read what step %s left in an earlier version: %w", t.Step, err)
	}
	return earlier, nil
}
