package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// errEnded says that the run which held a key ended between two statements.
var errEnded = errors.New("the run that held the key has just ended: ask again")

// CreateRun implements scheduler.Store. What decides are the unique constraints:
// the new run takes the one live place of its key, and only once it has it, its
// version is settled, because nobody else can give the key a version then.
//
// An occurrence on record without a run gives a Created with no run in it.
func (db *DB) CreateRun(ctx context.Context, n task.NewRun) (task.Created, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return task.Created{}, fmt.Errorf("make a run of %s: %w", n.Run.Job, err)
	}
	n.Run.ID = id.String()
	var made task.Created
	for range tries {
		err = db.write(ctx, func(ctx context.Context, tx txn) (err error) {
			made, err = tx.createRun(ctx, n)
			return err
		})
		if !errors.Is(err, errEnded) {
			break
		}
	}
	if err != nil {
		return task.Created{}, fmt.Errorf("make a run of %s: %w", n.Run.Job, err)
	}
	db.made()
	return made, nil
}

func (tx txn) createRun(ctx context.Context, n task.NewRun) (task.Created, error) {
	if made, err := tx.findRun(ctx, n.Run.ID); err == nil {
		return task.Created{Run: made}, nil // by a try whose answer was lost
	} else if !errors.Is(err, ErrNotFound) {
		return task.Created{}, err
	}
	if n.Occurrence != nil {
		o := *n.Occurrence
		o.RunID = n.Run.ID
		fresh, err := tx.insertOccurrence(ctx, o)
		if err != nil {
			return task.Created{}, err
		}
		if !fresh {
			return tx.runOfOccurrence(ctx, o)
		}
	}
	tx, err := tx.turning(ctx, n)
	if err != nil {
		return task.Created{}, err
	}
	return tx.makeRun(ctx, n)
}

// makeRun makes a run whose occurrence, where it has one, is on record and points at it.
func (tx txn) makeRun(ctx context.Context, n task.NewRun) (task.Created, error) {
	if made, skipped, err := tx.givesWay(ctx, n); err != nil || skipped {
		return made, err
	}
	if err := tx.saveJob(ctx, n.Job); err != nil {
		return task.Created{}, err
	}
	placed, err := tx.insertRun(ctx, n)
	if err != nil {
		return task.Created{}, err
	}
	if !placed {
		return tx.liveRun(ctx, n)
	}
	version, err := tx.settleVersion(ctx, n)
	if err == nil && version > 1 {
		err = tx.noteLeft(ctx, n.Run, version, settingsOf(n.Tasks))
	}
	if err != nil {
		return task.Created{}, err
	}
	if err := tx.insertTasks(ctx, n, version == 0); err != nil {
		return task.Created{}, err
	}
	made, err := tx.enterTurn(ctx, n)
	if err != nil {
		return task.Created{}, err
	}
	made.Run, err = tx.findRun(ctx, n.Run.ID)
	return made, err
}

// insertRun reports false when another run of the key is live.
func (tx txn) insertRun(ctx context.Context, n task.NewRun) (bool, error) {
	row, err := draftRow(n)
	if err != nil {
		return false, err
	}
	row.stamp(tx.now)
	if err := tx.previousPeriods(ctx, []*runRow{&row}); err != nil {
		return false, err
	}
	res, err := tx.NewInsert().Model(&row).On(liveConflict).Returning("NULL").Exec(ctx)
	if err != nil {
		return false, fmt.Errorf("insert the run: %w", err)
	}
	hit, err := res.RowsAffected()
	return hit == 1, err
}

// liveConflict leaves a run out when another one of its key is live.
const liveConflict = "CONFLICT (job, upstream_key) WHERE status IN ('pending', 'running', 'waiting') DO NOTHING"

