package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// A turnRow is a run that waits for its turn.
type turnRow struct {
	bun.BaseModel `bun:"table:run_turn,alias:q"`

	RunID     string  `bun:"run_id,pk"`
	Job       string  `bun:"job"`
	Child     bool    `bun:"child"`
	Overlap   bool    `bun:"overlap"`
	Key       string  `bun:"key,nullzero"`
	Slots     int     `bun:"slots,nullzero"`
	Priority  int     `bun:"priority"`
	DueAt     instant `bun:"due_at"`
	NotBefore instant `bun:"not_before"`
	Outcome   string  `bun:"outcome,nullzero"`
	Reason    string  `bun:"reason,nullzero"`
	Since     instant `bun:"since"`
}

// takesTurn reports whether a run has to ask before it begins.
func takesTurn(n task.NewRun) bool {
	return queues(n) || n.Concurrency != nil || !n.NotBefore.IsZero()
}

func queues(n task.NewRun) bool { return n.Overlap == task.OverlapQueue && n.Run.ParentTask == 0 }

// turning makes the transaction the only one that looks at turns, when the run has
// to. What it then reads is what those before it have committed.
func (tx txn) turning(ctx context.Context, n task.NewRun) (txn, error) {
	if !asksForTurns(&n) {
		return tx, nil
	}
	return tx.aloneInTurns(ctx)
}

func asksForTurns(n *task.NewRun) bool { return takesTurn(*n) || n.Overlap == task.OverlapSkip }

func (tx txn) aloneInTurns(ctx context.Context) (txn, error) {
	err := tx.dialect.alone(ctx, tx.Tx, turnsLock)
	if err == nil {
		tx.now, err = tx.dialect.now(ctx, tx.Tx)
	}
	if err != nil {
		return tx, fmt.Errorf("wait for others that decide whose turn it is: %w", err)
	}
	return tx, nil
}

// liveOf are the runs l of a job that due times wait for or give way to, as of ?: live
// ones that no other run started and that are not put off.
func liveOf(job string) string {
	return `(SELECT r.id, r.created_at FROM run r WHERE r.job = ` + job + ` AND r.status IN ('pending', 'running', 'waiting') AND r.parent_task IS NULL
		AND (SELECT 1 FROM run_turn w WHERE w.run_id = r.id AND w.not_before > ? LIMIT 1) IS NULL` + byLiveIndex + ` LIMIT 10000) AS l`
}

// givesWay records a due time as skipped when a run of its job is live.
func (tx txn) givesWay(ctx context.Context, n task.NewRun) (task.Created, bool, error) {
	if n.Overlap != task.OverlapSkip || n.Occurrence == nil {
		return task.Created{}, false, nil
	}
	var live []string
	err := tx.NewRaw("SELECT CAST(l.id AS text) FROM "+liveOf("?")+" ORDER BY l.created_at, l.id LIMIT 1", n.Run.Job, tx.now).Scan(ctx, &live)
	if err != nil || len(live) == 0 {
		return task.Created{}, false, err
	}
	made := task.Created{Existing: true, Outcome: task.DueSkipped, Reason: givesWayTo(live[0])}
	err = tx.exec(ctx, "UPDATE occurrence SET outcome = ?, reason = ?, run_id = NULL WHERE run_id = ?", made.Outcome, made.Reason, n.Run.ID)
	return made, true, err
}

func givesWayTo(run string) string { return "run " + run + " is live (overlap: skip)" }

