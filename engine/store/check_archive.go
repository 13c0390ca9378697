package store

import "context"

// archiveRules finds what breaks the archive: the id of a row, and a text that
// follows it. Runs on their way, or on the way out, have their parts in order.
var archiveRules = []struct{ query, text string }{
	{"SELECT CAST(a.id AS text) AS id FROM run_archive a JOIN run r ON r.id = a.id", "run %s is in the archive and at work"},
	{"SELECT CAST(id AS text) AS id FROM run_archive WHERE finished_at IS NULL OR status IN ('pending', 'running', 'waiting')", "run %s is in the archive and is not over"},
	{"SELECT CAST(g.run_id AS text) AS id FROM run_archiving g WHERE NOT EXISTS (SELECT 1 FROM run_archive a WHERE a.id = g.run_id)", "run %s is on its way to the archive and not there"},
	{"SELECT CAST(a.id AS text) AS id FROM task_archive a JOIN task_queue t ON t.id = a.id", "task %s is in the archive and at work"},
	{"SELECT CAST(id AS text) AS id FROM task_archive WHERE state NOT IN ('success', 'error', 'skipped', 'cancelled')", "task %s is in the archive and is not over"},
	{"SELECT CAST(a.id AS text) AS id FROM task_archive a WHERE a.run_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM run_archive r WHERE r.id = a.run_id)", "task %s is in the archive and its run is not"},
	{`SELECT CAST(a.id AS text) AS id FROM task_archive a WHERE a.run_id IS NULL
		AND a.moves <> (SELECT count(*) FROM task_log_archive l WHERE l.task_id = a.id)`, "task %s is in the archive and not all of its log is"},
	{`SELECT CAST(l.task_id AS text) AS id FROM task_log_archive l JOIN task_log h ON h.task_id = l.task_id AND h.seq = l.seq`, "task %s has the same move in its log twice"},
}

// checkArchive holds the archive against what is at work.
func (c *checker) checkArchive(ctx context.Context) error {
	for _, rule := range archiveRules {
		var rows []struct{ ID string }
		if err := c.tx.NewRaw(rule.query+" LIMIT 1000").Scan(ctx, &rows); err != nil {
			return err
		}
		for _, r := range rows {
			c.add("arc", rule.text, r.ID)
		}
	}
	return nil
}
