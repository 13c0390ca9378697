package store

import (
	"strings"
	"sync"
)

// pgFinish writes outcomes. Deleting the lease is what proves that the task is
// still the caller's. Several parts write task_queue, but never the same row: what
// has just ended was processing, what it releases was blocked or waiting, and what
// it sends is new. Rows that other transactions may advance too are locked in
// ascending order first.
const pgFinish = `
WITH done AS MATERIALIZED (
  SELECT {columns}
), freed AS (
  DELETE FROM task_lease l USING done d
  WHERE l.task_id = d.id AND l.fence = d.fence
    AND (NOT d.crashed OR l.lease_until < coalesce($1::timestamptz, statement_timestamp()))
  RETURNING d.*
), fin AS (
  UPDATE task_queue t SET
    state = {state}, reason = {reason}, moves = t.moves + 1,
    attempt = t.attempt - d.unspent::int, crashes = t.crashes + d.crashed::int,
    outputs = CASE WHEN d.to_state = 'success' THEN d.outputs::json ELSE coalesce(d.outputs::json, t.outputs) END,
    digest = coalesce(d.digest, t.digest), warning = d.warning, failure = d.failure::jsonb,
    {again}finished_at = {finished}
  FROM freed d
  WHERE t.id = d.id AND t.fence = d.fence AND t.state = 'processing'
  RETURNING t.id, t.fence, t.run_id, t.step, t.type, t.priority, t.moves, t.attempt + d.unspent::int AS attempt, t.worker, t.claimed_at, t.run_at,
    t.state AS to_state, t.reason, t.phase, t.continue_on_error, t.parent_id, t.limits, t.circuit, t.failure,
    d.delay_us, d.warning, d.logged, d.took_ms, coalesce($1::timestamptz, clock_timestamp()) AS at
)`

// pgTell writes the log of the attempts.
const pgTell = `, told AS (
  INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, worker, reason, failure, claimed_at, took_ms, at)
  SELECT id, moves, 'pending', to_state, attempt, fence, worker, reason, logged::jsonb, claimed_at, took_ms, at FROM fin{told}
)`

// What is known of outcomes: all there can be, or of tasks that simply succeeded.
const (
	pgAllColumns = `* FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bool[], $9::bool[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::text[])
    AS d(id, fence, took_ms, outputs, to_state, reason, unspent, crashed, delay_us, digest, warning, failure, logged)`
	pgPlainColumns = `id, fence, took_ms, outputs, 'success' AS to_state, NULL::text AS reason, false AS unspent, false AS crashed, 0::bigint AS delay_us,
    NULL::text AS digest, NULL::text AS warning, NULL::text AS failure, NULL::text AS logged
  FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) AS d(id, fence, took_ms, outputs)`
)

// pgAgain places what is tried again or waits.
const pgAgain = `, later AS (
  INSERT INTO task_later (task_id, run_at) SELECT id, run_at FROM fin WHERE to_state IN ('pending', 'waiting') AND delay_us > 0
), back AS (
  INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM fin WHERE to_state = 'pending' AND delay_us <= 0 AND limits IS NULL
), back_held AS (
  INSERT INTO task_held (task_id, gate, priority) SELECT id, ` + pgGate + `, priority FROM fin WHERE to_state = 'pending' AND delay_us <= 0 AND limits IS NOT NULL
)`

// pgDead notes what nobody tries again.
const pgDead = `, dead AS (
  INSERT INTO dead_letter (task_id, type, run_id, class, at) SELECT id, type, run_id, failure ->> 'class', at FROM fin WHERE to_state = 'error'
)`

// pgSlots gives back the places under limits.
const pgSlots = `, vacated AS (
  DELETE FROM task_slot s USING fin WHERE s.task_id = fin.id
)`

// pgCircuit counts what the outcomes say of their downstreams.
const pgCircuit = `, counted AS (
  INSERT INTO circuit_count (key, worker, bucket, good, bad)
  SELECT circuit, coalesce(worker, ''), date_bin('15 seconds', at, 'epoch'), count(*) FILTER (WHERE to_state = 'success'), count(*) FILTER (WHERE to_state <> 'success')
  FROM fin WHERE circuit IS NOT NULL AND (to_state = 'success' OR failure ->> 'class' IN ('transient', 'timeout'))
  GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
  ON CONFLICT (key, bucket, worker) DO UPDATE SET good = circuit_count.good + excluded.good, bad = circuit_count.bad + excluded.bad
), probed AS (
  DELETE FROM circuit_probe p USING fin WHERE p.task_id = fin.id
)`

