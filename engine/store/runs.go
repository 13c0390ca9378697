package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// A RunFilter says which runs to list. The zero value lists the newest 50.
type RunFilter struct {
	Job    string           // "": any
	Key    string           // "": any
	Status []task.RunStatus // none: any
	Before string           // only runs older than the run of this id; "": from the newest
	Limit  int              // 0: 50
}

// Runs lists runs, newest first.
func (db *DB) Runs(ctx context.Context, f RunFilter) ([]task.Run, error) {
	var rows []runRow
	q := db.read.NewSelect().Model(&rows).OrderExpr("r.created_at DESC, r.id DESC").Limit(50)
	if f.Limit > 0 {
		q.Limit(int64(f.Limit))
	}
	if f.Job != "" {
		q.Where("r.job = ?", f.Job)
	}
	if f.Key != "" {
		q.Where("r.upstream_key = ?", f.Key)
	}
	if len(f.Status) > 0 {
		q.Where("r.status IN (?)", bun.List(f.Status))
	}
	if f.Before != "" {
		q.Where("(r.created_at, r.id) < (SELECT created_at, id FROM run WHERE id = ?)", f.Before)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	runs := make([]task.Run, len(rows))
	for i, r := range rows {
		runs[i] = r.run()
	}
	return runs, nil
}

// Run returns one run, or ErrNotFound.
func (db *DB) Run(ctx context.Context, id string) (task.Run, error) {
	if !isHex(id) || len(strings.ReplaceAll(id, "-", "")) != 32 {
		return task.Run{}, fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	return findRun(ctx, db.read, strings.ToLower(id))
}

// FindRun returns the run whose id begins with the prefix. ErrNotFound says that
// there is none, an *AmbiguousError that there are several.
func (db *DB) FindRun(ctx context.Context, prefix string) (task.Run, error) {
	low, high, ok := idRange(prefix)
	if !ok {
		return task.Run{}, fmt.Errorf("run %q: %w", prefix, ErrNotFound)
	}
	var rows []runRow
	err := db.read.NewSelect().Model(&rows).Where("id >= ? AND id <= ?", low, high).OrderExpr("id DESC").Limit(4).Scan(ctx)
	switch {
	case err != nil:
		return task.Run{}, fmt.Errorf("find run %s: %w", prefix, err)
	case len(rows) == 0:
		return task.Run{}, fmt.Errorf("run %s: %w", prefix, ErrNotFound)
	case len(rows) > 1:
		several := &AmbiguousError{Prefix: prefix}
		for _, r := range rows {
			several.IDs = append(several.IDs, r.ID)
		}
		return task.Run{}, several
	}
	return rows[0].run(), nil
}

// idRange returns the first and the last UUID that begin with the prefix, which
// may have its hyphens or not.
func idRange(prefix string) (low, high string, ok bool) {
	hex := strings.ToLower(strings.ReplaceAll(prefix, "-", ""))
	if hex == "" || len(hex) > 32 || !isHex(hex) {
		return "", "", false
	}
	uuid := func(fill string) string {
		s := hex + strings.Repeat(fill, 32-len(hex))
		return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
	}
	return uuid("0"), uuid("f"), true
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdefABCDEF-") == "" }

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
}

// Tasks returns the tasks of a run in the order they were declared, its
// deliveries after them.
func (db *DB) Tasks(ctx context.Context, runID string) ([]task.Task, error) {
	var rows []viewRow
	err := db.read.NewRaw(`SELECT t.id, coalesce(t.run_id, ?0) AS run_id, coalesce(t.step, '') AS step, t.element, t.type, coalesce(t.upstream_key, '') AS key,
		t.state, coalesce(t.reason, '') AS reason, coalesce(t.detail, '') AS detail, t.priority, t.attempt, t.crashes, t.fence,
		coalesce(t.worker, '') AS worker, t.run_at, t.claimed_at, t.finished_at, coalesce(l.took_ms, 0) AS took_ms, t.outputs,
		coalesce(t.digest, '') AS digest, coalesce(t.warning, '') AS warning, t.failure
		FROM task_queue AS t LEFT JOIN task_log l ON l.task_id = t.id AND l.seq = t.moves AND l.claimed_at IS NOT NULL
		WHERE t.run_id = ?0 ORDER BY t.id`, runID).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read the tasks of run %s: %w", runID, err)
	}
	needs, err := db.needNames(ctx, runID)
	if err != nil {
		return nil, err
	}
	tasks := make([]task.Task, len(rows))
	for i, r := range rows {
		tasks[i] = task.Task{
			ID: r.ID, RunID: r.RunID, Step: r.Step, Element: r.Element, Type: r.Type, Key: r.Key, State: r.State,
			Reason: r.Reason, Detail: r.Detail, Priority: r.Priority, Needs: needs[r.ID], Attempt: r.Attempt,
			Crashes: r.Crashes, Fence: r.Fence, Worker: r.Worker, RunAt: r.RunAt.Time, ClaimedAt: r.ClaimedAt.Time,
			FinishedAt: r.FinishedAt.Time, Took: time.Duration(r.TookMS) * time.Millisecond,
			Outputs: json.RawMessage(r.Outputs), Digest: r.Digest, Warning: r.Warning, Failure: readFailure(r.Failure),
		}
	}
	return tasks, nil
}

func (db *DB) needNames(ctx context.Context, runID string) (map[int64][]string, error) {
	var edges []struct {
		TaskID int64
		Step   string
	}
	err := db.read.NewRaw(`SELECT d.task_id, n.step FROM task_queue n JOIN task_dependency d ON d.needs_id = n.id
		WHERE n.run_id = ? AND n.step IS NOT NULL ORDER BY n.id`, runID).Scan(ctx, &edges)
	if err != nil {
		return nil, fmt.Errorf("read the needs in run %s: %w", runID, err)
	}
	needs := map[int64][]string{}
	for _, e := range edges {
		needs[e.TaskID] = append(needs[e.TaskID], e.Step)
	}
	return needs, nil
}

// Log returns every move of the tasks of a run, in the order they happened.
func (db *DB) Log(ctx context.Context, runID string) ([]task.Move, error) {
	var rows []struct {
		logRow
		Step string
	}
	err := db.read.NewRaw(`SELECT l.*, coalesce(t.step, '') AS step FROM task_queue t JOIN task_log l ON l.task_id = t.id
		WHERE t.run_id = ? ORDER BY l.at, l.task_id, l.seq`, runID).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read the log of run %s: %w", runID, err)
	}
	moves := make([]task.Move, len(rows))
	for i, r := range rows {
		moves[i] = r.move(r.Step)
	}
	return moves, nil
}

