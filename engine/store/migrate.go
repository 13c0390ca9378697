package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"madeira/migrations"
)

// Migrate brings the tables to what this program needs, one migration file a
// transaction, and returns the versions it applied. Several programs may migrate
// at once: one does it, the others wait and find nothing to do. It refuses a
// schema that is newer than the program.
func (db *DB) Migrate(ctx context.Context) ([]int64, error) {
	var applied []int64
	err := db.dialect.migrating(ctx, func(ctx context.Context) error {
		p, err := db.provider()
		if err != nil {
			return err
		}
		have, want, err := p.GetVersions(ctx)
		if err != nil {
			return err
		}
		if have > want {
			return &SchemaError{Have: have, Want: want}
		}
		results, err := p.Up(ctx)
		for _, r := range results {
			applied = append(applied, r.Source.Version)
		}
		return err
	})
	if err != nil {
		return applied, fmt.Errorf("migrate the database: %w", err)
	}
	return applied, nil
}

// Version returns the version of the tables, 0 when there are none, and the one
// that this program needs. It changes nothing.
func (db *DB) Version(ctx context.Context) (have, want int64, err error) {
	p, err := db.provider()
	if err != nil {
		return 0, 0, fmt.Errorf("read the schema version: %w", err)
	}
	for _, s := range p.ListSources() {
		want = max(want, s.Version)
	}
	exists, err := db.hasTable(ctx, goose.DefaultTablename)
	if err != nil || !exists {
		return 0, want, err
	}
	err = db.read.NewRaw("SELECT coalesce(max(version_id), 0) FROM "+goose.DefaultTablename+" WHERE is_applied").Scan(ctx, &have)
	if err != nil {
		return 0, want, fmt.Errorf("read the schema version: %w", err)
	}
	return have, want, nil
}

// CheckSchema returns a *SchemaError unless the tables are those that this
// program was built for.
func (db *DB) CheckSchema(ctx context.Context) error {
	have, want, err := db.Version(ctx)
	if err == nil && have != want {
		err = &SchemaError{Have: have, Want: want}
	}
	return err
}

func (db *DB) hasTable(ctx context.Context, name string) (bool, error) {
	query := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
	if db.dialect.schema() == "postgres" {
		query = "SELECT count(*) FROM pg_class WHERE oid = to_regclass(?)" // as the search path finds it
	}
	var n int
	if err := db.read.NewRaw(query, name).Scan(ctx, &n); err != nil {
		return false, fmt.Errorf("read the schema version: %w", err)
	}
	return n > 0, nil
}

func (db *DB) provider() (*goose.Provider, error) {
	files, err := fs.Sub(migrations.FS, db.dialect.schema())
	if err != nil {
		return nil, err
	}
	kind := goose.DialectSQLite3
	if db.dialect.schema() == "postgres" {
		kind = goose.DialectPostgres
	}
	p, err := goose.NewProvider(kind, db.bun.DB, files, goose.WithDisableGlobalRegistry(true))
	if errors.Is(err, goose.ErrNoMigrations) {
		return nil, errors.New("this program holds no migrations")
	}
	return p, err
}