// pgEffects makes the tasks that send messages and notes the artifacts. A message
// whose key is known is left alone.
const pgEffects = `, message AS (
  SELECT * FROM unnest($15::bigint[], $16::bigint[], $17::text[], $18::text[]) AS m(id, fence, key, payload)
), keyed AS (
  INSERT INTO task_key (type, upstream_key, task_id)
  SELECT 'deliver', m.key, nextval(pg_get_serial_sequence('task_queue', 'id')) FROM message m JOIN fin USING (id, fence) ORDER BY m.key
  ON CONFLICT DO NOTHING RETURNING task_id, upstream_key
), posted AS (
  INSERT INTO task_queue (id, run_id, type, upstream_key, payload, priority, placed, circuit)
  SELECT DISTINCT ON (k.task_id) k.task_id, fin.run_id, 'deliver', m.key, m.payload::json, fin.priority, true, 'deliver/' || (m.payload::json ->> 'channel')
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

// parts says what the outcomes of a batch ask for. Most batches ask for little, and
// what a statement does not have costs nothing.
type parts struct{ plain, again, dead, slots, circuit, flow, child, effects, hand bool }

func partsOf(rows []ended) parts {
	p := parts{plain: true}
	for _, e := range rows {
		p.plain = p.plain && e.To == "success" && e.Reason == "" && !e.Unspent && !e.crashed && e.Digest == "" && e.Warning == "" &&
			e.failure == nil && len(e.messages) == 0 && len(e.Artifacts) == 0
		p.again = p.again || e.To == "pending" || e.To == "waiting" || e.To == "cancelled"
		p.dead = p.dead || e.To == "error"
		p.slots = p.slots || !e.Ungated
		p.circuit = p.circuit || !e.Ungated
		p.flow = p.flow || !e.Alone
		p.child = p.child || !e.Alone && !e.Topmost
		p.effects = p.effects || len(e.messages) > 0 || len(e.Artifacts) > 0
	}
	return p
}

// args is how many arguments the statement has before those of pgHand.
func (p parts) args() int {
	switch {
	case p.effects:
		return 26
	case p.plain:
		return 5
	}
	return 14
}

// texts are the finishing statements put together so far.
type texts struct{ all sync.Map }

func (t *texts) of(p parts) string {
	if text, ok := t.all.Load(p); ok {
		return text.(string) //nolint:forcetypeassert // Nothing else is kept.
	}
	text := p.text()
	t.all.Store(p, text)
	return text
}

// text puts a finishing statement together.
func (p parts) text() string {
	var b strings.Builder
	b.WriteString(pgFinish)
	for _, part := range []struct {
		wanted bool
		text   string
	}{{p.again, pgAgain}, {p.dead, pgDead}, {p.slots, pgSlots}, {p.circuit, pgCircuit}, {p.flow, pgFlow}, {p.child, pgChild}, {p.effects, pgEffects}, {true, pgTell}} {
		if part.wanted {
			b.WriteString(part.text)
		}
	}
	switch {
	case p.hand:
		b.WriteString(pgHand + pgFinishedHanding)
	case p.flow:
		b.WriteString(pgFinished + pgFollowed)
	default:
		b.WriteString(pgFinished)
	}
	words := append(p.ends(), p.releases()...)
	if p.plain {
		words = append(words, "{columns}", pgPlainColumns)
	} else {
		words = append(words, "{columns}", pgAllColumns)
	}
	return strings.NewReplacer(words...).Replace(b.String())
}

// ends are the words for how tasks end.
func (p parts) ends() []string {
	now := "coalesce($1::timestamptz, clock_timestamp())"
	if !p.again {
		return []string{"{state}", "d.to_state", "{reason}", "d.reason", "{again}", "", "{finished}", now}
	}
	return []string{
		// An attempt of a stopped run does not come back.
		"{state}", "CASE WHEN d.to_state IN ('pending', 'waiting') THEN CASE WHEN t.stop IS NULL THEN d.to_state ELSE 'cancelled' END ELSE d.to_state END",
		"{reason}", "CASE WHEN d.to_state IN ('pending', 'waiting', 'cancelled') THEN coalesce(t.stop, d.reason) ELSE d.reason END",
		"{again}", "run_at = CASE WHEN d.to_state IN ('pending', 'waiting') THEN " + now + " + d.delay_us * interval '1 microsecond' ELSE t.run_at END,\n    ",
		"{finished}", "CASE WHEN d.to_state NOT IN ('pending', 'waiting') OR t.stop IS NOT NULL THEN " + now + " END",
	}
}