// Artifacts returns what the tasks of a run left, in the order it was left.
func (db *DB) Artifacts(ctx context.Context, runID string) ([]task.Kept, error) {
	var rows []struct {
		TaskID    int64
		Step      string
		Kind      string
		Name      string
		Digest    string
		SizeBytes int64
		RowCount  int64
		Origin    string
		CreatedAt instant
	}
	err := db.read.NewRaw(`SELECT a.task_id, coalesce(t.step, '') AS step, a.kind, a.name, a.digest, a.size_bytes,
		coalesce(a.row_count, 0) AS row_count, coalesce(a.origin, '') AS origin, a.created_at
		FROM artifact a LEFT JOIN task_queue t ON t.id = a.task_id WHERE a.run_id = ? ORDER BY a.id`, runID).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read the artifacts of run %s: %w", runID, err)
	}
	kept := make([]task.Kept, len(rows))
	for i, r := range rows {
		kept[i] = task.Kept{
			TaskID: r.TaskID, Step: r.Step, CreatedAt: r.CreatedAt.Time,
			Artifact: task.Artifact{Kind: r.Kind, Name: r.Name, Digest: r.Digest, Size: r.SizeBytes, Rows: r.RowCount, Origin: r.Origin},
		}
	}
	return kept, nil
}

// OpenDeliveries returns how many messages of a run are still to be delivered,
// and how many were given up.
func (db *DB) OpenDeliveries(ctx context.Context, runID string) (pending, failed int, err error) {
	err = db.read.NewRaw(`SELECT coalesce(sum(CASE WHEN state IN ('blocked', 'pending', 'processing', 'waiting') THEN 1 ELSE 0 END), 0),
		coalesce(sum(CASE WHEN state = 'error' THEN 1 ELSE 0 END), 0)
		FROM task_queue WHERE run_id = ? AND step IS NULL AND type = ?`, runID, task.TypeDeliver).Scan(ctx, &pending, &failed)
	if err != nil {
		return 0, 0, fmt.Errorf("count the deliveries of run %s: %w", runID, err)
	}
	return pending, failed, nil
}
