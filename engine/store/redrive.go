package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// redriveBatch is how many dead letters one transaction sends on again.
const redriveBatch = 1000

// Redrive sends dead letters on again, oldest first, in the same version of their
// run and through the same limits as before. What was skipped because of them
// waits for them again; on_failure and finally are left as they are. With a rate
// (tasks a second) they become due one after the other. What cannot go on is
// refused and stays a dead letter.
func (db *DB) Redrive(ctx context.Context, f DeadFilter, rate float64, a task.Action) (task.Redriven, error) {
	all, err := db.deadNow(ctx, f)
	if err != nil {
		return task.Redriven{}, fmt.Errorf("redrive: %w", err)
	}
	var sum task.Redriven
	pace := &pace{rate: rate}
	for part := range slices.Chunk(all, redriveBatch) {
		var got task.Redriven
		begin := pace.pacing // a transaction that runs again begins at the same place
		err := db.redriveAgain(ctx, func(ctx context.Context, tx txn) (err error) {
			pace.pacing = begin
			got, err = tx.redrive(ctx, part, pace, a)
			return err
		})
		if err != nil {
			return sum, fmt.Errorf("redrive %d dead letters, %d are done: %w", len(all), sum.Tasks, err)
		}
		sum.Tasks += got.Tasks
		sum.Reopened += got.Reopened
		sum.Refused = append(sum.Refused, got.Refused...)
		if !got.Last.IsZero() {
			sum.Last = got.Last
		}
	}
	db.made()
	return sum, nil
}

// redriveAgain is write, once more when another run took the key between the look
// and the update: the second look sees it.
func (db *DB) redriveAgain(ctx context.Context, fn func(ctx context.Context, tx txn) error) error {
	err := db.write(ctx, fn)
	if err != nil && db.dialect.fails(err) == refused {
		err = db.write(ctx, fn)
	}
	return err
}

// deadNow returns what is a dead letter now, so that one that fails again while
// this goes on is not sent on again. Of ids that were asked for every one has to
// be one.
func (db *DB) deadNow(ctx context.Context, f DeadFilter) ([]int64, error) {
	where, args, err := f.where()
	if err != nil {
		return nil, err
	}
	var ids []int64
	err = db.bun.NewRaw("SELECT d.task_id FROM dead_letter d LEFT JOIN run r ON r.id = d.run_id WHERE "+where+" ORDER BY d.at, d.task_id", args...).Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	for _, id := range f.IDs {
		if !slices.Contains(ids, id) {
			return nil, db.notDead(ctx, id)
		}
	}
	return ids, nil
}

// notDead says why a task is no dead letter.
func (db *DB) notDead(ctx context.Context, id int64) error {
	t, err := db.Task(ctx, id)
	switch {
	case err != nil:
		return err
	case t.State == task.Error && t.Archived:
		return &NotDeadError{TaskID: id, Why: "is archived: it cannot be redriven any more; run its job again"}
	case t.State == task.Error:
		return &NotDeadError{TaskID: id, Why: "is a dead letter that the other filters leave out"}
	}
	return &NotDeadError{TaskID: id, Why: "is no dead letter: it is " + string(t.State)}
}

// A pace spreads tasks over time.
type pace struct {
	rate float64 // tasks a second; 0: all at once
	pacing
}

type pacing struct {
	start instant
	n     int
}

// next returns when the next task is due; ok is false when that is at once.
func (p *pace) next(now instant) (at instant, ok bool) {
	if p.rate <= 0 {
		return now, false
	}
	if p.start.IsZero() {
		p.start = now
	}
	at = instant{p.start.Add(time.Duration(float64(p.n) / p.rate * float64(time.Second))).Truncate(time.Microsecond)}
	p.n++
	return at, at.After(now.Time)
}

// redrive sends one batch on.
func (tx txn) redrive(ctx context.Context, ids []int64, p *pace, a task.Action) (task.Redriven, error) {
	ids, err := tx.withElements(ctx, ids)
	if err != nil {
		return task.Redriven{}, err
	}
	if tx, err = tx.lockRedrive(ctx, ids); err != nil {
		return task.Redriven{}, err
	}
	roots, refused, err := tx.redrivable(ctx, ids)
	if err != nil || len(roots) == 0 {
		return task.Redriven{Refused: refused}, err
	}
	done := task.Redriven{Tasks: len(roots), Refused: refused}
	if done.Last, err = tx.sendAgain(ctx, roots, p); err != nil {
		return done, err
	}
	if done.Reopened, err = tx.reopen(ctx, roots); err != nil {
		return done, err
	}
	if err := tx.reopenRuns(ctx, roots); err != nil {
		return done, err
	}
	return done, tx.auditRedrive(ctx, roots, p.rate, a)
}

