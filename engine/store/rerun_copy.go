package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"madeira/engine/task"
)

// A copying makes the tasks of a rerun.
type copying struct {
	r     task.Rerun
	old   *oldRun
	run   string // id of the new run
	fates map[string]task.Fate
	needs map[string][]string
	ids   map[string]int64 // of the new steps

	called map[int64]string // runs that did not end well, by the old task that started them
	pieces []copyRow        // elements of steps that call jobs and that run again
}

// A copyRow says how a task of the new run differs from the one it is copied from.
type copyRow struct {
	id, from, parent int64 // parent 0: a step
	state            task.State
	reason           string
	before           task.State // where the one move in its log began; "": it has none
	unmet            int
	detail           string // "": that of the old task, where that is skipped
}

// copyRun makes the tasks and counts them.
func (tx txn) copyRun(ctx context.Context, c *copying) error {
	var names []string
	for _, s := range c.old.steps {
		if s.Step != task.TypeCompare {
			names = append(names, s.Step)
		}
	}
	var err error
	if c.ids, err = tx.numbers(ctx, names); err != nil {
		return err
	}
	if err := tx.callsOf(ctx, c); err != nil {
		return err
	}
	var rows []copyRow
	var edges []dependencyRow
	var open, later, warned int
	for _, s := range c.old.steps {
		fate := c.fates[s.Step]
		if s.Step == task.TypeCompare {
			continue
		}
		row, needs := c.step(s)
		rows = append(rows, row)
		edges = append(edges, needs...)
		open += one(fate == task.FateAgain && s.Phase == task.PhaseMain)
		later += one(fate == task.FateAgain && s.Phase != task.PhaseMain)
		warned += one(fate == task.FateReused && s.Warned)
	}
	if err := tx.copyRows(ctx, c, rows); err != nil { // before more ids are reserved
		return fmt.Errorf("copy %d steps: %w", len(rows), err)
	}
	elements, joins, err := tx.elementRows(ctx, c)
	if err == nil {
		err = tx.copyRows(ctx, c, elements)
	}
	if err == nil {
		err = tx.tellCopies(ctx, c.run)
	}
	if err != nil {
		return fmt.Errorf("copy %d elements: %w", len(elements), err)
	}
	if err := insertAll(ctx, tx.Tx, append(edges, joins...), 2000); err != nil {
		return fmt.Errorf("copy %d dependencies: %w", len(edges), err)
	}
	if err := tx.adapt(ctx, c); err != nil {
		return err
	}
	return tx.exec(ctx, "UPDATE run SET open_steps = ?, later_steps = ?, warned_steps = ?, priority = (SELECT o.priority FROM "+c.runs()+" o WHERE o.id = ?) WHERE id = ?",
		open, later, warned, c.old.ID, c.run)
}

// runs is the table that the old run is in.
func (c *copying) runs() string {
	if c.old.tasks == "task_queue" {
		return "run"
	}
	return "run_archive"
}

// step says what becomes of a step, and what it waits for.
func (c *copying) step(s oldStep) (copyRow, []dependencyRow) {
	row := copyRow{id: c.ids[s.Step], from: s.ID}
	var edges []dependencyRow
	for _, need := range c.needs[s.Step] {
		if need == task.TypeCompare {
			continue
		}
		edges = append(edges, dependencyRow{TaskID: row.id, NeedsID: c.ids[need]})
		row.unmet += one(c.fates[need] == task.FateAgain)
	}
	switch c.fates[s.Step] {
	case task.FateReused:
		row.reused()
	case task.FateKept:
		row.kept()
	case task.FateLeft:
		row.kept()
		row.detail = leftOut + "only step " + c.r.Step + " was asked for"
	default:
		row.state = task.Blocked
		if row.unmet == 0 && s.Phase == task.PhaseMain && (!c.conditional(s) || c.r.Step != "") {
			row.state = task.Pending
		}
	}
	return row, edges
}

// leftOut begins the detail of a step that a rerun of another one skips.
const leftOut = "left out: "

func (r *copyRow) reused() {
	r.state, r.reason, r.before = task.Success, task.ReasonReused, task.Pending
}

func (r *copyRow) kept() {
	r.state, r.reason, r.before = task.Skipped, task.ReasonCondition, task.Blocked
}

type oldElement struct {
	ID      int64
	Element string
	State   task.State
	Reason  string
}

// elementRows returns the elements that the new run takes over: all of a step of
// which one is done again alone; those that ended well of a step that failed, when
// only what failed is done again. Others are made when the step expands.
func (tx txn) elementRows(ctx context.Context, c *copying) (rows []copyRow, joins []dependencyRow, err error) {
	name, only := task.SplitElement(c.r.Step)
	for _, s := range c.old.steps {
		some := c.r.OnlyFailed && c.sameList(s) || only != "" && s.Step == name
		if !s.ForEach || c.fates[s.Step] != task.FateAgain || !some {
			continue
		}
		var old []oldElement
		err = tx.NewRaw("SELECT id, element, state, coalesce(reason, '') AS reason FROM "+c.old.tasks+" WHERE run_id = ? AND parent_id = ? ORDER BY id", c.old.ID, s.ID).Scan(ctx, &old)
		if err != nil {
			return nil, nil, fmt.Errorf("read the elements of step %s: %w", s.Step, err)
		}
		made := c.elements(s, old, only)
		if only != "" && !slices.ContainsFunc(made, func(r copyRow) bool { return r.state == task.Pending }) {
			return nil, nil, missing(s.Step, only, old)
		}
		ids, err := tx.dialect.reserve(ctx, tx.Tx, len(made))
		if err != nil {
			return nil, nil, err
		}
		for i := range made {
			made[i].id = ids[i]
			if s.Type == task.TypeJob && made[i].state == task.Pending {
				c.pieces = append(c.pieces, made[i])
			}
			joins = append(joins, dependencyRow{TaskID: made[i].parent, NeedsID: ids[i]})
		}
		rows = append(rows, made...)
	}
	if only != "" && len(rows) == 0 {
		err = &task.RerunError{Why: "step " + name + " has no elements"}
	}
	return rows, joins, err
}

