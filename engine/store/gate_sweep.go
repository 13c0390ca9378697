package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// sweepAtOnce bounds the tasks of one transaction of a sweep.
const sweepAtOnce = 500

// Sweep implements engine.Gates.
func (db *DB) Sweep(ctx context.Context, limit int) (n int, err error) {
	if err := db.setAside(ctx, limit); err != nil {
		return 0, fmt.Errorf("set tasks aside that are held: %w", err)
	}
	if n, err = db.giveBack(ctx, limit); err != nil {
		return n, fmt.Errorf("give tasks back that are not held any more: %w", err)
	}
	if err := db.freePlaces(ctx); err != nil {
		return n, fmt.Errorf("free the places of tasks that are over: %w", err)
	}
	return n, nil
}

// A place of a task among those that claims find.
type placeRow struct {
	TaskID   int64
	Priority int
}

// underHold returns a SELECT of up to n claimable tasks that a hold keeps from
// being claimed, and its arguments.
func underHold(gate string, n int) (string, []any) {
	text := "SELECT r.task_id, r.priority FROM task_ready r JOIN task_queue t ON t.id = r.task_id WHERE t.state = 'pending' AND "
	var args []any
	kind, name, _ := strings.Cut(gate, ":")
	switch kind + ":" {
	case gateType:
		text += "r.type = ?"
		args = append(args, name)
	case gateJob:
		text += "r.run_id IN (SELECT id FROM run WHERE job = ?)"
		args = append(args, name)
	default:
		text += "r.type = ? AND t.circuit = ? AND NOT EXISTS (SELECT 1 FROM circuit_probe p WHERE p.task_id = r.task_id)"
		typ, _, _ := strings.Cut(name, "/")
		args = append(args, typ, name)
	}
	return text + " ORDER BY r.priority, r.task_id LIMIT ?", append(args, n)
}

// setAside moves what became ready under a hold to where claims do not walk past it.
func (db *DB) setAside(ctx context.Context, limit int) error {
	var gates []string
	if err := db.read.NewRaw("SELECT gate FROM hold ORDER BY gate").Scan(ctx, &gates); err != nil {
		return err
	}
	for _, gate := range gates {
		for moved := 0; moved < limit; {
			text, args := underHold(gate, 1)
			var some []placeRow
			if err := db.read.NewRaw(text, args...).Scan(ctx, &some); err != nil {
				return err
			}
			if len(some) == 0 {
				break
			}
			n := 0
			err := db.gated(ctx, func(ctx context.Context, tx txn) (err error) {
				n, err = tx.setAside(ctx, gate)
				return err
			})
			if err != nil {
				return err
			}
			if n == 0 {
				break // somebody is claiming them, or nothing holds them any more
			}
			moved += n
		}
	}
	return nil
}

func (tx txn) setAside(ctx context.Context, gate string) (int, error) {
	var held bool
	if err := tx.NewRaw("SELECT EXISTS (SELECT 1 FROM hold WHERE gate = ?)", gate).Scan(ctx, &held); err != nil || !held {
		return 0, err
	}
	text, args := underHold(gate, sweepAtOnce)
	skip := tx.dialect.skipLocked()
	if skip != "" {
		skip = strings.Replace(skip, "UPDATE", "UPDATE OF r, t", 1)
	}
	var rows []placeRow
	if err := tx.NewRaw(text+skip, args...).Scan(ctx, &rows); err != nil || len(rows) == 0 {
		return 0, err
	}
	ids, places := make([]int64, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		ids[i], places[i] = r.TaskID, fmt.Sprintf("(%d, %d)", r.Priority, r.TaskID)
	}
	for _, step := range []struct {
		text string
		args []any
	}{
		{"DELETE FROM task_ready WHERE (priority, task_id) IN (VALUES " + strings.Join(places, ", ") + ")", nil},
		{"INSERT INTO task_held (task_id, gate, priority, since) SELECT id, ?, priority, ? FROM task_queue WHERE id IN (?)", []any{gate, tx.now, bun.List(ids)}},
		{"DELETE FROM task_slot WHERE task_id IN (?)", []any{bun.List(ids)}},
		{"DELETE FROM circuit_probe WHERE task_id IN (?)", []any{bun.List(ids)}},
	} {
		if err := tx.exec(ctx, step.text, step.args...); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

// giveBack moves tasks on whose hold is gone: to their limit, to where they are
// claimed, or to another hold. It returns how many can be claimed.
func (db *DB) giveBack(ctx context.Context, limit int) (n int, err error) {
	var gates []string
	err = db.read.NewRaw(heldGates+` SELECT gate FROM g WHERE gate NOT LIKE 'limit:%' AND NOT EXISTS (SELECT 1 FROM hold h WHERE h.gate = g.gate)`).Scan(ctx, &gates)
	if err != nil {
		return 0, err
	}
	for _, gate := range gates {
		for n < limit {
			var ready, moved int
			err := db.gated(ctx, func(ctx context.Context, tx txn) (err error) {
				ready, moved, err = tx.giveBack(ctx, gate)
				return err
			})
			if err != nil {
				return n, err
			}
			n += ready
			if moved == 0 {
				break
			}
		}
	}
	return n, nil
}

func (tx txn) giveBack(ctx context.Context, gate string) (ready, moved int, err error) {
	var held bool
	if err := tx.NewRaw("SELECT EXISTS (SELECT 1 FROM hold WHERE gate = ?)", gate).Scan(ctx, &held); err != nil || held {
		return 0, 0, err
	}
	var list []candidate
	err = tx.NewRaw(`SELECT h.task_id, h.gate, h.priority, t.limits FROM (SELECT task_id, gate, priority FROM task_held WHERE gate = ? ORDER BY priority, task_id LIMIT ?) AS h
		JOIN task_queue t ON t.id = h.task_id`, gate, sweepAtOnce).Scan(ctx, &list)
	if err != nil {
		return 0, 0, err
	}
	if list, err = tx.lockHeld(ctx, list); err != nil || len(list) == 0 {
		return 0, 0, err
	}
	ids := make([]int64, len(list))
	for i, c := range list {
		ids[i] = c.TaskID
		if c.Limits == nil {
			ready++
		}
	}
	if err := tx.exec(ctx, "DELETE FROM task_held WHERE task_id IN (?)", bun.List(ids)); err != nil {
		return 0, 0, err
	}
	return ready, len(list), tx.ready(ctx, ids)
}

// freePlaces takes slots and places of probes from tasks that are neither claimable
// nor at work. Whoever ends an attempt frees them too; this is for whatever did not.
func (db *DB) freePlaces(ctx context.Context) error {
	for _, table := range []string{"task_slot", "circuit_probe"} {
		orphans := `SELECT s.task_id FROM ` + table + ` s LEFT JOIN task_queue t ON t.id = s.task_id
			LEFT JOIN task_held h ON h.task_id = s.task_id LEFT JOIN task_later l ON l.task_id = s.task_id
			WHERE t.state IS NULL OR t.state NOT IN (?) OR t.state = 'pending' AND (h.task_id IS NOT NULL OR l.task_id IS NOT NULL)`
		live := bun.List([]task.State{task.Pending, task.Processing})
		var ids []int64
		if err := db.read.NewRaw(orphans, live).Scan(ctx, &ids); err != nil {
			return err
		}
		slices.Sort(ids)
		if len(ids) == 0 {
			continue
		}
		// Looked for again inside: a task that had no right to its place may have come by one.
		if _, err := db.bun.NewRaw("DELETE FROM "+table+" WHERE task_id IN (?) AND task_id IN ("+orphans+")", bun.List(ids), live).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
