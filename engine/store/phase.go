package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"madeira/engine/task"
)

// NextPhase implements engine.Flow.
func (db *DB) NextPhase(ctx context.Context, limit int) (int, error) {
	var runs []string
	if err := db.read.NewRaw("SELECT CAST(run_id AS text) FROM run_undecided ORDER BY run_id LIMIT ?", limit).Scan(ctx, &runs); err != nil {
		return 0, fmt.Errorf("list runs of which a phase is over: %w", err)
	}
	for i, run := range runs {
		err := db.write(ctx, func(ctx context.Context, tx txn) error { return tx.nextPhase(ctx, run) })
		if err != nil {
			return i, fmt.Errorf("begin the next phase of run %s: %w", run, err)
		}
	}
	return len(runs), nil
}

// nextPhase does nothing when somebody else has begun the phase meanwhile.
func (tx txn) nextPhase(ctx context.Context, run string) error {
	res, err := tx.NewRaw("DELETE FROM run_undecided WHERE run_id = ?", run).Exec(ctx)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	if tx, err = tx.lock(ctx, "SELECT id FROM task_queue WHERE run_id = ? AND phase <> 'main' AND state = 'blocked' ORDER BY id", run); err != nil {
		return err
	}
	var r phaseRow
	err = tx.NewRaw("SELECT phase, status, open_steps, failed_steps, coalesce(stopped, '') AS stopped FROM run WHERE id = ?"+tx.dialect.forUpdate(), run).Scan(ctx, &r)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && (!r.Status.Live() || r.OpenSteps > 0)) {
		return nil
	}
	if err != nil {
		return err
	}
	open, err := tx.openSteps(ctx, run)
	if err != nil {
		return err
	}
	next := r.next(open)
	if next != task.PhaseOnFailure && open[task.PhaseOnFailure] > 0 {
		if err := tx.skipOnFailure(ctx, run, r); err != nil {
			return err
		}
	}
	return tx.begin(ctx, run, next, open)
}

// A phaseRow is what decides which phase of a run is next.
type phaseRow struct {
	Phase       task.Phase
	Status      task.RunStatus
	OpenSteps   int
	FailedSteps int
	Stopped     string
}

// next returns the phase that follows: one that has steps, and on_failure only
// after a failure that nobody caused by stopping the run. "" is the end.
func (r phaseRow) next(open map[task.Phase]int) task.Phase {
	switch {
	case r.Phase == task.PhaseMain && open[task.PhaseOnFailure] > 0 && r.FailedSteps > 0 && r.Stopped == "":
		return task.PhaseOnFailure
	case r.Phase != task.PhaseFinally && open[task.PhaseFinally] > 0:
		return task.PhaseFinally
	}
	return ""
}

// openSteps counts the steps that are not over, by phase.
func (tx txn) openSteps(ctx context.Context, run string) (map[task.Phase]int, error) {
	var rows []struct {
		Phase task.Phase
		N     int
	}
	err := tx.NewRaw(`SELECT phase, count(*) AS n FROM task_queue WHERE run_id = ? AND step IS NOT NULL AND parent_id IS NULL
		AND state NOT IN ('success', 'error', 'skipped', 'cancelled') GROUP BY phase`, run).Scan(ctx, &rows)
	open := map[task.Phase]int{}
	for _, r := range rows {
		open[r.Phase] = r.N
	}
	return open, err
}

// skipOnFailure skips what nothing has asked for.
func (tx txn) skipOnFailure(ctx context.Context, run string, r phaseRow) error {
	detail := "on_failure: no step failed"
	if r.Stopped != "" {
		detail = "on_failure: the run was stopped"
	}
	const blocked = "run_id = ? AND phase = 'on_failure' AND state = 'blocked'"
	err := tx.exec(ctx, `INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, reason, detail, at)
		SELECT id, moves + 1, state, 'skipped', attempt, fence, ?, ?, ? FROM task_queue WHERE `+blocked,
		task.ReasonCondition, detail, tx.now, run)
	if err != nil {
		return fmt.Errorf("skip on_failure: %w", err)
	}
	err = tx.exec(ctx, "UPDATE task_queue SET state = 'skipped', reason = ?, detail = ?, moves = moves + 1, unmet = 0, finished_at = ? WHERE "+blocked,
		task.ReasonCondition, detail, tx.now, run)
	if err != nil {
		return fmt.Errorf("skip on_failure: %w", err)
	}
	return nil
}

// begin makes a phase the one that counts and readies its first steps; without
// one the run ends.
func (tx txn) begin(ctx context.Context, run string, next task.Phase, open map[task.Phase]int) error {
	if next == "" {
		if err := tx.exec(ctx, "UPDATE run SET later_steps = 0 WHERE id = ?", run); err != nil {
			return err
		}
		return tx.settle(ctx, run, stepCount{})
	}
	later := 0
	if next == task.PhaseOnFailure {
		later = open[task.PhaseFinally]
	}
	if err := tx.exec(ctx, "UPDATE run SET phase = ?, open_steps = ?, later_steps = ? WHERE id = ?", next, open[next], later, run); err != nil {
		return err
	}
	waits, err := tx.inLine(ctx, []string{run})
	if err != nil {
		return err
	}
	const first = "run_id = ? AND step IS NOT NULL AND phase = ? AND state = 'blocked' AND unmet = 0"
	var roots []released
	err = tx.NewRaw("UPDATE task_queue SET state = 'pending', moves = moves + 1, run_at = ? WHERE condition IS NULL AND "+first+" RETURNING "+releasedColumns,
		tx.now, run, next).Scan(ctx, &roots)
	if err != nil {
		return err
	}
	if len(waits) > 0 {
		return tx.tell(ctx, movesOf(roots, tx.now)) // they are placed when its turn comes
	}
	if err := tx.exec(ctx, "INSERT INTO task_undecided (task_id) SELECT id FROM task_queue WHERE condition IS NOT NULL AND "+first, run, next); err != nil {
		return err
	}
	return tx.place(ctx, roots)
}