// enterTurn lets a new run begin, now or when its turn comes, and says what that
// means for its due time.
func (tx txn) enterTurn(ctx context.Context, n task.NewRun) (task.Created, error) {
	var made task.Created
	if n.Occurrence != nil {
		made.Outcome, made.Reason = n.Occurrence.Outcome, n.Occurrence.Reason
	}
	if !takesTurn(n) {
		return made, tx.placeNew(ctx, n.Run.ID)
	}
	row := turnRow{
		RunID: n.Run.ID, Job: n.Run.Job, Child: n.Run.ParentTask != 0, Overlap: queues(n),
		DueAt: instant{n.Run.DueAt}, NotBefore: instant{n.NotBefore}, Since: tx.now,
	}
	if row.DueAt.IsZero() {
		row.DueAt = tx.now
	}
	if n.Concurrency != nil {
		row.Key, row.Slots = n.Concurrency.Key, n.Concurrency.Slots
	}
	if n.Occurrence != nil {
		row.Outcome, row.Reason = string(n.Occurrence.Outcome), clean(n.Occurrence.Reason, maxLine)
	}
	if err := tx.NewRaw("SELECT priority FROM run WHERE id = ?", n.Run.ID).Scan(ctx, &row.Priority); err != nil {
		return made, err
	}
	if _, err := tx.NewInsert().Model(&row).Returning("NULL").Exec(ctx); err != nil {
		return made, fmt.Errorf("note that it waits for its turn: %w", err)
	}
	// Only under its own key can it change whose turn it is.
	look := func(limit int) (lineup, error) { return lineUpWith(ctx, tx, tx.now, limit, row) }
	if _, err := tx.takeTurns(ctx, turnsAtOnce, look); err != nil || n.Occurrence == nil {
		return made, err
	}
	waits, err := turnsOf(ctx, tx, []string{n.Run.ID}, tx.now)
	if w, ok := waits[n.Run.ID]; err == nil && ok {
		made.Outcome, made.Reason = task.DueWaiting, w.Why
		err = tx.exec(ctx, "UPDATE occurrence SET outcome = ?, reason = ? WHERE run_id = ?", made.Outcome, made.Reason, n.Run.ID)
	}
	return made, err
}

// turnsAtOnce bounds how many runs begin in one transaction.
const turnsAtOnce = 100

// TakeTurns implements engine.Turns. Whose turn it is is decided in one transaction
// at a time; where nothing can begin there is none.
func (db *DB) TakeTurns(ctx context.Context, limit int) (task.Turns, error) {
	var some bool
	err := db.read.NewRaw("SELECT EXISTS (SELECT 1 FROM run_turn)").Scan(ctx, &some)
	if err == nil && !some {
		return task.Turns{}, nil
	}
	now := instant{}
	if err == nil {
		now, err = db.dialect.now(ctx, db.read)
	}
	if err != nil {
		return task.Turns{}, fmt.Errorf("look for runs that wait for their turn: %w", err)
	}
	sum, err := waitingTurns(ctx, db.read, now)
	if err != nil {
		return sum, err
	}
	line, err := lineUp(ctx, db.read, now, limit)
	if err != nil || len(line.choose(limit)) == 0 {
		return sum, err
	}
	err = db.write(ctx, func(ctx context.Context, tx txn) (err error) {
		if err := db.dialect.alone(ctx, tx.Tx, turnsLock); err != nil {
			return err
		}
		if tx.now, err = db.dialect.now(ctx, tx.Tx); err != nil {
			return err
		}
		sum.Begun, err = tx.takeTurns(ctx, limit, func(limit int) (lineup, error) { return lineUp(ctx, tx, tx.now, limit) })
		return err
	})
	if err != nil {
		return task.Turns{}, fmt.Errorf("let runs begin whose turn it is: %w", err)
	}
	return sum, nil
}

// waitingTurns says how long until the next run that was put off is due, of those
// that wait.
func waitingTurns(ctx context.Context, db bun.IDB, now instant) (task.Turns, error) {
	var next []struct{ NotBefore instant }
	err := db.NewRaw("SELECT not_before FROM run_turn WHERE not_before > ? ORDER BY not_before LIMIT 1", now).Scan(ctx, &next)
	if err != nil {
		return task.Turns{}, fmt.Errorf("look for runs that were put off: %w", err)
	}
	sum := task.Turns{Waiting: true}
	if len(next) > 0 {
		sum.Next = max(next[0].NotBefore.Sub(now.Time), time.Microsecond)
	}
	return sum, nil
}

