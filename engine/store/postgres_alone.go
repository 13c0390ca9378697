package store

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"madeira/engine/task"
)

// aloneRest is how long claims go by the statements for everything after one for tasks
// of no run met something else.
const aloneRest = time.Second

// pgClaimAlone takes tasks of no run while nothing is held, which needs a third less of
// the server than pgClaim. Its arguments are those, and $7, how many of them go to the
// tasks that wait longest. It takes those of no run among the first $4; where more than
// one priority is ready it leaves so many as are to go by age. Its last row, which has
// no claimed_at, says in microseconds how long it took, and 1 where the rest has to be
// claimed by the other statements.
const pgClaimAlone = `
WITH picked AS MATERIALIZED (
  SELECT r.ctid AS at, r.priority, r.run_id FROM task_ready r WHERE r.type = ANY($3::text[]) AND NOT EXISTS (SELECT FROM hold) ORDER BY r.priority, r.task_id LIMIT $4 FOR UPDATE SKIP LOCKED
), aged AS MATERIALIZED (
  SELECT CASE WHEN $7::int > 0 AND (SELECT priority FROM task_ready ORDER BY priority DESC LIMIT 1) > (SELECT min(priority) FROM picked) THEN $7::int ELSE 0 END AS n
), taken AS (
  DELETE FROM task_ready r WHERE r.ctid = ANY(ARRAY(SELECT at FROM picked WHERE run_id IS NULL LIMIT $4::int - (SELECT n FROM aged))) RETURNING r.task_id
), claimed AS (
  UPDATE task_queue t SET state = 'processing', reason = NULL, fence = t.fence + 1, attempt = t.attempt + 1,
    worker = $2::text, claimed_at = coalesce($1::timestamptz, clock_timestamp())
  FROM taken WHERE t.id = taken.task_id AND t.state = 'pending'
  RETURNING t.id, t.fence, t.type, t.payload, t.attempt, t.priority, t.claimed_at,
    CASE WHEN num_nonnulls(t.upstream_key, t.timeout_ms, t.limits, t.circuit, t.detail) > 0 OR t.crashes > 0 OR t.retry <> '{}' OR t.refs <> '[]' THEN
      json_build_object('key', t.upstream_key, 'timeout', t.timeout_ms, 'limited', t.limits IS NOT NULL, 'circuit', t.circuit, 'woken', t.detail,
        'crashes', t.crashes, 'retry', t.retry, 'refs', t.refs) END AS seldom
), leased AS (
  INSERT INTO task_lease (task_id, fence, worker, claim, lease_until)
  SELECT id, fence, $2::text, $6::bigint, claimed_at + $5::bigint * interval '1 microsecond' FROM claimed
)
SELECT id, fence, type, payload, attempt, priority, claimed_at, seldom FROM claimed
UNION ALL SELECT (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint,
  (EXISTS (SELECT FROM hold) OR (SELECT n FROM aged) > 0 OR EXISTS (SELECT FROM picked WHERE run_id IS NOT NULL))::int, '', NULL, 0, 0, NULL, NULL`

// seldom is what most tasks of no run have at its default.
type seldom struct {
	Key     string          `json:"key"`
	Timeout int64           `json:"timeout"`
	Limited bool            `json:"limited"`
	Circuit string          `json:"circuit"`
	Woken   string          `json:"woken"`
	Crashes int             `json:"crashes"`
	Retry   json.RawMessage `json:"retry"`
	Refs    json.RawMessage `json:"refs"`
}

// claimsAlone reports whether a claim goes to tasks of no run first.
func (p *postgres) claimsAlone(w task.Want) bool {
	_, low := p.floors.of(w)
	return w.RunID == "" && !low && time.Now().UnixNano() >= p.mixed.Load()
}

// queueAlone adds a claim of tasks of no run to what is sent, and notes what is left
// for the other statements.
func (p *postgres) queueAlone(send *pgx.Batch, b batch, w task.Want, a *answer) {
	send.Queue(pgClaimAlone, p.instant(), b.worker, w.Types, w.N, w.Lease.Microseconds(), b.claim, w.Oldest).Query(func(rows pgx.Rows) error {
		before := len(a.claimed)
		took, others, err := a.readAlone(rows, w)
		got := a.claimed[before:]
		switch {
		case err != nil:
		case !others:
			p.floors.scanned(w, got, took)
		default:
			p.floors.claimed(got)
			p.mixed.Store(time.Now().Add(aloneRest).UnixNano())
			w.N -= len(got)
			w.Oldest = min(w.Oldest, w.N)
			a.rest = append(a.rest, w)
		}
		return err
	})
}

