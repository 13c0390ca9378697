package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// viewColumns are what a viewRow has, of task_queue t and the row l of its log
// that tells of its last attempt.
const viewColumns = `t.id, coalesce(CAST(t.run_id AS text), '') AS run_id, coalesce(t.step, '') AS step, t.element, t.type, coalesce(t.upstream_key, '') AS key,
	t.state, coalesce(t.reason, '') AS reason, coalesce(t.detail, '') AS detail, t.priority, t.attempt, t.crashes, t.fence,
	coalesce(t.worker, '') AS worker, t.run_at, t.claimed_at, t.finished_at, coalesce(l.took_ms, 0) AS took_ms, t.outputs,
	coalesce(t.digest, '') AS digest, coalesce(t.warning, '') AS warning, t.failure, t.phase, coalesce(t.reused_of, 0) AS reused_of`

type viewRow struct {
	ID         int64
	RunID      string
	Step       string
	Element    string
	Type       string
	Key        string
	State      task.State
	Reason     string
	Detail     string
	Priority   int
	Attempt    int
	Crashes    int
	Fence      int64
	Worker     string
	RunAt      instant
	ClaimedAt  instant
	FinishedAt instant
	TookMS     int64
	Outputs    document
	Digest     string
	Warning    string
	Failure    document
	Phase      task.Phase
	ReusedOf   int64
	archived   bool
}

func (r viewRow) task() task.Task {
	return task.Task{
		ID: r.ID, RunID: r.RunID, Step: r.Step, Element: r.Element, Type: r.Type, Key: r.Key, State: r.State,
		Reason: r.Reason, Detail: r.Detail, Priority: r.Priority, Attempt: r.Attempt,
		Crashes: r.Crashes, Fence: r.Fence, Worker: r.Worker, RunAt: r.RunAt.Time, ClaimedAt: r.ClaimedAt.Time,
		FinishedAt: r.FinishedAt.Time, Took: time.Duration(r.TookMS) * time.Millisecond,
		Outputs: json.RawMessage(r.Outputs), Digest: r.Digest, Warning: r.Warning, Failure: readFailure(r.Failure),
		Phase: r.Phase, ReusedOf: r.ReusedOf, Archived: r.archived,
	}
}

// A store of tasks is what is at work, or the archive. While a run is archived it
// has rows in both.
type shelf struct{ tasks, log, needs string }

// shelves in the order they have to be read in: a row that is archived meanwhile
// is seen twice rather than not at all.
func shelves() [2]shelf {
	return [2]shelf{
		{tasks: "task_queue", log: "task_log", needs: "task_dependency"},
		{tasks: "task_archive", log: "task_log_archive", needs: "task_dependency_archive"},
	}
}

// views reads tasks of both shelves, each at most once, as the condition and order say.
func (db *DB) views(ctx context.Context, rest string, args ...any) ([]viewRow, error) {
	var all []viewRow
	seen := map[int64]bool{}
	for i, s := range shelves() {
		var rows []viewRow
		err := db.read.NewRaw("SELECT "+viewColumns+" FROM "+s.tasks+" AS t LEFT JOIN "+s.log+
			" AS l ON l.task_id = t.id AND l.seq = t.moves AND l.claimed_at IS NOT NULL WHERE "+rest, args...).Scan(ctx, &rows)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if seen[r.ID] {
				continue
			}
			seen[r.ID], r.archived = true, i == 1
			all = append(all, r)
		}
	}
	return all, nil
}

// Tasks returns the tasks of a run in the order they were declared, elements and
// deliveries after them.
func (db *DB) Tasks(ctx context.Context, runID string) ([]task.Task, error) {
	rows, err := db.views(ctx, "t.run_id = ? ORDER BY t.id", runID)
	if err != nil {
		return nil, fmt.Errorf("read the tasks of run %s: %w", runID, err)
	}
	slices.SortFunc(rows, func(a, b viewRow) int { return cmp.Compare(a.ID, b.ID) })
	needs, err := db.needNames(ctx, runID)
	if err != nil {
		return nil, err
	}
	tasks := make([]task.Task, len(rows))
	for i, r := range rows {
		tasks[i] = r.task()
		tasks[i].Needs = needs[r.ID]
	}
	return tasks, nil
}

