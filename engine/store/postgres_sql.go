package store

// The statements of the hot path on PostgreSQL. $1 is the instant to stamp rows
// with, NULL for the server's clock. Stamps are taken from clock_timestamp() where
// a row was just locked, so that the log of a task never runs backwards; instants
// that are compared with come from statement_timestamp(), which an index can serve.

// pgClaim takes the first due tasks of the types in $3, at most $4 of them, for
// the worker $2 until the lease $5 (microseconds) is over; $6 marks the claim. It
// begins with one of the ways to pick.
const pgClaim = `, taken AS (
  DELETE FROM task_ready r WHERE r.ctid = ANY(ARRAY(SELECT at FROM picked)) RETURNING r.task_id
), claimed AS (
  UPDATE task_queue t SET state = 'processing', reason = NULL, fence = t.fence + 1, attempt = t.attempt + 1,
    worker = $2::text, claimed_at = coalesce($1::timestamptz, clock_timestamp())
  FROM taken WHERE t.id = taken.task_id AND t.state = 'pending'
  RETURNING t.id, t.fence, t.run_id, t.step, t.element, t.type, t.upstream_key, t.payload, t.refs, t.attempt, t.crashes, t.retry, t.timeout_ms, t.priority, t.claimed_at,
    t.each, t.for_each, t.max_parallel, t.continue_on_error, t.limits IS NOT NULL AS limited, t.circuit, t.detail
), leased AS (
  INSERT INTO task_lease (task_id, fence, worker, claim, lease_until)
  SELECT id, fence, $2::text, $6::bigint, claimed_at + $5::bigint * interval '1 microsecond' FROM claimed
), started AS (
  UPDATE run r SET status = 'running', started_at = coalesce(r.started_at, $1::timestamptz, clock_timestamp()),
    deadline = coalesce(r.deadline, coalesce($1::timestamptz, clock_timestamp()) + r.timeout_ms * interval '1 millisecond')
  WHERE r.id = ANY(ARRAY(SELECT DISTINCT run_id FROM claimed WHERE run_id IS NOT NULL AND step IS NOT NULL)) AND r.status IN ('pending', 'waiting')
)`

// pgClaimed returns what was claimed and how long that took, in microseconds; one
// row without a task when there was nothing.
const pgClaimed = `
SELECT (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint, coalesce(id, 0), coalesce(fence, 0),
  coalesce(run_id::text, ''), coalesce(step, ''), coalesce(element, ''), coalesce(type, ''), coalesce(upstream_key, ''), payload, refs,
  coalesce(attempt, 0), coalesce(crashes, 0), retry, coalesce(timeout_ms, 0), coalesce(priority, 0), claimed_at,
  each, for_each, coalesce(max_parallel, 0), coalesce(continue_on_error, false), coalesce(limited, false), coalesce(circuit, ''), coalesce(detail, ''),
  CASE WHEN step IS NOT NULL AND row_number() OVER (PARTITION BY run_id) = 1 THEN (` + pgRun + `) END
FROM (SELECT) AS once LEFT JOIN claimed ON true`

// pgRun is the run of a step, with the first of its steps that a claim got: most
// steps need to know no more. In the phases after main they do.
const pgRun = `SELECT row_to_json(q) FROM (
    SELECT id, coalesce(CAST(rerun_of AS text), '') AS rerun_of, job, job_digest, coalesce(upstream_key, '') AS upstream_key, coalesce(version, 0) AS version, status, trigger, due_at, inputs, period, previous_period, base_dir, connections,
      coalesce(reason, '') AS reason, coalesce(actor, '') AS actor, coalesce(parent_task, 0) AS parent_task, created_at
    FROM run r WHERE r.id = claimed.run_id AND r.phase = 'main') AS q`

// Nothing is picked for which a hold stands, but for the probes of a circuit. The
// first condition is evaluated once, the others only while something is held.
const pgFree = `(NOT EXISTS (SELECT FROM hold) OR EXISTS (SELECT FROM circuit_probe p WHERE p.task_id = r.task_id) OR (
    SELECT true FROM task_queue t LEFT JOIN run q ON q.id = t.run_id JOIN hold h ON h.gate IN ('type:' || t.type, 'job:' || q.job, 'circuit:' || t.circuit) WHERE t.id = r.task_id LIMIT 1) IS NULL)`

// pgPick takes them in order.
const pgPick = `
WITH picked AS MATERIALIZED (
  SELECT r.ctid AS at FROM task_ready r WHERE r.type = ANY($3::text[]) AND ` + pgFree + ` ORDER BY r.priority, r.task_id LIMIT $4 FOR UPDATE SKIP LOCKED
)`

// pgPickFrom takes them in order from priority $7 and task $8 on: it leaves out
// the dead rows that a claim before it walked past and that cannot be removed while
// somebody holds an old snapshot.
const pgPickFrom = `
WITH picked AS MATERIALIZED (
  SELECT r.ctid AS at FROM task_ready r WHERE r.type = ANY($3::text[]) AND (r.priority, r.task_id) >= ($7::int, $8::bigint) AND ` + pgFree + ` ORDER BY r.priority, r.task_id LIMIT $4 FOR UPDATE SKIP LOCKED
)`

