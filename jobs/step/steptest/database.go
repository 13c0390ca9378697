package steptest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"

	_ "github.com/jackc/pgx/v5/stdlib" // The driver of Postgres.
	_ "modernc.org/sqlite"             // The driver of SQLite.

	"madeira/jobs/step"
)

// SQLite makes an empty database of the test's own and gives it to the steps as
// the connection of that name, with pools as the program opens them: a single
// connection that writes, and others that can only read.
func (k *Kit) SQLite(connection string) *step.Database {
	k.t.Helper()
	path := filepath.Join(k.t.TempDir(), "target.db")
	write := k.open("sqlite", sqliteURL(path, "&_txlock=immediate"))
	write.SetMaxOpenConns(1)
	if err := write.Ping(); err != nil {
		k.t.Fatal(err)
	}
	read := k.open("sqlite", sqliteURL(path, "&_pragma=query_only(1)"))
	read.SetMaxOpenConns(4)
	db := &step.Database{Name: connection, Dialect: step.SQLite, Read: read, Write: write}
	k.Databases[connection] = db
	return db
}

func sqliteURL(path, more string) string {
	const pragmas = "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + pragmas + more
}

// Postgres gives the database at the URL to the steps as the connection of that
// name.
func (k *Kit) Postgres(connection, url string) *step.Database {
	k.t.Helper()
	pool := k.open("pgx", url)
	pool.SetMaxOpenConns(4)
	db := &step.Database{Name: connection, Dialect: step.Postgres, Read: pool, Write: pool}
	k.Databases[connection] = db
	return db
}

func (k *Kit) open(driver, dsn string) *sql.DB {
	k.t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			k.t.Error(err)
		}
	})
	return db
}

// Exec runs statements that set a test up.
func (k *Kit) Exec(db *step.Database, statements ...string) {
	k.t.Helper()
	for _, s := range statements {
		if _, err := db.Write.ExecContext(k.t.Context(), s); err != nil {
			k.t.Fatalf("%s: %v", s, err)
		}
	}
}

// Table returns what a statement reads, one list of texts a row; null is "NULL".
func (k *Kit) Table(db *step.Database, query string, args ...any) [][]string {
	k.t.Helper()
	rows, err := db.Read.QueryContext(k.t.Context(), query, args...)
	if err != nil {
		k.t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		k.t.Fatal(err)
	}
	values, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	table := [][]string{}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			k.t.Fatal(err)
		}
		row := make([]string, len(values))
		for i, v := range values {
			if row[i] = v.String; !v.Valid {
				row[i] = "NULL"
			}
		}
		table = append(table, row)
	}
	if err := rows.Err(); err != nil {
		k.t.Fatalf("%s: %v", query, err)
	}
	return table
}

// databases hands the databases of a kit to one task. A database whose Guard is
// not set gets one that keeps the highest fence of each task in the database.
type databases struct {
	byName map[string]*step.Database
	task   step.Task
}

func (d databases) Database(_ context.Context, name string) (*step.Database, error) {
	db, ok := d.byName[name]
	if !ok {
		return nil, step.Permanent(fmt.Errorf("no connection %q in this test", name))
	}
	if db.Guard != nil {
		return db, nil
	}
	guarded := *db
	guarded.Guard = guard(d.task)
	return &guarded, nil
}

func guard(t step.Task) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS madeira_fence (task text PRIMARY KEY, fence bigint NOT NULL)`); err != nil {
			return fmt.Errorf("make madeira_fence: %w", err)
		}
		result, err := tx.ExecContext(ctx, `INSERT INTO madeira_fence (task, fence) VALUES ($1, $2)
			ON CONFLICT (task) DO UPDATE SET fence = excluded.fence WHERE madeira_fence.fence <= excluded.fence`, t.Identity(), t.Fence)
		if err != nil {
			return fmt.Errorf("write the fence of %s: %w", t.Identity(), err)
		}
		n, err := result.RowsAffected()
		if err == nil && n == 0 {
			err = step.ErrLeaseLost
		}
		return err
	}
}
