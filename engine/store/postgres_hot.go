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
	switch wanted := partsOf(b.ended); {
	case wanted == (parts{plain: true}) && len(b.ended) > 0:
		queueSuccesses(&send, p.instant(), b.ended, &a)
	case len(b.ended) > 0:
		text, args, read := p.finishing(p.instant(), b)
		send.Queue(text, args...).Query(func(rows pgx.Rows) error { return read(&a, rows) })
	}
	p.queueParts(&send, b, &a)
	if len(b.ended) == 0 && !b.more {
		// Nothing has ended, so there is time to look for what other processes left.
		send.Queue(pgUndecided).QueryRow(func(row pgx.Row) error { return row.Scan(&a.undecided) })
	}
	if err := p.pool.SendBatch(ctx, &send).Close(); err != nil {
		return answer{}, err
	}
	return a, nil
}

// queueParts adds the claims of a batch to what is sent. Where a statement for tasks of
// no run met others, answer.rest says what is left to ask for.
func (p *postgres) queueParts(send *pgx.Batch, b batch, a *answer) {
	for _, w := range b.want.Parts() {
		if !b.more && p.claimsAlone(w) {
			p.queueAlone(send, b, w, a)
		} else {
			p.queueClaim(send, p.instant(), b, w, a)
		}
	}
}

// queueClaims adds the claims of a batch to what is sent, by the statements for
// everything.
func (p *postgres) queueClaims(send *pgx.Batch, b batch, a *answer) {
	now := p.instant()
	for _, w := range b.want.Parts() {
		p.queueClaim(send, now, b, w, a)
	}
}

func (p *postgres) queueClaim(send *pgx.Batch, now *time.Time, b batch, w task.Want, a *answer) {
	c := p.claiming(now, b, w)
	send.Queue(c.text, c.args...).Query(func(rows pgx.Rows) error {
		before := len(a.claimed)
		took, err := a.readClaimed(rows, w.Lease)
		c.answered(a.claimed[before:], took)
		return err
	})
}

// A claim is a statement that claims, with its arguments, and what to do with how
// long it took.
type claim struct {
	text     string
	args     []any
	answered func(claimed []task.Claimed, took time.Duration)
}

func (p *postgres) claiming(now *time.Time, b batch, w task.Want) claim {
	c := claim{
		args:     []any{now, b.worker, w.Types, w.N, w.Lease.Microseconds(), b.claim},
		answered: func(claimed []task.Claimed, _ time.Duration) { p.floors.claimed(claimed) },
	}
	from, low := p.floors.of(w)
	pick := pgPick
	switch {
	case len(w.Kin) > 0:
		pick, c.args = pgPickOfRuns, append(c.args, append([]string{w.RunID}, w.Kin...))
	case w.RunID != "":
		pick, c.args = pgPickOfRun, append(c.args, w.RunID)
	case low:
		pick, c.args = pgPickFrom, append(c.args, from.priority, from.id)
	case w.Oldest > 0:
		pick, c.args = pgPickAged, append(c.args, w.Oldest)
	}
	if w.RunID == "" && !low {
		c.answered = func(claimed []task.Claimed, took time.Duration) { p.floors.scanned(w, claimed, took) }
	}
	c.text = pick + pgClaim + pgClaimed
	return c
}

// readFinished reads what a finishing statement returns: see pgFollowed.
func (a *answer) readFinished(rows pgx.Rows) error {
	var h task.Hold
	_, err := pgx.ForEachRow(rows, []any{&h.TaskID, &h.Fence}, func() error {
		switch h.TaskID {
		case -1:
			a.readied += int(h.Fence)
		case -2:
			a.undecided = a.undecided || h.Fence > 0
		case -3:
			a.held = a.held || h.Fence > 0
		default:
			a.finished = append(a.finished, h)
		}
		return nil
	})
	return err
}

// finishing returns the statement that writes the outcomes, with its arguments,
// and what reads its answer.
func (p *postgres) finishing(now *time.Time, b batch) (text string, args []any, read func(*answer, pgx.Rows) error) {
	parts, args := partsOf(b.ended), finishArgs(now, b.ended)
	parts.hand = parts.flow && b.want.Next+b.want.HeavyNext > 0
	if !parts.hand {
		return p.texts.of(parts), args, (*answer).readFinished
	}
	lease := b.want.Lease
	return p.texts.of(parts), append(args, handArgs(b)...), func(a *answer, rows pgx.Rows) error { return a.readHanding(rows, lease) }
}

