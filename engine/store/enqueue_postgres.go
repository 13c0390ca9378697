package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"madeira/engine/task"
)

// enqueueRows is how many tasks one statement takes; the server works at one
// while the next is being sent.
const enqueueRows = 1000

// enqueue sends everything in one go, which is one transaction.
func (p *postgres) enqueue(ctx context.Context, rows []loneRow, with *borrowing) (entrance, error) {
	if with != nil && p.floors.lend() && len(rows) <= enqueueRows {
		return p.enqueueTaking(ctx, rows, with)
	}
	if len(rows) <= ringRows && p.bell.along() {
		return p.enqueueRinging(ctx, rows)
	}
	e := entrance{answer: make([]task.Enqueued, 0, len(rows))}
	var send pgx.Batch
	now := p.instant()
	for part := range slices.Chunk(rows, enqueueRows) {
		text, args := enqueuing(now, part)
		send.Queue(text, args...).QueryRow(func(row pgx.Row) error {
			var ids, fresh []int64
			if err := row.Scan(&ids, &fresh); err != nil {
				return err
			}
			e.answer = appendEntered(e.answer, ids, fresh)
			return nil
		})
	}
	if err := p.pool.SendBatch(ctx, &send).Close(); err != nil {
		return entrance{}, err
	}
	return e, p.answerKnown(ctx, rows, e.answer)
}

// enqueueTaking makes tasks and claims of them what slots were borrowed for.
func (p *postgres) enqueueTaking(ctx context.Context, rows []loneRow, with *borrowing) (entrance, error) {
	var e entrance
	var ids, fresh, mine []int64
	var at time.Time
	var took int64
	if err := p.pool.QueryRow(ctx, pgEnqueueTaking, takingArgs(p.instant(), rows, with)...).Scan(&ids, &fresh, &mine, &at, &took); err != nil {
		return e, err
	}
	p.floors.lent(time.Duration(took) * time.Microsecond)
	e.answer = appendEntered(nil, ids, fresh)
	for i, id := range ids {
		if slices.Contains(mine, id) {
			e.claimed = append(e.claimed, rows[i].claimed(id, at.UTC(), with.Want.Lease))
		}
	}
	p.floors.claimed(e.claimed)
	if err := p.answerKnown(ctx, rows, e.answer); err != nil {
		return entrance{claimed: e.claimed}, err
	}
	return e, nil
}

func takingArgs(now *time.Time, rows []loneRow, with *borrowing) []any {
	return append(enqueueArgs(now, rows), with.rows, with.last, with.Worker, with.claim, with.Want.Lease.Microseconds())
}

// claimed is the task as the first claim of it returns it.
func (r loneRow) claimed(id int64, at time.Time, lease time.Duration) task.Claimed {
	c := task.Claimed{Hold: task.Hold{TaskID: id, Fence: 1}, Type: r.kind, Attempt: 1, Priority: int(r.priority), At: at, Lease: lease}
	var timeout int64
	if r.key != nil {
		c.Key = *r.key
	}
	if r.circuit != nil {
		c.Circuit = *r.circuit
	}
	if r.timeoutMS != nil {
		timeout = *r.timeoutMS
	}
	fillClaimed(&c, []byte(r.payload), nil, []byte(r.retry), timeout)
	return c
}

// answerKnown fills in the tasks that have the keys which were known.
func (p *postgres) answerKnown(ctx context.Context, rows []loneRow, answer []task.Enqueued) error {
	if len(answer) != len(rows) {
		return fmt.Errorf("the database answered for %d tasks of %d", len(answer), len(rows))
	}
	if !slices.ContainsFunc(answer, func(a task.Enqueued) bool { return a.Known }) {
		return nil
	}
	if err := p.findKnown(ctx, rows, answer); err != nil {
		// The tasks are there: whatever this error says, it does not say otherwise.
		return fmt.Errorf("look up the keys that were known: %w: %s", ErrUnknown, err.Error())
	}
	return nil
}

// appendEntered notes which of the ids became tasks. Both lists are ascending.
func appendEntered(answer []task.Enqueued, ids, fresh []int64) []task.Enqueued {
	for _, id := range ids {
		if len(fresh) > 0 && fresh[0] == id {
			fresh = fresh[1:]
			answer = append(answer, task.Enqueued{ID: id})
		} else {
			answer = append(answer, task.Enqueued{Known: true})
		}
	}
	return answer
}