// takeTurns lets up to limit runs begin whose turn it is, of those that look finds,
// and returns how many. The transaction has to be alone in that.
func (tx txn) takeTurns(ctx context.Context, limit int, look func(limit int) (lineup, error)) (int, error) {
	begun := 0
	for begun < limit {
		line, err := look(limit - begun)
		if err != nil {
			return begun, err
		}
		chosen := line.choose(limit - begun)
		if len(chosen) == 0 {
			return begun, nil
		}
		n, err := tx.begins(ctx, chosen)
		if err != nil {
			return begun, fmt.Errorf("begin %d runs: %w", len(chosen), err)
		}
		if n == 0 {
			return begun, nil // somebody is just ending them
		}
		begun += n
	}
	return begun, nil
}

// begins gives the runs their slots, places their tasks and says so in their
// occurrences. It leaves out those that somebody else holds: they are being stopped.
func (tx txn) begins(ctx context.Context, chosen []waiter) (int, error) {
	byID := make(map[string]waiter, len(chosen))
	ids := make([]string, len(chosen))
	for i, c := range chosen {
		byID[c.RunID], ids[i] = c, c.RunID
	}
	var got []string
	if err := tx.NewRaw("SELECT CAST(run_id AS text) FROM run_turn WHERE run_id IN (?) ORDER BY run_id"+tx.dialect.skipLocked(), bun.List(ids)).Scan(ctx, &got); err != nil {
		return 0, err
	}
	if len(got) == 0 {
		return 0, nil
	}
	var slots []runSlotRow
	for _, id := range got {
		if c := byID[id]; c.slot > 0 {
			slots = append(slots, runSlotRow{Key: c.Key, Slot: c.slot, RunID: id})
		}
	}
	if err := insertAll(ctx, tx.Tx, slots, 1000); err != nil {
		return 0, fmt.Errorf("take %d slots: %w", len(slots), err)
	}
	err := tx.exec(ctx, `UPDATE occurrence SET outcome = (SELECT q.outcome FROM run_turn q WHERE q.run_id = occurrence.run_id),
		reason = (SELECT q.reason FROM run_turn q WHERE q.run_id = occurrence.run_id)
		WHERE outcome = 'waiting' AND run_id IN (SELECT q.run_id FROM run_turn q WHERE q.outcome IS NOT NULL AND q.run_id IN (?))`, bun.List(got))
	if err != nil {
		return 0, fmt.Errorf("note what became of their due times: %w", err)
	}
	if err := tx.exec(ctx, "DELETE FROM run_turn WHERE run_id IN (?)", bun.List(got)); err != nil {
		return 0, err
	}
	return len(got), tx.placeRuns(ctx, got)
}

type runSlotRow struct {
	bun.BaseModel `bun:"table:run_slot"`

	Key   string `bun:"key"`
	Slot  int    `bun:"slot"`
	RunID string `bun:"run_id"`
}

// placeNew puts the first tasks of a new run where claims and decisions find them.
func (tx txn) placeNew(ctx context.Context, run string) error {
	if err := tx.readyWhere(ctx, "run_id = ? AND step IS NOT NULL AND state = 'pending'", run); err != nil {
		return err
	}
	err := tx.exec(ctx, `INSERT INTO task_undecided (task_id) SELECT id FROM task_queue
		WHERE run_id = ? AND step IS NOT NULL AND phase = 'main' AND state = 'blocked' AND unmet = 0`, run)
	if err != nil {
		return fmt.Errorf("note what has to be decided: %w", err)
	}
	return nil
}

