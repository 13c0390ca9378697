package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"madeira/engine/task"
)

// adapt writes what cannot be copied: what the job's file says by now, settings
// that were overridden, limits that bear the name of the run, and what becomes of
// the runs that steps start.
func (tx txn) adapt(ctx context.Context, c *copying) error {
	for _, s := range c.old.steps {
		if c.fates[s.Step] != task.FateAgain {
			continue
		}
		payload, err := tx.renew(ctx, c, s)
		if err == nil && len(c.r.Overrides[s.Step]) > 0 {
			payload, err = override(payload, c.r.Overrides[s.Step])
			if err == nil {
				err = tx.exec(ctx, "UPDATE task_queue SET payload = ? WHERE run_id = ? AND step = ? AND state NOT IN ('success', 'skipped', 'cancelled')", payload, c.run, s.Step)
			}
			if err != nil {
				err = fmt.Errorf("override settings of step %s: %w", s.Step, err)
			}
		}
		if err == nil && s.Type == task.TypeJob {
			err = tx.redoCalls(ctx, c, s, payload)
		}
		if err != nil {
			return err
		}
	}
	var limited []struct {
		ID     int64
		Limits document
	}
	err := tx.NewRaw("SELECT id, limits FROM task_queue WHERE run_id = ? AND parent_id IS NOT NULL AND state = 'pending' AND limits IS NOT NULL", c.run).Scan(ctx, &limited)
	for _, l := range limited {
		err = errors.Join(err, tx.exec(ctx, "UPDATE task_queue SET limits = ? WHERE id = ?", c.renamed(l.Limits), l.ID))
	}
	return errors.Join(err, tx.reuseArtifacts(ctx, c.run))
}

func (c *copying) renamed(d document) document {
	return document(strings.ReplaceAll(string(d), "run/"+c.old.ID+"/", "run/"+c.run+"/"))
}

// now returns a step as the job's file has it, or nil where the rerun does not look
// there.
func (c *copying) now(name string) *task.NewTask {
	if c.r.Now == nil {
		return nil
	}
	for i, t := range c.r.Now.Tasks {
		if t.Step == name {
			return &c.r.Now.Tasks[i]
		}
	}
	return nil
}

// conditional reports whether a step that runs again has a condition.
func (c *copying) conditional(s oldStep) bool {
	if now := c.now(s.Step); now != nil {
		return now.Condition != ""
	}
	return s.Cond
}

// renew writes what a step that runs again does, and its elements that were copied
// to run again, and returns its settings.
func (tx txn) renew(ctx context.Context, c *copying, s oldStep) (document, error) {
	now := c.now(s.Step)
	if now == nil {
		if s.Elements == nil {
			return s.Payload, nil
		}
		return s.Payload, tx.exec(ctx, "UPDATE task_queue SET elements = ? WHERE id = ?", c.renamed(s.Elements), c.ids[s.Step])
	}
	n := *now
	n.Phase = cmp.Or(n.Phase, task.PhaseMain)
	row, err := freeze(task.Node{NewTask: n}, c.run)
	if err != nil {
		return nil, fmt.Errorf("freeze step %s: %w", s.Step, err)
	}
	row.ID = c.ids[s.Step]
	_, err = tx.NewUpdate().Model(&row).WherePK().
		Column("type", "payload", "refs", "source", "priority", "retry", "timeout_ms", "condition", "continue_on_error", "for_each", "max_parallel", "elements", "limits", "circuit").
		Returning("NULL").Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("take step %s from the job's file: %w", s.Step, err)
	}
	if row.ForEach == nil {
		return row.Payload, nil
	}
	var e perElement
	if err := json.Unmarshal(row.Elements, &e); err != nil {
		return nil, fmt.Errorf("read what the elements of step %s get: %w", s.Step, err)
	}
	limits, err := limitsJSON(e.Limits)
	if err != nil {
		return nil, err
	}
	return row.Payload, tx.exec(ctx, "UPDATE task_queue SET type = ?, payload = ?, refs = ?, retry = ?, timeout_ms = nullif(?, 0), priority = ?, limits = ?, circuit = ? WHERE parent_id = ? AND state = 'pending'",
		row.Type, row.Payload, row.Refs, row.Retry, row.TimeoutMS, row.Priority, castJSON(limits), nullable(e.Circuit), row.ID)
}

