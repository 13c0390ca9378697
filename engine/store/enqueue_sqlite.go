package store

import (
	"context"
	"time"

	"madeira/engine/task"
)

// enqueue writes the tasks one after the other in one transaction, and then claims
// as any claim does.
func (s *sqlite) enqueue(ctx context.Context, rows []loneRow, with *borrowing) (e entrance, err error) {
	err = s.writing(ctx, func(ctx context.Context, tx *liteTx) error {
		e = entrance{answer: make([]task.Enqueued, len(rows))}
		lends, err := tx.lends(ctx, with)
		if err != nil {
			return err
		}
		var mine []int64
		for i, r := range rows {
			claims := lends && with.rows[i]
			if e.answer[i], err = tx.enter(ctx, r, claims); err != nil {
				return err
			}
			if claims && !e.answer[i].Known {
				mine = append(mine, e.answer[i].ID)
			}
		}
		if len(mine) == 0 {
			return nil
		}
		var a answer
		err = tx.take(ctx, batch{worker: with.Worker, claim: with.claim}, with.Want, mine, &a)
		e.claimed = a.claimed
		return err
	}, enqueueTexts()...)
	if err != nil {
		return entrance{}, err
	}
	return e, nil
}

func enqueueTexts() []string {
	return []string{
		liteEnter, liteEnterKey, liteEnterReady, liteEnterHeld, liteLater, liteKnown,
		liteHolding, liteBefore, liteRead, liteClaim, liteLease,
	}
}

// lends reports whether borrowed slots may be used: nothing is on hold, and nothing
// is ready that comes before.
func (tx *liteTx) lends(ctx context.Context, with *borrowing) (bool, error) {
	if with == nil {
		return false, nil
	}
	var holding, before bool
	if _, err := tx.one(ctx, liteHolding, nil, &holding); err != nil || holding {
		return false, err
	}
	_, err := tx.one(ctx, liteBefore, []any{with.last}, &before)
	return !before, err
}

// enter writes one task and, unless it is claimed at once, puts it where it is found.
func (tx *liteTx) enter(ctx context.Context, r loneRow, claims bool) (a task.Enqueued, err error) {
	var id *int64 // nil: the next
	if r.key != nil {
		fresh, err := tx.one(ctx, liteEnterKey, []any{r.kind, *r.key}, &id)
		if err != nil {
			return a, err
		}
		if !fresh {
			a.Known, err = tx.one(ctx, liteKnown, []any{r.kind, *r.key}, &a.ID)
			return a, err
		}
	}
	now := tx.now.UnixMicro()
	due := dueAt(r, tx.now.Time)
	_, err = tx.one(ctx, liteEnter, []any{id, r.kind, r.payload, r.key, r.priority, due, now, r.limits, r.circuit, r.retry, r.timeoutMS}, &a.ID)
	if err != nil {
		return a, err
	}
	switch {
	case claims:
	case due > now:
		_, err = tx.run(ctx, liteLater, a.ID, due)
	case r.limits != nil:
		_, err = tx.run(ctx, liteEnterHeld, a.ID, *r.limits, r.priority, now)
	default:
		_, err = tx.run(ctx, liteEnterReady, a.ID, r.kind, r.priority)
	}
	return a, err
}

// dueAt is when the task may run, in microseconds.
func dueAt(r loneRow, now time.Time) int64 {
	if r.runAt != nil {
		now = *r.runAt
	}
	return now.Add(r.delay).UnixMicro()
}

const (
	// The key is taken first, with the id that the task will have; the primary key
	// decides whether it is fresh.
	liteEnterKey = `INSERT INTO task_key (type, upstream_key, task_id)
SELECT ?1, ?2, coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'task_queue' ON CONFLICT DO NOTHING RETURNING task_id`
	liteKnown = `SELECT task_id FROM task_key WHERE type = ? AND upstream_key = ?`

	liteEnter = `INSERT INTO task_queue (id, type, payload, upstream_key, priority, run_at, created_at, limits, circuit, retry, timeout_ms, placed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1) RETURNING id`

	liteBefore = `SELECT EXISTS (SELECT 1 FROM task_ready WHERE priority <= ?)`

	liteEnterReady = `INSERT INTO task_ready (task_id, type, priority) VALUES (?, ?, ?)`

	liteEnterHeld = `INSERT INTO task_held (task_id, gate, priority, since) VALUES (?1, 'limit:' || json_extract(?2, '$[0].key'), ?3, ?4)`
)
