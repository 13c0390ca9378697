package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// Turns returns why runs wait for their turn, by run. Those that do not wait are
// left out.
func (db *DB) Turns(ctx context.Context, runs []string) (map[string]task.TurnWait, error) {
	now, err := db.dialect.now(ctx, db.read)
	if err != nil {
		return nil, fmt.Errorf("look why runs wait for their turn: %w", err)
	}
	return turnsOf(ctx, db.read, runs, now)
}

// waiterFacts is what keeps a run from beginning.
type waiterFacts struct {
	waiter
	Overlap   bool
	NotBefore instant
	Paused    bool
	Live      string // a run of its job that it waits for
	Ahead     string // the run before it under its key
	Taken     int
	Holder    string // a run that has a slot under its key
}

func turnsOf(ctx context.Context, db bun.IDB, runs []string, now instant) (map[string]task.TurnWait, error) {
	waits := map[string]task.TurnWait{}
	if len(runs) == 0 {
		return waits, nil
	}
	var rows []waiterFacts
	err := db.NewRaw(`SELECT `+turnColumns+`, q.overlap, q.not_before,
		EXISTS (SELECT 1 FROM hold h WHERE h.gate = 'job:' || q.job) AS paused,
		coalesce(CASE WHEN q.overlap THEN (SELECT CAST(r.id AS text) FROM (SELECT r.id, r.due_at FROM run r
				WHERE r.job = q.job AND r.status IN ('pending', 'running', 'waiting') AND r.parent_task IS NULL AND r.id <> q.run_id`+byLiveIndex+` LIMIT 10000) AS r
			LEFT JOIN run_turn w ON w.run_id = r.id WHERE (w.run_id IS NULL OR (w.due_at, w.run_id) < (q.due_at, q.run_id) AND (w.not_before IS NULL OR w.not_before <= ?0))
			ORDER BY w.run_id IS NOT NULL, r.due_at DESC, r.id DESC LIMIT 1) END, '') AS live,
		coalesce((SELECT CAST(a.run_id AS text) FROM run_turn a WHERE a.key = q.key AND NOT a.overlap AND (a.priority, a.run_id) < (q.priority, q.run_id)
			AND (a.not_before IS NULL OR a.not_before <= ?0) ORDER BY a.priority, a.run_id LIMIT 1), '') AS ahead,
		(SELECT count(*) FROM run_slot s WHERE s.key = q.key) AS taken,
		coalesce((SELECT CAST(s.run_id AS text) FROM run_slot s WHERE s.key = q.key ORDER BY s.slot LIMIT 1), '') AS holder
		FROM run_turn q WHERE q.run_id IN (?1)`, now, bun.List(runs)).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("look why runs wait for their turn: %w", err)
	}
	for _, r := range rows {
		waits[r.RunID] = r.wait(now)
	}
	return waits, nil
}

// wait says which of the facts counts: the first that would have to change.
func (f waiterFacts) wait(now instant) task.TurnWait {
	w := task.TurnWait{RunID: f.RunID, Key: f.Key, Slots: f.Slots, Taken: f.Taken}
	switch {
	case f.NotBefore.After(now.Time):
		w.Until = f.NotBefore.Time
		w.Why = putOff(f.NotBefore)
	case f.Paused:
		w.Why = "job " + f.Job + " is paused"
	case f.Live != "":
		w.For = f.Live
		w.Why = fmt.Sprintf("run %s of job %s is live (overlap: queue)", f.Live, f.Job)
	case f.Key != "" && f.Taken >= f.Slots:
		w.For = f.Holder
		w.Why = fmt.Sprintf("key %s has no turn left: %d of %d taken, by run %s", f.Key, f.Taken, f.Slots, f.Holder)
	case f.Ahead != "":
		w.For = f.Ahead
		w.Why = fmt.Sprintf("key %s: run %s is before it", f.Key, f.Ahead)
	default:
		w.Why = "it begins in a moment"
	}
	return w
}

func putOff(until instant) string { return "it is put off until " + until.UTC().Format(time.RFC3339) }
