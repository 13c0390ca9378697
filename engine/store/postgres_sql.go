package store

// The statements of the hot path on PostgreSQL. $1 is the instant to stamp rows
// with, NULL for the server's clock. Stamps are taken from clock_timestamp() where
// a row was just locked, so that the log of a task never runs backwards; instants
// that are compared with come from statement_timestamp(), which an index can serve.

// pgFinish writes outcomes and all that follows from them. Deleting the lease is
// what proves that the task is still the caller's. Several CTEs write task_queue,
// but never the same row: what has just ended was processing, what it releases was
// blocked, and what it sends is new. Rows that other transactions may advance too
// are locked in ascending order first.
const pgFinish = `
WITH done AS MATERIALIZED (
  SELECT * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bool[], $7::bool[], $8::bigint[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bigint[])
    AS d(id, fence, to_state, reason, unspent, crashed, delay_us, outputs, digest, warning, failure, logged, took_ms)
), freed AS (
  DELETE FROM task_lease l USING done d
  WHERE l.task_id = d.id AND l.fence = d.fence
    AND (NOT d.crashed OR l.lease_until < coalesce($1::timestamptz, statement_timestamp()))
  RETURNING l.task_id
), fin AS (
  UPDATE task_queue t SET
    state = d.to_state, reason = d.reason, moves = t.moves + 1,
    attempt = t.attempt - d.unspent::int, crashes = t.crashes + d.crashed::int,
    outputs = CASE WHEN d.to_state = 'success' THEN d.outputs::json ELSE coalesce(d.outputs::json, t.outputs) END,
    digest = coalesce(d.digest, t.digest), warning = d.warning, failure = d.failure::jsonb,
    run_at = CASE WHEN d.to_state = 'pending' THEN coalesce($1::timestamptz, clock_timestamp()) + d.delay_us * interval '1 microsecond' ELSE t.run_at END,
    finished_at = CASE WHEN d.to_state <> 'pending' THEN coalesce($1::timestamptz, clock_timestamp()) END
  FROM done d JOIN freed ON freed.task_id = d.id
  WHERE t.id = d.id AND t.fence = d.fence AND t.state = 'processing'
  RETURNING t.id, t.fence, t.run_id, t.step, t.type, t.priority, t.moves, t.attempt + d.unspent::int AS attempt, t.worker, t.claimed_at, t.run_at,
    d.to_state, d.reason, d.delay_us, d.warning, d.logged, d.took_ms, coalesce($1::timestamptz, clock_timestamp()) AS at
), told AS (
  INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, worker, reason, failure, claimed_at, took_ms, at)
  SELECT id, moves, 'pending', to_state, attempt, fence, worker, reason, logged::jsonb, claimed_at, took_ms, at FROM fin
), held AS (
  INSERT INTO task_later (task_id, run_at) SELECT id, run_at FROM fin WHERE to_state = 'pending' AND delay_us > 0
), back AS (
  INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM fin WHERE to_state = 'pending' AND delay_us <= 0
), hit AS MATERIALIZED (
  SELECT dep.task_id, count(*)::int AS n, (count(*) FILTER (WHERE fin.to_state <> 'success'))::int AS bad
  FROM fin JOIN task_dependency dep ON dep.needs_id = fin.id WHERE fin.to_state <> 'pending' GROUP BY dep.task_id
), hold AS MATERIALIZED (
  SELECT t.id FROM task_queue t WHERE t.id = ANY(ARRAY(SELECT task_id FROM hit)) AND t.state = 'blocked' ORDER BY t.id FOR UPDATE
), next AS (
  UPDATE task_queue t SET
    unmet = t.unmet - hit.n, unmet_failed = t.unmet_failed + hit.bad,
    state = CASE WHEN t.unmet = hit.n AND t.unmet_failed + hit.bad = 0 AND t.condition IS NULL THEN 'pending' ELSE t.state END,
    moves = CASE WHEN t.unmet = hit.n AND t.unmet_failed + hit.bad = 0 AND t.condition IS NULL THEN t.moves + 1 ELSE t.moves END
  FROM hit JOIN hold ON hold.id = hit.task_id
  WHERE t.id = hit.task_id AND t.state = 'blocked'
  RETURNING t.id, t.run_id, t.type, t.priority, t.state, t.unmet, t.moves, t.attempt, t.fence, coalesce($1::timestamptz, clock_timestamp()) AS at
), told_next AS (
  INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, at)
  SELECT id, moves, 'blocked', 'pending', attempt, fence, at FROM next WHERE state = 'pending'
), ready AS (
  INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM next WHERE state = 'pending'
), undecided AS (
  INSERT INTO task_undecided (task_id) SELECT id FROM next WHERE state = 'blocked' AND unmet = 0 ON CONFLICT DO NOTHING
), tally AS MATERIALIZED (
  SELECT run_id, count(*)::int AS n, (count(*) FILTER (WHERE to_state <> 'success'))::int AS failed,
    (count(*) FILTER (WHERE to_state = 'success' AND warning IS NOT NULL))::int AS warned
  FROM fin WHERE run_id IS NOT NULL AND step IS NOT NULL AND to_state <> 'pending' GROUP BY run_id
), open_run AS MATERIALIZED (
  SELECT r.id FROM run r WHERE r.id = ANY(ARRAY(SELECT run_id FROM tally)) ORDER BY r.id FOR UPDATE
), settled AS (
  UPDATE run r SET
    open_steps = r.open_steps - y.n, failed_steps = r.failed_steps + y.failed, warned_steps = r.warned_steps + y.warned,
    status = CASE WHEN r.open_steps > y.n THEN r.status
      WHEN r.failed_steps + y.failed > 0 THEN 'error' WHEN r.warned_steps + y.warned > 0 THEN 'warning' ELSE 'success' END,
    finished_at = CASE WHEN r.open_steps <= y.n THEN coalesce($1::timestamptz, clock_timestamp()) END
  FROM tally y JOIN open_run ON open_run.id = y.run_id
  WHERE r.id = y.run_id AND r.status IN ('pending', 'running', 'waiting')
)`