// draftRow is the row of a new run as far as it can be written ahead: without a version,
// instants of the database and the period before its own.
func draftRow(n task.NewRun) (runRow, error) {
	connections, err := json.Marshal(n.Run.Connections)
	if err != nil {
		return runRow{}, err
	}
	if n.Run.Connections == nil {
		connections = []byte("[]")
	}
	row := runRow{
		ID: n.Run.ID, Job: n.Run.Job, JobDigest: n.Run.JobDigest, JobCommit: n.Run.JobCommit, Key: n.Run.Key, Status: task.RunPending,
		Trigger: n.Run.Trigger, DueAt: instant{n.Run.DueAt}, BaseDir: n.Run.BaseDir, Connections: connections,
		Reason: clean(n.Run.Reason, maxLine), Priority: priority(n.Tasks), Phase: task.PhaseMain,
		Actor: clean(n.Run.Actor, maxLine), RerunOf: n.Run.RerunOf, ParentTask: n.Run.ParentTask, TimeoutMS: n.Run.Timeout.Milliseconds(),
		NotBefore: instant{n.NotBefore},
	}
	if row.Inputs, err = cleanJSON(n.Run.Inputs); err != nil {
		return row, fmt.Errorf("keep the inputs: %w", err)
	}
	if row.Inputs == nil {
		row.Inputs = document("{}")
	}
	if row.Period, err = cleanJSON(n.Run.Period); err != nil {
		return row, fmt.Errorf("keep the period: %w", err)
	}
	if row.Overrides, err = cleanJSON(n.Run.Overrides); err != nil {
		return row, fmt.Errorf("keep the overrides: %w", err)
	}
	if n.Occurrence != nil && n.Overlap != task.OverlapAllow {
		row.Overlap = string(n.Overlap)
	}
	if c := n.Concurrency; c != nil {
		row.TurnKey, row.TurnSlots = c.Key, c.Slots
	}
	return row, nil
}

func (r *runRow) stamp(now instant) {
	r.CreatedAt = now
	if r.DueAt.IsZero() {
		r.DueAt = now
	}
}

func priority(tasks []task.NewTask) int {
	if len(tasks) == 0 {
		return 100
	}
	return slices.MinFunc(tasks, func(a, b task.NewTask) int { return a.Priority - b.Priority }).Priority
}

// settleVersion gives the run its version and returns it: 1 without a key, 0
// where the last version ended well and has to be compared with first.
func (tx txn) settleVersion(ctx context.Context, n task.NewRun) (int, error) {
	if n.Run.Key == "" {
		return 1, tx.exec(ctx, "UPDATE run SET version = 1 WHERE id = ?", n.Run.ID)
	}
	const ended = `AND NOT EXISTS (SELECT 1 FROM run_key l WHERE l.job = ?0 AND l.upstream_key = ?1
		AND l.version = (SELECT max(version) FROM run_key WHERE job = ?0 AND upstream_key = ?1)
		AND (EXISTS (SELECT 1 FROM run r WHERE r.id = l.run_id AND r.status IN ('success', 'warning'))
			OR EXISTS (SELECT 1 FROM run_archive r WHERE r.id = l.run_id AND r.status IN ('success', 'warning'))))`
	condition := ended
	if n.Again {
		condition = ""
	}
	return tx.nextVersion(ctx, n.Run, condition)
}

// nextVersion takes the next version of the key for the run if the condition
// holds, and returns it, else 0.
func (tx txn) nextVersion(ctx context.Context, run task.Run, condition string) (int, error) {
	var version int
	err := tx.NewRaw(`INSERT INTO run_key (job, upstream_key, version, run_id)
		SELECT ?0, ?1, (SELECT coalesce(max(version), 0) + 1 FROM run_key WHERE job = ?0 AND upstream_key = ?1), ?2
		WHERE 1 = 1 `+condition+` RETURNING version`, run.Job, run.Key, run.ID).Scan(ctx, &version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("take the next version of %s %s: %w", run.Job, run.Key, err)
	}
	return version, tx.exec(ctx, "UPDATE run SET version = ? WHERE id = ?", version, run.ID)
}

// liveRun returns the run that holds the key, and puts it into the occurrence.
func (tx txn) liveRun(ctx context.Context, n task.NewRun) (task.Created, error) {
	var row runRow
	err := tx.NewSelect().Model(&row).Where("job = ? AND upstream_key = ?", n.Run.Job, n.Run.Key).
		Where("status IN ('pending', 'running', 'waiting')").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return task.Created{}, errEnded
	}
	if err != nil {
		return task.Created{}, fmt.Errorf("find the live run of %s: %w", n.Run.Key, err)
	}
	made := task.Created{Run: row.run(), Existing: true}
	if n.Occurrence != nil {
		made.Outcome, made.Reason = task.DueRepeated, "its key is live"
		err = tx.exec(ctx, "UPDATE occurrence SET outcome = ?, reason = ?, run_id = ? WHERE run_id = ?",
			made.Outcome, made.Reason, row.ID, n.Run.ID)
	}
	return made, err
}

