package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"madeira/engine/task"
)

// Rerun makes a new version of a run that is over from its frozen rows, whatever
// became of its file since. Old rows are left as they are: what is not done again
// is a success of the new run that points at the outputs of the old.
func (db *DB) Rerun(ctx context.Context, r task.Rerun) (task.Run, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return task.Run{}, fmt.Errorf("rerun: %w", err)
	}
	var made task.Run
	for range tries {
		err = db.write(ctx, func(ctx context.Context, tx txn) (err error) {
			made, err = tx.rerun(ctx, r, id.String())
			return err
		})
		if !errors.Is(err, errEnded) {
			break
		}
	}
	if err != nil {
		return task.Run{}, fmt.Errorf("rerun: %w", err)
	}
	db.made()
	return made, nil
}

// An oldRun is a run and where its tasks are.
type oldRun struct {
	task.Run
	shelf
	concurrency *task.Limit // under which it took turns; nil: none
	steps       []oldStep
	ids         map[string]int64 // of its steps
}

type oldStep struct {
	ID       int64
	Step     string
	State    task.State
	Reason   string
	Phase    task.Phase
	Refs     document
	Payload  document
	Elements document
	ForEach  bool
	Cond     bool
	Warned   bool
}

func (tx txn) rerun(ctx context.Context, r task.Rerun, id string) (task.Run, error) {
	if made, err := tx.findRun(ctx, id); !errors.Is(err, ErrNotFound) {
		return made, err // by a try whose answer was lost
	}
	old, err := tx.oldRun(ctx, r.RunID)
	if err != nil {
		return task.Run{}, err
	}
	steps, err := tx.oldSteps(ctx, old)
	if err != nil {
		return task.Run{}, err
	}
	fates, err := r.Fates(steps)
	if err != nil {
		return task.Run{}, err
	}
	overrides, err := json.Marshal(r.Overrides)
	if err != nil {
		return task.Run{}, err
	}
	n := task.NewRun{Run: old.Run, Again: true, Concurrency: old.concurrency}
	n.Run.ID, n.Run.RerunOf, n.Run.RepeatedOf, n.Run.ParentTask, n.Run.Trigger = id, old.ID, "", 0, "manual"
	n.Run.Actor, n.Run.Reason, n.Run.Overrides = r.Action.Actor, r.Action.Reason, nil
	if len(r.Overrides) > 0 {
		n.Run.Overrides = overrides
	}
	if tx, err = tx.turning(ctx, n); err != nil {
		return task.Run{}, err
	}
	placed, err := tx.insertRun(ctx, n)
	if err != nil {
		return task.Run{}, err
	}
	if !placed {
		live, err := tx.liveRun(ctx, n)
		if err == nil {
			err = &RunStateError{Run: live.Run.ID, Status: live.Run.Status, Why: "it has the same key as run " + old.ID + "; wait until it is over, or cancel it"}
		}
		return task.Run{}, err
	}
	if _, err := tx.settleVersion(ctx, n); err != nil {
		return task.Run{}, err
	}
	c := copying{r: r, old: old, run: id, fates: fates, needs: needsOf(steps)}
	if err := tx.copyRun(ctx, &c); err != nil {
		return task.Run{}, err
	}
	if _, err := tx.enterTurn(ctx, n); err != nil {
		return task.Run{}, err
	}
	r.Action.Action, r.Action.Subject = "rerun", "run:"+old.ID
	r.Action.Detail, _ = json.Marshal(map[string]any{"run": id, "from": r.From, "step": r.Step, "only_failed": r.OnlyFailed, "set": r.Overrides}) // texts always marshal
	if err := tx.audit(ctx, r.Action); err != nil {
		return task.Run{}, err
	}
	return tx.findRun(ctx, id)
}

func needsOf(steps []task.OldStep) map[string][]string {
	needs := make(map[string][]string, len(steps))
	for _, s := range steps {
		needs[s.Step] = s.Needs
	}
	return needs
}

