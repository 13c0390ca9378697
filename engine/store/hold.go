package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"madeira/engine/task"
)

// A Hold is what keeps tasks from being claimed: a pause, or a circuit that is not
// closed.
type Hold struct {
	Gate   string // "type:NAME", "job:NAME" or "circuit:KEY"
	Since  time.Time
	Actor  string // who paused it; "" for a circuit
	Reason string // of a circuit the failure that opened it, where it is known
	Held   int    // tasks that wait for it and are due

	State task.CircuitState // of a circuit; "" for a pause
	Until time.Time         // of an open circuit: when probes go
}

// Pause keeps every claim that begins after its commit from taking tasks of the
// type or job that the action names as its subject. What is at work goes on. It
// reports false when somebody had paused it before; that one's reason stays.
func (db *DB) Pause(ctx context.Context, a task.Action) (bool, error) {
	if err := pausable(a.Subject); err != nil {
		return false, err
	}
	var fresh bool
	err := db.write(ctx, func(ctx context.Context, tx txn) error {
		res, err := tx.NewRaw("INSERT INTO hold (gate, since, actor, reason) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
			a.Subject, tx.now, nullable(clean(a.Actor, maxLine)), nullable(clean(a.Reason, maxLine))).Exec(ctx)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if fresh = n == 1; err != nil || !fresh {
			return err
		}
		return tx.audit(ctx, a)
	})
	if err != nil {
		return false, fmt.Errorf("pause %s: %w", a.Subject, err)
	}
	return fresh, nil
}

// Resume ends a pause. It reports false when there is none. Due times of a job that
// nobody has noted during its pause are skipped all the same: the pause is kept in
// the same commit.
func (db *DB) Resume(ctx context.Context, a task.Action) (bool, error) {
	if err := pausable(a.Subject); err != nil {
		return false, err
	}
	var ended bool
	err := db.write(ctx, func(ctx context.Context, tx txn) error {
		if job, ok := strings.CutPrefix(a.Subject, gateJob); ok {
			if err := tx.keepPause(ctx, job); err != nil {
				return err
			}
		}
		res, err := tx.NewRaw("DELETE FROM hold WHERE gate = ?", a.Subject).Exec(ctx)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if ended = n == 1; err != nil || !ended {
			return err
		}
		return tx.audit(ctx, a)
	})
	if err != nil {
		return false, fmt.Errorf("resume %s: %w", a.Subject, err)
	}
	return ended, nil
}

// TryCircuit ends the cool-down of an open circuit, "circuit:KEY", so that its probes
// go with the next look of a worker; they say whether it closes. It reports false
// when the circuit is not open.
func (db *DB) TryCircuit(ctx context.Context, a task.Action) (bool, error) {
	key, ok := strings.CutPrefix(a.Subject, gateCircuit)
	if !ok {
		return false, fmt.Errorf("try %s: it is no circuit: say circuit:KEY", a.Subject)
	}
	var open bool
	err := db.gated(ctx, func(ctx context.Context, tx txn) error {
		res, err := tx.NewRaw("UPDATE circuit SET until = ? WHERE key = ? AND state = ?", tx.now, key, task.CircuitOpen).Exec(ctx)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if open = n == 1; err != nil || !open {
			return err
		}
		return tx.audit(ctx, a)
	})
	if err != nil {
		return false, fmt.Errorf("try %s: %w", a.Subject, err)
	}
	return open, nil
}

// pausable checks that the subject is what can be paused.
func pausable(subject string) error {
	for _, kind := range []string{gateType, gateJob} {
		if name, ok := strings.CutPrefix(subject, kind); ok && name != "" {
			return nil
		}
	}
	return errors.New("only types and jobs can be paused: say type:NAME or job:NAME")
}

// Holds lists what keeps tasks from being claimed, by gate.
func (db *DB) Holds(ctx context.Context) ([]Hold, error) {
	var rows []struct {
		Gate, Actor, Reason string
		Since, Until        instant
		Failure             document
		State               task.CircuitState
		Held                int
	}
	err := db.read.NewRaw(`SELECT h.gate, h.since, coalesce(h.actor, '') AS actor, coalesce(h.reason, '') AS reason, coalesce(c.state, '') AS state, c.until, c.failure,
		(SELECT count(*) FROM task_held t WHERE t.gate = h.gate) AS held
		FROM hold h LEFT JOIN circuit c ON h.gate = 'circuit:' || c.key ORDER BY h.gate`).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list holds: %w", err)
	}
	list := make([]Hold, len(rows))
	for i, r := range rows {
		if why := readFailure(r.Failure); why != nil {
			r.Reason = why.Message
		}
		list[i] = Hold{Gate: r.Gate, Since: r.Since.Time, Actor: r.Actor, Reason: r.Reason, Held: r.Held, State: r.State, Until: r.Until.Time}
	}
	return list, nil
}
