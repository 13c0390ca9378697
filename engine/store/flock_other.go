//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package store

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
)

// lockFile locks a database file of its own until the returned function is called
// or the process ends: SQLite knows how to lock a file where flock is not there.
func lockFile(ctx context.Context, name string) (unlock func(), err error) {
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(name), RawQuery: "_pragma=busy_timeout(600000)&_txlock=exclusive"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return func() { _ = tx.Rollback(); _ = db.Close() }, nil
}
