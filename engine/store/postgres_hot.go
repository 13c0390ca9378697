package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"madeira/engine/task"
)

// exchange sends everything in one go; without BEGIN the statements up to the one
// synchronisation point at the end are one transaction.
func (p *postgres) exchange(ctx context.Context, b batch) (answer, error) {
	var a answer
	var send pgx.Batch
	now := p.instant()
	if len(b.ended) > 0 {
		text, args := finishing(now, b.ended)
		send.Queue(text, args...).Query(func(rows pgx.Rows) (err error) {
			a.finished, err = pgx.CollectRows(rows, readHold)
			return err
		})
	}
	if b.want.N > 0 {
		text, args := pgClaim, []any{now, b.worker, b.want.Types, b.want.N, b.want.Lease.Microseconds(), b.claim}
		if b.want.RunID != "" {
			text, args = pgClaimOfRun, append(args, b.want.RunID)
		}
		send.Queue(text, args...).Query(func(rows pgx.Rows) (err error) {
			a.claimed, err = pgx.CollectRows(rows, readClaimed)
			return err
		})
	}
	send.Queue(pgUndecided).QueryRow(func(row pgx.Row) error { return row.Scan(&a.undecided) })
	if err := p.pool.SendBatch(ctx, &send).Close(); err != nil {
		return answer{}, err
	}
	for i := range a.claimed {
		a.claimed[i].Lease = b.want.Lease
	}
	return a, nil
}

// finishing returns the statement that writes the outcomes, with its arguments.
func finishing(now *time.Time, rows []ended) (text string, args []any) {
	n := len(rows)
	ids, fences, delays, took := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	to, reasons := make([]string, n), make([]*string, n)
	unspent, crashed := make([]bool, n), make([]bool, n)
	outputs, digests, warnings := make([]*string, n), make([]*string, n), make([]*string, n)
	failures, logged := make([]*string, n), make([]*string, n)
	effects := false
	for i, e := range rows {
		ids[i], fences[i], to[i], reasons[i] = e.TaskID, e.Fence, string(e.To), nullable(e.Reason)
		unspent[i], crashed[i] = e.Unspent, e.crashed
		delays[i], took[i] = e.Delay.Microseconds(), e.Took.Milliseconds()
		outputs[i], digests[i], warnings[i] = e.outputs.argument(), nullable(e.Digest), nullable(e.Warning)
		failures[i], logged[i] = e.failure.argument(), e.logged.argument()
		effects = effects || len(e.messages) > 0 || len(e.Artifacts) > 0
	}
	args = []any{now, ids, fences, to, reasons, unspent, crashed, delays, outputs, digests, warnings, failures, logged, took}
	if !effects {
		return pgFinish + pgFinished, args
	}
	args = append(args, messageArrays(rows)...)
	return pgFinish + pgEffects + pgFinished, append(args, artifactArrays(rows)...)
}

func messageArrays(rows []ended) []any {
	var ids, fences []int64
	var keys, payloads []string
	for _, e := range rows {
		for _, m := range e.messages {
			ids, fences = append(ids, e.TaskID), append(fences, e.Fence)
			keys, payloads = append(keys, m.key), append(payloads, string(m.payload))
		}
	}
	return []any{ids, fences, keys, payloads}
}

func artifactArrays(rows []ended) []any {
	var ids, fences, sizes, counts []int64
	var kinds, names, digests []string
	var origins []*string
	for _, e := range rows {
		for _, a := range e.Artifacts {
			ids, fences = append(ids, e.TaskID), append(fences, e.Fence)
			kinds, names, digests = append(kinds, a.Kind), append(names, a.Name), append(digests, a.Digest)
			sizes, counts, origins = append(sizes, a.Size), append(counts, a.Rows), append(origins, nullable(a.Origin))
		}
	}
	return []any{ids, fences, kinds, names, digests, sizes, counts, origins}
}

func readHold(row pgx.CollectableRow) (h task.Hold, err error) {
	err = row.Scan(&h.TaskID, &h.Fence)
	return h, err
}

func readClaimed(row pgx.CollectableRow) (task.Claimed, error) {
	var c task.Claimed
	var payload, refs, retry []byte
	var timeout int64
	err := row.Scan(&c.TaskID, &c.Fence, &c.RunID, &c.Step, &c.Element, &c.Type, &c.Key, &payload, &refs,
		&c.Attempt, &c.Crashes, &retry, &timeout, &c.Priority, &c.At)
	if err != nil {
		return c, err
	}
	c.At = c.At.UTC()
	fillClaimed(&c, payload, refs, retry, timeout)
	return c, nil
}

// fillClaimed reads what stands as JSON in the row of a claimed task. What a
// stranger wrote into refs or retry and does not fit counts as not given.
func fillClaimed(c *task.Claimed, payload, refs, retry []byte, timeoutMS int64) {
	c.Settings = json.RawMessage(payload)
	if json.Unmarshal(refs, &c.Refs) != nil {
		c.Refs = nil
	}
	if json.Unmarshal(retry, &c.Retry) != nil {
		c.Retry = task.Retry{}
	}
	c.Timeout = time.Duration(timeoutMS) * time.Millisecond
	c.NeedsRun = c.RunID != ""
}

func (p *postgres) heartbeat(ctx context.Context, worker string, held []task.Hold, lease time.Duration) (task.Beat, error) {
	ids, fences := make([]int64, len(held)), make([]int64, len(held))
	for i, h := range held {
		ids[i], fences[i] = h.TaskID, h.Fence
	}
	rows, err := p.pool.Query(ctx, pgHeartbeat, p.instant(), ids, fences, lease.Microseconds(), worker)
	if err != nil {
		return task.Beat{}, err
	}
	var beat task.Beat
	var h task.Hold
	var lost bool
	_, err = pgx.ForEachRow(rows, []any{&h.TaskID, &h.Fence, &lost}, func() error {
		if lost {
			beat.Lost = append(beat.Lost, h)
		} else {
			beat.Skipped = append(beat.Skipped, h)
		}
		return nil
	})
	return beat, err
}

func (p *postgres) expired(ctx context.Context, limit int) ([]expired, error) {
	rows, err := p.pool.Query(ctx, pgExpired, p.instant(), limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e expired, err error) {
		err = row.Scan(&e.TaskID, &e.Fence, &e.crashes)
		return e, err
	})
}

func (p *postgres) promote(ctx context.Context, limit int) (int, time.Duration, error) {
	var n int
	var next *int64
	if err := p.pool.QueryRow(ctx, pgPromote, p.instant(), limit).Scan(&n, &next); err != nil {
		return 0, 0, err
	}
	if next == nil {
		return n, 0, nil
	}
	return n, max(time.Duration(*next)*time.Microsecond, time.Microsecond), nil
}