// findKnown looks up the tasks that have the keys. They are there: whoever wrote
// them was waited for.
func (p *postgres) findKnown(ctx context.Context, rows []loneRow, answer []task.Enqueued) error {
	var kinds, keys []string
	var at []int
	for i, a := range answer {
		if a.Known {
			kinds, keys, at = append(kinds, rows[i].kind), append(keys, *rows[i].key), append(at, i)
		}
	}
	var send pgx.Batch
	n := 0
	send.Queue(pgKnown, kinds, keys).Query(func(found pgx.Rows) error {
		var i int
		var id int64
		_, err := pgx.ForEachRow(found, []any{&i, &id}, func() error {
			answer[at[i-1]].ID = id
			n++
			return nil
		})
		return err
	})
	// Whoever made them may not have waited for the disk; who is told of them has to.
	send.Queue(pgOnDisk)
	err := p.pool.SendBatch(ctx, &send).Close()
	if err == nil && n < len(at) {
		err = fmt.Errorf("%d of %d keys were known and are gone: ask again", len(at)-n, len(at))
	}
	return err
}

// enqueuing returns the statement that makes the tasks, with its arguments.
func enqueuing(now *time.Time, rows []loneRow) (text string, args []any) {
	n := len(rows)
	kinds, payloads, priorities := make([]string, n), make([]string, n), make([]int32, n)
	plain := true
	for i, r := range rows {
		kinds[i], payloads[i], priorities[i] = r.kind, r.payload, r.priority
		plain = plain && r.plain()
	}
	if plain {
		return pgEnqueuePlain, []any{now, kinds, payloads, priorities}
	}
	return pgEnqueue, enqueueArgs(now, rows)
}

func enqueueArgs(now *time.Time, rows []loneRow) []any {
	n := len(rows)
	kinds, payloads, priorities := make([]string, n), make([]string, n), make([]int32, n)
	keys, limits, circuits := make([]*string, n), make([]*string, n), make([]*string, n)
	retries, runAts, delays, timeouts := make([]string, n), make([]*time.Time, n), make([]int64, n), make([]*int64, n)
	for i, r := range rows {
		kinds[i], payloads[i], priorities[i] = r.kind, r.payload, r.priority
		keys[i], limits[i], circuits[i], retries[i] = r.key, r.limits, r.circuit, r.retry
		runAts[i], delays[i], timeouts[i] = r.runAt, r.delay.Microseconds(), r.timeoutMS
	}
	return []any{now, kinds, payloads, priorities, keys, runAts, delays, limits, circuits, retries, timeouts}
}

// pgEnqueuePlain makes tasks that are ready at once and have no key. Their ids
// come back in the order of the arrays.
const pgEnqueuePlain = `
WITH new AS MATERIALIZED (
  SELECT nextval('task_queue_id_seq') AS id, u.type, u.payload, u.priority FROM unnest($2::text[], $3::text[], $4::int[]) AS u(type, payload, priority)
), queued AS (
  INSERT INTO task_queue (id, type, payload, priority, run_at, created_at, placed)
  SELECT id, type, payload::json, priority, coalesce($1::timestamptz, statement_timestamp()), coalesce($1::timestamptz, statement_timestamp()), true FROM new
), ready AS (
  INSERT INTO task_ready (task_id, type, priority) SELECT id, type, priority FROM new
), ids AS (
  SELECT array_agg(id) AS ids FROM new
)
SELECT ids, ids FROM ids`

// pgEnqueue makes tasks of any kind. The unique key decides which are fresh; one
// that another transaction has just written is waited for. Keys are taken in
// order, so that two lists do not wait for each other in a circle.
const pgEnqueue = `
WITH new AS MATERIALIZED (
  SELECT nextval('task_queue_id_seq') AS id, u.type, u.payload, u.priority, u.key, u.limits, u.circuit, u.retry, u.timeout_ms,
    coalesce($1::timestamptz, statement_timestamp()) AS at,
    coalesce(u.run_at, $1::timestamptz, statement_timestamp()) + u.delay_us * interval '1 microsecond' AS run_at
  FROM unnest($2::text[], $3::text[], $4::int[], $5::text[], $6::timestamptz[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::bigint[])
    AS u(type, payload, priority, key, run_at, delay_us, limits, circuit, retry, timeout_ms)
), keyed AS (
  INSERT INTO task_key (type, upstream_key, task_id) SELECT type, key, id FROM new WHERE key IS NOT NULL ORDER BY type, key, id
  ON CONFLICT DO NOTHING RETURNING task_id
), fresh AS MATERIALIZED (
  SELECT * FROM new WHERE key IS NULL OR id IN (SELECT task_id FROM keyed)
), queued AS (
  INSERT INTO task_queue (id, type, payload, upstream_key, priority, run_at, created_at, limits, circuit, retry, timeout_ms, placed)
  SELECT id, type, payload::json, key, priority, run_at, at, limits::json, circuit, retry::jsonb, timeout_ms, true FROM fresh
), ready AS (
  INSERT INTO task_ready (task_id, type, priority) SELECT id, type, priority FROM fresh WHERE run_at <= at AND limits IS NULL
), held AS (
  INSERT INTO task_held (task_id, gate, priority, since)
  SELECT id, 'limit:' || (limits::json -> 0 ->> 'key'), priority, at FROM fresh WHERE run_at <= at AND limits IS NOT NULL
), later AS (
  INSERT INTO task_later (task_id, run_at) SELECT id, run_at FROM fresh WHERE run_at > at
)
SELECT (SELECT array_agg(id ORDER BY id) FROM new), (SELECT array_agg(id ORDER BY id) FROM fresh)`

