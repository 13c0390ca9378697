package store

import (
	"context"

	"madeira/engine/task"
)

// runFacts is a row of run with what its steps add up to.
type runFacts struct {
	ID          string
	Job         string
	Key         string
	Status      task.RunStatus
	Phase       task.Phase
	Stopped     string
	Version     int
	Kept        int // version of run_key
	OpenSteps   int
	LaterSteps  int
	FailedSteps int
	Undecided   bool
	Open        int // steps of this phase that are not over
	Later       int // of later phases
	Failed      int // steps that ended badly, outside of finally
	Claimed     int
}

// checkRuns goes through all runs in the order of their ids.
func (c *checker) checkRuns(ctx context.Context) error {
	for last := "00000000-0000-0000-0000-000000000000"; len(c.broken) < maxBroken; {
		var page []runFacts
		err := c.tx.NewRaw(`WITH page AS (SELECT * FROM run WHERE id > ? ORDER BY id LIMIT ?), facts AS (
			SELECT t.run_id,
				sum(CASE WHEN t.state NOT IN ('success', 'error', 'skipped', 'cancelled') AND t.phase = p.phase THEN 1 ELSE 0 END) AS open,
				sum(CASE WHEN t.state NOT IN ('success', 'error', 'skipped', 'cancelled') AND t.phase <> p.phase THEN 1 ELSE 0 END) AS later,
				sum(CASE WHEN t.phase <> 'finally' AND (t.state = 'error' AND NOT t.continue_on_error OR t.state = 'cancelled' AND coalesce(t.reason, '') <> 'repeated'
					OR t.state = 'skipped' AND coalesce(t.reason, '') <> 'condition' AND NOT (t.continue_on_error AND coalesce(t.reason, '') <> 'needs_failed')) THEN 1 ELSE 0 END) AS failed,
				sum(CASE WHEN t.fence > 0 THEN 1 ELSE 0 END) AS claimed
			FROM task_queue t JOIN page p ON p.id = t.run_id WHERE t.step IS NOT NULL AND t.element = '' GROUP BY t.run_id)
			SELECT CAST(p.id AS text) AS id, p.job, coalesce(p.upstream_key, '') AS key, p.status, p.phase, coalesce(p.stopped, '') AS stopped,
				coalesce(p.version, 0) AS version, coalesce(k.version, 0) AS kept, p.open_steps, p.later_steps, p.failed_steps,
				u.run_id IS NOT NULL AS undecided, coalesce(f.open, 0) AS open, coalesce(f.later, 0) AS later,
				coalesce(f.failed, 0) AS failed, coalesce(f.claimed, 0) AS claimed
			FROM page p LEFT JOIN facts f ON f.run_id = p.id LEFT JOIN run_key k ON k.run_id = p.id LEFT JOIN run_undecided u ON u.run_id = p.id
			ORDER BY p.id`, last, checkPage).Scan(ctx, &page)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			c.run(r)
		}
		last = page[len(page)-1].ID
	}
	return c.strayRuns(ctx)
}

// run checks that a run is what its steps make it.
func (c *checker) run(r runFacts) {
	if r.Open != r.OpenSteps || r.Later != r.LaterSteps {
		c.add("run", "%s counts %d open steps and %d later; it has %d and %d", r.ID, r.OpenSteps, r.LaterSteps, r.Open, r.Later)
	}
	if r.Status.Live() != (r.Open+r.Later > 0 || r.Undecided) {
		c.add("run", "%s is %s with %d open steps and %d later", r.ID, r.Status, r.Open, r.Later)
	}
	if r.Status.Live() && r.Open == 0 && !r.Undecided {
		c.add("run", "%s is %s, its phase %s is over, and nobody is asked for the next", r.ID, r.Status, r.Phase)
	}
	if r.Stopped == "" && (r.Status.EndedWell() && r.Failed > 0 || r.Status == task.RunError && r.Failed == 0) {
		c.add("run", "%s is %s with %d failed steps", r.ID, r.Status, r.Failed)
	}
	if !r.Status.Live() && (r.Status == task.RunCancelled) != (r.Stopped == "cancelled") {
		c.add("run", "%s is %s and was stopped as %q", r.ID, r.Status, r.Stopped)
	}
	if r.Status == task.RunPending && r.Claimed > 0 {
		c.add("run", "%s is pending and a step of it was claimed", r.ID)
	}
	if r.Key != "" && r.Version != r.Kept {
		c.add("run", "%s has version %d, its key has %d", r.ID, r.Version, r.Kept)
	}
	if r.Version == 0 && r.Status.EndedWell() {
		c.add("run", "%s is %s without a version", r.ID, r.Status)
	}
}

// strayRuns looks for tasks of runs that are not there.
func (c *checker) strayRuns(ctx context.Context) error {
	var strays []struct {
		ID    int64
		RunID string
	}
	err := c.tx.NewRaw(`SELECT t.id, CAST(t.run_id AS text) AS run_id FROM task_queue t
		WHERE t.run_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM run r WHERE r.id = t.run_id)
		AND NOT EXISTS (SELECT 1 FROM run_archiving g WHERE g.run_id = t.run_id) LIMIT 1000`).Scan(ctx, &strays)
	for _, s := range strays {
		c.add("run", "task %d belongs to run %s, which is not there", s.ID, s.RunID)
	}
	return err
}