// readAlone reads what pgClaimAlone returns.
func (a *answer) readAlone(rows pgx.Rows, w task.Want) (took time.Duration, others bool, err error) {
	defer rows.Close()
	a.claimed = slices.Grow(a.claimed, w.N)
	var kind pgtype.DriverBytes
	var at *time.Time
	var c task.Claimed
	var payload, more []byte
	into := []any{&c.TaskID, &c.Fence, &kind, &payload, &c.Attempt, &c.Priority, &at, &more}
	for rows.Next() {
		c = task.Claimed{}
		if err := rows.Scan(into...); err != nil {
			return 0, false, err
		}
		if at == nil {
			took, others = time.Duration(c.TaskID)*time.Microsecond, c.Fence > 0
			continue
		}
		c.Type, c.Settings, c.At, c.Lease = known(w.Types, kind), payload, at.UTC(), w.Lease
		if more != nil {
			if err := fillSeldom(&c, more); err != nil {
				return 0, false, err
			}
		}
		a.claimed = append(a.claimed, c)
	}
	return took, others, rows.Err()
}

// known is the name as it is in the list.
func known(names []string, name []byte) string {
	for _, n := range names {
		if n == string(name) {
			return n
		}
	}
	return string(name)
}

func fillSeldom(c *task.Claimed, more []byte) error {
	var s seldom
	if err := json.Unmarshal(more, &s); err != nil {
		return err
	}
	c.Key, c.Limited, c.Circuit, c.Woken, c.Crashes = s.Key, s.Limited, s.Circuit, s.Woken, s.Crashes
	fillClaimed(c, c.Settings, s.Refs, s.Retry, s.Timeout)
	return nil
}

// pgSucceedAlone writes plain successes of tasks that belong to no run, hold no place
// under a limit and speak with no downstream, as pgFinish does with half the columns,
// and returns how many it has hit. Their outputs are {outputs}.
const pgSucceedAlone = `
WITH freed AS (
  DELETE FROM task_lease l USING unnest($2::bigint[], $3::bigint[], $4::bigint[]{arrays}) AS d(id, fence, took_ms{names})
  WHERE l.task_id = d.id AND l.fence = d.fence
  RETURNING d.*
), fin AS (
  UPDATE task_queue t SET state = 'success', reason = NULL, moves = t.moves + 1, outputs = {outputs}, warning = NULL, failure = NULL,
    finished_at = coalesce($1::timestamptz, clock_timestamp())
  FROM freed d
  WHERE t.id = d.id AND t.fence = d.fence AND t.state = 'processing'
  RETURNING t.id, t.fence, t.moves, t.attempt, t.worker, t.claimed_at, t.finished_at, d.took_ms
), told AS (
  INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, worker, claimed_at, took_ms, at)
  SELECT id, moves, 'pending', 'success', attempt, fence, worker, claimed_at, took_ms, finished_at FROM fin
)
SELECT count(*) FROM fin`

// noOutputs is what a step without outputs leaves.
const noOutputs = "{}"

// The two texts of pgSucceedAlone: most tasks of no run have no outputs.
var (
	pgSucceedPlain   = strings.NewReplacer("{arrays}", "", "{names}", "", "{outputs}", "'"+noOutputs+"'").Replace(pgSucceedAlone)
	pgSucceedOutputs = strings.NewReplacer("{arrays}", ", $5::text[]", "{names}", ", outputs", "{outputs}", "d.outputs::json").Replace(pgSucceedAlone)
)

// succeeding returns the statement that writes what pgSucceedAlone can, with its arguments.
func succeeding(now *time.Time, rows []ended) (text string, args []any) {
	n := len(rows)
	numbers := make([]int64, 3*n)
	ids, fences, took := numbers[:n:n], numbers[n:2*n:2*n], numbers[2*n:]
	bare := true
	for i := range rows {
		e := &rows[i]
		ids[i], fences[i], took[i] = e.TaskID, e.Fence, e.Took.Milliseconds()
		bare = bare && string(e.outputs) == noOutputs
	}
	args = []any{now, ids, fences, took}
	if bare {
		return pgSucceedPlain, args
	}
	outputs := make([]*string, n)
	for i := range rows {
		outputs[i] = rows[i].outputs.argument()
	}
	return pgSucceedOutputs, append(args, outputs)
}

// queueSuccesses adds outcomes that pgSucceedAlone can write to what is sent.
func queueSuccesses(send *pgx.Batch, now *time.Time, rows []ended, a *answer) {
	text, args := succeeding(now, rows)
	send.Queue(text, args...).QueryRow(func(row pgx.Row) error {
		var hit int
		if err := row.Scan(&hit); err != nil {
			return err
		}
		if hit < len(rows) {
			return nil // which of them is read from the log, like what was written before
		}
		for i := range rows {
			a.finished = append(a.finished, rows[i].Hold)
		}
		return nil
	})
}
