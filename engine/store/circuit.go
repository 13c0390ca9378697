package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// Circuits says when the circuit of a downstream opens and how it closes. All
// processes on one database use the same.
type Circuits struct {
	Attempts int           // fewest that are judged; 0: 10
	Percent  int           // more bad ones than this open it; 0: 40
	Window   time.Duration // how far back attempts count; 0: 5 m
	CoolDown time.Duration // from the first opening until probes go, doubled for each further one; 0: 30 s
	Longest  time.Duration // no cool-down is longer; 0: 10 m
	Probes   int           // tasks let through at once after it; 0: 3, which is also the most
	RampTop  int           // tasks a second from which on everything goes through; 0: 96
}

// maxProbes is what a downstream that may be down still has to bear.
const maxProbes = 3

// rampStep is how long the ramp of a circuit stays at one number.
const rampStep = time.Second

func (c Circuits) withDefaults() Circuits {
	c.Attempts = cmp.Or(c.Attempts, 10)
	c.Percent = cmp.Or(c.Percent, 40)
	c.Window = cmp.Or(c.Window, 5*time.Minute)
	c.CoolDown = cmp.Or(c.CoolDown, 30*time.Second)
	c.Longest = cmp.Or(c.Longest, 10*time.Minute)
	c.Probes = min(cmp.Or(c.Probes, maxProbes), maxProbes)
	c.RampTop = cmp.Or(c.RampTop, 96)
	return c
}

type circuitRow struct {
	bun.BaseModel `bun:"table:circuit,alias:c"`

	Key      string            `bun:"key,pk"`
	State    task.CircuitState `bun:"state"`
	OpenedAt instant           `bun:"opened_at"`
	Until    instant           `bun:"until"`
	Trips    int               `bun:"trips"`
	Ramp     int               `bun:"ramp"`
	Failure  document          `bun:"failure"`
}

// facts are what is known of a circuit when it is judged.
type facts struct {
	circuitRow
	Good, Bad int
	held      bool // tasks wait for it
}

// verdict is the state that a circuit should be in. Attempts that began before it
// opened and end after the cool-down count like probes: they speak of the same
// downstream.
func (c Circuits) verdict(f facts, now time.Time) task.CircuitState {
	due := !f.Until.After(now)
	switch {
	case f.State == task.CircuitClosed && c.bad(f, c.Attempts):
		return task.CircuitOpen
	case f.State == task.CircuitOpen && due:
		return task.CircuitHalfOpen
	case f.State == task.CircuitHalfOpen && f.Bad > 0:
		return task.CircuitOpen
	case f.State == task.CircuitHalfOpen && f.Good > 0:
		return task.CircuitRamp
	case f.State == task.CircuitRamp && c.bad(f, c.Probes):
		return task.CircuitOpen
	case f.State == task.CircuitRamp && due && (!f.held || f.Ramp > c.RampTop):
		return task.CircuitClosed
	}
	return f.State
}

// bad reports whether too many of at least so many attempts went wrong.
func (c Circuits) bad(f facts, attempts int) bool {
	n := f.Good + f.Bad
	return n >= attempts && f.Bad*100 > c.Percent*n
}

// coolDown is how long a circuit stays open after so many trips.
func (c Circuits) coolDown(trips int) time.Duration {
	wait := c.CoolDown
	for range trips - 1 {
		if wait *= 2; wait >= c.Longest {
			return c.Longest
		}
	}
	return min(wait, c.Longest)
}

// Judge implements engine.Gates.
func (db *DB) Judge(ctx context.Context, failed map[string]task.Failure) (changes []task.CircuitChange, next time.Duration, err error) {
	now, err := db.dialect.now(ctx, db.read)
	if err != nil {
		return nil, 0, fmt.Errorf("judge circuits: %w", err)
	}
	var keys []string
	if failed != nil {
		keys = slices.AppendSeq([]string{""}, maps.Keys(failed))
	}
	all, err := db.circuits.facts(ctx, db.read, keys, now)
	if err != nil {
		return nil, 0, fmt.Errorf("judge circuits: %w", err)
	}
	for _, f := range all {
		if db.circuits.verdict(f, now.Time) == f.State {
			continue
		}
		var change *task.CircuitChange
		err := db.gated(ctx, func(ctx context.Context, tx txn) (err error) {
			change, err = tx.judge(ctx, f.Key, failed)
			return err
		})
		if err != nil {
			return changes, 0, fmt.Errorf("judge circuit %s: %w", f.Key, err)
		}
		if change != nil {
			changes = append(changes, *change)
		}
	}
	if failed == nil {
		if err := db.forgetCounts(ctx, now); err != nil {
			return changes, 0, err
		}
	}
	next, err = db.nextCircuit(ctx, now)
	return changes, next, err
}

