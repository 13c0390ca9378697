package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"madeira/engine/task"
	"madeira/jobs/step"
)

type undecidedRow struct {
	ID        int64
	RunID     string
	Step      string
	Owner     int64 // of the edges: the row of the step
	Phase     task.Phase
	Each      document
	Condition string
	Refs      document
}

// Undecided implements engine.Queue. The scope of each holds the steps that its
// settings and condition refer to; outputs of earlier versions are not among them.
func (db *DB) Undecided(ctx context.Context, limit int) ([]task.Undecided, error) {
	// The ids come first: mostly there are none, and in a join the planner, which takes
	// the empty table for a long one, walks through all tasks.
	var ids []int64
	if err := db.read.NewRaw("SELECT task_id FROM task_undecided ORDER BY task_id LIMIT ?", limit).Scan(ctx, &ids); err != nil {
		return nil, fmt.Errorf("list undecided tasks: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var rows []undecidedRow
	err := db.read.NewRaw(`SELECT t.id, t.run_id, t.step, coalesce(t.parent_id, t.id) AS owner, t.phase, t.each, coalesce(t.condition, '') AS condition, t.refs
		FROM task_queue t WHERE t.id IN (?) AND t.state = 'blocked' ORDER BY t.id`, bun.List(ids)).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read %d undecided tasks: %w", len(ids), err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	needs, err := db.needs(ctx, rows)
	if err != nil {
		return nil, err
	}
	scopes, refs, err := db.scopes(ctx, rows)
	if err != nil {
		return nil, err
	}
	all := make([]task.Undecided, len(rows))
	for i, r := range rows {
		scope := scopes[r.RunID]
		seen := make(map[string]task.StepResult, len(refs[i]))
		for _, name := range refs[i] {
			if s, ok := scope.Steps[name]; ok {
				seen[name] = s
			}
		}
		scope.Steps = seen
		all[i] = task.Undecided{
			TaskID: r.ID, RunID: r.RunID, Step: r.Step, Phase: r.Phase, Each: json.RawMessage(r.Each),
			Condition: r.Condition, Needs: needs[r.Owner], Scope: scope,
		}
	}
	return all, nil
}

// needs returns how the needs of each step ended, without what they left: there
// may be thousands of edges, and scopes brings what a condition refers to. An
// element has the needs of its step, of which the elements themselves are none.
func (db *DB) needs(ctx context.Context, rows []undecidedRow) (map[int64]map[string]task.StepResult, error) {
	found := make(map[int64]map[string]task.StepResult, len(rows))
	for _, r := range rows {
		found[r.Owner] = map[string]task.StepResult{}
	}
	var edges []struct {
		Waiting int64
		resultRow
	}
	err := db.read.NewRaw(`SELECT d.task_id AS waiting, t.id AS task_id, t.run_id, t.step, t.state, t.reason, t.warning, t.failure, t.continue_on_error
		FROM task_dependency d JOIN task_queue AS t ON t.id = d.needs_id
		WHERE d.task_id IN (?) AND t.parent_id IS NULL`, bun.List(slices.Collect(maps.Keys(found)))).Scan(ctx, &edges)
	if err != nil {
		return nil, fmt.Errorf("read what undecided tasks need: %w", err)
	}
	for _, e := range edges {
		found[e.Waiting][e.Step] = e.result()
	}
	return found, nil
}

// scopes returns, for each run among the tasks, the run and all steps that any of
// its tasks refers to, and the names each task refers to.
func (db *DB) scopes(ctx context.Context, rows []undecidedRow) (map[string]task.Scope, [][]string, error) {
	refs := make([][]string, len(rows))
	names := map[string][]string{}
	for i, r := range rows {
		if json.Unmarshal(r.Refs, &refs[i]) != nil {
			refs[i] = nil // a stranger's: its condition will miss them
		}
		names[r.RunID] = append(names[r.RunID], refs[i]...)
	}
	var runs []runRow
	if err := db.read.NewSelect().Model(&runs).Where("id IN (?)", bun.List(slices.Collect(maps.Keys(names)))).Scan(ctx); err != nil {
		return nil, nil, fmt.Errorf("read the runs of undecided tasks: %w", err)
	}
	scopes := make(map[string]task.Scope, len(runs))
	for _, r := range runs {
		wanted := names[r.ID]
		slices.Sort(wanted)
		scope, err := scopeOf(ctx, db.read, r, slices.Compact(wanted))
		var unfit *step.PermanentError
		if errors.As(err, &unfit) {
			// One run must not keep the others from being decided.
			scope, err = task.Scope{Run: r.run(), Phase: r.Phase, Problem: err.Error()}, nil
		}
		if err != nil {
			return nil, nil, err
		}
		scopes[r.ID] = scope
	}
	return scopes, refs, nil
}

// Decide implements engine.Queue: one layer of a cascade, all of it in a few
// statements. Decisions on tasks that somebody else decided meanwhile are left out.
func (db *DB) Decide(ctx context.Context, decisions []task.Decision) error {
	if len(decisions) == 0 {
		return nil
	}
	for _, d := range decisions {
		if d.To != task.Pending && d.To != task.Skipped {
			return fmt.Errorf("decide task %d: it can become pending or skipped, not %q", d.TaskID, d.To)
		}
	}
	err := db.write(ctx, func(ctx context.Context, tx txn) error { return tx.decide(ctx, decisions) })
	if err != nil {
		return fmt.Errorf("decide %d tasks: %w", len(decisions), err)
	}
	return nil
}

type decidedRow struct {
	released
	RunID           string
	Detail          string
	Phase           task.Phase
	ContinueOnError bool
	Element         bool
}

// over says what it means that a task was skipped. What its own condition ruled
// out counts as a success; a condition that could not be evaluated is a failure of
// the task itself.
func (r decidedRow) over() over {
	broken := r.Reason != task.ReasonCondition && r.Reason != task.ReasonNeedsFailed
	excused := broken && (r.ContinueOnError || r.Phase == task.PhaseFinally)
	return over{
		id: r.ID, run: r.RunID, step: !r.Element,
		bad:    r.Reason == task.ReasonNeedsFailed || broken && !r.ContinueOnError,
		failed: broken && !excused,
		warned: excused,
	}
}

func (tx txn) decide(ctx context.Context, decisions []task.Decision) error {
	ids := make([]int64, len(decisions))
	values := make([]string, len(decisions))
	var args []any
	for i, d := range decisions {
		ids[i] = d.TaskID
		values[i] = "(?, ?, ?, ?)"
		args = append(args, d.TaskID, string(d.To), clean(d.Reason, maxLine), clean(d.Detail, maxLine))
	}
	tx, err := tx.lock(ctx, "SELECT id FROM task_queue WHERE id IN (?) ORDER BY id", bun.List(ids))
	if err != nil {
		return err
	}
	var rows []decidedRow
	err = tx.NewRaw("WITH d (task_id, new_state, new_reason, new_detail) AS (VALUES "+strings.Join(values, ", ")+`)
		UPDATE task_queue AS t SET state = d.new_state, reason = nullif(d.new_reason, ''), detail = nullif(d.new_detail, ''), moves = t.moves + 1,
			run_at = CASE WHEN d.new_state = 'pending' THEN ? ELSE t.run_at END,
			finished_at = CASE WHEN d.new_state = 'skipped' THEN ? END
		FROM d WHERE t.id = d.task_id AND t.state = 'blocked' AND t.unmet = 0
		RETURNING `+releasedColumns+`, run_id, coalesce(detail, '') AS detail, phase, continue_on_error, parent_id IS NOT NULL AS element`,
		append(args, tx.now, tx.now)...).Scan(ctx, &rows)
	if err != nil {
		return err
	}
	if err := tx.exec(ctx, "DELETE FROM task_undecided WHERE task_id IN (?)", bun.List(ids)); err != nil {
		return err
	}
	return tx.follow(ctx, rows)
}

// follow readies what was decided to run and passes on what was skipped.
func (tx txn) follow(ctx context.Context, rows []decidedRow) error {
	var ready []released
	var skipped []over
	var log []logRow
	runs := map[string]bool{}
	for _, r := range rows {
		runs[r.RunID] = true
		if r.State == task.Pending {
			ready = append(ready, r.released)
			continue
		}
		log = append(log, logRow{
			TaskID: r.ID, Seq: r.Moves, From: task.Blocked, To: task.Skipped, Attempt: r.Attempt, Fence: r.Fence,
			Reason: r.Reason, Detail: r.Detail, At: tx.now,
		})
		skipped = append(skipped, r.over())
	}
	if err := tx.place(ctx, ready); err != nil {
		return err
	}
	if err := tx.tell(ctx, log); err != nil {
		return err
	}
	// A run whose first steps are all skipped ends without a claim; it has begun all the same.
	for _, run := range slices.Sorted(maps.Keys(runs)) {
		if err := tx.exec(ctx, "UPDATE run SET status = 'running', started_at = coalesce(started_at, ?) WHERE id = ? AND status = 'pending'", tx.now, run); err != nil {
			return fmt.Errorf("start run %s: %w", run, err)
		}
	}
	return tx.advance(ctx, skipped)
}
