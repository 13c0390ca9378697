package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

const (
	// archiveRows is how many rows one transaction moves to the archive, or drops
	// from it: few enough that claims beside it do not notice.
	archiveRows = 5000

	// archiveRuns is how many runs are begun with at a time.
	archiveRuns = 100

	// archiveWindow is how many tasks one look for finished lone tasks passes over.
	archiveWindow = 20_000
)

// Archive moves runs and lone tasks that were over that long ago to the archive,
// with their logs and dependencies, until limit rows are moved or nothing is left.
// Each transaction moves at most 5,000 rows. A run goes first and its tasks follow:
// from then on nobody takes it up again. Its keys stay, and so do its artifacts.
func (db *DB) Archive(ctx context.Context, olderThan time.Duration, limit int) (task.Archived, error) {
	var sum task.Archived
	for _, step := range []func(context.Context, txn, time.Duration) (task.Archived, error){archiveStep, db.archiveLone} {
		for sum.Rows < limit {
			var got task.Archived
			err := db.write(ctx, func(ctx context.Context, tx txn) (err error) {
				got, err = step(ctx, tx, olderThan)
				return err
			})
			if err != nil {
				return sum, fmt.Errorf("archive what was over %s ago: %w", olderThan, err)
			}
			sum.Add(got)
			if got == (task.Archived{}) {
				break
			}
		}
	}
	return sum, nil
}

// archiveStep moves rows of runs that are on their way, or begins with more runs
// when none are.
func archiveStep(ctx context.Context, tx txn, olderThan time.Duration) (task.Archived, error) {
	done, err := tx.moveOn(ctx)
	if err != nil || done != (task.Archived{}) {
		return done, err
	}
	return tx.beginArchiving(ctx, instant{tx.now.Add(-olderThan)})
}

// beginArchiving moves the rows of runs that have been over since before the
// instant, unless something of them still goes on, such as a delivery.
func (tx txn) beginArchiving(ctx context.Context, before instant) (task.Archived, error) {
	const over = `finished_at < ? AND NOT EXISTS (SELECT 1 FROM task_queue t
		WHERE t.run_id = run.id AND t.state NOT IN ('success', 'error', 'skipped', 'cancelled'))`
	var runs []string
	err := tx.NewRaw("SELECT CAST(id AS text) FROM run WHERE "+over+" ORDER BY finished_at, id LIMIT ?", before, archiveRuns).Scan(ctx, &runs)
	if err != nil || len(runs) == 0 {
		return task.Archived{}, err
	}
	slices.Sort(runs)
	if _, err = tx.lock(ctx, "SELECT id FROM run WHERE id IN (?) ORDER BY id", bun.List(runs)); err != nil {
		return task.Archived{}, err
	}
	n, err := tx.shift(ctx, "run", "run_archive", "id IN (?) AND "+over, bun.List(runs), before)
	if err != nil {
		return task.Archived{}, err
	}
	return task.Archived{Rows: n}, tx.exec(ctx, "INSERT INTO run_archiving (run_id) SELECT id FROM run_archive WHERE id IN (?) ON CONFLICT DO NOTHING", bun.List(runs))
}

// moveOn moves dependencies, then logs, then tasks: as long as the tasks are there
// it is known what else is. The runs stand in the statements by name, so that the
// planner knows how few there are: a join with their table had it walk through all
// tasks.
func (tx txn) moveOn(ctx context.Context) (task.Archived, error) {
	done := task.Archived{}
	var runs []string
	err := tx.NewRaw("SELECT CAST(run_id AS text) FROM run_archiving ORDER BY run_id LIMIT ?", archiveRuns).Scan(ctx, &runs)
	if err != nil || len(runs) == 0 {
		return done, err
	}
	for _, part := range []struct{ table, key, of string }{
		{"task_dependency", "task_id, needs_id", "task_id IN (SELECT id FROM task_queue WHERE run_id IN (?))"},
		{"task_log", "task_id, seq", "task_id IN (SELECT id FROM task_queue WHERE run_id IN (?))"},
		{"task_queue", "id", "run_id IN (?)"},
	} {
		some := fmt.Sprintf("(%s) IN (SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d)", part.key, part.key, part.table, part.of, part.key, archiveRows-done.Rows)
		n, err := tx.shift(ctx, part.table, archiveOf(part.table), some, bun.List(runs))
		if err != nil {
			return done, err
		}
		if done.Rows += n; done.Rows >= archiveRows {
			return done, nil
		}
	}
	res, err := tx.NewRaw("DELETE FROM run_archiving WHERE run_id IN (?) AND NOT EXISTS (SELECT 1 FROM task_queue t WHERE t.run_id = run_archiving.run_id)", bun.List(runs)).Exec(ctx)
	if err != nil {
		return done, err
	}
	n, err := res.RowsAffected()
	done.Runs = int(n)
	return done, err
}

