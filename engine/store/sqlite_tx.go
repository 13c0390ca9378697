package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// statements are prepared on first use and stay so.
type statements struct {
	mu  sync.Mutex
	all map[string]*sql.Stmt
}

// ready prepares what is not yet. It does so before a transaction begins, because
// there is only one connection and it would wait for itself; and not under the
// lock, because whoever has the connection looks statements up.
func (s *statements) ready(ctx context.Context, pool *sql.DB, texts []string) error {
	for _, text := range texts {
		if s.get(text) != nil {
			continue
		}
		stmt, err := pool.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		if !s.keep(text, stmt) {
			_ = stmt.Close()
		}
	}
	return nil
}

// keep reports false when somebody else was faster.
func (s *statements) keep(text string, stmt *sql.Stmt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[text] != nil {
		return false
	}
	if s.all == nil {
		s.all = map[string]*sql.Stmt{}
	}
	s.all[text] = stmt
	return true
}

func (s *statements) get(text string) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[text]
}

func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, stmt := range s.all {
		errs = append(errs, stmt.Close())
	}
	s.all = nil
	return errors.Join(errs...)
}

// A liteTx is a transaction that runs prepared statements.
type liteTx struct {
	txn
	stmts *statements
	bound map[string]*sql.Stmt // to the transaction
}

// stmt returns the statement within the transaction. Its context does not end: the
// driver starts a goroutine for every statement that can be cancelled, and these
// take microseconds.
func (tx *liteTx) stmt(ctx context.Context, text string) *sql.Stmt {
	stmt, ok := tx.bound[text]
	if !ok {
		stmt = tx.StmtContext(ctx, tx.stmts.get(text))
		tx.bound[text] = stmt
	}
	return stmt
}

// run executes a statement and returns how many rows it hit.
func (tx *liteTx) run(ctx context.Context, text string, args ...any) (int64, error) {
	res, err := tx.stmt(ctx, text).ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// one reads one row and reports whether there was one.
func (tx *liteTx) one(ctx context.Context, text string, args []any, dest ...any) (bool, error) {
	err := tx.stmt(ctx, text).QueryRowContext(ctx, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// each calls read for every row.
func (tx *liteTx) each(ctx context.Context, text string, args []any, read func(rows *sql.Rows) error) error {
	rows, err := tx.stmt(ctx, text).QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
