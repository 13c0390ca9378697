package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// deadFacts is what decides whether a dead letter can go on.
type deadFacts struct {
	ID       int64
	RunID    string
	Step     bool
	Phase    task.Phase // of the task
	RunPhase task.Phase
	Status   task.RunStatus
	Stopped  string
	Parent   task.State // of the step that an element belongs to
	NewerID  string     // a run of the same key that is live, or the last later version that was not cancelled
}

// redrivable returns the tasks that are in error and can go on, and why the others
// cannot. It is asked with all of them locked.
func (tx txn) redrivable(ctx context.Context, ids []int64) (roots []int64, refused []task.Refusal, err error) {
	// With its run locked no task goes to the archive.
	err = tx.exec(ctx, "SELECT id FROM run WHERE id IN (SELECT run_id FROM task_queue WHERE id IN (?)) ORDER BY id"+tx.dialect.forUpdate(), bun.List(ids))
	if err != nil {
		return nil, nil, err
	}
	var rows []deadFacts
	err = tx.NewRaw(`WITH letters AS (SELECT * FROM task_queue WHERE id IN (?) AND state = 'error')
		SELECT t.id, coalesce(CAST(t.run_id AS text), '') AS run_id, t.step IS NOT NULL AS step, t.phase, coalesce(r.phase, '') AS run_phase,
			coalesce(r.status, '') AS status, coalesce(r.stopped, '') AS stopped, coalesce(p.state, '') AS parent,
			coalesce((SELECT min(CAST(n.id AS text)) FROM run n WHERE n.job = r.job AND n.upstream_key = r.upstream_key AND n.id <> r.id AND n.status IN ('pending', 'running', 'waiting')),
				(SELECT CAST(k.run_id AS text) FROM run_key k LEFT JOIN run n ON n.id = k.run_id LEFT JOIN run_archive a ON a.id = k.run_id
				WHERE k.job = r.job AND k.upstream_key = r.upstream_key AND k.version > r.version AND coalesce(n.status, a.status, '') <> 'cancelled'
				ORDER BY k.version DESC LIMIT 1), '') AS newer_id
		FROM letters t LEFT JOIN run r ON r.id = t.run_id LEFT JOIN task_queue p ON p.id = t.parent_id ORDER BY t.id`, bun.List(ids)).Scan(ctx, &rows)
	if err != nil {
		return nil, nil, fmt.Errorf("look whether they can go on: %w", err)
	}
	phases := firstPhases(rows)
	for _, r := range rows {
		if why := r.obstacle(phases[r.RunID]); why != "" {
			refused = append(refused, task.Refusal{TaskID: r.ID, RunID: r.RunID, Why: why})
			continue
		}
		roots = append(roots, r.ID)
	}
	return roots, refused, nil
}

// phaseOrder is the order in which the phases of a run follow each other.
var phaseOrder = []task.Phase{task.PhaseMain, task.PhaseOnFailure, task.PhaseFinally}

// firstPhases returns the earliest phase that has a dead letter, by run.
func firstPhases(rows []deadFacts) map[string]task.Phase {
	first := map[string]task.Phase{}
	for _, r := range rows {
		if !r.Step {
			continue
		}
		have, known := first[r.RunID]
		if !known || slices.Index(phaseOrder, r.Phase) < slices.Index(phaseOrder, have) {
			first[r.RunID] = r.Phase
		}
	}
	return first
}

// obstacle says why a dead letter cannot go on; "" when it can. A delivery and a
// task enqueued alone always can.
func (r deadFacts) obstacle(first task.Phase) string {
	switch {
	case r.RunID != "" && r.Status == "":
		return "its run is archived: run the job again"
	case !r.Step:
		return ""
	case r.Stopped != "":
		return "its run was stopped (" + r.Stopped + "): rerun it instead"
	case r.Status.Live() && r.Phase != r.RunPhase:
		return fmt.Sprintf("its run is at %s: wait until it is over", r.RunPhase)
	case !r.Status.Live() && !task.CanMoveRun(r.Status, task.RunRunning):
		return fmt.Sprintf("its run is %s and cannot go on", r.Status)
	case r.NewerID != "" && !r.Status.Live():
		// What this one writes would stand over what is newer.
		return "run " + r.NewerID + " is a newer version of the same key: go on with that one, or run the job again"
	case r.Phase != first:
		return fmt.Sprintf("steps of %s go on first: redrive it when they are over", first)
	case r.Parent == task.Pending || r.Parent == task.Processing:
		return "its step is just joining its elements: try again in a moment"
	}
	return ""
}

