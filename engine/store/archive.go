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

// archiveWindow is how many tasks one look for finished lone tasks passes over.
const archiveWindow = 20_000

// Archive moves runs and lone tasks that were over that long ago to the archive,
// with their logs and dependencies, until limit rows are moved or nothing is left.
// Each transaction moves at most 5,000 rows. A run goes first and its tasks follow:
// from then on nobody takes it up again. Its keys stay, and so do its artifacts.
func (db *DB) Archive(ctx context.Context, olderThan time.Duration, limit int) (task.Archived, error) {
	var sum task.Archived
	err := db.shift(ctx, limit, &sum, func(ctx context.Context, tx shifting) (task.Archived, error) {
		return tx.archiveRuns(ctx, instant{tx.now.Add(-olderThan)})
	})
	for more := true; err == nil && more && sum.Rows < limit; {
		var after, last int64
		if after, last, more, err = db.seekLone(ctx, olderThan); err == nil && more {
			before := sum.Rows
			err = db.shift(ctx, limit, &sum, func(ctx context.Context, tx shifting) (task.Archived, error) {
				return tx.archiveLone(ctx, after, last, instant{tx.now.Add(-olderThan)})
			})
			more = sum.Rows > before
		}
	}
	if err != nil {
		return sum, fmt.Errorf("archive what was over %s ago: %w", olderThan, err)
	}
	return sum, nil
}

// A shifting is a transaction that moves rows to the archive, or drops them.
type shifting struct {
	txn
	most int // rows
}

