package engine_test

import (
	"context"
	"fmt"

	"madeira/engine/store/storetest"
)

// verdict returns every invariant that the database of a simulation breaks.
func (s *sim) verdict(ctx context.Context) []string {
	s.Helper()
	broken, err := storetest.Check(ctx, s.db)
	if err != nil {
		s.Fatal(err)
	}
	// The order of the witness is that of the commits.
	for _, rule := range []struct{ id, query string }{
		{"I09 has an effect of an earlier attempt after the claim of a later one", `
			SELECT e.task_id, e.fence FROM witness e WHERE e.kind = 'effect'
			AND EXISTS (SELECT 1 FROM witness c WHERE c.kind = 'claim' AND c.task_id = e.task_id AND c.fence > e.fence AND c.seq < e.seq)`},
		{"I09 has an effect without a claim before it", `
			SELECT e.task_id, e.fence FROM witness e WHERE e.kind = 'effect'
			AND NOT EXISTS (SELECT 1 FROM witness c WHERE c.kind = 'claim' AND c.task_id = e.task_id AND c.fence = e.fence AND c.seq < e.seq)`},
		{"I03 has more than one effect or claim of one attempt", `
			SELECT task_id, fence FROM witness GROUP BY kind, task_id, fence HAVING count(*) > 1`},
		{"I03 is a success without the effect of its attempt", `
			SELECT id, fence FROM task_queue t WHERE state = 'success' AND type IN ('work', 'deliver') AND for_each IS NULL
			AND NOT EXISTS (SELECT 1 FROM witness e WHERE e.kind = 'effect' AND e.task_id = t.id AND e.fence = t.fence)`},
		{"I08 is a success with the result of another attempt", `
			SELECT id, fence FROM task_queue WHERE state = 'success' AND type IN ('work', 'deliver') AND for_each IS NULL
			AND json_extract(outputs, '$.fence') <> fence`},
		{"I14 began while runs of its job, or under its key, had the turn", `
			SELECT t.id, t.fence FROM run r JOIN task_queue t ON t.run_id = r.id WHERE r.started_at IS NOT NULL AND
			(SELECT count(*) FROM run o WHERE o.id <> r.id AND o.turn_key = r.turn_key AND o.started_at < r.started_at AND o.finished_at > r.started_at)
				>= (SELECT max(o.turn_slots) FROM run o WHERE o.turn_key = r.turn_key AND (o.id = r.id OR o.started_at <= r.started_at AND o.finished_at > r.started_at))
			OR r.overlap IS NOT NULL AND EXISTS (SELECT 1 FROM run o WHERE o.id <> r.id AND o.job = r.job AND o.started_at < r.started_at AND o.finished_at > r.started_at)`},
		{"I02 is not over", `
			SELECT id, fence FROM task_queue WHERE state NOT IN ('success', 'error', 'skipped', 'cancelled')`},
	} {
		broken = append(broken, s.offenders(ctx, rule.id, rule.query)...)
	}
	return broken
}

// offenders returns a line for each row of a query of tasks and fences.
func (s *sim) offenders(ctx context.Context, rule, query string) []string {
	s.Helper()
	read, _ := s.db.SQL()
	rows, err := read.QueryContext(ctx, query)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var broken []string
	for rows.Next() {
		var id, fence int64
		if err := rows.Scan(&id, &fence); err != nil {
			s.Fatal(err)
		}
		broken = append(broken, fmt.Sprintf("%.4stask %d, claim %d: %s", rule, id, fence, rule[4:]))
	}
	if err := rows.Err(); err != nil {
		s.Fatal(err)
	}
	return broken
}
