package load

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"madeira/jobs/step"
)

// Our own tables in the target: how far each load is, and the differences it
// found. They may be emptied when the runs they belong to are over.
const (
	recordTable = `CREATE TABLE IF NOT EXISTS madeira_load (
  task text NOT NULL PRIMARY KEY, content text NOT NULL, fence bigint NOT NULL,
  next_row bigint NOT NULL, done boolean NOT NULL, tally text NOT NULL, before text NOT NULL)`
	conflictTable = `CREATE TABLE IF NOT EXISTS madeira_load_conflict (
  task text NOT NULL, row_number bigint NOT NULL, position integer NOT NULL, line bigint NOT NULL,
  key text NOT NULL, column_name text NOT NULL, there text, here text, PRIMARY KEY (task, row_number, position))`
)

// A record is how far the load of one task is. The zero value is nothing yet.
type record struct {
	Content string // what is loaded where
	Fence   int64
	Next    int64 // rows before this one are merged
	Done    bool
	Tally   tally

	// Before holds what earlier passes of the same task inserted. In this pass
	// those lines come out as same.
	Before tally

	// reopened says that the record in the table is that of a pass that ended.
	reopened bool
}

// again returns the record of a load that is compared once more.
func (r record) again(p plan) record {
	next := record{Content: r.Content, Fence: r.Fence, Tally: newTally(p), Before: newTally(p), reopened: true}
	total := r.total()
	next.Before.counts[inserted] = total.Tally.counts[inserted]
	next.Before.sums[inserted] = total.Tally.clone().sums[inserted]
	return next
}

// total counts as inserted what an earlier pass of this task did.
func (r record) total() record {
	if r.Before.counts[inserted] == 0 {
		return r
	}
	r.Tally = r.Tally.clone()
	r.Tally.move(same, inserted, r.Before)
	r.Before = tally{}
	return r
}

// A querier is a pool, a connection or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

const selectRecord = `SELECT content, fence, next_row, done, tally, before FROM madeira_load WHERE task = $1`

// readRecord returns the record of the task, or the zero one.
func readRecord(ctx context.Context, q querier, t step.Task, p plan, suffix ...string) (record, error) {
	var r record
	var counted, before string
	err := q.QueryRowContext(ctx, selectRecord+strings.Join(suffix, ""), t.Identity()).
		Scan(&r.Content, &r.Fence, &r.Next, &r.Done, &counted, &before)
	if errors.Is(err, sql.ErrNoRows) {
		return record{}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("read madeira_load: %w", err)
	}
	if r.Fence > t.Fence {
		return record{}, step.ErrLeaseLost
	}
	r.Tally, r.Before = newTally(p), newTally(p)
	if err := r.Tally.restore([]byte(counted)); err != nil {
		return record{Content: "unreadable"}, nil //nolint:nilerr // Of a load of other columns.
	}
	if err := r.Before.restore([]byte(before)); err != nil {
		return record{Content: "unreadable"}, nil //nolint:nilerr // Of a load of other columns.
	}
	return r, nil
}

const writeRecord = `INSERT INTO madeira_load (task, content, fence, next_row, done, tally, before)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (task) DO UPDATE SET content = excluded.content, fence = excluded.fence,
  next_row = excluded.next_row, done = excluded.done, tally = excluded.tally, before = excluded.before`

// write keeps the record, in the transaction that it is about.
func (r record) write(ctx context.Context, tx *sql.Tx, t step.Task) error {
	counted, err := json.Marshal(r.Tally)
	if err != nil {
		return err
	}
	before, err := json.Marshal(r.Before)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, writeRecord, t.Identity(), r.Content, t.Fence, r.Next, r.Done, string(counted), string(before)); err != nil {
		return fmt.Errorf("write madeira_load: %w", err)
	}
	return nil
}

// forget removes the differences of an earlier pass.
func forget(ctx context.Context, tx *sql.Tx, t step.Task) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM madeira_load_conflict WHERE task = $1`, t.Identity()); err != nil {
		return fmt.Errorf("clear madeira_load_conflict: %w", err)
	}
	return nil
}