// facts returns what is known of the circuits that are not closed and of the given
// ones; of all that were spoken with when keys is nil.
func (c Circuits) facts(ctx context.Context, from bun.IDB, keys []string, now instant) ([]facts, error) {
	var open []circuitRow
	if err := from.NewSelect().Model(&open).Where("state <> ?", task.CircuitClosed).Scan(ctx); err != nil {
		return nil, fmt.Errorf("read circuits: %w", err)
	}
	all := map[string]facts{}
	for _, row := range open {
		held, err := heldAt(ctx, from, gateCircuit+row.Key)
		if err != nil {
			return nil, err
		}
		all[row.Key] = facts{circuitRow: row, held: held}
		if keys != nil {
			keys = append(keys, row.Key)
		}
	}
	query := from.NewSelect().Table("circuit_count").Column("key").ColumnExpr("sum(good) AS good").ColumnExpr("sum(bad) AS bad").
		Where("bucket > ?", instant{now.Add(-c.Window)}).Group("key")
	if keys != nil {
		query = query.Where("key IN (?)", bun.List(keys))
	}
	var counts []struct {
		Key       string
		Good, Bad int
	}
	if err := query.Scan(ctx, &counts); err != nil {
		return nil, fmt.Errorf("count attempts: %w", err)
	}
	for _, n := range counts {
		f, known := all[n.Key]
		if !known {
			f.Key, f.State = n.Key, task.CircuitClosed
		}
		f.Good, f.Bad = n.Good, n.Bad
		all[n.Key] = f
	}
	return slices.SortedFunc(maps.Values(all), func(x, y facts) int { return strings.Compare(x.Key, y.Key) }), nil
}

func heldAt(ctx context.Context, from bun.IDB, gate string) (held bool, err error) {
	err = from.NewRaw("SELECT EXISTS (SELECT 1 FROM task_held WHERE gate = ?)", gate).Scan(ctx, &held)
	return held, err
}

// judge looks at one circuit again, alone now, and changes it. It returns nil when
// somebody else has done so.
func (tx txn) judge(ctx context.Context, key string, failed map[string]task.Failure) (*task.CircuitChange, error) {
	all, err := tx.circuits.facts(ctx, tx.Tx, []string{key}, tx.now)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(f facts) bool { return f.Key == key })
	if i < 0 {
		return nil, nil
	}
	f := all[i]
	to := tx.circuits.verdict(f, tx.now.Time)
	if to == f.State {
		return nil, nil
	}
	change := &task.CircuitChange{Key: key, From: f.State, To: to}
	if why, ok := failed[key]; ok && to == task.CircuitOpen {
		if f.Failure, _, err = failureJSON(&why); err != nil {
			return nil, err
		}
	}
	row := tx.turned(f, to)
	if to == task.CircuitOpen {
		change.Until, change.Failure = row.Until.Time, readFailure(row.Failure)
	}
	if _, err := tx.NewInsert().Model(&row).On("CONFLICT (key) DO UPDATE").
		Set("state = excluded.state, opened_at = excluded.opened_at, until = excluded.until, trips = excluded.trips, ramp = excluded.ramp, failure = excluded.failure").
		Returning("NULL").Exec(ctx); err != nil {
		return nil, err
	}
	return change, tx.turn(ctx, row)
}

// turned is the row of a circuit that changes its state.
func (tx txn) turned(f facts, to task.CircuitState) circuitRow {
	row := f.circuitRow
	row.State, row.Until, row.Ramp = to, instant{}, 0
	switch to {
	case task.CircuitOpen:
		row.Trips++
		row.Until = instant{tx.now.Add(tx.circuits.coolDown(row.Trips))}
		if f.State == task.CircuitClosed {
			row.OpenedAt = tx.now
		}
	case task.CircuitRamp:
		row.Ramp, row.Until = tx.circuits.Probes, tx.now
	case task.CircuitClosed:
		row = circuitRow{Key: f.Key, State: to}
	}
	return row
}

