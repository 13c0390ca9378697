package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	sqlite3 "modernc.org/sqlite"
	sqlite3lib "modernc.org/sqlite/lib"
)

// sqlite is an embedded database: one connection that writes, some that read.
type sqlite struct {
	path  string
	write *bun.DB
	clock func() time.Time
	stmts statements
	line  line
}

const (
	// pragmas: state must survive a power cut, and several processes may share
	// the file; a page cache of 4 MiB is enough for a queue.
	pragmas = "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
		"&_pragma=cache_size(-4096)&_pragma=journal_size_limit(67108864)"
	writing = "&_txlock=immediate"
	reading = "&_pragma=query_only(1)"
)

func openSQLite(ctx context.Context, path string, o Options) (*DB, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("open the state database: sqlite://%s names no file", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("make the folder of the state database: %w", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the state database: %w", err)
	}
	// Also what a file was changed last is written by fsync, and means nothing here.
	// Where there is no fdatasync, fsync stays.
	_, _ = sqlite3.Fdatasync(true)
	write, err := openPool(ctx, abs, writing, 1)
	if err != nil {
		return nil, err
	}
	conns := o.ReadConns
	if conns <= 0 {
		conns = 4
	}
	read, err := openPool(ctx, abs, reading, conns+1) // one for who listens
	if err != nil {
		_ = write.Close()
		return nil, err
	}
	s := &sqlite{path: abs, write: write, clock: o.Now}
	if s.clock == nil {
		s.clock = time.Now
	}
	return &DB{dialect: s, hot: s, bun: write, read: read, bell: liteBell{read}, circuits: o.Circuits.withDefaults()}, nil
}

func openPool(ctx context.Context, path, mode string, conns int) (*bun.DB, error) {
	dsn := (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: pragmas + mode}).String()
	pool, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open the state database %s: %w", path, err)
	}
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	var journal string
	if err := pool.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
		_ = pool.Close()
		return nil, fmt.Errorf("open the state database %s: %w", path, err)
	}
	if journal != "wal" {
		_ = pool.Close()
		return nil, fmt.Errorf("open the state database %s: its file system allows no write-ahead log: put it on a local disk", path)
	}
	return bun.NewDB(pool, sqlitedialect.New()), nil
}

func (s *sqlite) close() error { return s.stmts.close() }

// now is the clock of the process, which on one host is the database's: the
// transaction holds the write lock already, so that stamps follow the commits.
func (s *sqlite) now(context.Context, bun.IDB) (instant, error) {
	return instant{s.clock().UTC().Truncate(time.Microsecond)}, nil
}

// reserve counts on from the highest id ever used, which AUTOINCREMENT keeps;
// nobody else can take one while this transaction holds the write lock.
func (s *sqlite) reserve(ctx context.Context, tx bun.Tx, n int) ([]int64, error) {
	var last int64
	err := tx.NewRaw("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'task_queue'").Scan(ctx, &last)
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = last + int64(i) + 1
	}
	return ids, err
}

// forUpdate is empty: there is one writer, and it is this transaction.
func (s *sqlite) forUpdate() string { return "" }

func (s *sqlite) skipLocked() string { return "" }

// steady has nothing to do: there are no statistics that change a plan.
func (s *sqlite) steady(context.Context, bun.Tx) error { return nil }

// alone has nothing to do: a transaction that writes is.
func (s *sqlite) alone(context.Context, bun.Tx, int64) error { return nil }

// shifting moves no more than takes about as long as a commit: all others who write
// wait for it.
func (s *sqlite) shifting(context.Context, bun.Tx) (int, error) { return 500, nil }

// giveWay waits as long again, for those of other processes who look at intervals
// whether they can write.
func (s *sqlite) giveWay(ctx context.Context, took time.Duration) error { return rest(ctx, took) }

func (s *sqlite) schema() string { return "sqlite" }

func (s *sqlite) fails(err error) failure {
	var lite *sqlite3.Error
	if !errors.As(err, &lite) {
		return failed
	}
	switch lite.Code() & 0xff {
	case sqlite3lib.SQLITE_BUSY, sqlite3lib.SQLITE_LOCKED:
		return victim
	case sqlite3lib.SQLITE_CONSTRAINT, sqlite3lib.SQLITE_TOOBIG, sqlite3lib.SQLITE_MISMATCH:
		return refused
	case sqlite3lib.SQLITE_IOERR, sqlite3lib.SQLITE_INTERRUPT:
		return unsure
	}
	return failed
}

// migrating locks a file beside the database, because goose on SQLite has no
// lock of its own and would let two processes run the same file.
func (s *sqlite) migrating(ctx context.Context, fn func(context.Context) error) error {
	unlock, err := lockFile(ctx, s.path+".migrate")
	if err != nil {
		return fmt.Errorf("wait for other migrations: %w", err)
	}
	defer unlock()
	return fn(ctx)
}
