package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
)

// Check holds all rows of the database against the invariants that must hold
// after any transaction, whatever was killed in between, and returns one line for
// each violation, beginning with its id. It reads one snapshot; others may go on
// writing.
//
//	I05  the log of a task is a legal path
//	I06  its numbers have no gaps, its times do not run backwards, it ends where the row is
//	I07  each claim has the next fence, and no more attempts were spent than claims made
//	I08  no two outcomes of one claim, one success at most, under the fence of the row
//	I10  no more attempts count than the task may make, and one
//	I12  a task left blocked once, after everything it needs was over
//	I18  every task stands in exactly the narrow table that its state asks for
//	run  a run's counters, status and version agree with its tasks
func Check(ctx context.Context, db *store.DB) ([]string, error) {
	c := checker{tasks: map[int64]*taskFacts{}, runs: map[string]*runFacts{}}
	tx, err := snapshot(ctx, db)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	for _, load := range []func(context.Context, *sql.Tx) error{c.loadTasks, c.loadLog, c.loadNeeds, c.loadPlaces, c.loadRuns} {
		if err := load(ctx, tx); err != nil {
			return nil, err
		}
	}
	for _, t := range c.tasks {
		c.path(t)
		c.fences(t)
		c.attempts(t)
		c.readiness(t)
		c.place(t)
	}
	for _, r := range c.runs {
		c.run(r)
	}
	slices.Sort(c.broken)
	return c.broken, nil
}

type checker struct {
	tasks  map[int64]*taskFacts
	runs   map[string]*runFacts
	broken []string
}

// taskFacts is a row of task_queue with all that hangs on it.
type taskFacts struct {
	id                           int64
	run, step, condition, reason string
	state                        task.State
	unmet, unmetFailed           int
	attempt, moves               int
	fence                        int64
	retry                        task.Retry
	log                          []moveFacts
	needs                        []int64
	places                       []string
	leaseFence                   int64
}

type moveFacts struct {
	seq, attempt int
	from, to     task.State
	reason       string
	fence        int64
	claimed, at  time.Time // claimed is zero when the move was no claim
}

func (c *checker) add(id string, format string, args ...any) {
	c.broken = append(c.broken, id+" "+fmt.Sprintf(format, args...))
}

func (c *checker) path(t *taskFacts) {
	var before moveFacts
	for i, m := range t.log {
		if m.seq != i+1 {
			c.add("I06", "task %d: log row %d has number %d", t.id, i+1, m.seq)
		}
		if i == 0 && m.from != task.Blocked && m.from != task.Pending {
			c.add("I05", "task %d begins as %s", t.id, m.from)
		}
		if i > 0 && m.from != before.to {
			c.add("I05", "task %d: move %d leaves %s, the one before reached %s", t.id, m.seq, m.from, before.to)
		}
		c.step(t, m, before)
		before = m
	}
	if len(t.log) != t.moves {
		c.add("I06", "task %d has %d rows in its log and counts %d", t.id, len(t.log), t.moves)
	}
	last := t.state
	if last == task.Processing {
		last = task.Pending // a claim gets its row with its outcome
	}
	if len(t.log) > 0 && before.to != last {
		c.add("I06", "task %d is %s, its log ends with %s", t.id, t.state, before.to)
	}
	if len(t.log) == 0 && last != task.Blocked && last != task.Pending {
		c.add("I06", "task %d is %s and has no log", t.id, t.state)
	}
}

// step checks one move against the table of moves and the clock.
func (c *checker) step(t *taskFacts, m, before moveFacts) {
	legal := task.CanMove(m.from, m.to)
	if !m.claimed.IsZero() {
		legal = task.CanMove(m.from, task.Processing) && task.CanMove(task.Processing, m.to)
		if m.claimed.After(m.at) || m.claimed.Before(before.at) {
			c.add("I06", "task %d: move %d was claimed at %s, between %s and %s", t.id, m.seq, m.claimed, before.at, m.at)
		}
	}
	if !legal {
		c.add("I05", "task %d: move %d from %s to %s is not legal", t.id, m.seq, m.from, m.to)
	}
	if m.from.Terminal() && m.reason != "redrive" {
		c.add("I05", "task %d: move %d leaves %s without a redrive", t.id, m.seq, m.from)
	}
	if m.at.Before(before.at) {
		c.add("I06", "task %d: move %d at %s comes before %s", t.id, m.seq, m.at, before.at)
	}
}