// placeRuns puts the tasks of runs that begin, or go on, where claims, the promoter
// and decisions find them.
func (tx txn) placeRuns(ctx context.Context, runs []string) error {
	const pending = "run_id IN (?) AND step IS NOT NULL AND state = 'pending' AND "
	if err := tx.readyWhere(ctx, pending+"run_at <= ?", bun.List(runs), tx.now); err != nil {
		return err
	}
	if err := tx.exec(ctx, "INSERT INTO task_later (task_id, run_at) SELECT id, run_at FROM task_queue WHERE "+pending+"run_at > ?", bun.List(runs), tx.now); err != nil {
		return fmt.Errorf("put off what is not due: %w", err)
	}
	err := tx.exec(ctx, `INSERT INTO task_undecided (task_id) SELECT t.id FROM task_queue t JOIN run r ON r.id = t.run_id AND r.phase = t.phase
		WHERE t.run_id IN (?) AND t.step IS NOT NULL AND t.state = 'blocked' AND t.unmet = 0`, bun.List(runs))
	if err != nil {
		return fmt.Errorf("note what has to be decided: %w", err)
	}
	return nil
}

// requeue makes runs that were over, and live again, wait for another turn. Their
// tasks leave the tables that claims and others read. Due times wait for each other
// again even where they would have been skipped: a person wants both.
func (tx txn) requeue(ctx context.Context, reopened []string) error {
	if len(reopened) == 0 {
		return nil
	}
	err := tx.exec(ctx, `INSERT INTO run_turn (run_id, job, child, overlap, key, slots, priority, due_at, since)
		SELECT id, job, parent_task IS NOT NULL, overlap IS NOT NULL AND parent_task IS NULL, turn_key, turn_slots, priority, due_at, ? FROM run
		WHERE id IN (?) AND (turn_key IS NOT NULL OR overlap IS NOT NULL AND parent_task IS NULL)`, tx.now, bun.List(reopened))
	if err != nil {
		return fmt.Errorf("note that they wait for their turn: %w", err)
	}
	// The first claim takes it from waiting to running, and gives it its whole time.
	return tx.exec(ctx, "UPDATE run SET status = 'waiting', deadline = NULL WHERE id IN (SELECT run_id FROM run_turn WHERE run_id IN (?))", bun.List(reopened))
}

// withdraw takes the tasks of those of the runs that wait for their turn from where
// they would be claimed.
func (tx txn) withdraw(ctx context.Context, runs []string) error {
	waiting, err := tx.inLine(ctx, runs)
	if err != nil || len(waiting) == 0 {
		return err
	}
	for _, table := range []string{"task_ready", "task_later", "task_held", "task_undecided"} {
		if err := tx.exec(ctx, "DELETE FROM "+table+" WHERE task_id IN (SELECT id FROM task_queue WHERE run_id IN (?) AND step IS NOT NULL)", bun.List(waiting)); err != nil {
			return fmt.Errorf("hold back their tasks: %w", err)
		}
	}
	return nil
}

// inLine returns those of the runs that wait for their turn, and keeps them so until
// the commit. It waits for whoever lets them begin.
func (tx txn) inLine(ctx context.Context, runs []string) ([]string, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	var waiting []string
	err := tx.NewRaw("SELECT CAST(run_id AS text) FROM run_turn WHERE run_id IN (?) ORDER BY run_id"+tx.dialect.forUpdate(), bun.List(runs)).Scan(ctx, &waiting)
	if err != nil {
		return nil, fmt.Errorf("look which runs wait for their turn: %w", err)
	}
	return waiting, nil
}

// leaveLine keeps a run that is being stopped from beginning meanwhile, and says
// what became of its due time. What finally has left to do waits for its turn.
func (tx txn) leaveLine(ctx context.Context, run string) error {
	waiting, err := tx.inLine(ctx, []string{run})
	if err != nil || len(waiting) == 0 {
		return err
	}
	return tx.exec(ctx, `UPDATE occurrence SET outcome = ?, reason = ? WHERE run_id = ? AND outcome = 'waiting'`,
		task.DueSkipped, "run "+run+" was cancelled before its turn came", run)
}
