package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store"
)

// A benchPlace is where a bench keeps its rows: a schema of its own in a
// database of PostgreSQL, or a file of its own beside that of SQLite.
type benchPlace struct {
	config *config // as it was, with this place as its state database
	admin  string  // URL of the database around the schema; "" for SQLite
	schema string
}

func newBenchPlace(ctx context.Context, cfg *config) (*benchPlace, error) {
	own := *cfg
	own.embedded = true // nobody else migrates it
	p := &benchPlace{config: &own}
	parent := ""
	if file, ok := strings.CutPrefix(cfg.database, "sqlite://"); ok {
		if _, err := os.Stat(filepath.Dir(file)); err == nil {
			parent = filepath.Dir(file)
		}
	}
	var err error
	if own.root, err = os.MkdirTemp(parent, "madeira-bench-"); err != nil {
		return nil, fmt.Errorf("make a folder for the bench: %w", err)
	}
	own.database = "sqlite://" + filepath.Join(own.root, "bench.db")
	if cfg.stateType() == "postgres" {
		err = p.createSchema(ctx, cfg.database)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(own.root))
	}
	return p, nil
}

func (p *benchPlace) createSchema(ctx context.Context, database string) error {
	u, err := url.Parse(database)
	if err != nil {
		return usage("the URL of the state database cannot be read")
	}
	p.admin, p.schema = database, "madeira_bench_"+strings.ToLower(rand.Text()[:12])
	values := u.Query()
	values.Set("search_path", p.schema)
	u.RawQuery = values.Encode()
	p.config.database = u.String()
	if err := p.execute(ctx, "CREATE SCHEMA "+p.schema); err != nil {
		return fmt.Errorf("make a schema for the bench, for which the right to create one in this database is needed: %w", err)
	}
	return nil
}

func (p *benchPlace) execute(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, p.admin)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement)
	return err
}

// drop removes all that the bench has made.
func (p *benchPlace) drop(ctx context.Context) error {
	errs := []error{os.RemoveAll(p.config.root)}
	if p.schema != "" {
		if err := p.execute(ctx, "DROP SCHEMA "+p.schema+" CASCADE"); err != nil {
			errs = append(errs, fmt.Errorf("drop the schema %s of the bench: %w", p.schema, err))
		}
	}
	return errors.Join(errs...)
}

// settle writes to disk what the part before has left to be written, so that the
// next one does not pay for it.
func (p *benchPlace) settle(ctx context.Context, db *store.DB) error {
	_, pool := db.SQL()
	if p.schema == "" {
		_, err := pool.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	}
	_, err := pool.ExecContext(ctx, "VACUUM (ANALYZE) run, task_queue, task_ready, task_log, task_lease, task_dependency")
	if err == nil {
		_, _ = pool.ExecContext(ctx, "CHECKPOINT") // a right that not everybody has
	}
	return err
}
