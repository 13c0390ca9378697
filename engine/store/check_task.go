package store

import (
	"encoding/json"
	"time"

	"madeira/engine/task"
)

func readRetry(d document) (task.Retry, error) {
	var r task.Retry
	err := json.Unmarshal(d, &r)
	return r, err
}

func (c *checker) path(t *taskFacts) {
	var before moveFacts
	for i, m := range t.log {
		if m.Seq != i+1 {
			c.add("I06", "task %d: log row %d has number %d", t.ID, i+1, m.Seq)
		}
		if i == 0 && m.From != task.Blocked && m.From != task.Pending {
			c.add("I05", "task %d begins as %s", t.ID, m.From)
		}
		if i > 0 && m.From != before.To {
			c.add("I05", "task %d: move %d leaves %s, the one before reached %s", t.ID, m.Seq, m.From, before.To)
		}
		c.step(t, m, before)
		before = m
	}
	if len(t.log) != t.Moves {
		c.add("I06", "task %d has %d rows in its log and counts %d", t.ID, len(t.log), t.Moves)
	}
	last := t.State
	if last == task.Processing {
		last = task.Pending // a claim gets its row with its outcome
	}
	if len(t.log) > 0 && before.To != last {
		c.add("I06", "task %d is %s, its log ends with %s", t.ID, t.State, before.To)
	}
	if len(t.log) == 0 && last != task.Blocked && last != task.Pending {
		c.add("I06", "task %d is %s and has no log", t.ID, t.State)
	}
}

// step checks one move against the table of moves and the clock.
func (c *checker) step(t *taskFacts, m, before moveFacts) {
	legal := task.CanMove(m.From, m.To)
	if !m.ClaimedAt.IsZero() {
		legal = task.CanMove(m.From, task.Processing) && task.CanMove(task.Processing, m.To)
		if m.ClaimedAt.After(m.At.Time) || m.ClaimedAt.Before(before.At.Time) {
			c.add("I06", "task %d: move %d was claimed at %s, between %s and %s", t.ID, m.Seq, m.ClaimedAt, before.At, m.At)
		}
	} else if m.Reason == task.ReasonReused {
		legal = m.Seq == 1 && m.From == task.Pending && m.To == task.Success && t.ReusedOf != 0
	}
	if !legal {
		c.add("I05", "task %d: move %d from %s to %s is not legal", t.ID, m.Seq, m.From, m.To)
	}
	if m.From.Terminal() && m.Reason != task.ReasonRedrive {
		c.add("I05", "task %d: move %d leaves %s without a redrive", t.ID, m.Seq, m.From)
	}
	if m.At.Before(before.At.Time) {
		c.add("I06", "task %d: move %d at %s comes before %s", t.ID, m.Seq, m.At, before.At)
	}
}

func (c *checker) fences(t *taskFacts) {
	var claims int64
	successes, redrives := 0, 0
	for _, m := range t.log {
		redrives += one(m.Reason == task.ReasonRedrive)
		if m.ClaimedAt.IsZero() {
			if m.Fence != claims {
				c.add("I07", "task %d: move %d has fence %d after %d claims", t.ID, m.Seq, m.Fence, claims)
			}
			continue
		}
		if claims++; m.Fence != claims {
			c.add("I08", "task %d: claim %d has fence %d", t.ID, claims, m.Fence)
		}
		successes += one(m.To == task.Success)
	}
	if t.State == task.Processing {
		claims++
	}
	if claims != t.Fence {
		c.add("I07", "task %d has fence %d after %d claims", t.ID, t.Fence, claims)
	}
	if int64(t.Attempt) > t.Fence {
		c.add("I07", "task %d has spent %d attempts in %d claims", t.ID, t.Attempt, t.Fence)
	}
	if successes > 1+redrives {
		c.add("I08", "task %d succeeded %d times", t.ID, successes)
	}
}

// attempts counts those since the last redrive: it gives a task all of them again.
func (c *checker) attempts(t *taskFacts) {
	count := 0
	for _, m := range t.log {
		switch m.Reason {
		case task.ReasonRedrive:
			count = 0
		case task.ReasonReleased, task.ReasonInfrastructure, task.ReasonLeaseLost, task.ReasonPoison,
			task.ReasonElements, task.WakeJoined, task.WakeChild:
		default:
			count += one(!m.ClaimedAt.IsZero() && m.To != task.Waiting)
		}
	}
	if count > t.MayMake.Attempts()+1 {
		c.add("I10", "task %d made %d attempts that count and may make %d", t.ID, count, t.MayMake.Attempts())
	}
}

func (c *checker) readiness(t *taskFacts) {
	open, bad, redriven, joins := 0, 0, false, false
	var freed time.Time
	for _, n := range t.needs {
		if !n.Found {
			c.add("I12", "task %d needs task %d, which is not there", t.ID, n.NeedsID)
			continue
		}
		open += one(!n.State.Terminal())
		bad += one(endedBadly(n.State, n.Reason, n.ContinueOnError))
		redriven, joins = redriven || n.Redriven, joins || n.ParentID == t.ID
		if n.ParentID != t.ID && n.EndedAt.After(freed) { // elements come after their step has left blocked
			freed = n.EndedAt.Time
		}
	}
	if t.State == task.Cancelled || t.State == task.Skipped && len(t.log) == 1 && t.log[0].LeftOut {
		return // it left blocked because its run ended, or has no part in it
	}
	waits := t.State == task.Blocked || t.State == task.Waiting
	if joins && !waits { // in a rerun it may have elements before it expands, and looks for itself how they ended
		bad = t.UnmetFailed
		redriven = redriven || !t.State.Terminal()
	}
	if waits || !redriven { // what has begun does not look back at needs that a person sent on again
		if t.Unmet != open || t.UnmetFailed != bad {
			c.add("I12", "task %d counts %d needs open and %d failed; it has %d and %d", t.ID, t.Unmet, t.UnmetFailed, open, bad)
		}
		if !waits && open > 0 {
			c.add("I12", "task %d is %s and %d of its needs are not over", t.ID, t.State, open)
		}
	}
	c.release(t, freed)
}

// release checks when, and how often, a task left blocked.
func (c *checker) release(t *taskFacts, freed time.Time) {
	left, redrives := 0, 0
	for _, m := range t.log {
		redrives += one(m.Reason == task.ReasonRedrive)
		if m.From != task.Blocked {
			continue
		}
		left++
		if m.At.Before(freed) {
			c.add("I12", "task %d left blocked at %s, before its needs were over at %s", t.ID, m.At, freed)
		}
	}
	if left > 1+redrives {
		c.add("I12", "task %d left blocked %d times", t.ID, left)
	}
}

// endedBadly reports whether the successors of a task see a failure.
func endedBadly(state task.State, reason string, continueOnError bool) bool {
	switch state {
	case task.Error:
		return !continueOnError
	case task.Cancelled:
		return true
	case task.Skipped: // a condition that could not be evaluated is a failure of the task itself
		return reason == task.ReasonNeedsFailed || reason != task.ReasonCondition && !continueOnError
	}
	return false
}