func finishArgs(now *time.Time, rows []ended) (args []any) {
	n := len(rows)
	ids, fences, delays, took := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	to, reasons := make([]string, n), make([]*string, n)
	unspent, crashed := make([]bool, n), make([]bool, n)
	outputs, digests, warnings := make([]*string, n), make([]*string, n), make([]*string, n)
	failures, logged := make([]*string, n), make([]*string, n)
	for i, e := range rows {
		ids[i], fences[i], to[i], reasons[i] = e.TaskID, e.Fence, string(e.To), nullable(e.Reason)
		unspent[i], crashed[i] = e.Unspent, e.crashed
		delays[i], took[i] = e.Delay.Microseconds(), e.Took.Milliseconds()
		outputs[i], digests[i], warnings[i] = e.outputs.argument(), nullable(e.Digest), nullable(e.Warning)
		failures[i], logged[i] = e.failure.argument(), e.logged.argument()
	}
	args = []any{now, ids, fences, took, outputs}
	p := partsOf(rows)
	if !p.plain {
		args = append(args, to, reasons, unspent, crashed, delays, digests, warnings, failures, logged)
	}
	if p.effects {
		args = append(args, messageArrays(rows)...)
		args = append(args, artifactArrays(rows)...)
	}
	return args
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

// readClaimed returns how long the claim took the server.
func (a *answer) readClaimed(rows pgx.Rows, lease time.Duration) (took time.Duration, err error) {
	defer rows.Close()
	var us int64
	for rows.Next() {
		c, err := scanClaim(rows, &us, lease)
		if err != nil {
			return 0, err
		}
		if c.TaskID != 0 {
			a.claimed = append(a.claimed, c)
		}
	}
	shareRuns(a.claimed)
	return time.Duration(us) * time.Microsecond, rows.Err()
}

// readHanding reads what pgFinishedHanding returns.
func (a *answer) readHanding(rows pgx.Rows, lease time.Duration) error {
	defer rows.Close()
	for rows.Next() {
		var handed int64
		c, err := scanClaim(rows, &handed, lease)
		switch {
		case err != nil:
			return err
		case handed > 0:
			a.readied++
			a.claimed = append(a.claimed, c)
		case c.TaskID < 0:
			a.readied += int(c.Fence)
			a.undecided, a.held = a.undecided || c.Attempt > 0, a.held || c.Crashes > 0
		default:
			a.finished = append(a.finished, c.Hold)
		}
	}
	return rows.Err()
}

// scanClaim reads a row of a claim, behind a number.
func scanClaim(rows pgx.Rows, n *int64, lease time.Duration) (task.Claimed, error) {
	var c task.Claimed
	var payload, refs, retry, each, forEach, run []byte
	var timeout int64
	var at *time.Time
	err := rows.Scan(n, &c.TaskID, &c.Fence, &c.RunID, &c.Step, &c.Element, &c.Type, &c.Key, &payload, &refs,
		&c.Attempt, &c.Crashes, &retry, &timeout, &c.Priority, &at,
		&each, &forEach, &c.MaxParallel, &c.ContinueOnError, &c.Limited, &c.Circuit, &c.Woken, &run)
	if err != nil || at == nil {
		return c, err
	}
	c.At, c.Lease, c.Each, c.ForEach = at.UTC(), lease, each, forEach
	fillClaimed(&c, payload, refs, retry, timeout)
	if run != nil {
		c.Run = readRun(run)
	}
	return c, nil
}

// fillClaimed reads what stands as JSON in the row of a claimed task. What a
// stranger wrote into refs or retry and does not fit counts as not given.
func fillClaimed(c *task.Claimed, payload, refs, retry []byte, timeoutMS int64) {
	c.Settings = json.RawMessage(payload)
	if len(refs) > 2 && json.Unmarshal(refs, &c.Refs) != nil {
		c.Refs = nil
	}
	if len(retry) > 2 && json.Unmarshal(retry, &c.Retry) != nil {
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
	var stop string
	_, err = pgx.ForEachRow(rows, []any{&h.TaskID, &h.Fence, &lost, &stop}, func() error {
		switch {
		case lost:
			beat.Lost = append(beat.Lost, h)
		case stop != "":
			beat.Stopped = append(beat.Stopped, h)
		default:
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
