package store

import (
	"context"
	"fmt"
	"time"
)

// turnRules finds what breaks the rules of turns: the id of a run, and a text that
// follows it. A run that another one waits for may be part of the turn of that one.
var turnRules = []struct{ id, query, text string }{
	{"I14", `SELECT CAST(s.run_id AS text) AS id FROM run_slot s LEFT JOIN run r ON r.id = s.run_id AND r.finished_at IS NULL WHERE r.id IS NULL`,
		"run %s is not live and has a slot"},
	{"I14", `SELECT CAST(s.run_id AS text) AS id FROM run_slot s JOIN run_turn q ON q.run_id = s.run_id`,
		"run %s waits for its turn and has a slot"},
	{"I14", `SELECT CAST(s.run_id AS text) AS id FROM run_slot s JOIN run r ON r.id = s.run_id WHERE s.key <> coalesce(r.turn_key, '') OR s.slot > coalesce(r.turn_slots, 0)`,
		"run %s has a slot that its limit does not give it"},
	{"I14", `SELECT CAST(r.id AS text) AS id FROM run r WHERE r.finished_at IS NULL AND r.turn_key IS NOT NULL AND r.parent_task IS NULL
		AND NOT EXISTS (SELECT 1 FROM run_slot s WHERE s.run_id = r.id) AND NOT EXISTS (SELECT 1 FROM run_turn q WHERE q.run_id = r.id)`,
		"run %s has begun without a slot"},
	{"trn", `SELECT CAST(q.run_id AS text) AS id FROM run_turn q LEFT JOIN run r ON r.id = q.run_id AND r.finished_at IS NULL WHERE r.id IS NULL`,
		"run %s is not live and waits for its turn"},
	{"trn", `SELECT CAST(w.run_id AS text) AS id FROM run_waiter w LEFT JOIN run r ON r.id = w.run_id AND r.finished_at IS NULL AND r.parent_task IS NOT NULL WHERE r.id IS NULL`,
		"run %s is not live, or has no parent_task, and other tasks wait for it"},
	{"trn", `SELECT CAST(q.run_id AS text) AS id FROM run_turn q JOIN task_queue t ON t.run_id = q.run_id AND t.step IS NOT NULL AND t.state = 'processing'`,
		"run %s waits for its turn and a step of it is at work"},
	{"trn", `SELECT CAST(max(r.id) AS text) AS id FROM (SELECT CAST(r.id AS text) AS id, r.job FROM run r WHERE r.finished_at IS NULL AND r.overlap IS NOT NULL AND r.parent_task IS NULL
		AND NOT EXISTS (SELECT 1 FROM run_turn q WHERE q.run_id = r.id)) AS r GROUP BY r.job HAVING count(*) > 1`,
		"run %s is not the only one of its job, though they must not overlap"},
	{"trn", `SELECT CAST(o.run_id AS text) AS id FROM occurrence o WHERE o.outcome = 'waiting' AND o.run_id IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM run_turn q WHERE q.run_id = o.run_id)`,
		"run %s has begun or is over, and its due time is said to be waiting"},
}

// idleTurn is how long a run may wait with nothing in its way while somebody works
// on the database: engines look every second.
const idleTurn = time.Minute

// checkTurns holds runs that take turns against each other.
func (c *checker) checkTurns(ctx context.Context) error {
	for _, rule := range turnRules {
		var rows []struct{ ID string }
		if err := c.tx.NewRaw(rule.query+" LIMIT 1000").Scan(ctx, &rows); err != nil {
			return err
		}
		for _, r := range rows {
			c.add(rule.id, rule.text, r.ID)
		}
	}
	return c.idleTurns(ctx)
}

// idleTurns looks for runs that could begin and that nobody lets begin.
func (c *checker) idleTurns(ctx context.Context) error {
	line, err := lineUp(ctx, c.tx, c.now, turnsAtOnce)
	if err != nil {
		return err
	}
	for _, w := range line.choose(turnsAtOnce) {
		var rows []struct{ Since, Freed, NotBefore, Seen instant }
		err := c.tx.NewRaw(`SELECT q.since, q.not_before, (SELECT max(seen_at) FROM worker) AS seen,
			(SELECT max(r.finished_at) FROM run r WHERE r.job = q.job OR r.turn_key = q.key) AS freed FROM run_turn q WHERE q.run_id = ?`, w.RunID).Scan(ctx, &rows)
		if err != nil {
			return fmt.Errorf("look since when run %s could begin: %w", w.RunID, err)
		}
		for _, r := range rows {
			could := r.Since
			for _, at := range []instant{r.Freed, r.NotBefore} {
				if at.After(could.Time) {
					could = at
				}
			}
			if c.now.Sub(could.Time) > idleTurn && c.now.Sub(r.Seen.Time) < idleTurn {
				c.add("trn", "run %s waits for its turn, and nothing is in its way since %s", w.RunID, could)
			}
		}
	}
	return nil
}
