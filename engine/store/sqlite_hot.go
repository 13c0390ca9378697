package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"madeira/engine/task"
)

func (s *sqlite) exchange(ctx context.Context, b batch) (a answer, err error) {
	err = s.writing(ctx, func(ctx context.Context, tx *liteTx) error {
		a = answer{}
		if err := tx.finish(ctx, b.ended, &a); err != nil {
			return err
		}
		if b.want.N > 0 {
			if err := tx.claim(ctx, b, &a); err != nil {
				return err
			}
		}
		_, err := tx.one(ctx, liteUndecided, nil, &a.undecided)
		return err
	}, liteFree, liteFinish, liteTell, liteLater, liteReady, liteKey, litePost, liteKeep,
		litePick, litePickOfRun, liteClaim, liteLease, liteStart, liteUndecided)
	if err != nil {
		return answer{}, err
	}
	return a, nil
}

// finish writes the outcomes one after the other and what follows from all of
// them at once.
func (tx *liteTx) finish(ctx context.Context, rows []ended, a *answer) error {
	var gone []over
	for _, e := range rows {
		o, ok, err := tx.finishOne(ctx, e)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		a.finished = append(a.finished, e.Hold)
		if o.run != "" && e.To != task.Pending {
			gone = append(gone, o)
		}
	}
	return tx.advance(ctx, gone)
}

// finishOne reports false when the lease is not the caller's any more.
func (tx *liteTx) finishOne(ctx context.Context, e ended) (over, bool, error) {
	now := tx.now.UnixMicro()
	if n, err := tx.run(ctx, liteFree, e.TaskID, e.Fence, e.crashed, now); n == 0 {
		return over{}, false, err
	}
	later := now + e.Delay.Microseconds()
	o := over{id: e.TaskID, bad: e.To != task.Success, warned: e.To == task.Success && e.Warning != ""}
	o.failed = o.bad
	var priority, moves, attempt int
	var worker sql.NullString
	var claimed sql.NullInt64
	hit, err := tx.one(ctx, liteFinish, []any{
		e.TaskID, e.Fence, string(e.To), nullable(e.Reason), e.Unspent, e.crashed, e.outputs.argument(),
		nullable(e.Digest), nullable(e.Warning), e.failure.argument(), later, now,
	}, &o.run, &o.step, &priority, &moves, &attempt, &worker, &claimed)
	if err != nil || !hit {
		return over{}, false, err
	}
	_, err = tx.run(ctx, liteTell, e.TaskID, moves, string(e.To), attempt, e.Fence, worker, nullable(e.Reason),
		e.logged.argument(), claimed, e.Took.Milliseconds(), now)
	if err != nil {
		return over{}, false, err
	}
	if e.To == task.Pending && e.Delay > 0 {
		_, err = tx.run(ctx, liteLater, e.TaskID, later)
	} else if e.To == task.Pending {
		_, err = tx.run(ctx, liteReady, e.TaskID)
	}
	if err != nil {
		return over{}, false, err
	}
	return o, true, tx.effects(ctx, e, o.run, priority)
}

// effects makes the tasks that send messages and notes the artifacts.
func (tx *liteTx) effects(ctx context.Context, e ended, run string, priority int) error {
	now := tx.now.UnixMicro()
	for _, m := range e.messages {
		var id int64
		fresh, err := tx.one(ctx, liteKey, []any{m.key}, &id)
		if err != nil {
			return err
		}
		if !fresh {
			continue // known: it is on its way or was sent
		}
		if _, err := tx.run(ctx, litePost, id, nullable(run), m.key, string(m.payload), priority, now, now); err != nil {
			return err
		}
		if _, err := tx.run(ctx, liteReady, id); err != nil {
			return err
		}
	}
	for _, k := range e.Artifacts {
		if _, err := tx.run(ctx, liteKeep, e.TaskID, nullable(run), k.Kind, k.Name, k.Digest, k.Size, k.Rows, nullable(k.Origin), now); err != nil {
			return err
		}
	}
	return nil
}