// pgEnqueueTaking is pgEnqueue with borrowed slots: those in $12 are claimed by the
// worker $14 until the lease $16 (microseconds) is over, unless something is on hold,
// or ready at priority $13 or before. $15 marks the claim.
const pgEnqueueTaking = `
WITH lender AS MATERIALIZED (
  SELECT NOT EXISTS (SELECT FROM hold) AND NOT EXISTS (SELECT FROM task_ready WHERE priority <= $13::int) AS lends,
    coalesce($1::timestamptz, statement_timestamp()) AS at
), new AS MATERIALIZED (
  SELECT nextval('task_queue_id_seq') AS id, u.type, u.payload, u.priority, u.key, u.limits, u.circuit, u.retry, u.timeout_ms, l.at,
    coalesce(u.run_at, l.at) + u.delay_us * interval '1 microsecond' AS run_at, u.takes AND l.lends AS mine
  FROM lender l CROSS JOIN unnest($2::text[], $3::text[], $4::int[], $5::text[], $6::timestamptz[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::bigint[], $12::bool[])
    AS u(type, payload, priority, key, run_at, delay_us, limits, circuit, retry, timeout_ms, takes)
), keyed AS (
  INSERT INTO task_key (type, upstream_key, task_id) SELECT type, key, id FROM new WHERE key IS NOT NULL ORDER BY type, key, id
  ON CONFLICT DO NOTHING RETURNING task_id
), fresh AS MATERIALIZED (
  SELECT * FROM new WHERE key IS NULL OR id IN (SELECT task_id FROM keyed)
), queued AS (
  INSERT INTO task_queue (id, type, payload, upstream_key, priority, run_at, created_at, limits, circuit, retry, timeout_ms, placed, state, fence, attempt, worker, claimed_at)
  SELECT id, type, payload::json, key, priority, run_at, at, limits::json, circuit, retry::jsonb, timeout_ms, true,
    CASE WHEN mine THEN 'processing' ELSE 'pending' END, mine::int, mine::int, CASE WHEN mine THEN $14::text END, CASE WHEN mine THEN at END FROM fresh
), leased AS (
  INSERT INTO task_lease (task_id, fence, worker, claim, lease_until)
  SELECT id, 1, $14::text, $15::bigint, at + $16::bigint * interval '1 microsecond' FROM fresh WHERE mine
), ready AS (
  INSERT INTO task_ready (task_id, type, priority) SELECT id, type, priority FROM fresh WHERE run_at <= at AND limits IS NULL AND NOT mine
), held AS (
  INSERT INTO task_held (task_id, gate, priority, since)
  SELECT id, 'limit:' || (limits::json -> 0 ->> 'key'), priority, at FROM fresh WHERE run_at <= at AND limits IS NOT NULL
), later AS (
  INSERT INTO task_later (task_id, run_at) SELECT id, run_at FROM fresh WHERE run_at > at
)
SELECT (SELECT array_agg(id ORDER BY id) FROM new), (SELECT array_agg(id ORDER BY id) FROM fresh), (SELECT array_agg(id ORDER BY id) FROM fresh WHERE mine),
  at, (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint FROM lender`

// pgKnown tells the tasks that have the given keys of the given types, by the
// place in the arrays, counted from 1.
const pgKnown = `
SELECT u.i, k.task_id FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(type, key, i)
JOIN task_key k ON k.type = u.type AND k.upstream_key = u.key`