func missing(step, element string, old []oldElement) error {
	var names []string
	for _, e := range old[:min(len(old), 20)] {
		names = append(names, e.Element)
	}
	return &task.RerunError{Why: fmt.Sprintf("step %s has no element %q; it has %s", step, element, strings.Join(names, ", "))}
}

// sameList reports whether a step has the same elements again: it ranges over the
// same, and nothing that it needs runs again.
func (c *copying) sameList(s oldStep) bool {
	if now := c.now(s.Step); now != nil && !task.SameJSON(now.ForEach, json.RawMessage(s.Each)) {
		return false
	}
	return !slices.ContainsFunc(c.needs[s.Step], func(n string) bool { return c.fates[n] == task.FateAgain })
}

// elements says what becomes of the elements of a step. What neither ended well
// nor is done again has no part in a rerun of another element, and says so.
func (c *copying) elements(s oldStep, old []oldElement, only string) []copyRow {
	var rows []copyRow
	for _, e := range old {
		row := copyRow{from: e.ID, parent: c.ids[s.Step]}
		switch {
		case only != "" && e.Element == only:
			row.state = task.Pending
		case e.State == task.Success:
			row.reused()
		case e.State == task.Skipped && e.Reason == task.ReasonCondition:
			row.kept()
		case only != "":
			row.state, row.reason, row.before = task.Cancelled, task.ReasonLeftOut, task.Pending
		case c.called[e.ID] != "":
			row.state = task.Pending
		default:
			continue
		}
		rows = append(rows, row)
	}
	return rows
}

// copyRows copies tasks inside the database.
func (tx txn) copyRows(ctx context.Context, c *copying, rows []copyRow) error {
	for part := range slices.Chunk(rows, elementsAtOnce) {
		values, args := make([]string, len(part)), []any{}
		for i, r := range part {
			values[i] = "(?, ?, ?, ?, ?, ?, ?, ?)"
			args = append(args, r.id, r.from, r.parent, string(r.state), r.reason, string(r.before), r.unmet, r.detail)
		}
		with := "WITH v (id, origin, parent, new_state, why, before, open, note) AS (VALUES " + strings.Join(values, ", ") + ") "
		condition := "CASE WHEN v.parent = 0 THEN t.condition END"
		err := tx.exec(ctx, with+`INSERT INTO task_queue (id, run_id, parent_id, state, reason, unmet, moves, condition, outputs, digest, warning, reused_of, detail,
			run_at, created_at, finished_at, step, element, type, payload, refs, source, priority, retry, timeout_ms, phase, continue_on_error,
			for_each, max_parallel, elements, each, limits, circuit, placed)
			SELECT v.id, ?, nullif(v.parent, 0), v.new_state, nullif(v.why, ''), v.open, CASE WHEN v.before = '' THEN 0 ELSE 1 END, `+condition+`,
			CASE WHEN v.why = 'reused' THEN t.outputs END, CASE WHEN v.why = 'reused' THEN t.digest END, CASE WHEN v.why = 'reused' THEN t.warning END,
			CASE WHEN v.why = 'reused' THEN coalesce(t.reused_of, t.id) END, CASE WHEN v.note <> '' THEN v.note WHEN v.why = 'condition' THEN t.detail END,
			?, ?, CASE WHEN v.before <> '' THEN ? END, t.step, t.element, t.type, t.payload, t.refs, t.source, t.priority, t.retry, t.timeout_ms, t.phase, t.continue_on_error,
			t.for_each, t.max_parallel, t.elements, t.each, t.limits, t.circuit, true
			FROM v JOIN `+c.old.tasks+` t ON t.id = v.origin ORDER BY v.id`, append(args, c.run, tx.now, tx.now, tx.now)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// tellCopies writes the one move of the copies that are over.
func (tx txn) tellCopies(ctx context.Context, run string) error {
	return tx.exec(ctx, `INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, reason, detail, at)
		SELECT id, 1, CASE WHEN state = 'skipped' THEN 'blocked' ELSE 'pending' END, state, 0, 0, reason, detail, ? FROM task_queue
		WHERE run_id = ? AND moves = 1`, tx.now, run)
}

// numbers gives the steps that the new run has their ids.
func (tx txn) numbers(ctx context.Context, names []string) (map[string]int64, error) {
	ids, err := tx.dialect.reserve(ctx, tx.Tx, len(names))
	if err != nil {
		return nil, fmt.Errorf("number %d tasks: %w", len(names), err)
	}
	found := make(map[string]int64, len(names))
	for i, name := range names {
		found[name] = ids[i]
	}
	return found, nil
}