// withElements adds the failed elements of steps and the failed steps of elements:
// a step with for_each joins what its elements are.
func (tx txn) withElements(ctx context.Context, ids []int64) ([]int64, error) {
	var more []int64
	err := tx.NewRaw(`SELECT c.id FROM task_queue p JOIN task_queue c ON c.parent_id = p.id AND c.run_id = p.run_id AND c.state = 'error'
		WHERE p.id IN (?0) AND p.for_each IS NOT NULL AND p.state = 'error'
		UNION SELECT p.id FROM task_queue c JOIN task_queue p ON p.id = c.parent_id AND p.state = 'error' WHERE c.id IN (?0)`, bun.List(ids)).Scan(ctx, &more)
	ids = append(slices.Clone(ids), more...)
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// skippedBehind are the tasks that were skipped because of the tasks ?, however far
// behind them, with those tasks themselves.
const skippedBehind = `WITH RECURSIVE behind (id) AS (
	SELECT id FROM task_queue WHERE id IN (?)
	UNION SELECT d.task_id FROM behind b JOIN task_dependency d ON d.needs_id = b.id
		JOIN task_queue t ON t.id = d.task_id AND t.state = 'skipped' AND t.reason = 'needs_failed')`

// lockRedrive locks the tasks, what was skipped because of them, and what waits
// for any of these.
func (tx txn) lockRedrive(ctx context.Context, ids []int64) (txn, error) {
	return tx.lock(ctx, `SELECT id FROM task_queue WHERE id IN (`+skippedBehind+` SELECT id FROM behind
		UNION SELECT d.task_id FROM behind b JOIN task_dependency d ON d.needs_id = b.id) ORDER BY id`, bun.List(ids))
}

// sendAgain makes dead letters pending, with all their attempts before them, and
// returns when the last is due.
func (tx txn) sendAgain(ctx context.Context, roots []int64, p *pace) (time.Time, error) {
	values, args := make([]string, len(roots)), []any{}
	var now []int64
	last := tx.now
	for i, id := range roots {
		at, later := p.next(tx.now)
		if !later {
			now = append(now, id)
		}
		values[i] = "(?, ?)"
		args = append(args, id, at)
		last = at
	}
	paced := "WITH v (id, due) AS (VALUES " + strings.Join(values, ", ") + ") "
	err := tx.exec(ctx, `INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, reason, at)
		SELECT id, moves + 1, 'error', 'pending', 0, fence, ?, ? FROM task_queue WHERE id IN (?)`, task.ReasonRedrive, tx.now, bun.List(roots))
	if err != nil {
		return last.Time, err
	}
	if err := tx.exec(ctx, paced+`UPDATE task_queue SET state = 'pending', reason = 'redrive', detail = NULL, stop = NULL, attempt = 0, crashes = 0,
		moves = moves + 1, run_at = v.due, finished_at = NULL FROM v WHERE v.id = task_queue.id`, args...); err != nil {
		return last.Time, err
	}
	if err := tx.exec(ctx, "DELETE FROM dead_letter WHERE task_id IN (?)", bun.List(roots)); err != nil {
		return last.Time, err
	}
	if len(now) < len(roots) {
		err := tx.exec(ctx, paced+"INSERT INTO task_later (task_id, run_at) SELECT id, due FROM v WHERE due > ?", append(args, tx.now)...)
		if err != nil {
			return last.Time, err
		}
	}
	return last.Time, tx.ready(ctx, now)
}

// reopen blocks what was skipped because of the roots again, and counts anew what
// it, and what else waits for the roots, waits for. It returns how many it blocked.
func (tx txn) reopen(ctx context.Context, roots []int64) (int, error) {
	var behind []int64
	err := tx.NewRaw(skippedBehind+" SELECT b.id FROM behind b JOIN task_queue t ON t.id = b.id AND t.state = 'skipped' ORDER BY b.id", bun.List(roots)).Scan(ctx, &behind)
	if err != nil {
		return 0, err
	}
	if len(behind) > 0 {
		err = tx.exec(ctx, `INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, reason, at)
			SELECT id, moves + 1, 'skipped', 'blocked', attempt, fence, ?, ? FROM task_queue WHERE id IN (?)`, task.ReasonRedrive, tx.now, bun.List(behind))
		if err != nil {
			return 0, err
		}
		if err := tx.exec(ctx, "UPDATE task_queue SET state = 'blocked', reason = NULL, detail = NULL, moves = moves + 1, finished_at = NULL WHERE id IN (?)", bun.List(behind)); err != nil {
			return 0, err
		}
	}
	const waiting = "id IN (SELECT d.task_id FROM task_dependency d WHERE d.needs_id IN (?)) AND state IN ('blocked', 'waiting')"
	changed := bun.List(append(slices.Clone(roots), behind...))
	err = tx.exec(ctx, `UPDATE task_queue SET
		unmet = (SELECT count(*) FROM task_dependency d JOIN task_queue n ON n.id = d.needs_id
			WHERE d.task_id = task_queue.id AND n.state NOT IN ('success', 'error', 'skipped', 'cancelled')),
		unmet_failed = (SELECT count(*) FROM task_dependency d JOIN task_queue n ON n.id = d.needs_id
			WHERE d.task_id = task_queue.id AND (n.state = 'error' AND NOT n.continue_on_error OR n.state = 'cancelled'
				OR n.state = 'skipped' AND (n.reason = 'needs_failed' OR coalesce(n.reason, '') <> 'condition' AND NOT n.continue_on_error)))
		WHERE `+waiting, changed)
	if err != nil {
		return 0, fmt.Errorf("count what waits for them: %w", err)
	}
	return len(behind), tx.exec(ctx, "DELETE FROM task_undecided WHERE task_id IN (SELECT id FROM task_queue WHERE "+waiting+" AND unmet > 0)", changed)
}

// auditRedrive writes one row for each task.
func (tx txn) auditRedrive(ctx context.Context, roots []int64, rate float64, a task.Action) error {
	detail := document(nil)
	if rate > 0 {
		detail, _ = json.Marshal(map[string]float64{"rate": rate}) // a number always marshals
	}
	err := tx.exec(ctx, `INSERT INTO audit_log (at, actor, action, subject, reason, detail)
		SELECT ?, ?, 'redrive', 'task:' || id, ?, ? FROM task_queue WHERE id IN (?) ORDER BY id`,
		tx.now, clean(a.Actor, maxLine), nullable(clean(a.Reason, maxLine)), castJSON(detail), bun.List(roots))
	if err != nil {
		return errors.Join(errors.New("note who did it"), err)
	}
	return nil
}
