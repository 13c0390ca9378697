package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

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

	before instant // when Before was made
}

// Runs lists runs, newest first, those in the archive too.
func (db *DB) Runs(ctx context.Context, f RunFilter) ([]task.Run, error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	if f.Before != "" {
		at, err := db.runPlace(ctx, f.Before)
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		f.before = at
	}
	// The archive last: a run that goes there meanwhile is seen twice rather than not at all.
	rows, err := db.runsIn(ctx, "run", f)
	if err != nil {
		return nil, err
	}
	archived, err := db.runsIn(ctx, "run_archive", f)
	if err != nil {
		return nil, err
	}
	rows = append(rows, archived...)
	slices.SortStableFunc(rows, func(a, b runRow) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt.Time), cmp.Compare(b.ID, a.ID))
	})
	rows = slices.CompactFunc(rows, func(a, b runRow) bool { return a.ID == b.ID })
	runs := make([]task.Run, min(len(rows), f.Limit))
	for i := range runs {
		runs[i] = rows[i].run()
	}
	return runs, nil
}

// runPlace returns when a run was made, which with its id is its place in the list.
func (db *DB) runPlace(ctx context.Context, id string) (instant, error) {
	var at []struct{ CreatedAt instant }
	err := db.read.NewRaw("SELECT created_at FROM run WHERE id = ?0 UNION ALL SELECT created_at FROM run_archive WHERE id = ?0", id).Scan(ctx, &at)
	if err == nil && len(at) == 0 {
		err = fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return instant{}, err
	}
	return at[0].CreatedAt, nil
}

// runsIn lists the runs of one of the two tables.
func (db *DB) runsIn(ctx context.Context, table string, f RunFilter) ([]runRow, error) {
	var rows []runRow
	q := db.read.NewSelect().Model(&rows).ModelTableExpr(table + " AS r").OrderExpr("r.created_at DESC, r.id DESC").Limit(int64(f.Limit))
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
		q.Where("(r.created_at, r.id) < (?, ?)", f.before, f.Before)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return rows, nil
}

// Run returns one run, or ErrNotFound.
func (db *DB) Run(ctx context.Context, id string) (task.Run, error) {
	if !isHex(id) || len(strings.ReplaceAll(id, "-", "")) != 32 {
		return task.Run{}, fmt.Errorf("run %q: %w", id, ErrNotFound)
	}
	return anyRun(ctx, db.read, strings.ToLower(id))
}

func archivedRun(ctx context.Context, db bun.IDB, id string) (task.Run, error) {
	var rows []runRow
	err := db.NewSelect().Model(&rows).ModelTableExpr("run_archive AS r").Where("id = ?", id).Scan(ctx)
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return task.Run{}, fmt.Errorf("run %s: %w", id, err)
	}
	return rows[0].run(), nil
}

// FindRun returns the run whose id begins with the prefix. ErrNotFound says that
// there is none, an *AmbiguousError that there are several.
func (db *DB) FindRun(ctx context.Context, prefix string) (task.Run, error) {
	low, high, ok := idRange(prefix)
	if !ok {
		return task.Run{}, fmt.Errorf("run %q: %w", prefix, ErrNotFound)
	}
	var rows []runRow
	for _, table := range []string{"run", "run_archive"} {
		var part []runRow
		err := db.read.NewSelect().Model(&part).ModelTableExpr(table+" AS r").Where("id >= ? AND id <= ?", low, high).OrderExpr("id DESC").Limit(4).Scan(ctx)
		if err != nil {
			return task.Run{}, fmt.Errorf("find run %s: %w", prefix, err)
		}
		rows = append(rows, part...)
	}
	rows = slices.CompactFunc(rows, func(a, b runRow) bool { return a.ID == b.ID })
	switch {
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