// pgPickOfRun takes those of the run $7.
const pgPickOfRun = `
WITH picked AS MATERIALIZED (
  SELECT r.ctid AS at FROM task_ready r WHERE r.run_id = $7::uuid AND r.type = ANY($3::text[]) AND ` + pgFree + ` ORDER BY r.priority, r.task_id LIMIT $4 FOR UPDATE SKIP LOCKED
)`

// pgPickOfRuns takes those of the runs $7.
const pgPickOfRuns = `
WITH picked AS MATERIALIZED (
  SELECT r.ctid AS at FROM task_ready r WHERE r.run_id = ANY($7::uuid[]) AND r.type = ANY($3::text[]) AND ` + pgFree + ` ORDER BY r.priority, r.task_id LIMIT $4 FOR UPDATE SKIP LOCKED
)`

// pgPickAged takes $7 of them by age, whatever their priority, and the rest in
// order. It hops from priority to priority, so that no index by age is needed.
const pgPickAged = `
WITH RECURSIVE level AS (
  (SELECT priority FROM task_ready ORDER BY priority LIMIT 1)
  UNION ALL
  SELECT (SELECT r.priority FROM task_ready r WHERE r.priority > level.priority ORDER BY r.priority LIMIT 1) FROM level WHERE level.priority IS NOT NULL
), old AS MATERIALIZED (
  SELECT r.at, r.task_id FROM level CROSS JOIN LATERAL (
    SELECT r.ctid AS at, r.task_id FROM task_ready r WHERE r.priority = level.priority AND r.type = ANY($3::text[]) AND ` + pgFree + ` ORDER BY r.task_id LIMIT $7 FOR UPDATE SKIP LOCKED
  ) r ORDER BY r.task_id LIMIT $7
), first AS MATERIALIZED (
  SELECT r.ctid AS at FROM task_ready r WHERE r.type = ANY($3::text[]) AND ` + pgFree + ` ORDER BY r.priority, r.task_id LIMIT $4 FOR UPDATE SKIP LOCKED
), picked AS MATERIALIZED (
  SELECT at FROM (SELECT at, 0 AS turn FROM old UNION ALL SELECT at, 1 FROM first WHERE at <> ALL(ARRAY(SELECT at FROM old))) AS both_ways ORDER BY turn LIMIT $4
)`

const pgUndecided = `SELECT EXISTS (SELECT FROM task_undecided) OR EXISTS (SELECT FROM run_undecided)`

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
SELECT h.id, h.fence, l.task_id IS NULL, coalesce(t.stop, '') FROM held h
LEFT JOIN task_lease l ON l.task_id = h.id AND l.fence = h.fence
LEFT JOIN task_queue t ON t.id = h.id
WHERE h.id NOT IN (SELECT task_id FROM mine) OR t.stop IS NOT NULL`

// pgExpired leaves out tasks whose row somebody holds: one worker that hangs
// between its guard and its commit must not keep the others from being rescued.
const pgExpired = `
SELECT l.task_id, l.fence, t.crashes FROM task_lease l JOIN task_queue t ON t.id = l.task_id
WHERE l.lease_until < coalesce($1::timestamptz, statement_timestamp()) ORDER BY l.lease_until LIMIT $2
FOR UPDATE OF t SKIP LOCKED`

// pgPromote moves what is due and says how long until the next is: NULL when there
// is none. What waits until now has waited long enough. The select sees
// task_later as it was before.
const pgPromote = `
WITH due AS MATERIALIZED (
  SELECT task_id FROM task_later WHERE run_at <= coalesce($1::timestamptz, statement_timestamp()) ORDER BY run_at, task_id LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM task_later l USING due WHERE l.task_id = due.task_id RETURNING l.task_id
), come AS MATERIALIZED (
  SELECT t.id, t.state, t.type, t.priority, t.run_id, t.limits FROM task_queue t
  WHERE t.id = ANY(ARRAY(SELECT task_id FROM gone)) AND t.state IN ('pending', 'waiting') ORDER BY t.id FOR UPDATE
), woken AS (
  UPDATE task_queue t SET state = 'pending', reason = 'expired', detail = 'expired', moves = t.moves + 1, run_at = coalesce($1::timestamptz, clock_timestamp())
  FROM come WHERE t.id = come.id AND come.state = 'waiting'
  RETURNING t.id, t.moves, t.attempt, t.fence, t.run_at
), told AS (
  INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, reason, at)
  SELECT id, moves, 'waiting', 'pending', attempt, fence, 'expired', run_at FROM woken
), ready AS (
  INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM come WHERE limits IS NULL RETURNING task_id
), held AS (
  INSERT INTO task_held (task_id, gate, priority) SELECT id, ` + pgGate + `, priority FROM come WHERE limits IS NOT NULL RETURNING task_id
)
SELECT (SELECT count(*) FROM ready) + (SELECT count(*) FROM held),
  (SELECT (extract(epoch FROM run_at - coalesce($1::timestamptz, statement_timestamp())) * 1000000)::bigint
   FROM task_later WHERE task_id <> ALL(ARRAY(SELECT task_id FROM due)) ORDER BY run_at LIMIT 1)`

// pgGate is where a task with limits is held.
const pgGate = `'limit:' || (limits -> 0 ->> 'key')`