// pgEffects goes between pgFinish and pgFinished where a batch has messages or
// artifacts. A message whose key is known is left alone.
const pgEffects = `, message AS (
  SELECT * FROM unnest($15::bigint[], $16::bigint[], $17::text[], $18::text[]) AS m(id, fence, key, payload)
), keyed AS (
  INSERT INTO task_key (type, upstream_key, task_id)
  SELECT 'deliver', m.key, nextval(pg_get_serial_sequence('task_queue', 'id')) FROM message m JOIN fin USING (id, fence) ORDER BY m.key
  ON CONFLICT DO NOTHING RETURNING task_id, upstream_key
), posted AS (
  INSERT INTO task_queue (id, run_id, type, upstream_key, payload, priority)
  SELECT DISTINCT ON (k.task_id) k.task_id, fin.run_id, 'deliver', m.key, m.payload::json, fin.priority
  FROM keyed k JOIN message m ON m.key = k.upstream_key JOIN fin USING (id, fence)
  RETURNING id, priority, run_id
), to_send AS (
  INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, 'deliver', priority, run_id FROM posted
), kept AS (
  INSERT INTO artifact (task_id, run_id, kind, name, digest, size_bytes, row_count, origin)
  SELECT a.id, fin.run_id, a.kind, a.name, a.digest, a.size_bytes, a.row_count, a.origin
  FROM unnest($19::bigint[], $20::bigint[], $21::text[], $22::text[], $23::text[], $24::bigint[], $25::bigint[], $26::text[])
    AS a(id, fence, kind, name, digest, size_bytes, row_count, origin) JOIN fin USING (id, fence)
)`

const pgFinished = `
SELECT id, fence FROM fin`

// pgClaim takes the first due tasks of the types in $3, at most $4 of them, for
// the worker $2 until the lease $5 (microseconds) is over; $6 marks the claim.
const pgClaim = `
WITH picked AS MATERIALIZED (
  SELECT task_id FROM task_ready WHERE type = ANY($3::text[]) ORDER BY priority, task_id LIMIT $4 FOR UPDATE SKIP LOCKED
)` + pgClaimed

// pgClaimOfRun is pgClaim for the tasks of the run $7.
const pgClaimOfRun = `
WITH picked AS MATERIALIZED (
  SELECT task_id FROM task_ready WHERE run_id = $7::uuid AND type = ANY($3::text[]) ORDER BY priority, task_id LIMIT $4 FOR UPDATE SKIP LOCKED
)` + pgClaimed

