package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"madeira/engine/store"
)

func (p *program) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the state database to this build's version",
		Long: `Makes the tables of the state database, or brings them to the version of this
program. The embedded one, which is used when none is named, needs no word; one that
--database, MADEIRA_DATABASE_URL or the connection state of madeira.yaml names is
changed by this command alone.`,
		Example: `  madeira migrate
  madeira migrate --database sqlite://books.db`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(c.Context(), ".", p.database, p.environ)
			if err != nil {
				return err
			}
			db, err := store.Open(c.Context(), cfg.database, store.Options{})
			if err != nil {
				return err
			}
			return errors.Join(p.migrate(c.Context(), db, cfg), db.Close())
		},
	}
}

func (p *program) migrate(ctx context.Context, db *store.DB, cfg *config) error {
	applied, err := db.Migrate(ctx)
	if err != nil {
		return err
	}
	version, _, err := db.Version(ctx)
	if err != nil {
		return err
	}
	if p.output == "json" {
		return json.NewEncoder(p.stdout).Encode(map[string]any{"database": redacted(cfg.database), "version": version, "applied": len(applied)})
	}
	_, err = fmt.Fprintf(p.stdout, "%s is at version %d (%s applied now)\n", redacted(cfg.database), version, count(len(applied), "migration"))
	return err
}

// migratedBy says with what, or where, madeira migrate finds the state database; ""
// when it does without.
func (c *config) migratedBy() string {
	here, _, err := findRoot(".")
	switch {
	case c.asked:
		return " with the same --database"
	case err != nil || here != c.root:
		return " in the folder " + displayPath(c.root)
	}
	return ""
}

// redacted returns a database URL without its password.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the state database"
	}
	return u.Redacted()
}