func (tx *liteTx) claim(ctx context.Context, b batch, a *answer) error {
	types, err := json.Marshal(b.want.Types)
	if err != nil {
		return err
	}
	text, args := litePick, []any{string(types), b.want.N}
	if b.want.RunID != "" {
		text, args = litePickOfRun, append(args, b.want.RunID)
	}
	ids, err := tx.ids(ctx, text, args)
	if err != nil || ids == "[]" {
		return err
	}
	err = tx.each(ctx, liteClaim, []any{ids, b.worker, tx.now.UnixMicro()}, func(rows *sql.Rows) error {
		c, err := scanClaimed(rows)
		c.At, c.Lease = tx.now.Time, b.want.Lease
		a.claimed = append(a.claimed, c)
		return err
	})
	if err != nil {
		return err
	}
	started := map[string]bool{"": true}
	for _, c := range a.claimed {
		if _, err := tx.run(ctx, liteLease, c.TaskID, c.Fence, b.worker, b.claim, tx.now.Add(b.want.Lease).UnixMicro()); err != nil {
			return err
		}
		if c.Step == "" || started[c.RunID] {
			continue
		}
		started[c.RunID] = true
		if _, err := tx.run(ctx, liteStart, c.RunID, tx.now.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}

// ids runs a statement that returns ids, and returns them as a JSON array.
func (tx *liteTx) ids(ctx context.Context, text string, args []any) (string, error) {
	ids := []int64{}
	err := tx.each(ctx, text, args, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil {
		return "", err
	}
	list, err := json.Marshal(ids)
	return string(list), err
}

func scanClaimed(rows *sql.Rows) (task.Claimed, error) {
	var c task.Claimed
	var payload, refs, retry []byte
	var timeout int64
	err := rows.Scan(&c.TaskID, &c.Fence, &c.RunID, &c.Step, &c.Element, &c.Type, &c.Key, &payload, &refs,
		&c.Attempt, &c.Crashes, &retry, &timeout, &c.Priority)
	if err != nil {
		return c, err
	}
	fillClaimed(&c, payload, refs, retry, timeout)
	return c, nil
}

func (s *sqlite) heartbeat(ctx context.Context, worker string, held []task.Hold, lease time.Duration) (beat task.Beat, err error) {
	err = s.writing(ctx, func(ctx context.Context, tx *liteTx) error {
		beat.Lost = nil
		for _, h := range held {
			n, err := tx.run(ctx, liteBeat, h.TaskID, h.Fence, tx.now.Add(lease).UnixMicro())
			if err != nil {
				return err
			}
			cancelled := n == 0
			if n > 0 {
				if _, err := tx.one(ctx, liteCancelled, []any{h.TaskID}, &cancelled); err != nil {
					return err
				}
			}
			if cancelled {
				beat.Lost = append(beat.Lost, h)
			}
		}
		_, err := tx.run(ctx, liteSeen, worker, tx.now.UnixMicro())
		return err
	}, liteBeat, liteCancelled, liteSeen)
	return beat, err
}

func (s *sqlite) expired(ctx context.Context, limit int) ([]expired, error) {
	var all []expired
	now, err := s.now(ctx, nil)
	if err != nil {
		return nil, err
	}
	rows, err := s.write.DB.QueryContext(ctx, liteExpired, now.UnixMicro(), limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e expired
		if err := rows.Scan(&e.TaskID, &e.Fence, &e.crashes); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, rows.Err()
}

func (s *sqlite) promote(ctx context.Context, limit int) (n int, next time.Duration, err error) {
	err = s.writing(ctx, func(ctx context.Context, tx *liteTx) error {
		n, next = 0, 0
		ids, err := tx.ids(ctx, liteDue, []any{tx.now.UnixMicro(), limit})
		if err != nil {
			return err
		}
		moved, err := tx.run(ctx, liteDueReady, ids)
		if err != nil {
			return err
		}
		n = int(moved)
		var at int64
		found, err := tx.one(ctx, liteNext, nil, &at)
		if found {
			next = max(time.Duration(at-tx.now.UnixMicro())*time.Microsecond, time.Microsecond)
		}
		return err
	}, liteDue, liteDueReady, liteNext)
	return n, next, err
}
