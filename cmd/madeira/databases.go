package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // The driver of connections of type sqlite.

	"madeira/engine"
	"madeira/jobs/step"
)

// A databasePool opens the databases that madeira.yaml names, each once, and
// keeps them open until close.
type databasePool struct {
	config *config
	mu     sync.Mutex
	open   map[string]*step.Database // Guard not set
}

type databaseSettings struct {
	Type           string `json:"type"`
	URL            string `json:"url"`
	Password       string `json:"password"`
	Path           string `json:"path"`
	MaxConnections int    `json:"max_connections"`
	Pooler         string `json:"pooler"`
}

// poolerTransaction says that a pooler stands between that gives every
// transaction another session.
const poolerTransaction = "transaction"

// defaultConnections is how many connections one process opens to a database
// that is not its own: enough for a query and a load side by side, few enough
// for a ledger that others work with.
const defaultConnections = 4

func (p *databasePool) database(ctx context.Context, name string) (*step.Database, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if db, ok := p.open[name]; ok {
		return db, nil
	}
	var set databaseSettings
	if err := p.config.connection(ctx, name, &set); err != nil {
		return nil, err
	}
	db, err := openDatabase(name, set, p.config.root)
	if err != nil {
		return nil, fmt.Errorf("open connection %q: %w", name, err)
	}
	p.open[name] = db
	return db, nil
}

func (p *databasePool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, db := range p.open {
		errs = append(errs, db.Read.Close())
		if db.Write != db.Read {
			errs = append(errs, db.Write.Close())
		}
	}
	p.open = nil
	return errors.Join(errs...)
}

func openDatabase(name string, set databaseSettings, root string) (*step.Database, error) {
	switch set.Type {
	case "postgres":
		return openPostgres(name, set)
	case "sqlite":
		return openSQLite(name, set, root)
	}
	return nil, step.Permanent(fmt.Errorf("it is of type %q, not a database", set.Type))
}

func openPostgres(name string, set databaseSettings) (*step.Database, error) {
	conf, err := pgx.ParseConfig(set.URL)
	if err != nil { // what it says of the URL may hold parts of a password
		return nil, step.Permanent(errors.New("its url cannot be read: check the form postgres://user@host:port/database?sslmode=…"))
	}
	if set.Password != "" {
		conf.Password = set.Password
	}
	if conf.RuntimeParams["application_name"] == "" {
		conf.RuntimeParams["application_name"] = "madeira"
	}
	if set.Pooler == poolerTransaction {
		conf.DefaultQueryExecMode = pgx.QueryExecModeExec // no statement outlives its transaction
	}
	pool := stdlib.OpenDB(*conf)
	most := set.MaxConnections
	if most == 0 {
		most = defaultConnections
	}
	pool.SetMaxOpenConns(most)
	return &step.Database{Name: name, Dialect: step.Postgres, Read: pool, Write: pool}, nil
}

// withPassword puts a password into a URL that was written without one.
func withPassword(address, password string) (string, error) {
	if password == "" {
		return address, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("the URL of connection \"state\" cannot be read")
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String(), nil
}

func openSQLite(name string, set databaseSettings, root string) (*step.Database, error) {
	path := set.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("the file has to be there already: %w", err)
	}
	dsn := func(more string) string {
		return "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" + more
	}
	write, err := sql.Open("sqlite", dsn("&_txlock=immediate"))
	if err != nil {
		return nil, err
	}
	write.SetMaxOpenConns(1)
	read, err := sql.Open("sqlite", dsn("&_pragma=query_only(1)"))
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read.SetMaxOpenConns(defaultConnections)
	return &step.Database{Name: name, Dialect: step.SQLite, Read: read, Write: write}, nil
}

// fenceTable is what keeps an attempt that lost its lease from writing to a
// database other than the state database: the highest fence seen of each task.
const fenceTable = `CREATE TABLE IF NOT EXISTS madeira_fence (task text PRIMARY KEY, fence bigint NOT NULL)`

// ensureFenceTable makes the table where it is missing, and only then: creating
// needs a right that a user who loads may not have. Two loads that make it at
// the same time are tried again, so the error does not show as one of the rows.
func ensureFenceTable(ctx context.Context, tx *sql.Tx, dialect step.Dialect) error {
	have := "SELECT to_regclass('madeira_fence') IS NOT NULL"
	if dialect == step.SQLite {
		have = "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = 'madeira_fence'"
	}
	var found bool
	if err := tx.QueryRowContext(ctx, have).Scan(&found); err != nil {
		return fmt.Errorf("look for the table madeira_fence: %w", err)
	}
	if found {
		return nil
	}
	if _, err := tx.ExecContext(ctx, fenceTable); err != nil {
		return fmt.Errorf("make the table madeira_fence: %v; where this user may not, make it beforehand: %s", err, fenceTable) //nolint:errorlint // Its class is not that of the rows.
	}
	return nil
}

// fenceGuard returns a guard for a database that does not hold the queue. The row
// it writes belongs to the transaction it guards, so that of two attempts the
// one with the lower fence cannot commit after the other.
func fenceGuard(dialect step.Dialect, g engine.Grant) func(context.Context, *sql.Tx) error {
	name := fmt.Sprintf("%s/%d", g.Run.ID, g.Hold.TaskID)
	statement := `INSERT INTO madeira_fence (task, fence) VALUES ($1, $2)
		ON CONFLICT (task) DO UPDATE SET fence = excluded.fence WHERE madeira_fence.fence <= excluded.fence`
	return func(ctx context.Context, tx *sql.Tx) error {
		if err := ensureFenceTable(ctx, tx, dialect); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, statement, name, g.Hold.Fence)
		if err != nil {
			return fmt.Errorf("write the fence of task %s: %w", name, err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if n == 0 {
			return step.ErrLeaseLost
		}
		return nil
	}
}
