package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"madeira/engine/task"
)

// Rerun makes a new version of a run that is over from its frozen rows; steps that
// run again are those of the job's file where the caller hands it in. Old rows are
// left as they are: what is not done again is a success of the new run that points
// at the outputs of the old. What makes no sense is a *task.RerunError, a
// *task.GraphError or a *RunStateError.
func (db *DB) Rerun(ctx context.Context, r task.Rerun) (task.Run, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return task.Run{}, fmt.Errorf("rerun: %w", err)
	}
	var made task.Run
	for range tries {
		err = db.write(ctx, func(ctx context.Context, tx txn) (err error) {
			made, err = tx.rerun(ctx, r, asRun{id: id.String(), trigger: "manual"})
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

// asRun says which row the new run gets and what makes it.
type asRun struct {
	id      string
	trigger string
	parent  int64 // the task that waits for it; 0: none
}

type oldStep struct {
	ID       int64
	Step     string
	Type     string
	Source   bool
	Each     document
	Runs     string // its condition
	Excused  bool   // continue_on_error
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

func (tx txn) rerun(ctx context.Context, r task.Rerun, as asRun) (task.Run, error) {
	if made, err := tx.findRun(ctx, as.id); !errors.Is(err, ErrNotFound) {
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
	n := newVersion(r, old, as, reusesWhatChanged(r, steps, fates))
	if n.Run.Overrides, err = overriding(r, old, fates); err != nil {
		return task.Run{}, err
	}
	if leavesOut(fates) {
		n.Run.JobDigest = partOf + n.Run.JobDigest
	}
	if r.Now != nil {
		if err := tx.saveJob(ctx, r.Now.Job); err != nil {
			return task.Run{}, err
		}
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
	c := copying{r: r, old: old, run: as.id, fates: fates, needs: needsOf(steps)}
	if err := tx.copyRun(ctx, &c); err != nil {
		return task.Run{}, err
	}
	if _, err := tx.enterTurn(ctx, n); err != nil {
		return task.Run{}, err
	}
	r.Action.Action, r.Action.Subject = "rerun", "run:"+old.ID
	r.Action.Detail, _ = json.Marshal(map[string]any{"run": as.id, "from": r.From, "step": r.Step, "only_failed": r.OnlyFailed, "set": r.Overrides, "frozen": r.Now == nil}) // texts always marshal
	if err := tx.audit(ctx, r.Action); err != nil {
		return task.Run{}, err
	}
	return tx.findRun(ctx, as.id)
}

// newVersion is the row of the new run.
func newVersion(r task.Rerun, old *oldRun, as asRun, mixed bool) task.NewRun {
	n := task.NewRun{Run: old.Run, Again: true, Concurrency: old.concurrency}
	n.Run.ID, n.Run.RerunOf, n.Run.RepeatedOf, n.Run.ParentTask, n.Run.Trigger = as.id, old.ID, "", as.parent, as.trigger
	n.Run.Actor, n.Run.Reason, n.Run.Overrides, n.Run.Stopped = r.Action.Actor, r.Action.Reason, nil, ""
	if r.Inputs != nil {
		n.Run.Inputs = r.Inputs
	}
	if r.Now != nil {
		n.Run.BaseDir, n.Run.Connections, n.Run.Timeout = r.Now.Run.BaseDir, r.Now.Run.Connections, r.Now.Run.Timeout
		n.Concurrency = r.Now.Concurrency
	}
	n.Run.JobDigest = strings.TrimPrefix(n.Run.JobDigest, partOf)
	if r.Now != nil && !mixed {
		n.Run.JobDigest, n.Run.JobCommit = r.Now.Run.JobDigest, r.Now.Run.JobCommit
	}
	return n
}

// overriding is what of the settings of the new run is not the job's.
func overriding(r task.Rerun, old *oldRun, fates map[string]task.Fate) (json.RawMessage, error) {
	all, err := r.Overriding(old.Overrides, fates)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return json.Marshal(all)
}

// partOf stands before the digest of the job of a run that leaves steps out: asked
// for again, the job has not been done.
const partOf = "part of "

func leavesOut(fates map[string]task.Fate) bool {
	for name, fate := range fates {
		if fate == task.FateLeft && name != task.TypeCompare {
			return true
		}
	}
	return false
}

// reusesWhatChanged reports whether a step that is taken over does something else
// in the job's file by now. Such a run keeps the digest of the old one: asked for
// again, the job as it stands has not been done.
func reusesWhatChanged(r task.Rerun, steps []task.OldStep, fates map[string]task.Fate) bool {
	if r.Now == nil {
		return false
	}
	return slices.ContainsFunc(task.Changed(steps, r.Now.Tasks), func(name string) bool { return fates[name] != task.FateAgain })
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
		type, source, for_each AS each, coalesce(condition, '') AS runs, continue_on_error AS excused, condition IS NOT NULL AS cond, warning IS NOT NULL AS warned
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
		if steps[i].Frozen, err = s.frozen(); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(s.Refs, &steps[i].Refs); err != nil {
			return nil, fmt.Errorf("read what step %s refers to: %w", s.Step, err)
		}
	}
	return steps, nil
}

// frozen is what the step does.
func (s oldStep) frozen() (task.NewTask, error) {
	t := task.NewTask{
		Step: s.Step, Type: s.Type, Source: s.Source, Settings: json.RawMessage(s.Payload), Condition: s.Runs, Phase: s.Phase,
		ForEach: json.RawMessage(s.Each), ContinueOnError: s.Excused,
	}
	if s.Elements != nil {
		var e perElement
		if err := json.Unmarshal(s.Elements, &e); err != nil {
			return t, fmt.Errorf("read what the elements of step %s get: %w", s.Step, err)
		}
		t.EachCondition = e.Condition
	}
	return t, nil
}

// OldSteps returns a run that is over with its steps as they ended, for whoever
// plans a rerun. The error is that of Rerun.
func (db *DB) OldSteps(ctx context.Context, id string) (run task.Run, steps []task.OldStep, err error) {
	err = db.write(ctx, func(ctx context.Context, tx txn) error {
		old, err := tx.oldRun(ctx, id)
		if err != nil {
			return err
		}
		run = old.Run
		steps, err = tx.oldSteps(ctx, old)
		return err
	})
	return run, steps, err
}

// LastVersion returns the newest version of a key, whatever became of it, or
// ErrNotFound.
func (db *DB) LastVersion(ctx context.Context, job, key string) (task.Run, error) {
	var id []string
	err := db.read.NewRaw("SELECT CAST(run_id AS text) FROM run_key WHERE job = ? AND upstream_key = ? ORDER BY version DESC LIMIT 1", job, key).Scan(ctx, &id)
	if err == nil && len(id) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return task.Run{}, fmt.Errorf("find the last run of %s %s: %w", job, key, err)
	}
	return db.Run(ctx, id[0])
}

// reuseArtifacts copies what the artifacts of reused tasks are kept under to the new run, so
// that they are there as long as it is.
func (tx txn) reuseArtifacts(ctx context.Context, run string) error {
	return tx.exec(ctx, `INSERT INTO artifact (task_id, run_id, kind, name, digest, size_bytes, row_count, origin, created_at)
		SELECT t.id, t.run_id, a.kind, a.name, a.digest, a.size_bytes, a.row_count, a.origin, a.created_at
		FROM task_queue t JOIN artifact a ON a.task_id = t.reused_of WHERE t.run_id = ? AND t.reason = 'reused'`, run)
}
