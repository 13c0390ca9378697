package store

import "strconv"

// pgFlow readies what waited for tasks of a run, and counts down and settles the
// runs. An element counts for the row of its step and not for the run. What waits
// for elements goes on however they ended. Only the end of a run names finished_at,
// for which the table has a trigger.
const pgFlow = `, hit AS MATERIALIZED (
  SELECT dep.task_id, count(*)::int AS n, {bad} AS bad
  FROM fin JOIN task_dependency dep ON dep.needs_id = fin.id{over} GROUP BY dep.task_id
), stand AS MATERIALIZED (
  SELECT t.id, t.state, hit.n, hit.bad, t.unmet = hit.n AND (t.state = 'waiting' OR t.unmet_failed + hit.bad = 0 AND t.condition IS NULL) AS released{handed}
  FROM hit JOIN task_queue t ON t.id = hit.task_id WHERE t.state IN ('blocked', 'waiting') ORDER BY t.id FOR UPDATE OF t
), next AS (
  UPDATE task_queue t SET
    unmet = t.unmet - stand.n, unmet_failed = t.unmet_failed + stand.bad, moves = t.moves + stand.released::int,
    state = CASE {processing}WHEN stand.released THEN 'pending' ELSE t.state END,
    reason = CASE WHEN stand.released AND t.state = 'waiting' THEN 'joined' ELSE t.reason END,
    detail = CASE WHEN stand.released AND t.state = 'waiting' THEN 'joined' ELSE t.detail END{claim}
  FROM stand WHERE t.id = stand.id AND t.state = stand.state
  RETURNING t.id, t.run_id, t.type, t.priority, t.state, t.reason, stand.state AS from_state, t.unmet, t.moves, t.attempt, t.fence, t.limits, {moved} AS at{returning}
), ready AS (
  INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM next WHERE state = 'pending' AND limits IS NULL RETURNING task_id
), ready_held AS (
  INSERT INTO task_held (task_id, gate, priority) SELECT id, ` + pgGate + `, priority FROM next WHERE state = 'pending' AND limits IS NOT NULL RETURNING task_id
), undecided AS (
  INSERT INTO task_undecided (task_id) SELECT id FROM next WHERE state = 'blocked' AND unmet = 0 ON CONFLICT DO NOTHING RETURNING task_id
), tally AS MATERIALIZED (
  SELECT run_id, count(*)::int AS n,
    {failed} AS failed, {warned} AS warned
  FROM fin WHERE run_id IS NOT NULL AND step IS NOT NULL AND parent_id IS NULL{and_over} GROUP BY run_id
), open_run AS MATERIALIZED (
  SELECT r.id, y.n, y.failed, y.warned, r.open_steps <= y.n AS last FROM tally y JOIN run r ON r.id = y.run_id ORDER BY r.id FOR UPDATE OF r
), going AS (
  UPDATE run r SET open_steps = r.open_steps - y.n, failed_steps = r.failed_steps + y.failed, warned_steps = r.warned_steps + y.warned
  FROM open_run y WHERE r.id = y.id AND NOT y.last AND r.status IN ('pending', 'running', 'waiting')
), settled AS (
  UPDATE run r SET
    open_steps = r.open_steps - y.n, failed_steps = r.failed_steps + y.failed, warned_steps = r.warned_steps + y.warned,
    status = CASE WHEN r.later_steps > 0 THEN r.status
      WHEN r.stopped = 'cancelled' THEN 'cancelled' WHEN r.stopped IS NOT NULL OR r.failed_steps + y.failed > 0 THEN 'error'
      WHEN r.warned_steps + y.warned > 0 THEN 'warning' ELSE 'success' END,
    finished_at = CASE WHEN r.later_steps = 0 THEN coalesce($1::timestamptz, clock_timestamp()) END
  FROM open_run y WHERE r.id = y.id AND y.last AND r.status IN ('pending', 'running', 'waiting')
  RETURNING r.id, r.open_steps, r.later_steps, r.parent_task, r.finished_at
), next_phase AS (
  INSERT INTO run_undecided (run_id) SELECT id FROM settled WHERE open_steps = 0 AND later_steps > 0 ON CONFLICT DO NOTHING RETURNING run_id
)`

// pgChild wakes the tasks that wait for the runs that are over.
const pgChild = `, child AS (
  UPDATE task_queue t SET state = 'pending', reason = 'child', detail = 'child', moves = t.moves + 1
  FROM settled s WHERE t.id = s.parent_task AND t.state = 'waiting' AND s.finished_at IS NOT NULL
  RETURNING t.id, t.type, t.priority, t.run_id, t.moves, t.attempt, t.fence, t.limits, coalesce($1::timestamptz, clock_timestamp()) AS at
), told_child AS (
  INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, reason, at) SELECT id, moves, 'waiting', 'pending', attempt, fence, 'child', at FROM child
), child_later AS (
  DELETE FROM task_later l USING child WHERE l.task_id = child.id
), child_ready AS (
  INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM child WHERE limits IS NULL
), child_held AS (
  INSERT INTO task_held (task_id, gate, priority) SELECT id, ` + pgGate + `, priority FROM child WHERE limits IS NOT NULL
)`

// pgHand claims what a finished step has released for the worker that finished it,
// with the same statement: there is no claim to wait for, and nothing enters or
// leaves task_ready. Whoever asks for it has looked before and found nothing else.
const pgHand = `, handed AS (
  INSERT INTO task_lease (task_id, fence, worker, claim, lease_until)
  SELECT id, fence, worker, {mark}::bigint, claimed_at + {lease}::bigint * interval '1 microsecond' FROM next WHERE state = 'processing'
)`