// insertTasks lays out the steps as rows, in few large statements. They stand where
// nobody finds them until the run begins.
func (tx txn) insertTasks(ctx context.Context, n task.NewRun, compare bool) error {
	nodes, err := task.Lay(n.Tasks, compare)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return errors.New("a run needs at least one step")
	}
	ids, err := tx.dialect.reserve(ctx, tx.Tx, len(nodes))
	if err != nil {
		return fmt.Errorf("number %d tasks: %w", len(nodes), err)
	}
	rows, edges, err := tx.layTasks(n, nodes, ids)
	if err != nil {
		return err
	}
	if err := insertAll(ctx, tx.Tx, rows, 500); err != nil {
		return fmt.Errorf("insert %d tasks: %w", len(rows), err)
	}
	if err := insertAll(ctx, tx.Tx, edges, 2000); err != nil {
		return fmt.Errorf("insert %d dependencies: %w", len(edges), err)
	}
	later := laterSteps(nodes)
	return tx.exec(ctx, "UPDATE run SET open_steps = ?, later_steps = ? WHERE id = ?", len(nodes)-later, later, n.Run.ID)
}

// laterSteps counts those of on_failure and finally.
func laterSteps(nodes []task.Node) int {
	later := 0
	for _, node := range nodes {
		later += one(node.Phase != task.PhaseMain)
	}
	return later
}

// layTasks writes the steps as rows under the ids, and what they wait for.
func (tx txn) layTasks(n task.NewRun, nodes []task.Node, ids []int64) ([]taskRow, []dependencyRow, error) {
	rows, err := draftTasks(nodes, n.Run.ID)
	if err != nil {
		return nil, nil, err
	}
	return rows, tx.number(rows, n, nodes, ids), nil
}

// draftTasks writes the steps as rows as far as it can be done ahead: without ids and
// instants.
func draftTasks(nodes []task.Node, run string) ([]taskRow, error) {
	rows := make([]taskRow, len(nodes))
	for i, node := range nodes {
		var err error
		if rows[i], err = freeze(node, run); err != nil {
			return nil, fmt.Errorf("freeze step %q: %w", node.Step, err)
		}
	}
	return rows, nil
}

// number gives the rows of steps their ids and instants, and returns what they wait for.
func (tx txn) number(rows []taskRow, n task.NewRun, nodes []task.Node, ids []int64) []dependencyRow {
	var edges []dependencyRow
	for i, node := range nodes {
		rows[i].ID, rows[i].RunAt, rows[i].CreatedAt = ids[i], tx.now, tx.now
		if n.NotBefore.After(tx.now.Time) {
			rows[i].RunAt = instant{n.NotBefore}
		}
		for _, b := range node.Before {
			edges = append(edges, dependencyRow{TaskID: ids[i], NeedsID: ids[b]})
		}
	}
	return edges
}

// freeze writes a step as the row that is all the engine ever knows of it. A step
// of a later phase is blocked until that begins.
func freeze(n task.Node, run string) (taskRow, error) {
	row := taskRow{
		RunID: run, Step: n.Step, Type: n.Type, State: task.Blocked, Condition: n.Condition, Source: n.Source,
		Priority: n.Priority, TimeoutMS: n.Timeout.Milliseconds(), Unmet: len(n.Before),
		Phase: n.Phase, ContinueOnError: n.ContinueOnError, MaxParallel: n.MaxParallel, Placed: true,
	}
	if len(n.Before) == 0 && n.Condition == "" && n.Phase == task.PhaseMain {
		row.State = task.Pending
	}
	var err error
	if row.Payload, err = cleanJSON(n.Settings); err != nil {
		return row, err
	}
	if row.Payload == nil {
		row.Payload = document("{}")
	}
	if row.Refs, err = json.Marshal(append([]string{}, n.Refs...)); err != nil {
		return row, err
	}
	if row.Retry, err = json.Marshal(n.Retry); err != nil {
		return row, err
	}
	return row, row.bind(n, run)
}

// bind writes what the step has to pass. With for_each that is asked of every
// element: the row of the step only expands and joins.
func (row *taskRow) bind(n task.Node, run string) (err error) {
	if n.ForEach == nil {
		row.Circuit = clean(n.Circuit, maxLine)
		if len(n.Limits) > 0 {
			row.Limits, err = json.Marshal(n.Limits)
		}
		return err
	}
	if row.ForEach, err = cleanJSON(n.ForEach); err != nil {
		return fmt.Errorf("keep for_each: %w", err)
	}
	e := perElement{Limits: n.Limits, Circuit: clean(n.Circuit, maxLine), Condition: n.EachCondition}
	if n.MaxParallel > 0 {
		// In front, because that is where they wait: they must not hide other runs under a limit they share.
		e.Limits = append([]task.Limit{{Key: "run/" + run + "/" + n.Step, Slots: n.MaxParallel}}, e.Limits...)
	}
	row.Elements, err = json.Marshal(e)
	return err
}

func insertAll[T any](ctx context.Context, tx bun.Tx, rows []T, at int) error {
	for part := range slices.Chunk(rows, at) {
		if _, err := tx.NewInsert().Model(&part).Returning("NULL").Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