// shift makes such transactions until one moves nothing, or limit rows are moved in
// all, and adds up what they did.
func (db *DB) shift(ctx context.Context, limit int, sum *task.Archived, step func(context.Context, shifting) (task.Archived, error)) error {
	for sum.Rows < limit {
		var began time.Time // when nobody else wrote any more
		var got task.Archived
		err := db.write(ctx, func(ctx context.Context, tx txn) error {
			began = time.Now()
			most, err := tx.dialect.shifting(ctx, tx.Tx)
			if err == nil {
				got, err = step(ctx, shifting{tx, most})
			}
			return err
		})
		if err != nil || got == (task.Archived{}) {
			return err
		}
		sum.Add(got)
		if err := db.dialect.giveWay(ctx, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// archiveRuns moves rows of runs that are on their way, or begins with more runs
// when none are.
func (tx shifting) archiveRuns(ctx context.Context, before instant) (task.Archived, error) {
	done, err := tx.moveOn(ctx)
	if err != nil || done != (task.Archived{}) {
		return done, err
	}
	return tx.beginArchiving(ctx, before)
}

// runs is how many runs a transaction looks at: few enough for what it moves of
// them to be a large part of what they have.
func (tx shifting) runs() int { return tx.most / 50 }

// beginArchiving moves the rows of runs that have been over since before the
// instant, unless something of them still goes on, such as a delivery.
func (tx shifting) beginArchiving(ctx context.Context, before instant) (task.Archived, error) {
	// Counted, because the planner would join a NOT EXISTS with all tasks there are.
	const over = `finished_at < ? AND 0 = (SELECT count(*) FROM task_queue t
		WHERE t.run_id = run.id AND t.state NOT IN ('success', 'error', 'skipped', 'cancelled'))`
	var runs []string
	err := tx.NewRaw("SELECT CAST(id AS text) FROM run WHERE "+over+" ORDER BY finished_at, id LIMIT ?", before, tx.runs()).Scan(ctx, &runs)
	if err != nil || len(runs) == 0 {
		return task.Archived{}, err
	}
	slices.Sort(runs)
	if _, err = tx.lock(ctx, "SELECT id FROM run WHERE id IN (?) ORDER BY id", bun.List(runs)); err != nil {
		return task.Archived{}, err
	}
	n, err := tx.move(ctx, "run", "run_archive", "id IN (?) AND "+over, bun.List(runs), before)
	if err != nil {
		return task.Archived{}, err
	}
	return task.Archived{Rows: n}, tx.exec(ctx, "INSERT INTO run_archiving (run_id) SELECT id FROM run_archive WHERE id IN (?) ON CONFLICT DO NOTHING", bun.List(runs))
}

// moveOn moves dependencies, then logs, then tasks: as long as the tasks are there
// it is known what else is. The runs stand in the statements by name, so that the
// planner knows how few there are: a join with their table had it walk through all
// tasks.
func (tx shifting) moveOn(ctx context.Context) (task.Archived, error) {
	done := task.Archived{}
	var runs []string
	err := tx.NewRaw("SELECT CAST(run_id AS text) FROM run_archiving ORDER BY run_id LIMIT ?", tx.runs()).Scan(ctx, &runs)
	if err != nil || len(runs) == 0 {
		return done, err
	}
	for _, part := range []struct{ table, key, of string }{
		{"task_dependency", "task_id, needs_id", "task_id IN (SELECT id FROM task_queue WHERE run_id IN (?))"},
		{"task_log", "task_id, seq", "task_id IN (SELECT id FROM task_queue WHERE run_id IN (?))"},
		{"task_queue", "id", "run_id IN (?)"},
	} {
		some := fmt.Sprintf("(%s) IN (SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d)", part.key, part.key, part.table, part.of, part.key, tx.most-done.Rows)
		n, err := tx.move(ctx, part.table, archiveOf(part.table), some, bun.List(runs))
		if err != nil {
			return done, err
		}
		if done.Rows += n; done.Rows >= tx.most {
			return done, nil
		}
	}
	res, err := tx.NewRaw("DELETE FROM run_archiving WHERE run_id IN (?) AND 0 = (SELECT count(*) FROM task_queue t WHERE t.run_id = run_archiving.run_id)", bun.List(runs)).Exec(ctx)
	if err != nil {
		return done, err
	}
	n, err := res.RowsAffected()
	done.Runs = int(n)
	return done, err
}

func archiveOf(table string) string { return strings.Replace(table, "_queue", "", 1) + "_archive" }

// move moves rows from one table to another, and returns how many. With a task
// goes that it is a dead letter.
func (tx txn) move(ctx context.Context, from, to, where string, args ...any) (int, error) {
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

// seekLone looks for finished tasks that were enqueued alone, and returns between
// which ids there are some. They have no index: it passes over windows of ids, and
// begins where the last look ended. At the end of them the next look begins again,
// and this one finds nothing. It is not part of a transaction that writes, which on
// SQLite would keep everybody waiting.
func (db *DB) seekLone(ctx context.Context, olderThan time.Duration) (after, last int64, found bool, err error) {
	now, err := db.dialect.now(ctx, db.read)
	if err != nil {
		return 0, 0, false, err
	}
	db.mu.Lock()
	after = db.swept
	db.mu.Unlock()
	for {
		var window struct {
			Last        int64
			Tasks, Over int
		}
		err := db.read.NewRaw(`SELECT coalesce(max(id), 0) AS last, count(*) AS tasks, coalesce(sum(CASE WHEN `+loneOver+` THEN 1 ELSE 0 END), 0) AS over
			FROM (SELECT id, run_id, state, finished_at FROM task_queue WHERE id > ? ORDER BY id LIMIT ?) AS w`,
			instant{now.Add(-olderThan)}, after, archiveWindow).Scan(ctx, &window)
		if err != nil || window.Over > 0 {
			return after, window.Last, err == nil, err
		}
		after = window.Last
		if window.Tasks < archiveWindow {
			after = 0
		}
		db.mu.Lock()
		db.swept = after
		db.mu.Unlock()
		if after == 0 {
			return 0, 0, false, nil
		}
	}
}

// loneOver is a task enqueued alone that has been over since before an instant.
const loneOver = "run_id IS NULL AND state IN ('success', 'error', 'skipped', 'cancelled') AND finished_at < ?"

// archiveLone moves some of the finished lone tasks between two ids.
func (tx shifting) archiveLone(ctx context.Context, after, last int64, before instant) (task.Archived, error) {
	var rows []struct {
		ID    int64
		Moves int
	}
	err := tx.NewRaw("SELECT id, moves FROM task_queue WHERE id > ? AND id <= ? AND "+loneOver+" ORDER BY id LIMIT ?"+tx.dialect.forUpdate(),
		after, last, before, tx.most/2).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return task.Archived{}, err
	}
	var ids []int64
	for sum := 0; len(rows) > 0 && (len(ids) == 0 || sum+1+rows[0].Moves <= tx.most); rows = rows[1:] {
		ids = append(ids, rows[0].ID)
		sum += 1 + rows[0].Moves
	}
	logs, err := tx.move(ctx, "task_log", "task_log_archive", "task_id IN (?)", bun.List(ids))
	if err != nil {
		return task.Archived{}, err
	}
	tasks, err := tx.move(ctx, "task_queue", "task_archive", "id IN (?)", bun.List(ids))
	return task.Archived{Lone: tasks, Rows: logs + tasks}, err
}