// oldRun finds a run that is over, at work or in the archive.
func (tx txn) oldRun(ctx context.Context, id string) (*oldRun, error) {
	row, err := tx.lockRun(ctx, id)
	old := &oldRun{Run: row.run(), shelf: shelves()[0], ids: map[string]int64{}}
	if errors.Is(err, ErrNotFound) {
		var rows []runRow
		err = tx.NewSelect().Model(&rows).ModelTableExpr("run_archive AS r").Where("id = ?", id).Where("id NOT IN (SELECT run_id FROM run_archiving)").Scan(ctx)
		if err == nil && len(rows) == 0 {
			err = fmt.Errorf("run %s: %w", id, ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		row = rows[0]
		old.Run, old.shelf = row.run(), shelves()[1]
	}
	if row.TurnKey != "" {
		old.concurrency = &task.Limit{Key: row.TurnKey, Slots: row.TurnSlots}
	}
	switch {
	case err != nil:
		return nil, err
	case old.Status.Live():
		return nil, &RunStateError{Run: old.ID, Status: old.Status, Why: "it is not over: cancel it first"}
	case old.Status == task.RunRepeated:
		return nil, &RunStateError{Run: old.ID, Status: old.Status, Why: "rerun what it repeats: " + old.RepeatedOf}
	}
	return old, nil
}

// oldSteps reads the steps of a run, without their elements.
func (tx txn) oldSteps(ctx context.Context, old *oldRun) ([]task.OldStep, error) {
	err := tx.NewRaw(`SELECT id, step, state, coalesce(reason, '') AS reason, phase, refs, payload, elements, for_each IS NOT NULL AS for_each,
		condition IS NOT NULL AS cond, warning IS NOT NULL AS warned
		FROM `+old.tasks+` WHERE run_id = ? AND step IS NOT NULL AND parent_id IS NULL ORDER BY id`, old.ID).Scan(ctx, &old.steps)
	if err != nil {
		return nil, fmt.Errorf("read the steps of run %s: %w", old.ID, err)
	}
	if len(old.steps) == 0 {
		return nil, fmt.Errorf("run %s has no steps any more", old.ID)
	}
	var edges []struct {
		TaskID int64
		Step   string
	}
	err = tx.NewRaw("SELECT d.task_id, n.step FROM "+old.tasks+" n JOIN "+old.needs+" d ON d.needs_id = n.id WHERE n.run_id = ? AND n.step IS NOT NULL AND n.parent_id IS NULL", old.ID).Scan(ctx, &edges)
	if err != nil {
		return nil, fmt.Errorf("read the needs in run %s: %w", old.ID, err)
	}
	needs := map[int64][]string{}
	for _, e := range edges {
		needs[e.TaskID] = append(needs[e.TaskID], e.Step)
	}
	steps := make([]task.OldStep, len(old.steps))
	for i, s := range old.steps {
		old.ids[s.Step] = s.ID
		steps[i] = task.OldStep{Step: s.Step, State: s.State, Reason: s.Reason, Phase: s.Phase, Needs: needs[s.ID], ForEach: s.ForEach}
		if err := json.Unmarshal(s.Refs, &steps[i].Refs); err != nil {
			return nil, fmt.Errorf("read what step %s refers to: %w", s.Step, err)
		}
	}
	return steps, nil
}

// reuseArtifacts copies what the artifacts of reused tasks are kept under to the new run, so
// that they are there as long as it is.
func (tx txn) reuseArtifacts(ctx context.Context, run string) error {
	return tx.exec(ctx, `INSERT INTO artifact (task_id, run_id, kind, name, digest, size_bytes, row_count, origin, created_at)
		SELECT t.id, t.run_id, a.kind, a.name, a.digest, a.size_bytes, a.row_count, a.origin, a.created_at
		FROM task_queue t JOIN artifact a ON a.task_id = t.reused_of WHERE t.run_id = ? AND t.reason = 'reused'`, run)
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
			return nil, fmt.Errorf("the job sets no %q there; it sets %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
		all[name] = value
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return cleanJSON(raw)
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