// What a finishing statement returns: the holds it hit, and, of a run, what
// became of others under negative ids.
const (
	pgFinished = `
SELECT id, fence FROM fin`
	pgFollowed = `
UNION ALL SELECT -1, (SELECT count(*) FROM ready)
UNION ALL SELECT -2, (SELECT count(*) FROM undecided) + (SELECT count(*) FROM next_phase)
UNION ALL SELECT -3, (SELECT count(*) FROM ready_held)`
)

// pgFinishedHanding returns first the holds, then under the id -1 what became of
// others, and what was handed on as a claim returns it, but for the run: who
// finished a step of it has that already.
const pgFinishedHanding = `
SELECT 0::bigint, id, fence, '', '', '', '', '', NULL::json, NULL::jsonb, 0, 0, NULL::jsonb, 0::bigint, 0, NULL::timestamptz,
  NULL::json, NULL::json, 0, false, false, '', '', NULL::json FROM fin
UNION ALL SELECT 0, -1, (SELECT count(*) FROM ready), '', '', '', '', '', NULL, NULL,
  ((SELECT count(*) FROM undecided) + (SELECT count(*) FROM next_phase))::int, (SELECT count(*) FROM ready_held)::int, NULL, 0, 0, NULL,
  NULL, NULL, 0, false, false, '', '', NULL
UNION ALL SELECT 1, id, fence, run_id::text, coalesce(step, ''), element, type, coalesce(upstream_key, ''), payload, refs,
  attempt, crashes, retry, coalesce(timeout_ms, 0), priority, claimed_at,
  each, for_each, coalesce(max_parallel, 0), continue_on_error, false, coalesce(circuit, ''), coalesce(detail, ''), NULL
FROM next WHERE state = 'processing'`

// releases are the words for what follows from an end.
func (p parts) releases() []string {
	words := p.hands()
	told := ""
	if p.flow {
		told = `
  UNION ALL SELECT id, moves, from_state, 'pending', attempt - (state = 'processing')::int, fence - (state = 'processing')::int, NULL,
    CASE WHEN from_state = 'waiting' THEN reason END, NULL, NULL, NULL, at FROM next WHERE state IN ('pending', 'processing')`
	}
	words = append(words, "{told}", told)
	if p.plain { // all of them are successes
		return append(words, "{bad}", "0", "{over}", "", "{and_over}", "", "{failed}", "0", "{warned}", "0")
	}
	return append(words,
		"{bad}", "(count(*) FILTER (WHERE fin.to_state <> 'success' AND NOT fin.continue_on_error))::int",
		"{over}", " WHERE fin.to_state NOT IN ('pending', 'waiting')", "{and_over}", " AND to_state NOT IN ('pending', 'waiting')",
		"{failed}", "(count(*) FILTER (WHERE to_state <> 'success' AND NOT continue_on_error AND phase <> 'finally'))::int",
		"{warned}", "(count(*) FILTER (WHERE CASE WHEN to_state = 'success' THEN warning IS NOT NULL ELSE continue_on_error OR phase = 'finally' END))::int")
}

// hands are the words for what is claimed as it is released, when it is not too much
// for the slots of its kind: see handArgs.
func (p parts) hands() []string {
	if !p.hand {
		return []string{"{moved}", "coalesce($1::timestamptz, clock_timestamp())", "{handed}", "", "{processing}", "", "{claim}", "", "{returning}", ""}
	}
	n := p.args()
	arg := func(i int) string { return "$" + strconv.Itoa(n+i) }
	return []string{
		"{handed}", `, t.state = 'blocked' AND t.unmet = hit.n AND t.unmet_failed + hit.bad = 0 AND t.condition IS NULL AND t.limits IS NULL
    AND (SELECT count(*) FROM hit) <= CASE WHEN t.type = ANY(` + arg(4) + `::text[]) THEN ` + arg(5) + `::int WHEN t.type = ANY(` + arg(6) + `::text[]) THEN ` + arg(7) + `::int ELSE 0 END
    AND NOT EXISTS (SELECT FROM hold) AS handed`,
		"{moved}", "CASE WHEN stand.handed THEN t.claimed_at ELSE coalesce($1::timestamptz, clock_timestamp()) END",
		"{processing}", "WHEN stand.handed THEN 'processing' ",
		"{claim}", `, fence = t.fence + stand.handed::int, attempt = t.attempt + stand.handed::int,
    worker = CASE WHEN stand.handed THEN ` + arg(1) + `::text ELSE t.worker END,
    claimed_at = CASE WHEN stand.handed THEN coalesce($1::timestamptz, clock_timestamp()) ELSE t.claimed_at END`,
		"{returning}", `, t.step, t.element, t.upstream_key, t.payload, t.refs, t.crashes, t.retry, t.timeout_ms, t.worker, t.claimed_at,
    t.each, t.for_each, t.max_parallel, t.continue_on_error, t.circuit, t.detail`,
		"{mark}", arg(2), "{lease}", arg(3),
	}
}

// handArgs are the arguments behind those of the outcomes.
func handArgs(b batch) []any {
	return []any{b.worker, b.claim, b.want.Lease.Microseconds(), b.want.Types, b.want.Next, b.want.HeavyTypes, b.want.HeavyNext}
}
