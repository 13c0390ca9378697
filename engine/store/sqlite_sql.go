package store

// The statements of the hot path on SQLite, prepared once on the writing
// connection. The transaction holds the write lock, so that what one has read the
// next can rely on. Where a statement names tasks they are those from ?1 to ?2:
// walking along a stretch of neighbours costs half of looking each up in a list,
// and tasks that are claimed or ended together mostly are neighbours.
const (
	// Deleting the lease is what proves that a task is still the caller's; that it
	// is there is looked up before.
	liteLook = `SELECT l.task_id, l.fence, l.lease_until, coalesce(t.run_id, ''), t.step IS NOT NULL, t.parent_id IS NOT NULL, t.phase, t.continue_on_error,
  coalesce(t.circuit, ''), coalesce(t.stop, ''), coalesce(t.worker, ''), t.limits IS NOT NULL, t.priority` + liteOfLease
	liteLookAlone = `SELECT l.task_id, l.fence, l.lease_until` + liteOfLease
	liteOfLease   = ` FROM task_lease l CROSS JOIN task_queue t ON t.id = l.task_id
WHERE l.task_id BETWEEN ?1 AND ?2 AND t.fence = l.fence AND t.state = 'processing'`

	liteFree = `DELETE FROM task_lease WHERE task_id BETWEEN ?1 AND ?2`

	liteFinish = `UPDATE task_queue SET
  state = ?3, reason = ?4, moves = moves + 1, attempt = attempt - ?5, crashes = crashes + ?6,
  outputs = CASE WHEN ?3 = 'success' THEN ?7 ELSE coalesce(?7, outputs) END,
  digest = coalesce(?8, digest), warning = ?9, failure = ?10, run_at = coalesce(?11, run_at), finished_at = ?12
WHERE id BETWEEN ?1 AND ?2`

	// Most attempts end like this, and leave nothing.
	liteSucceed = `UPDATE task_queue SET
  state = 'success', reason = NULL, moves = moves + 1, outputs = NULL, warning = NULL, failure = NULL, finished_at = ?3
WHERE id BETWEEN ?1 AND ?2`

	liteTell = `INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, worker, reason, failure, claimed_at, took_ms, at)
SELECT id, moves, 'pending', state, attempt + ?3, fence, worker, reason, ?4, claimed_at, ?5, ?6 FROM task_queue WHERE id BETWEEN ?1 AND ?2`

	liteVacate = `DELETE FROM task_slot WHERE task_id BETWEEN ?1 AND ?2`

	liteDead = `INSERT INTO dead_letter (task_id, type, run_id, class, at) SELECT id, type, run_id, ?3, ?4 FROM task_queue WHERE id BETWEEN ?1 AND ?2`

	// Downstreams are counted in steps of 15 seconds, each worker by itself.
	liteCount = `INSERT INTO circuit_count (key, worker, bucket, good, bad) VALUES (?1, ?2, ?3 - ?3 % 15000000, ?4, ?5)
ON CONFLICT (key, bucket, worker) DO UPDATE SET good = good + excluded.good, bad = bad + excluded.bad`
	liteProbed = `DELETE FROM circuit_probe WHERE task_id BETWEEN ?1 AND ?2`

	liteLater = `INSERT INTO task_later (task_id, run_at) VALUES (?, ?)`

	// A task that is due stands in task_ready, or where its first limit holds it.
	liteReady = `INSERT INTO task_ready (task_id, type, priority, run_id)
SELECT id, type, priority, run_id FROM task_queue WHERE id BETWEEN ?1 AND ?2 AND state = 'pending' AND limits IS NULL`
	liteHeld = `INSERT INTO task_held (task_id, gate, priority, since)
SELECT id, 'limit:' || (limits -> 0 ->> 'key'), priority, ?3 FROM task_queue WHERE id BETWEEN ?1 AND ?2 AND state = 'pending' AND limits IS NOT NULL`

	// The first statement takes the key, with the id that the second will use.
	liteKey = `INSERT INTO task_key (type, upstream_key, task_id)
SELECT 'deliver', ?1, coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'task_queue' ON CONFLICT DO NOTHING RETURNING task_id`
	litePost = `INSERT INTO task_queue (id, run_id, type, upstream_key, payload, priority, run_at, created_at, placed, circuit) VALUES (?1, ?2, 'deliver', ?3, ?4, ?5, ?6, ?6, 1, 'deliver/' || (?4 ->> 'channel'))`

	liteKeep = `INSERT INTO artifact (task_id, run_id, kind, name, digest, size_bytes, row_count, origin, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

	liteUndecided = `SELECT EXISTS (SELECT 1 FROM task_undecided) OR EXISTS (SELECT 1 FROM run_undecided)`
)

// What is picked is in the order of the key of task_ready; ?1 are the types, ?2
// how many, ?3 the run.
const (
	liteHolding = `SELECT EXISTS (SELECT 1 FROM hold)`

	litePick     = litePicked + liteInOrder
	litePickFree = litePicked + liteFreely + liteInOrder

	litePickOfRun     = litePicked + ` AND r.run_id = ?3` + liteInOrder
	litePickOfRunFree = litePicked + ` AND r.run_id = ?3` + liteFreely + liteInOrder

	litePickOfRuns = litePicked + ` AND r.run_id IN (SELECT value FROM json_each(?3))` + liteFreely + liteInOrder

	litePickAged     = liteLevels + liteOfLevel + liteByAge
	litePickAgedFree = liteLevels + liteOfLevel + liteFreely + liteByAge

	litePicked  = `SELECT r.priority, r.task_id FROM task_ready r WHERE r.type IN (SELECT value FROM json_each(?1))`
	liteInOrder = ` ORDER BY r.priority, r.task_id LIMIT ?2`

	// By age, whatever the priority: it hops from priority to priority, so that no
	// index by age is needed.
	liteLevels = `WITH RECURSIVE level (p) AS (SELECT min(priority) FROM task_ready
  UNION ALL SELECT (SELECT min(priority) FROM task_ready WHERE priority > level.p) FROM level WHERE level.p IS NOT NULL)
SELECT o.priority, o.task_id FROM level CROSS JOIN task_ready o ON o.priority = level.p AND o.task_id IN (`
	liteOfLevel = `SELECT r.task_id FROM task_ready r WHERE r.priority = level.p AND r.type IN (SELECT value FROM json_each(?1))`
	liteByAge   = ` ORDER BY r.task_id LIMIT ?2) ORDER BY o.task_id LIMIT ?2`

	// Nothing is picked for which a hold stands, but for the probes of a circuit.
	liteFreely = ` AND (EXISTS (SELECT 1 FROM circuit_probe p WHERE p.task_id = r.task_id) OR NOT EXISTS (
  SELECT 1 FROM task_queue t LEFT JOIN run q ON q.id = t.run_id JOIN hold h ON h.gate IN ('type:' || t.type, 'job:' || q.job, 'circuit:' || t.circuit) WHERE t.id = r.task_id))`

	liteTake = `DELETE FROM task_ready WHERE priority = ?3 AND task_id BETWEEN ?1 AND ?2`

	liteRead = `SELECT id, fence + 1, run_id, step, element, type, upstream_key, payload, refs, attempt + 1, crashes, retry,
  coalesce(timeout_ms, 0), priority, each, for_each, coalesce(max_parallel, 0), continue_on_error, limits IS NOT NULL, circuit, detail
FROM task_queue WHERE id BETWEEN ?1 AND ?2 AND state = 'pending'`

	liteClaim = `UPDATE task_queue SET state = 'processing', reason = NULL, fence = fence + 1, attempt = attempt + 1, worker = ?3, claimed_at = ?4 WHERE id BETWEEN ?1 AND ?2`

	liteLease = `INSERT INTO task_lease (task_id, fence, worker, claim, lease_until) SELECT id, fence, worker, ?3, ?4 FROM task_queue WHERE id BETWEEN ?1 AND ?2`

	liteStart = `UPDATE run SET status = 'running', started_at = coalesce(started_at, ?2), deadline = coalesce(deadline, ?2 + timeout_ms * 1000)
WHERE id = ?1 AND status IN ('pending', 'waiting')`
)

const (
	liteLeases = `SELECT l.task_id, l.fence, coalesce(t.stop, '') FROM task_lease l CROSS JOIN task_queue t ON t.id = l.task_id WHERE l.task_id BETWEEN ?1 AND ?2`

	liteBeat = `UPDATE task_lease SET lease_until = ?3 WHERE task_id BETWEEN ?1 AND ?2`

	liteSeen = `UPDATE worker SET seen_at = ?2 WHERE id = ?1`

	liteExpired = `SELECT l.task_id, l.fence, t.crashes FROM task_lease l CROSS JOIN task_queue t ON t.id = l.task_id WHERE l.lease_until < ? ORDER BY l.lease_until LIMIT ?`

	liteDue = `SELECT task_id FROM task_later WHERE run_at <= ? ORDER BY run_at, task_id LIMIT ?`

	liteCome = `DELETE FROM task_later WHERE task_id BETWEEN ?1 AND ?2`

	// What waits until now has waited long enough.
	liteTellExpired = `INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, reason, at)
SELECT id, moves + 1, 'waiting', 'pending', attempt, fence, 'expired', ?3 FROM task_queue WHERE id BETWEEN ?1 AND ?2 AND state = 'waiting'`
	liteExpire = `UPDATE task_queue SET state = 'pending', reason = 'expired', detail = 'expired', moves = moves + 1, run_at = ?3
WHERE id BETWEEN ?1 AND ?2 AND state = 'waiting'`

	liteNext = `SELECT run_at FROM task_later ORDER BY run_at LIMIT 1`
)