func archiveOf(table string) string { return strings.Replace(table, "_queue", "", 1) + "_archive" }

// shift moves rows from one table to another, and returns how many. With a task
// goes that it is a dead letter.
func (tx txn) shift(ctx context.Context, from, to, where string, args ...any) (int, error) {
	columns, err := tx.columns(ctx, from)
	if err != nil {
		return 0, err
	}
	if from == "task_queue" {
		if err := tx.exec(ctx, "DELETE FROM dead_letter WHERE task_id IN (SELECT id FROM task_queue WHERE "+where+")", args...); err != nil {
			return 0, err
		}
	}
	list := strings.Join(columns, ", ")
	res, err := tx.NewRaw("INSERT INTO "+to+" ("+list+") SELECT "+list+" FROM "+from+" WHERE "+where, args...).Exec(ctx)
	if err != nil {
		return 0, fmt.Errorf("move rows from %s: %w", from, err)
	}
	moved, err := res.RowsAffected()
	if err != nil || moved == 0 {
		return 0, err
	}
	if res, err = tx.NewRaw("DELETE FROM "+from+" WHERE "+where, args...).Exec(ctx); err != nil {
		return 0, fmt.Errorf("move rows from %s: %w", from, err)
	}
	gone, err := res.RowsAffected()
	if err == nil && gone != moved {
		err = fmt.Errorf("move rows from %s: %d are in the archive and %d are gone; nothing is changed", from, moved, gone)
	}
	return int(moved), err
}

// columns returns the columns of a table.
func (tx txn) columns(ctx context.Context, table string) ([]string, error) {
	rows, err := tx.QueryContext(ctx, "SELECT * FROM "+table+" LIMIT 0")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	return names, errors.Join(err, rows.Err())
}

// archiveLone moves finished tasks that were enqueued alone. They have no index:
// each look passes over a window of ids and the next goes on where it ended; from
// the last window the next look begins again, and this one finds nothing.
func (db *DB) archiveLone(ctx context.Context, tx txn, olderThan time.Duration) (task.Archived, error) {
	db.mu.Lock()
	at := db.swept
	db.mu.Unlock()
	for {
		var window struct {
			Last  int64
			Tasks int
		}
		err := tx.NewRaw("SELECT coalesce(max(id), 0) AS last, count(*) AS tasks FROM (SELECT id FROM task_queue WHERE id > ? ORDER BY id LIMIT ?) AS w", at, archiveWindow).Scan(ctx, &window)
		if err != nil {
			return task.Archived{}, err
		}
		done, err := tx.shiftLone(ctx, at, window.Last, instant{tx.now.Add(-olderThan)})
		if err != nil || done.Rows > 0 {
			return done, err
		}
		at = window.Last
		if window.Tasks < archiveWindow {
			at = 0
		}
		db.mu.Lock()
		db.swept = at
		db.mu.Unlock()
		if at == 0 {
			return task.Archived{}, nil
		}
	}
}

// shiftLone moves some of the finished lone tasks between two ids.
func (tx txn) shiftLone(ctx context.Context, after, last int64, before instant) (task.Archived, error) {
	var rows []struct {
		ID    int64
		Moves int
	}
	err := tx.NewRaw(`SELECT id, moves FROM task_queue WHERE id > ? AND id <= ? AND run_id IS NULL
		AND state IN ('success', 'error', 'skipped', 'cancelled') AND finished_at < ? ORDER BY id LIMIT ?`+tx.dialect.forUpdate(),
		after, last, before, archiveRows/2).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return task.Archived{}, err
	}
	var ids []int64
	for sum := 0; len(rows) > 0 && (len(ids) == 0 || sum+1+rows[0].Moves <= archiveRows); rows = rows[1:] {
		ids = append(ids, rows[0].ID)
		sum += 1 + rows[0].Moves
	}
	logs, err := tx.shift(ctx, "task_log", "task_log_archive", "task_id IN (?)", bun.List(ids))
	if err != nil {
		return task.Archived{}, err
	}
	tasks, err := tx.shift(ctx, "task_queue", "task_archive", "id IN (?)", bun.List(ids))
	return task.Archived{Lone: tasks, Rows: logs + tasks}, err
}
