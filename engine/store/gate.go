package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// The kinds of gates, as the names of gates begin.
const (
	gateLimit   = "limit:"
	gateType    = "type:"
	gateJob     = "job:"
	gateCircuit = "circuit:"
)

const (
	// A look at a gate takes in as many tasks by priority, and as many by age.
	pageByPriority = 56
	pageByAge      = 8

	// gatesAtOnce bounds the gates of one transaction; SQLite takes no more than
	// 500 parts of a SELECT.
	gatesAtOnce = 100
)

// gated runs fn in a transaction that is alone among those that move tasks through
// gates, in all processes. The transaction is stamped once it is alone.
func (db *DB) gated(ctx context.Context, fn func(ctx context.Context, tx txn) error) error {
	return db.write(ctx, func(ctx context.Context, tx txn) error {
		if err := db.dialect.alone(ctx, tx.Tx, gatesLock); err != nil {
			return fmt.Errorf("wait for others that admit tasks: %w", err)
		}
		var err error
		if tx.now, err = db.dialect.now(ctx, tx.Tx); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// Admit implements engine.Gates. Each gate is looked at in order of priority, but
// for every eighth task, which is the oldest, so that none waits for ever.
func (db *DB) Admit(ctx context.Context, limit int) (n int, next time.Duration, err error) {
	for {
		gates, err := db.openGates(ctx)
		if err != nil {
			return n, 0, fmt.Errorf("look for limits with room: %w", err)
		}
		var all admission
		for part := range slices.Chunk(gates, gatesAtOnce) {
			if n+all.admitted >= limit {
				break
			}
			var a admission
			err := db.gated(ctx, func(ctx context.Context, tx txn) (err error) {
				a, err = tx.admit(ctx, part, limit-n-all.admitted)
				return err
			})
			if err != nil {
				return n, 0, fmt.Errorf("admit held tasks: %w", err)
			}
			all.add(a)
		}
		n += all.admitted
		if n >= limit || all.admitted+all.moved == 0 {
			return n, all.next, nil
		}
	}
}

// An admission is what came of a look at some gates.
type admission struct {
	admitted int
	moved    int           // to another gate
	next     time.Duration // until a token is there; 0: none is waited for
}

func (a *admission) add(b admission) {
	a.admitted += b.admitted
	a.moved += b.moved
	a.next = sooner(a.next, b.next)
}

// sooner is the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// heldGates lists the gates at which tasks are held, however many stand at each.
const heldGates = `WITH RECURSIVE g (gate) AS (
	SELECT min(gate) FROM task_held
	UNION ALL SELECT (SELECT min(h.gate) FROM task_held h WHERE h.gate > g.gate) FROM g WHERE g.gate IS NOT NULL
)`

// openGates returns the gates that may let something through: limits with a free
// slot for their first task, rates, and circuits that let probes through.
func (db *DB) openGates(ctx context.Context) ([]string, error) {
	var gates []string
	err := db.read.NewRaw(heldGates+`, first AS (
		SELECT g.gate, (SELECT CAST(t.limits -> 0 ->> 'slots' AS integer) FROM task_held h JOIN task_queue t ON t.id = h.task_id
			WHERE h.gate = g.gate ORDER BY h.priority, h.task_id LIMIT 1) AS slots
		FROM g WHERE g.gate LIKE 'limit:%'
	)
	SELECT gate FROM first WHERE slots IS NULL OR slots > (SELECT count(*) FROM task_slot s WHERE s.key = substr(first.gate, ?) AND s.slot <= first.slots)
	UNION ALL
	SELECT g.gate FROM g JOIN circuit c ON g.gate = 'circuit:' || c.key WHERE c.state IN ('half_open', 'ramp')`, len(gateLimit)+1).Scan(ctx, &gates)
	return gates, err
}

// admit lets tasks through the given gates.
func (tx txn) admit(ctx context.Context, gates []string, limit int) (admission, error) {
	list, err := tx.candidates(ctx, gates)
	if err != nil || len(list) == 0 {
		return admission{}, err
	}
	r, err := tx.room(ctx, list)
	if err != nil {
		return admission{}, err
	}
	chosen, wait := r.choose(inTurn(list), limit)
	for _, c := range list { // a task that a hold stands in the way of waits there
		if c.Hold != "" {
			chosen = append(chosen, c)
		}
	}
	locked, err := tx.lockHeld(ctx, chosen)
	if err != nil {
		return admission{}, err
	}
	r.refund(chosen, locked)
	a := admission{next: wait}
	byHold := map[string][]int64{}
	var through []candidate
	for _, c := range locked {
		if c.Hold != "" {
			byHold[c.Hold] = append(byHold[c.Hold], c.TaskID)
			a.moved++
			continue
		}
		through = append(through, c)
	}
	a.admitted = len(through)
	for gate, ids := range byHold {
		if err := tx.exec(ctx, "UPDATE task_held SET gate = ? WHERE task_id IN (?)", gate, bun.List(ids)); err != nil {
			return admission{}, err
		}
	}
	return a, tx.letThrough(ctx, r, through)
}

// A candidate is a held task that may pass its gate.
type candidate struct {
	TaskID   int64
	Gate     string
	Priority int
	ByAge    bool
	Limits   document
	Hold     string // another gate that is held against it; "" for none

	limits []task.Limit
	slots  []slotRow
	probe  int // its place among the probes of its circuit; 0: it is none
}

// candidates returns the first tasks of every gate, by priority and by age.
func (tx txn) candidates(ctx context.Context, gates []string) ([]candidate, error) {
	parts := make([]string, 0, 2*len(gates))
	var args []any
	for _, gate := range gates {
		page := pageByPriority
		if isCircuit(gate) {
			page = max(page, tx.circuits.RampTop) // one look is all that a step of the ramp gets
		}
		parts = append(parts,
			"SELECT * FROM (SELECT task_id, gate, priority, 0 AS by_age FROM task_held WHERE gate = ? ORDER BY priority, task_id LIMIT ?) AS p",
			"SELECT * FROM (SELECT task_id, gate, priority, 1 AS by_age FROM task_held WHERE gate = ? ORDER BY task_id LIMIT ?) AS a")
		args = append(args, gate, page, gate, pageByAge)
	}
	var list []candidate
	err := tx.NewRaw(`SELECT h.task_id, h.gate, h.priority, h.by_age, t.limits,
		coalesce((SELECT min(o.gate) FROM hold o WHERE o.gate <> h.gate AND o.gate IN ('type:' || t.type, 'job:' || r.job, 'circuit:' || t.circuit)), '') AS hold
		FROM (`+strings.Join(parts, " UNION ALL ")+`) AS h JOIN task_queue t ON t.id = h.task_id LEFT JOIN run r ON r.id = t.run_id`, args...).Scan(ctx, &list)
	if err != nil {
		return nil, fmt.Errorf("read the first tasks of %d gates: %w", len(gates), err)
	}
	for i := range list {
		list[i].limits = limitsOf(list[i].Limits)
	}
	return list, nil
}

// limitsOf reads the limits of a task, each key once. What a stranger wrote and is
// no limit does not hold anybody.
func limitsOf(d document) []task.Limit {
	var limits []task.Limit
	if json.Unmarshal(d, &limits) != nil {
		return nil
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(limits, func(l task.Limit) bool {
		kind := l.Key
		if l.Slots > 0 {
			kind = "slots of " + l.Key
		}
		again := seen[kind]
		seen[kind] = true
		return again
	})
}

// lockHeld returns those of the tasks that are held still, locked, and leaves out
// those that somebody else is moving.
func (tx txn) lockHeld(ctx context.Context, list []candidate) ([]candidate, error) {
	if len(list) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(list))
	for i, c := range list {
		ids[i] = c.TaskID
	}
	var locked []int64
	err := tx.NewRaw(`SELECT h.task_id FROM task_held h JOIN task_queue t ON t.id = h.task_id
		WHERE h.task_id IN (?) AND t.state = 'pending' ORDER BY h.task_id`+tx.dialect.skipLocked(), bun.List(ids)).Scan(ctx, &locked)
	if err != nil {
		return nil, fmt.Errorf("lock held tasks: %w", err)
	}
	list = slices.SortedFunc(slices.Values(list), func(x, y candidate) int { return cmp.Compare(x.TaskID, y.TaskID) })
	list = slices.CompactFunc(list, func(x, y candidate) bool { return x.TaskID == y.TaskID })
	return slices.DeleteFunc(list, func(c candidate) bool {
		_, ok := slices.BinarySearch(locked, c.TaskID)
		return !ok
	}), nil
}

type slotRow struct {
	bun.BaseModel `bun:"table:task_slot"`

	Key    string `bun:"key"`
	Slot   int    `bun:"slot"`
	TaskID int64  `bun:"task_id"`
}

type probeRow struct {
	bun.BaseModel `bun:"table:circuit_probe"`

	TaskID int64  `bun:"task_id"`
	Key    string `bun:"key"`
	Slot   int    `bun:"slot"`
}

// letThrough writes what the tasks take and makes them claimable. The unique keys
// of slots are what holds limits, whoever else writes.
func (tx txn) letThrough(ctx context.Context, r *room, list []candidate) error {
	ids := make([]int64, len(list))
	var slots []slotRow
	var probes []probeRow
	spent := map[string]int{}
	for i, c := range list {
		ids[i] = c.TaskID
		slots = append(slots, c.slots...)
		if c.probe > 0 {
			probes = append(probes, probeRow{TaskID: c.TaskID, Key: strings.TrimPrefix(c.Gate, gateCircuit), Slot: c.probe})
		}
		for _, l := range c.limits {
			if l.Slots == 0 && l.Rate > 0 {
				spent[l.Key]++
			}
		}
	}
	if err := insertAll(ctx, tx.Tx, slots, 2000); err != nil {
		return fmt.Errorf("take %d slots: %w", len(slots), err)
	}
	if len(probes) > 0 {
		if _, err := tx.NewInsert().Model(&probes).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx); err != nil {
			return fmt.Errorf("send %d probes: %w", len(probes), err)
		}
	}
	if err := tx.spend(ctx, r, spent); err != nil {
		return err
	}
	if err := tx.ramp(ctx, r); err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	if err := tx.exec(ctx, "DELETE FROM task_held WHERE task_id IN (?)", bun.List(ids)); err != nil {
		return err
	}
	return tx.exec(ctx, "INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM task_queue WHERE id IN (?)", bun.List(ids))
}
