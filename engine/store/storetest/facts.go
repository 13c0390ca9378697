package storetest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
)

type runFacts struct {
	id, job, key  string
	status        task.RunStatus
	version, kept int // of the row, and of run_key
	open          int
	tasks         []*taskFacts // its steps
}

// moment reads an instant of either database.
type moment struct{ time.Time }

func (m *moment) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		m.Time = time.Time{}
	case int64:
		m.Time = time.UnixMicro(v).UTC()
	case time.Time:
		m.Time = v.UTC()
	default:
		return fmt.Errorf("read an instant from %T", src)
	}
	return nil
}

// snapshot begins a transaction that sees the database as it is now until its end.
func snapshot(ctx context.Context, db *store.DB) (*sql.Tx, error) {
	read, write := db.SQL()
	tx, err := read.BeginTx(ctx, nil)
	if err != nil || read != write {
		return tx, err // on SQLite every transaction is a snapshot
	}
	if _, err = tx.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"); err != nil {
		_ = tx.Rollback()
	}
	return tx, err
}

// each calls read for every row of a query.
func each(ctx context.Context, tx *sql.Tx, query string, read func(scan func(...any) error) error) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := read(rows.Scan); err != nil {
			return fmt.Errorf("check the database: %w", err)
		}
	}
	return rows.Err()
}

func (c *checker) loadTasks(ctx context.Context, tx *sql.Tx) error {
	return each(ctx, tx, `SELECT id, coalesce(CAST(run_id AS text), ''), coalesce(step, ''), coalesce(condition, ''), coalesce(reason, ''),
		state, unmet, unmet_failed, attempt, moves, fence, retry FROM task_queue`, func(scan func(...any) error) error {
		t := &taskFacts{}
		var retry []byte
		if err := scan(&t.id, &t.run, &t.step, &t.condition, &t.reason, &t.state, &t.unmet, &t.unmetFailed, &t.attempt, &t.moves, &t.fence, &retry); err != nil {
			return err
		}
		c.tasks[t.id] = t
		return json.Unmarshal(retry, &t.retry)
	})
}

func (c *checker) loadLog(ctx context.Context, tx *sql.Tx) error {
	return each(ctx, tx, `SELECT task_id, seq, attempt, from_state, to_state, coalesce(reason, ''), fence, claimed_at, at
		FROM task_log ORDER BY task_id, seq`, func(scan func(...any) error) error {
		var id int64
		var m moveFacts
		var claimed, at moment
		if err := scan(&id, &m.seq, &m.attempt, &m.from, &m.to, &m.reason, &m.fence, &claimed, &at); err != nil {
			return err
		}
		m.claimed, m.at = claimed.Time, at.Time
		t := c.tasks[id]
		if t == nil {
			c.add("I06", "task %d has a log and no row", id)
			return nil
		}
		t.log = append(t.log, m)
		return nil
	})
}

func (c *checker) loadNeeds(ctx context.Context, tx *sql.Tx) error {
	return each(ctx, tx, `SELECT task_id, needs_id FROM task_dependency`, func(scan func(...any) error) error {
		var id, needs int64
		if err := scan(&id, &needs); err != nil {
			return err
		}
		if t := c.tasks[id]; t != nil {
			t.needs = append(t.needs, needs)
		}
		return nil
	})
}

func (c *checker) loadPlaces(ctx context.Context, tx *sql.Tx) error {
	return each(ctx, tx, `SELECT task_id, 'task_ready', 0 FROM task_ready UNION ALL SELECT task_id, 'task_later', 0 FROM task_later
		UNION ALL SELECT task_id, 'task_undecided', 0 FROM task_undecided UNION ALL SELECT task_id, 'task_lease', fence FROM task_lease`,
		func(scan func(...any) error) error {
			var id, fence int64
			var place string
			if err := scan(&id, &place, &fence); err != nil {
				return err
			}
			t := c.tasks[id]
			if t == nil {
				c.add("I18", "task %d stands in %s and has no row", id, place)
				return nil
			}
			t.places = append(t.places, place)
			t.leaseFence = max(t.leaseFence, fence)
			return nil
		})
}

func (c *checker) loadRuns(ctx context.Context, tx *sql.Tx) error {
	err := each(ctx, tx, `SELECT CAST(r.id AS text), r.job, coalesce(r.upstream_key, ''), r.status, coalesce(r.version, 0), coalesce(k.version, 0), r.open_steps
		FROM run r LEFT JOIN run_key k ON k.run_id = r.id`, func(scan func(...any) error) error {
		r := &runFacts{}
		if err := scan(&r.id, &r.job, &r.key, &r.status, &r.version, &r.kept, &r.open); err != nil {
			return err
		}
		c.runs[r.id] = r
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range c.tasks {
		if t.run == "" {
			continue
		}
		r := c.runs[t.run]
		if r == nil {
			c.add("run", "task %d belongs to run %s, which is not there", t.id, t.run)
		} else if t.step != "" {
			r.tasks = append(r.tasks, t)
		}
	}
	return nil
}

// run checks that a run is what its steps make it.
func (c *checker) run(r *runFacts) {
	open, failed, claimed := 0, 0, false
	for _, t := range r.tasks {
		open += one(!t.state.Terminal())
		failed += one(t.endedBadly() && t.reason != task.ReasonRepeated)
		claimed = claimed || t.fence > 0
	}
	if open != r.open {
		c.add("run", "%s counts %d open steps and has %d", r.id, r.open, open)
	}
	if r.status.Live() != (open > 0) {
		c.add("run", "%s is %s with %d open steps", r.id, r.status, open)
	}
	if r.status.EndedWell() && failed > 0 || r.status == task.RunError && failed == 0 {
		c.add("run", "%s is %s with %d failed steps", r.id, r.status, failed)
	}
	if r.status == task.RunPending && claimed {
		c.add("run", "%s is pending and a step of it was claimed", r.id)
	}
	if r.key != "" && r.version != r.kept {
		c.add("run", "%s has version %d, its key has %d", r.id, r.version, r.kept)
	}
	if r.version == 0 && r.status.EndedWell() {
		c.add("run", "%s is %s without a version", r.id, r.status)
	}
}