// turn writes what goes with the new state: an open circuit is a hold, and with
// every state but the ramp the counting begins anew. Nothing that was let through
// goes on being a probe of a circuit that opens again.
func (tx txn) turn(ctx context.Context, row circuitRow) error {
	gate := gateCircuit + row.Key
	var err error
	switch row.State {
	case task.CircuitOpen:
		err = tx.exec(ctx, "INSERT INTO hold (gate, since, reason) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", gate, tx.now, "the circuit is not closed")
	case task.CircuitClosed:
		err = tx.exec(ctx, "DELETE FROM hold WHERE gate = ?", gate)
	case task.CircuitRamp:
		return nil
	}
	for _, table := range []string{"circuit_count", "circuit_probe"} {
		if err == nil {
			err = tx.exec(ctx, "DELETE FROM "+table+" WHERE key = ?", row.Key)
		}
	}
	return err
}

// forgetCounts deletes what no window reaches any more.
func (db *DB) forgetCounts(ctx context.Context, now instant) error {
	before := instant{now.Add(-2 * db.circuits.Window)}
	var some bool
	err := db.read.NewRaw("SELECT EXISTS (SELECT 1 FROM circuit_count WHERE bucket < ?)", before).Scan(ctx, &some)
	if err == nil && some {
		_, err = db.bun.NewRaw("DELETE FROM circuit_count WHERE bucket < ?", before).Exec(ctx)
	}
	if err != nil {
		return fmt.Errorf("forget old attempts of circuits: %w", err)
	}
	return nil
}

// nextCircuit returns how long until a circuit is due to be judged or to let more
// through; 0: no one is.
func (db *DB) nextCircuit(ctx context.Context, now instant) (time.Duration, error) {
	var until instant
	if err := db.read.NewRaw("SELECT min(until) FROM circuit").Scan(ctx, &until); err != nil {
		return 0, fmt.Errorf("look for the next circuit: %w", err)
	}
	if until.IsZero() {
		return 0, nil
	}
	return max(until.Sub(now.Time), time.Microsecond), nil
}

// probePlaces finds the free places of circuits that let something through: few
// while it is half open, a growing number with each step of its ramp.
func (tx txn) probePlaces(ctx context.Context, r *room, keys map[string]bool) error {
	if len(keys) == 0 {
		return nil
	}
	var circuits []circuitRow
	if err := tx.NewSelect().Model(&circuits).Where("key IN (?)", bun.List(sorted(keys))).Scan(ctx); err != nil {
		return fmt.Errorf("read circuits: %w", err)
	}
	var probes []probeRow
	if err := tx.NewSelect().Model(&probes).Where("key IN (?)", bun.List(sorted(keys))).Scan(ctx); err != nil {
		return fmt.Errorf("read probes: %w", err)
	}
	for _, c := range circuits {
		gate, first, last := gateCircuit+c.Key, 1, tx.circuits.Probes
		switch {
		case c.State == task.CircuitRamp && !c.Until.After(tx.now.Time):
			first, last = maxProbes+1, maxProbes+c.Ramp
			r.ramped = append(r.ramped, c.Key)
		case c.State != task.CircuitHalfOpen:
			continue
		}
		for slot := first; slot <= last; slot++ {
			if !slices.ContainsFunc(probes, func(p probeRow) bool { return p.Key == c.Key && p.Slot == slot }) {
				r.places[gate] = append(r.places[gate], slot)
			}
		}
	}
	return nil
}

// ramp takes the circuits that were let through more to the next step.
func (tx txn) ramp(ctx context.Context, r *room) error {
	for _, key := range r.ramped {
		err := tx.exec(ctx, "UPDATE circuit SET ramp = ramp * 2, until = ? WHERE key = ? AND state = 'ramp'", instant{tx.now.Add(rampStep)}, key)
		if err != nil {
			return fmt.Errorf("ramp circuit %s up: %w", key, err)
		}
	}
	return nil
}
