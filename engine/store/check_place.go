package store

import (
	"context"
	"encoding/json"
	"slices"

	"madeira/engine/task"
)

// places are the narrow tables in which a task can stand.
const places = `SELECT task_id, 'task_ready' AS place, 0 AS fence FROM task_ready UNION ALL SELECT task_id, 'task_later', 0 FROM task_later
	UNION ALL SELECT task_id, 'task_held', 0 FROM task_held UNION ALL SELECT task_id, 'task_undecided', 0 FROM task_undecided
	UNION ALL SELECT task_id, 'task_lease', fence FROM task_lease UNION ALL SELECT task_id, 'dead_letter', 0 FROM dead_letter`

func (c *checker) loadPlaces(ctx context.Context, low, high int64, tasks map[int64]*taskFacts) error {
	var all []placeFacts
	if err := c.tx.NewRaw("SELECT task_id, place, fence FROM ("+places+") AS p WHERE task_id BETWEEN ? AND ?", low, high).Scan(ctx, &all); err != nil {
		return err
	}
	for _, p := range all {
		if t := tasks[p.TaskID]; t != nil {
			t.places = append(t.places, p)
		}
	}
	return nil
}

func (c *checker) place(t *taskFacts) {
	may, must := standing(t)
	var stands []string
	for _, p := range t.places {
		stands = append(stands, p.Place)
		if p.Place == "task_lease" && p.Fence != t.Fence {
			c.add("I18", "task %d has fence %d, its lease %d", t.ID, t.Fence, p.Fence)
		}
	}
	dead := slices.Contains(stands, "dead_letter")
	if dead != (t.State == task.Error) {
		c.add("I16", "task %d is %s, and that it is a dead letter is %t", t.ID, t.State, dead)
	}
	stands = slices.DeleteFunc(stands, func(s string) bool { return s == "dead_letter" })
	switch {
	case len(stands) == 0 && !must:
	case len(stands) == 1 && slices.Contains(may, stands[0]):
	default:
		c.add("I18", "task %d is %s and stands in %v, want one of %v", t.ID, t.State, stands, may)
	}
	if t.State != task.Waiting {
		return
	}
	if t.Reason == task.ReasonElements && t.Unmet == 0 || t.Reason == task.ReasonChild && !t.ChildLives && len(stands) == 0 {
		c.add("I18", "task %d waits, %s, and nothing is left to wake it", t.ID, t.Reason)
	}
}

// standing returns where a task may stand, and whether it has to.
func standing(t *taskFacts) (may []string, must bool) {
	switch {
	case t.InLine && t.State != task.Processing:
		return nil, false
	case t.State == task.Pending && t.RunID == "" && !t.Placed && t.Fence == 0 && t.Moves == 0:
		return []string{"task_ready", "task_later", "task_held"}, false // put into the table by a stranger
	case t.State == task.Pending:
		return []string{"task_ready", "task_later", "task_held"}, true
	case t.State == task.Processing:
		return []string{"task_lease"}, true
	case t.State == task.Waiting:
		return []string{"task_later"}, false // until it expires
	case t.State == task.Blocked && t.Asleep:
		return nil, false
	case t.State == task.Blocked && t.Unmet == 0:
		return []string{"task_undecided"}, true
	}
	return nil, false
}

// checkStrays looks for rows of tasks that are not there.
func (c *checker) checkStrays(ctx context.Context) error {
	var strays []placeFacts
	err := c.tx.NewRaw(`SELECT p.task_id, p.place FROM (`+places+`
		UNION ALL SELECT task_id, 'task_slot', 0 FROM task_slot UNION ALL SELECT task_id, 'circuit_probe', 0 FROM circuit_probe) AS p
		WHERE NOT EXISTS (SELECT 1 FROM task_queue t WHERE t.id = p.task_id) LIMIT 1000`).Scan(ctx, &strays)
	if err != nil {
		return err
	}
	for _, p := range strays {
		c.add("I18", "task %d stands in %s and has no row", p.TaskID, p.Place)
	}
	strays = nil
	err = c.tx.NewRaw(`SELECT l.task_id, 'task_log' AS place FROM task_log l WHERE l.seq = 1 AND NOT EXISTS (SELECT 1 FROM task_queue t WHERE t.id = l.task_id) LIMIT 1000`).Scan(ctx, &strays)
	for _, p := range strays {
		c.add("I06", "task %d has a log and no row", p.TaskID)
	}
	return err
}

// checkLimits holds the places under limits against what the tasks ask for.
func (c *checker) checkLimits(ctx context.Context) error {
	var rows []struct {
		Key    string
		Slot   int
		TaskID int64
		State  task.State
		Ready  bool
		Limits document
	}
	err := c.tx.NewRaw(`SELECT s.key, s.slot, s.task_id, t.state, r.task_id IS NOT NULL AS ready, t.limits
		FROM task_slot s JOIN task_queue t ON t.id = s.task_id LEFT JOIN task_ready r ON r.task_id = s.task_id ORDER BY s.key, s.slot`).Scan(ctx, &rows)
	if err != nil {
		return err
	}
	for _, s := range rows {
		if s.State != task.Processing && !s.Ready {
			c.add("I14", "task %d is %s and keeps place %d under %s", s.TaskID, s.State, s.Slot, s.Key)
		}
		var limits []task.Limit
		_ = json.Unmarshal(s.Limits, &limits)
		i := slices.IndexFunc(limits, func(l task.Limit) bool { return l.Key == s.Key })
		if i < 0 || s.Slot > limits[i].Slots {
			c.add("I14", "task %d has place %d under %s, which its limits do not give it", s.TaskID, s.Slot, s.Key)
		}
	}
	return nil
}
