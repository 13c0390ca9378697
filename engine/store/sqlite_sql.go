package store

// The statements of the hot path on SQLite, prepared once on the writing
// connection. The transaction holds the write lock, so that nothing moves between
// them. Lists come in as JSON arrays.
const (
	liteFree = `DELETE FROM task_lease WHERE task_id = ?1 AND fence = ?2 AND (NOT ?3 OR lease_until < ?4)`

	liteFinish = `UPDATE task_queue SET
  state = ?3, reason = ?4, moves = moves + 1, attempt = attempt - ?5, crashes = crashes + ?6,
  outputs = CASE WHEN ?3 = 'success' THEN ?7 ELSE coalesce(?7, outputs) END,
  digest = coalesce(?8, digest), warning = ?9, failure = ?10,
  run_at = CASE WHEN ?3 = 'pending' THEN ?11 ELSE run_at END,
  finished_at = CASE WHEN ?3 <> 'pending' THEN ?12 END
WHERE id = ?1 AND fence = ?2 AND state = 'processing'
RETURNING coalesce(run_id, ''), step IS NOT NULL, priority, moves, attempt + ?5, worker, claimed_at`

	liteTell = `INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, worker, reason, failure, claimed_at, took_ms, at)
VALUES (?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	liteLater = `INSERT INTO task_later (task_id, run_at) VALUES (?, ?)`

	liteReady = `INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM task_queue WHERE id = ?`

	// The first statement takes the key, with the id that the second will use.
	liteKey = `INSERT INTO task_key (type, upstream_key, task_id)
SELECT 'deliver', ?1, coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'task_queue' ON CONFLICT DO NOTHING RETURNING task_id`
	litePost = `INSERT INTO task_queue (id, run_id, type, upstream_key, payload, priority, run_at, created_at, placed) VALUES (?, ?, 'deliver', ?, ?, ?, ?, ?, 1)`

	liteKeep = `INSERT INTO artifact (task_id, run_id, kind, name, digest, size_bytes, row_count, origin, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

	litePick      = `DELETE FROM task_ready WHERE task_id IN (SELECT task_id FROM task_ready WHERE type IN (SELECT value FROM json_each(?1)) ORDER BY priority, task_id LIMIT ?2) RETURNING task_id`
	litePickOfRun = `DELETE FROM task_ready WHERE task_id IN (SELECT task_id FROM task_ready WHERE run_id = ?3 AND type IN (SELECT value FROM json_each(?1)) ORDER BY priority, task_id LIMIT ?2) RETURNING task_id`

	liteClaim = `UPDATE task_queue SET state = 'processing', reason = NULL, fence = fence + 1, attempt = attempt + 1, worker = ?2, claimed_at = ?3
WHERE id IN (SELECT value FROM json_each(?1)) AND state = 'pending'
RETURNING id, fence, coalesce(run_id, ''), coalesce(step, ''), element, type, coalesce(upstream_key, ''), payload, refs, attempt, crashes, retry, coalesce(timeout_ms, 0), priority`

	liteLease = `INSERT INTO task_lease (task_id, fence, worker, claim, lease_until) VALUES (?, ?, ?, ?, ?)`

	liteStart = `UPDATE run SET status = 'running', started_at = coalesce(started_at, ?2) WHERE id = ?1 AND status = 'pending'`

	liteUndecided = `SELECT EXISTS (SELECT 1 FROM task_undecided)`

	liteBeat = `UPDATE task_lease SET lease_until = ?3 WHERE task_id = ?1 AND fence = ?2`

	liteSeen = `UPDATE worker SET seen_at = ?2 WHERE id = ?1`

	liteCancelled = `SELECT EXISTS (SELECT 1 FROM task_queue t JOIN run r ON r.id = t.run_id WHERE t.id = ? AND r.status = 'cancelled')`

	liteExpired = `SELECT l.task_id, l.fence, t.crashes FROM task_lease l JOIN task_queue t ON t.id = l.task_id WHERE l.lease_until < ? ORDER BY l.lease_until LIMIT ?`

	liteDue = `DELETE FROM task_later WHERE task_id IN (SELECT task_id FROM task_later WHERE run_at <= ? ORDER BY run_at, task_id LIMIT ?) RETURNING task_id`

	liteDueReady = `INSERT INTO task_ready (task_id, type, priority, run_id)
SELECT id, type, priority, run_id FROM task_queue WHERE id IN (SELECT value FROM json_each(?)) AND state = 'pending'`

	liteNext = `SELECT run_at FROM task_later ORDER BY run_at LIMIT 1`
)