// needNames returns the steps that each task of a run needs. Both ends of an edge
// may be on either shelf while a run is archived.
func (db *DB) needNames(ctx context.Context, runID string) (map[int64][]string, error) {
	needs := map[int64][]string{}
	for _, ends := range shelves() {
		for _, edges := range shelves() {
			var rows []struct {
				TaskID int64
				Step   string
			}
			err := db.read.NewRaw("SELECT d.task_id, n.step FROM "+ends.tasks+" n JOIN "+edges.needs+` d ON d.needs_id = n.id
				WHERE n.run_id = ? AND n.step IS NOT NULL AND n.element = '' ORDER BY n.id`, runID).Scan(ctx, &rows)
			if err != nil {
				return nil, fmt.Errorf("read the needs in run %s: %w", runID, err)
			}
			for _, e := range rows {
				if !slices.Contains(needs[e.TaskID], e.Step) {
					needs[e.TaskID] = append(needs[e.TaskID], e.Step)
				}
			}
		}
	}
	return needs, nil
}

// Log returns every move of the tasks of a run, in the order they happened.
func (db *DB) Log(ctx context.Context, runID string) ([]task.Move, error) {
	tasks, err := db.views(ctx, "t.run_id = ?", runID)
	if err != nil {
		return nil, fmt.Errorf("read the log of run %s: %w", runID, err)
	}
	steps := make(map[int64]string, len(tasks))
	for _, t := range tasks {
		steps[t.ID] = task.Name(t.Step, t.Element)
	}
	var moves []task.Move
	seen := map[[2]int64]bool{}
	for _, by := range shelves() {
		for _, s := range shelves() {
			var rows []logRow
			err := db.read.NewRaw("SELECT l.* FROM "+s.log+" l JOIN "+by.tasks+" t ON t.id = l.task_id WHERE t.run_id = ? ORDER BY l.task_id, l.seq", runID).Scan(ctx, &rows)
			if err != nil {
				return nil, fmt.Errorf("read the log of run %s: %w", runID, err)
			}
			for _, r := range rows {
				if key := [2]int64{r.TaskID, int64(r.Seq)}; !seen[key] {
					seen[key] = true
					moves = append(moves, r.move(steps[r.TaskID]))
				}
			}
		}
	}
	slices.SortFunc(moves, func(a, b task.Move) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Seq, b.Seq))
	})
	return moves, nil
}

// A TaskFilter says which tasks to list. The zero value lists the newest 50.
type TaskFilter struct {
	Run   string       // "": any
	Type  string       // "": any
	State []task.State // none: any
	Lone  bool         // only tasks enqueued alone
	After int64        // only tasks older than this one; 0: from the newest
	Limit int          // 0: 50
}

// ListTasks lists tasks, newest first, those in the archive too.
func (db *DB) ListTasks(ctx context.Context, f TaskFilter) ([]task.Task, error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	where, args := "1 = 1", []any{}
	add := func(condition string, value any) {
		where += " AND " + condition
		args = append(args, value)
	}
	if f.Run != "" {
		add("t.run_id = ?", f.Run)
	}
	if f.Type != "" {
		add("t.type = ?", f.Type)
	}
	if len(f.State) > 0 {
		add("t.state IN (?)", bun.List(f.State))
	}
	if f.After != 0 {
		add("t.id < ?", f.After)
	}
	if f.Lone {
		where += " AND t.run_id IS NULL"
	}
	rows, err := db.views(ctx, where+" ORDER BY t.id DESC LIMIT ?", append(args, f.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	slices.SortFunc(rows, func(a, b viewRow) int { return cmp.Compare(b.ID, a.ID) })
	tasks := make([]task.Task, min(len(rows), f.Limit))
	for i := range tasks {
		tasks[i] = rows[i].task()
	}
	return tasks, nil
}

// Task returns one task, or ErrNotFound.
func (db *DB) Task(ctx context.Context, id int64) (task.Task, error) {
	rows, err := db.views(ctx, "t.id = ?", id)
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return task.Task{}, fmt.Errorf("task %d: %w", id, err)
	}
	return rows[0].task(), nil
}

// TaskLog returns every move of a task, in order.
func (db *DB) TaskLog(ctx context.Context, id int64) ([]task.Move, error) {
	var moves []task.Move
	for _, s := range shelves() {
		var rows []logRow
		if err := db.read.NewRaw("SELECT l.* FROM "+s.log+" l WHERE l.task_id = ? ORDER BY l.seq", id).Scan(ctx, &rows); err != nil {
			return nil, fmt.Errorf("read the log of task %d: %w", id, err)
		}
		for _, r := range rows {
			if !slices.ContainsFunc(moves, func(m task.Move) bool { return m.Seq == r.Seq }) {
				moves = append(moves, r.move(""))
			}
		}
	}
	slices.SortFunc(moves, func(a, b task.Move) int { return cmp.Compare(a.Seq, b.Seq) })
	return moves, nil
}
