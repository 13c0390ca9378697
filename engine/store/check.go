package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// checkPage is how many tasks or runs the checker holds in memory at once.
const checkPage = 2000

// maxBroken is how many violations a check lists before it stops looking.
const maxBroken = 10_000

// Check holds all rows of the database against the invariants that must hold
// after any transaction, whatever was killed in between, and returns one line for
// each violation, beginning with its id. It reads one snapshot, a page of tasks
// at a time; others may go on writing.
//
//	I05  the log of a task is a legal path
//	I06  its numbers have no gaps, its times do not run backwards, it ends where the row is
//	I07  each claim has the next fence, and no more attempts were spent than claims made
//	I08  no two outcomes of one claim, one success at most, under the fence of the row
//	I10  no more attempts count than the task may make, and one
//	I12  a task left blocked once, after everything it needs was over
//	I14  no limit has more tasks, or runs, under it than it allows, and only what may run holds a place
//	I16  the dead letters are the tasks in error
//	I18  every task stands in exactly the narrow table that its state asks for, and something wakes what waits
//	arc  what is in the archive is over, whole, and nowhere else
//	trn  runs of a job that must not overlap do not, and what waits for its turn has something to wait for
//	run  a run's counters, phase, status and version agree with its tasks
func (db *DB) Check(ctx context.Context) ([]string, error) {
	tx, err := db.snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("check the database: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	c := &checker{tx: tx}
	if c.now, err = db.dialect.now(ctx, tx); err != nil {
		return nil, fmt.Errorf("check the database: %w", err)
	}
	for _, look := range []func(context.Context) error{c.checkTasks, c.checkRuns, c.checkStrays, c.checkLimits, c.checkTurns, c.checkArchive} {
		if err := look(ctx); err != nil {
			return nil, fmt.Errorf("check the database: %w", err)
		}
	}
	slices.Sort(c.broken)
	return slices.Compact(c.broken), nil
}

// snapshot begins a transaction that sees the database as it is now until its end.
func (db *DB) snapshot(ctx context.Context) (bun.Tx, error) {
	if db.read != db.bun {
		return db.read.BeginTx(ctx, nil) // on SQLite every transaction is a snapshot
	}
	return db.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
}

// A checker is one check.
type checker struct {
	tx     bun.Tx
	now    instant
	broken []string
}

// taskFacts is a row of task_queue with all that hangs on it.
type taskFacts struct {
	ID          int64
	RunID       string
	Step        string
	Element     string
	Reason      string
	State       task.State
	Unmet       int
	UnmetFailed int
	Attempt     int
	Moves       int
	Fence       int64
	Placed      bool
	Limited     bool // it has limits
	MayMake     task.Retry
	Retry       document
	ParentID    int64
	ReusedOf    int64
	Asleep      bool // its phase has not begun
	InLine      bool // its run waits for its turn
	ChildLives  bool // a run that is not over tells it when it is
	log         []moveFacts
	needs       []needFacts
	places      []placeFacts
}

type moveFacts struct {
	TaskID    int64
	Seq       int
	Attempt   int
	From      task.State `bun:"from_state"`
	To        task.State `bun:"to_state"`
	Reason    string
	LeftOut   bool // a rerun of another step skipped it
	Fence     int64
	ClaimedAt instant // zero when the move was no claim
	At        instant
}

// needFacts is a task that another one needs.
type needFacts struct {
	TaskID          int64 // that needs it
	NeedsID         int64
	Found           bool
	State           task.State
	Reason          string
	ContinueOnError bool
	ParentID        int64
	EndedAt         instant // first
	Redriven        bool
}

type placeFacts struct {
	TaskID int64
	Place  string
	Fence  int64 // of a lease
}

func (c *checker) add(id string, format string, args ...any) {
	if len(c.broken) < maxBroken {
		c.broken = append(c.broken, id+" "+fmt.Sprintf(format, args...))
	}
}

// checkTasks goes through all tasks in the order of their ids.
func (c *checker) checkTasks(ctx context.Context) error {
	for last := int64(-1 << 62); len(c.broken) < maxBroken; {
		page, err := c.loadTasks(ctx, last)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, t := range page {
			c.path(t)
			c.fences(t)
			c.attempts(t)
			c.readiness(t)
			c.place(t)
		}
		last = page[len(page)-1].ID
	}
	return nil
}

// loadTasks returns the next page of tasks with all that hangs on them.
func (c *checker) loadTasks(ctx context.Context, after int64) ([]*taskFacts, error) {
	var page []*taskFacts
	err := c.tx.NewRaw(`SELECT t.id, coalesce(CAST(t.run_id AS text), '') AS run_id, coalesce(t.step, '') AS step, t.element, coalesce(t.reason, '') AS reason,
		t.state, t.unmet, t.unmet_failed, t.attempt, t.moves, t.fence, t.placed, t.limits IS NOT NULL AS limited, t.retry,
		coalesce(t.parent_id, 0) AS parent_id, coalesce(t.reused_of, 0) AS reused_of,
		coalesce(r.phase = 'main' AND t.phase <> 'main' OR r.phase = 'on_failure' AND t.phase = 'finally', false) AS asleep,
		t.step IS NOT NULL AND EXISTS (SELECT 1 FROM run_turn q WHERE q.run_id = t.run_id) AS in_line,
		EXISTS (SELECT 1 FROM run k WHERE k.parent_task = t.id AND k.finished_at IS NULL) AS child_lives
		FROM task_queue t LEFT JOIN run r ON r.id = t.run_id
		WHERE t.id > ? AND NOT EXISTS (SELECT 1 FROM run_archiving g WHERE g.run_id = t.run_id) ORDER BY t.id LIMIT ?`, after, checkPage).Scan(ctx, &page)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	byID := make(map[int64]*taskFacts, len(page))
	for _, t := range page {
		if t.MayMake, err = readRetry(t.Retry); err != nil {
			c.add("I10", "task %d says how often it may be tried in a way that cannot be read: %v", t.ID, err)
		}
		byID[t.ID] = t
	}
	return page, c.loadDetails(ctx, page[0].ID, page[len(page)-1].ID, byID)
}

// loadDetails fills in logs, needs and places of the tasks between two ids.
func (c *checker) loadDetails(ctx context.Context, low, high int64, tasks map[int64]*taskFacts) error {
	var moves []moveFacts
	err := c.tx.NewRaw(`SELECT task_id, seq, attempt, from_state, to_state, coalesce(reason, '') AS reason, fence, claimed_at, at, coalesce(detail, '') LIKE '`+leftOut+`%' AS left_out
		FROM task_log WHERE task_id BETWEEN ? AND ? ORDER BY task_id, seq`, low, high).Scan(ctx, &moves)
	if err != nil {
		return err
	}
	for _, m := range moves {
		if t := tasks[m.TaskID]; t != nil {
			t.log = append(t.log, m)
		}
	}
	var needs []needFacts
	err = c.tx.NewRaw(`SELECT d.task_id, d.needs_id, n.id IS NOT NULL AS found, coalesce(n.state, '') AS state, coalesce(n.reason, '') AS reason,
		coalesce(n.continue_on_error, false) AS continue_on_error, coalesce(n.parent_id, 0) AS parent_id,
		(SELECT min(l.at) FROM task_log l WHERE l.task_id = n.id AND l.to_state IN ('success', 'error', 'skipped', 'cancelled')) AS ended_at,
		EXISTS (SELECT 1 FROM task_log l WHERE l.task_id = n.id AND l.reason = 'redrive') AS redriven
		FROM task_dependency d LEFT JOIN task_queue n ON n.id = d.needs_id
		WHERE d.task_id BETWEEN ? AND ?`, low, high).Scan(ctx, &needs)
	if err != nil {
		return err
	}
	for _, n := range needs {
		if t := tasks[n.TaskID]; t != nil {
			t.needs = append(t.needs, n)
		}
	}
	return c.loadPlaces(ctx, low, high, tasks)
}
