package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// A DeadFilter says which dead letters are meant. The zero value means all.
type DeadFilter struct {
	IDs   []int64
	Run   string // "": any
	Job   string // "": any
	Type  string // "": any
	Class string // of its failure; "": any
	Since time.Time
	After string // the cursor that the page before ended with; "": from the newest
	Limit int    // of a page; 0: 50
}

// Dead lists dead letters, newest first.
func (db *DB) Dead(ctx context.Context, f DeadFilter) ([]task.DeadLetter, error) {
	where, args, err := f.where()
	if err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = 50
	}
	var rows []struct {
		viewRow
		Job string
		At  instant
	}
	err = db.read.NewRaw("SELECT "+viewColumns+`, coalesce(r.job, '') AS job, d.at FROM dead_letter d JOIN task_queue AS t ON t.id = d.task_id
		LEFT JOIN run r ON r.id = d.run_id LEFT JOIN task_log l ON l.task_id = t.id AND l.seq = t.moves AND l.claimed_at IS NOT NULL
		WHERE `+where+" ORDER BY d.at DESC, d.task_id DESC LIMIT ?", append(args, f.Limit)...).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	list := make([]task.DeadLetter, len(rows))
	for i, r := range rows {
		list[i] = task.DeadLetter{Task: r.task(), Job: r.Job, At: r.At.Time}
	}
	return list, nil
}

// CountDead counts dead letters, and stops at the given number.
func (db *DB) CountDead(ctx context.Context, most int) (int, error) {
	var n int
	if err := db.read.NewRaw("SELECT count(*) FROM (SELECT 1 AS one FROM dead_letter LIMIT ?) AS d", most).Scan(ctx, &n); err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return n, nil
}

// DeadCursor returns where the page after a dead letter begins.
func DeadCursor(d task.DeadLetter) string {
	return fmt.Sprintf("%d-%d", d.At.UnixMicro(), d.ID)
}

// where returns the filter as a condition on dead_letter d and run r.
func (f DeadFilter) where() (string, []any, error) {
	conditions, args := []string{"1 = 1"}, []any{}
	add := func(condition string, values ...any) {
		conditions = append(conditions, condition)
		args = append(args, values...)
	}
	if len(f.IDs) > 0 {
		add("d.task_id IN (?)", bun.List(f.IDs))
	}
	if f.Run != "" {
		add("d.run_id = ?", f.Run)
	}
	if f.Job != "" {
		add("r.job = ?", f.Job)
	}
	if f.Type != "" {
		add("d.type = ?", f.Type)
	}
	if f.Class != "" {
		add("d.class = ?", f.Class)
	}
	if !f.Since.IsZero() {
		add("d.at >= ?", instant{f.Since})
	}
	if f.After != "" {
		at, id, ok := strings.Cut(f.After, "-")
		micros, err := strconv.ParseInt(at, 10, 64)
		last, err2 := strconv.ParseInt(id, 10, 64)
		if !ok || err != nil || err2 != nil {
			return "", nil, fmt.Errorf("list dead letters after %q: that is no place in the list; take what the page before ended with", f.After)
		}
		add("(d.at, d.task_id) < (?, ?)", instant{time.UnixMicro(micros)}, last)
	}
	return strings.Join(conditions, " AND "), args, nil
}