// reopenRuns takes up the runs of the tasks again, with their steps counted anew.
func (tx txn) reopenRuns(ctx context.Context, roots []int64) error {
	const badly = `(t.state IN ('error', 'cancelled') OR t.state = 'skipped' AND coalesce(t.reason, '') NOT IN ('condition', 'needs_failed'))`
	const excused = `(t.continue_on_error OR t.phase = 'finally')`
	var runs []string
	err := tx.NewRaw(`SELECT CAST(id AS text) FROM run WHERE id IN (SELECT run_id FROM task_queue WHERE id IN (?) AND step IS NOT NULL) ORDER BY id`+tx.dialect.forUpdate(), bun.List(roots)).Scan(ctx, &runs)
	if err != nil || len(runs) == 0 {
		return err
	}
	list := bun.List(runs)
	// What goes on of a run is all of one phase.
	var reopened []string
	err = tx.NewRaw(`UPDATE run SET status = 'running', finished_at = NULL,
		phase = (SELECT max(t.phase) FROM task_queue t WHERE t.run_id = run.id AND t.step IS NOT NULL AND t.id IN (?))
		WHERE id IN (?) AND status NOT IN ('pending', 'running', 'waiting') RETURNING CAST(id AS text)`, bun.List(roots), list).Scan(ctx, &reopened)
	if err != nil {
		return err
	}
	err = tx.exec(ctx, `WITH counts AS (SELECT t.run_id,
			sum(CASE WHEN t.state NOT IN ('success', 'error', 'skipped', 'cancelled') AND t.phase = r.phase THEN 1 ELSE 0 END) AS open,
			sum(CASE WHEN t.state NOT IN ('success', 'error', 'skipped', 'cancelled') AND t.phase <> r.phase THEN 1 ELSE 0 END) AS later,
			sum(CASE WHEN `+badly+` AND NOT `+excused+` THEN 1 ELSE 0 END) AS failed,
			sum(CASE WHEN t.state = 'success' AND t.warning IS NOT NULL OR `+badly+` AND `+excused+` THEN 1 ELSE 0 END) AS warned
			FROM task_queue t JOIN run r ON r.id = t.run_id WHERE t.run_id IN (?) AND t.step IS NOT NULL AND t.parent_id IS NULL GROUP BY t.run_id)
		UPDATE run SET open_steps = c.open, later_steps = c.later, failed_steps = c.failed, warned_steps = c.warned FROM counts c WHERE c.run_id = run.id`, list)
	if err != nil {
		return fmt.Errorf("count the steps of %d runs: %w", len(runs), err)
	}
	if err := tx.exec(ctx, "DELETE FROM run_undecided WHERE run_id IN (SELECT id FROM run WHERE id IN (?) AND open_steps > 0)", list); err != nil {
		return err
	}
	if err := tx.renewDeadlines(ctx, runs); err != nil {
		return err
	}
	if err := tx.requeue(ctx, reopened); err != nil {
		return err
	}
	return tx.withdraw(ctx, runs)
}

// renewDeadlines gives runs that are taken up again their whole time.
func (tx txn) renewDeadlines(ctx context.Context, runs []string) error {
	var timeouts []int64
	err := tx.NewRaw("SELECT DISTINCT timeout_ms FROM run WHERE id IN (?) AND timeout_ms IS NOT NULL", bun.List(runs)).Scan(ctx, &timeouts)
	if err != nil {
		return err
	}
	for _, ms := range timeouts {
		err := tx.exec(ctx, "UPDATE run SET deadline = ? WHERE id IN (?) AND timeout_ms = ?", instant{tx.now.Add(time.Duration(ms) * time.Millisecond)}, bun.List(runs), ms)
		if err != nil {
			return err
		}
	}
	return nil
}