func (c *checker) fences(t *taskFacts) {
	var claims int64
	successes, redrives := 0, 0
	for _, m := range t.log {
		redrives += one(m.reason == "redrive")
		if m.claimed.IsZero() {
			if m.fence != claims {
				c.add("I07", "task %d: move %d has fence %d after %d claims", t.id, m.seq, m.fence, claims)
			}
			continue
		}
		if claims++; m.fence != claims {
			c.add("I08", "task %d: claim %d has fence %d", t.id, claims, m.fence)
		}
		successes += one(m.to == task.Success)
	}
	if t.state == task.Processing {
		claims++
	}
	if claims != t.fence {
		c.add("I07", "task %d has fence %d after %d claims", t.id, t.fence, claims)
	}
	if int64(t.attempt) > t.fence {
		c.add("I07", "task %d has spent %d attempts in %d claims", t.id, t.attempt, t.fence)
	}
	if successes > 1+redrives {
		c.add("I08", "task %d succeeded %d times", t.id, successes)
	}
}

func (c *checker) attempts(t *taskFacts) {
	count := 0
	for _, m := range t.log {
		switch m.reason {
		case task.ReasonReleased, task.ReasonInfrastructure, task.ReasonLeaseLost, task.ReasonPoison:
		default:
			count += one(!m.claimed.IsZero())
		}
	}
	if count > t.retry.Attempts()+1 {
		c.add("I10", "task %d made %d attempts that count and may make %d", t.id, count, t.retry.Attempts())
	}
}

func (c *checker) readiness(t *taskFacts) {
	open, bad := 0, 0
	var freed time.Time
	for _, id := range t.needs {
		n := c.tasks[id]
		if n == nil {
			c.add("I12", "task %d needs task %d, which is not there", t.id, id)
			continue
		}
		open += one(!n.state.Terminal())
		bad += one(n.endedBadly())
		if len(n.log) > 0 && n.log[len(n.log)-1].at.After(freed) {
			freed = n.log[len(n.log)-1].at
		}
	}
	if t.state == task.Cancelled {
		return // it left blocked because its run ended
	}
	if t.unmet != open || t.unmetFailed != bad {
		c.add("I12", "task %d counts %d needs open and %d failed; it has %d and %d", t.id, t.unmet, t.unmetFailed, open, bad)
	}
	if t.state != task.Blocked && open > 0 {
		c.add("I12", "task %d is %s and %d of its needs are not over", t.id, t.state, open)
	}
	left, redrives := 0, 0
	for _, m := range t.log {
		redrives += one(m.reason == "redrive")
		if m.from != task.Blocked {
			continue
		}
		left++
		if m.at.Before(freed) {
			c.add("I12", "task %d left blocked at %s, before its needs were over at %s", t.id, m.at, freed)
		}
	}
	if left > 1+redrives {
		c.add("I12", "task %d left blocked %d times", t.id, left)
	}
}

// endedBadly reports whether the successors of a task see a failure.
func (t *taskFacts) endedBadly() bool {
	switch t.state {
	case task.Error, task.Cancelled:
		return true
	case task.Skipped:
		return t.reason != task.ReasonCondition
	}
	return false
}

func (c *checker) place(t *taskFacts) {
	var want []string
	switch {
	case t.state == task.Pending && t.run == "" && t.fence == 0 && t.moves == 0:
		return // put into the table by a stranger; nobody placed it
	case t.state == task.Pending:
		want = []string{"task_ready", "task_later"}
	case t.state == task.Processing:
		want = []string{"task_lease"}
	case t.state == task.Blocked && t.unmet == 0:
		want = []string{"task_undecided"}
	}
	fits := len(t.places) == 1 && slices.Contains(want, t.places[0])
	if len(want) == 0 {
		fits = len(t.places) == 0
	}
	if !fits {
		c.add("I18", "task %d is %s and stands in %v, want one of %v", t.id, t.state, t.places, want)
	}
	if t.state == task.Processing && t.leaseFence != t.fence {
		c.add("I18", "task %d has fence %d, its lease %d", t.id, t.fence, t.leaseFence)
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
