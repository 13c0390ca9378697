package store

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"madeira/engine/task"
)

// heartbeat extends the leases that are there under their fence.
func (s *sqlite) heartbeat(ctx context.Context, worker string, held []task.Hold, lease time.Duration) (beat task.Beat, err error) {
	ids := make([]int64, len(held))
	for i, h := range held {
		ids[i] = h.TaskID
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	err = s.writing(ctx, func(ctx context.Context, tx *liteTx) error {
		beat = task.Beat{}
		stops, err := tx.leases(ctx, ids)
		if err != nil {
			return err
		}
		var mine []int64
		for _, h := range held {
			stop, there := stops[h]
			if !there {
				beat.Lost = append(beat.Lost, h)
				continue
			}
			mine = append(mine, h.TaskID)
			if stop != "" {
				beat.Stopped = append(beat.Stopped, h)
			}
		}
		slices.Sort(mine)
		if _, err := tx.along(ctx, mine, liteBeat, tx.now.Add(lease).UnixMicro()); err != nil {
			return err
		}
		_, err = tx.run(ctx, liteSeen, worker, tx.now.UnixMicro())
		return err
	}, heartbeatTexts()...)
	return beat, err
}

func heartbeatTexts() []string { return []string{liteLeases, liteBeat, liteSeen} }

// leases returns the claims that hold among the tasks, each with why it must not
// go on, which is "" where it may.
func (tx *liteTx) leases(ctx context.Context, ids []int64) (map[task.Hold]string, error) {
	stops := make(map[task.Hold]string, len(ids))
	for part := range stretches(ids, neighbours) {
		err := tx.each(ctx, liteLeases, []any{part[0], part[len(part)-1]}, func(rows *sql.Rows) error {
			var h task.Hold
			var stop string
			err := rows.Scan(&h.TaskID, &h.Fence, &stop)
			stops[h] = stop
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return stops, nil
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
		if n, err = tx.come(ctx, limit); err != nil {
			return err
		}
		var at int64
		found, err := tx.one(ctx, liteNext, nil, &at)
		if found {
			next = max(time.Duration(at-tx.now.UnixMicro())*time.Microsecond, time.Microsecond)
		}
		return err
	}, promoteTexts()...)
	return n, next, err
}

func promoteTexts() []string {
	return []string{liteDue, liteCome, liteTellExpired, liteExpire, liteReady, liteHeld, liteNext}
}

// come moves what is due and returns how many there were.
func (tx *liteTx) come(ctx context.Context, limit int) (int, error) {
	now := tx.now.UnixMicro()
	var ids []int64
	err := tx.each(ctx, liteDue, []any{now, limit}, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil {
		return 0, err
	}
	slices.Sort(ids)
	if _, err := tx.along(ctx, ids, liteCome); err != nil {
		return 0, err
	}
	told, err := tx.along(ctx, ids, liteTellExpired, now)
	if err == nil && told > 0 {
		_, err = tx.along(ctx, ids, liteExpire, now)
	}
	if err != nil {
		return 0, err
	}
	return tx.due(ctx, ids)
}