// override replaces settings of a frozen step. A name that the job does not give
// to the step is refused: a typing mistake would change nothing, and nobody would
// notice.
func override(payload document, settings map[string]json.RawMessage) (document, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(payload, &all); err != nil {
		return nil, fmt.Errorf("read its settings: %w", err)
	}
	for name, value := range settings {
		if _, known := all[name]; !known {
			return nil, &task.RerunError{Why: fmt.Sprintf("the job sets no %q there; it sets %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))}
		}
		all[name] = value
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return cleanJSON(raw)
}

// callsOf finds the runs that did not end well, by the old task that started them,
// where only what failed is done again: of them, too, only that is.
func (tx txn) callsOf(ctx context.Context, c *copying) error {
	c.called = map[int64]string{}
	if !c.r.OnlyFailed {
		return nil
	}
	runs := []string{"run"}
	if c.old.tasks != "task_queue" {
		runs = []string{"run_archive", "run"}
	}
	for _, table := range runs {
		var rows []struct {
			Task   int64
			Run    string
			Status task.RunStatus
		}
		err := tx.NewRaw("SELECT t.id AS task, CAST(r.id AS text) AS run, r.status FROM "+c.old.tasks+" t JOIN "+table+` r ON r.parent_task = t.id
			WHERE t.run_id = ? AND t.type = ? AND t.state <> 'success' AND r.created_at BETWEEN ? AND ? ORDER BY r.created_at, r.id`,
			c.old.ID, task.TypeJob, instant{c.old.CreatedAt}, instant{c.old.FinishedAt}).Scan(ctx, &rows)
		if err != nil {
			return fmt.Errorf("look for the runs that run %s started: %w", c.old.ID, err)
		}
		for _, r := range rows {
			delete(c.called, r.Task)
			if r.Status == task.RunError || r.Status == task.RunCancelled {
				c.called[r.Task] = r.Run
			}
		}
	}
	return nil
}

// redoCalls notes in the settings of a step that calls a job what becomes of the
// run it starts: what was named is done again as a whole, of what failed only that.
// Where neither holds, the key of the run says it.
func (tx txn) redoCalls(ctx context.Context, c *copying, s oldStep, payload document) error {
	redo := func(from int64) *task.Redo {
		name, _ := task.SplitElement(c.r.Step)
		switch {
		case c.called[from] != "":
			return &task.Redo{Reason: c.r.Action.Reason, RunID: c.called[from], Frozen: c.r.Now == nil}
		case s.Step == name || s.Step == c.r.From || c.r.Step == "" && c.r.From == "" && !c.r.OnlyFailed:
			return &task.Redo{Reason: cmp.Or(c.r.Action.Reason, "run "+c.old.ID+", which called it, is done again")}
		}
		return nil
	}
	write := func(id int64, r *task.Redo) error {
		settings, err := withRedo(payload, r)
		if err != nil {
			return fmt.Errorf("note what step %s does again: %w", s.Step, err)
		}
		return tx.exec(ctx, "UPDATE task_queue SET payload = ? WHERE id = ?", settings, id)
	}
	err := write(c.ids[s.Step], redo(s.ID))
	for _, p := range c.pieces {
		if err == nil && p.parent == c.ids[s.Step] {
			err = write(p.id, redo(p.from))
		}
	}
	return err
}

// withRedo returns settings with what a rerun asks for, or without it.
func withRedo(payload document, r *task.Redo) (document, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(payload, &all); err != nil {
		return nil, err
	}
	if delete(all, "redo"); r != nil {
		raw, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		all["redo"] = raw
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return cleanJSON(raw)
}
