package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// Compare implements engine.Comparer. A lost fence is step.ErrLeaseLost. Asked
// again by the same claim after the answer was lost, it repeats the answer.
func (db *DB) Compare(ctx context.Context, h task.Hold, took time.Duration) (repeatedOf string, version int, err error) {
	var c comparison
	err = db.write(ctx, func(ctx context.Context, tx txn) error {
		c, err = tx.compare(ctx, h, took)
		return err
	})
	if err == nil && c.stopped {
		err = step.ErrLeaseLost // it is over
	}
	if err != nil {
		return "", 0, fmt.Errorf("compare with the last good version, task %d: %w", h.TaskID, err)
	}
	return c.repeatedOf, c.version, nil
}

// A comparison is what came of one.
type comparison struct {
	repeatedOf string
	version    int
	stopped    bool // the run was, and is not compared any more
}

func (tx txn) compare(ctx context.Context, h task.Hold, took time.Duration) (c comparison, err error) {
	held, mine, err := tx.hold(ctx, h)
	if err != nil {
		return c, err
	}
	if mine {
		c.stopped, err = tx.stopped(ctx, h, held)
	}
	if err != nil || c.stopped {
		return c, err
	}
	run, err := tx.findRun(ctx, held.RunID)
	if err != nil {
		return c, err
	}
	if held.State == task.Success {
		return comparison{repeatedOf: run.RepeatedOf, version: run.Version}, nil
	}
	if !mine {
		return c, step.ErrLeaseLost
	}
	if err := tx.leave(ctx, h, held, leaving{To: task.Success, Took: took}); err != nil {
		return c, err
	}
	good, err := tx.lastGood(ctx, run)
	if err != nil {
		return c, err
	}
	same, err := tx.same(ctx, run, good)
	if err != nil {
		return c, err
	}
	if same {
		return comparison{repeatedOf: good.ID}, tx.repeat(ctx, run, good)
	}
	if run.Version == 0 {
		if run.Version, err = tx.nextVersion(ctx, run, ""); err != nil {
			return c, err
		}
		if err := tx.noteLeftOf(ctx, run); err != nil {
			return c, err
		}
	}
	return comparison{version: run.Version}, tx.advance(ctx, []over{{id: h.TaskID, run: run.ID, step: true}})
}

// lastGood returns the last version of the run's key that ended well, or no run.
func (tx txn) lastGood(ctx context.Context, run task.Run) (task.Run, error) {
	var row runRow
	for _, table := range []string{"run", "run_archive"} { // what is archived is older
		err := tx.NewSelect().Model(&row).ModelTableExpr(table+" AS r").Join("JOIN run_key k ON k.run_id = r.id").
			Where("k.job = ? AND k.upstream_key = ?", run.Job, run.Key).
			Where("r.status IN ('success', 'warning')").OrderExpr("k.version DESC").Limit(1).Scan(ctx)
		if !errors.Is(err, sql.ErrNoRows) {
			return row.run(), err
		}
	}
	return task.Run{}, nil
}

// same reports whether the run would do again what the good one did: the same job
// with the same inputs, and every leading source has read the same. A source that
// left no digest has never read the same. Where a person had a source read something
// else, what the job itself had it read before counts: nothing new has come since.
func (tx txn) same(ctx context.Context, run, good task.Run) (bool, error) {
	if good.ID == "" || run.JobDigest != good.JobDigest || !equalJSON(run.Inputs, good.Inputs) {
		return false, nil
	}
	steps, err := good.Overrode()
	if err != nil {
		return false, err
	}
	changed, err := tx.changed(ctx, run, good.ID, "c.step = ?2 AND n.step NOT IN (?3)", append(steps, ""))
	for _, step := range steps {
		if err != nil || changed {
			break
		}
		var before string
		if before, err = tx.unaided(ctx, good, step); err == nil {
			changed, err = tx.changed(ctx, run, before, "c.step = ?2 AND n.step IN (?3)", []string{step})
		}
	}
	return err == nil && !changed, err
}

// changed reports whether a leading source of the run, of those that the condition
// names, has read anything else than it had in another run.
func (tx txn) changed(ctx context.Context, run task.Run, other, condition string, steps []string) (bool, error) {
	var changed int
	err := tx.NewRaw(`SELECT count(*) FROM task_queue n
		JOIN task_dependency d ON d.needs_id = n.id
		JOIN task_queue c ON c.id = d.task_id AND `+condition+`
		LEFT JOIN task_queue g ON g.run_id = ?1 AND g.step = n.step AND g.element = n.element
		LEFT JOIN task_archive o ON o.run_id = ?1 AND o.step = n.step AND o.element = n.element
		WHERE n.run_id = ?0 AND (n.digest IS NULL OR coalesce(g.digest, o.digest) IS NULL OR n.digest <> coalesce(g.digest, o.digest))`,
		run.ID, other, task.TypeCompare, bun.List(steps)).Scan(ctx, &changed)
	return changed > 0, err
}

// equalJSON compares values, not their spelling: jsonb has its own order of keys.
func equalJSON(a, b json.RawMessage) bool {
	x, errA := canonical(a)
	y, errB := canonical(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

func canonical(raw json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// repeat ends the run as a repetition and cancels what of it was still to be done.
func (tx txn) repeat(ctx context.Context, run, good task.Run) error {
	const open = "state IN ('blocked', 'pending', 'waiting')"
	tx, err := tx.lock(ctx, "SELECT id FROM task_queue WHERE run_id = ? AND step IS NOT NULL AND "+open+" ORDER BY id", run.ID)
	if err != nil {
		return err
	}
	for _, table := range []string{"task_ready", "task_later", "task_held", "task_undecided"} {
		if err := tx.exec(ctx, "DELETE FROM "+table+" WHERE task_id IN (SELECT id FROM task_queue WHERE run_id = ? AND step IS NOT NULL AND "+open+")", run.ID); err != nil {
			return err
		}
	}
	err = tx.exec(ctx, `INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, reason, at)
		SELECT id, moves + 1, state, 'cancelled', attempt, fence, ?, ? FROM task_queue WHERE run_id = ? AND step IS NOT NULL AND `+open,
		task.ReasonRepeated, tx.now, run.ID)
	if err != nil {
		return err
	}
	if err := tx.exec(ctx, `UPDATE task_queue SET state = 'cancelled', reason = ?, moves = moves + 1, finished_at = ?
		WHERE run_id = ? AND step IS NOT NULL AND `+open, task.ReasonRepeated, tx.now, run.ID); err != nil {
		return err
	}
	kept, err := tx.keptByHand(ctx, good)
	if err != nil {
		return err
	}
	if err := tx.exec(ctx, "UPDATE run SET status = 'repeated', repeated_of = ?, reason = coalesce(reason, ?), open_steps = 0, later_steps = 0, finished_at = ? WHERE id = ? AND status IN ('running', 'waiting')",
		good.ID, nullable(clean(kept, maxLine)), tx.now, run.ID); err != nil {
		return err
	}
	if run.ParentTask != 0 {
		if _, err := tx.wake(ctx, run.ParentTask, task.WakeChild); err != nil {
			return err
		}
	}
	why := "nothing has changed since run " + good.ID
	if kept != "" {
		why += "; " + kept
	}
	return tx.exec(ctx, "UPDATE occurrence SET outcome = ?, reason = ? WHERE run_id = ? AND outcome IN ('ran', 'caught_up')",
		task.DueRepeated, clean(why, maxLine), run.ID)
}
