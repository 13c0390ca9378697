package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"madeira/engine/store"
)

func (p *program) doctorCommand() *cobra.Command {
	var invariants bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check that the state database is what this program needs, and in order",
		Long: `Checks that the state database can be reached and has the tables this program
needs. With --invariants it holds all rows against the rules that hold after any
transaction, whatever was killed in between; others may go on working meanwhile.
It exits with 1 when it finds a violation.`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withState(c.Context(), func(db *store.DB, cfg *config) error { return p.doctor(c.Context(), db, cfg, invariants) })
		},
	}
	c.Flags().BoolVar(&invariants, "invariants", false, "hold all rows against the invariants")
	return c
}

func (p *program) doctor(ctx context.Context, db *store.DB, cfg *config, invariants bool) error {
	violations := []string{}
	if invariants {
		found, err := db.Check(ctx)
		if err != nil {
			return err
		}
		violations = append(violations, found...)
	}
	if p.output == "json" {
		report := map[string]any{"database": redacted(cfg.database), "schema": "current"}
		if invariants {
			report["violations"] = violations
		}
		if err := p.json(report); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(p.stdout, "database    %s\nschema      current\n", redacted(cfg.database))
		if invariants {
			fmt.Fprintf(p.stdout, "violations  %d\n", len(violations))
		}
		for _, v := range violations {
			fmt.Fprintln(p.stdout, v)
		}
	}
	if len(violations) > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}