const pgClaimed = `, taken AS (
  DELETE FROM task_ready r USING picked WHERE r.task_id = picked.task_id RETURNING r.task_id
), claimed AS (
  UPDATE task_queue t SET state = 'processing', reason = NULL, fence = t.fence + 1, attempt = t.attempt + 1,
    worker = $2::text, claimed_at = coalesce($1::timestamptz, clock_timestamp())
  FROM taken WHERE t.id = taken.task_id AND t.state = 'pending'
  RETURNING t.id, t.fence, t.run_id, t.step, t.element, t.type, t.upstream_key, t.payload, t.refs, t.attempt, t.crashes, t.retry, t.timeout_ms, t.priority, t.claimed_at
), leased AS (
  INSERT INTO task_lease (task_id, fence, worker, claim, lease_until)
  SELECT id, fence, $2::text, $6::bigint, claimed_at + $5::bigint * interval '1 microsecond' FROM claimed
), started AS (
  UPDATE run r SET status = 'running', started_at = coalesce(r.started_at, $1::timestamptz, clock_timestamp())
  WHERE r.id = ANY(ARRAY(SELECT DISTINCT run_id FROM claimed WHERE run_id IS NOT NULL AND step IS NOT NULL)) AND r.status = 'pending'
)
SELECT id, fence, coalesce(run_id::text, ''), coalesce(step, ''), element, type, coalesce(upstream_key, ''), payload, refs, attempt, crashes, retry, coalesce(timeout_ms, 0), priority, claimed_at
FROM claimed`

const pgUndecided = `SELECT EXISTS (SELECT FROM task_undecided)`

// pgHeartbeat extends leases. A lease that somebody holds locked is being finished
// or rescued: it is left alone, and neither waited for nor lost yet, but told of.
const pgHeartbeat = `
WITH held AS MATERIALIZED (
  SELECT * FROM unnest($2::bigint[], $3::bigint[]) AS h(id, fence)
), mine AS MATERIALIZED (
  SELECT l.task_id FROM task_lease l JOIN held h ON h.id = l.task_id AND h.fence = l.fence FOR UPDATE OF l SKIP LOCKED
), beat AS (
  UPDATE task_lease l SET lease_until = coalesce($1::timestamptz, clock_timestamp()) + $4::bigint * interval '1 microsecond'
  FROM mine WHERE l.task_id = mine.task_id
), seen AS (
  UPDATE worker SET seen_at = coalesce($1::timestamptz, clock_timestamp()) WHERE id = $5
)
SELECT h.id, h.fence, l.task_id IS NULL OR coalesce(r.status = 'cancelled', false) FROM held h
LEFT JOIN task_lease l ON l.task_id = h.id AND l.fence = h.fence
LEFT JOIN mine ON mine.task_id = l.task_id
LEFT JOIN task_queue t ON t.id = h.id
LEFT JOIN run r ON r.id = t.run_id
WHERE mine.task_id IS NULL OR r.status = 'cancelled'`

// pgExpired leaves out tasks whose row somebody holds: one worker that hangs
// between its guard and its commit must not keep the others from being rescued.
const pgExpired = `
SELECT l.task_id, l.fence, t.crashes FROM task_lease l JOIN task_queue t ON t.id = l.task_id
WHERE l.lease_until < coalesce($1::timestamptz, statement_timestamp()) ORDER BY l.lease_until LIMIT $2
FOR UPDATE OF t SKIP LOCKED`

// pgPromote moves what is due and says how long until the next is: NULL when there
// is none. The select sees task_later as it was before.
const pgPromote = `
WITH due AS MATERIALIZED (
  SELECT task_id FROM task_later WHERE run_at <= coalesce($1::timestamptz, statement_timestamp()) ORDER BY run_at, task_id LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM task_later l USING due WHERE l.task_id = due.task_id RETURNING l.task_id
), ready AS (
  INSERT INTO task_ready (task_id, type, priority, run_id)
  SELECT t.id, t.type, t.priority, t.run_id FROM gone JOIN task_queue t ON t.id = gone.task_id WHERE t.state = 'pending'
  RETURNING task_id
)
SELECT (SELECT count(*) FROM ready),
  (SELECT (extract(epoch FROM run_at - coalesce($1::timestamptz, statement_timestamp())) * 1000000)::bigint
   FROM task_later WHERE task_id <> ALL(ARRAY(SELECT task_id FROM due)) ORDER BY run_at LIMIT 1)`
