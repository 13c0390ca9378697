package load

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"

	"madeira/jobs/step"
)

// stagePrefix begins the names of all staging tables of a task.
func stagePrefix(t step.Task) string {
	sum := sha256.Sum256([]byte(t.Identity()))
	return "madeira_stage_" + hex.EncodeToString(sum[:8]) + "_"
}

// createStage returns the statement that makes the staging table: number and
// line of the row, then c0, c1, … as in the plan.
func (p *postgres) createStage(stage string) string {
	columns := []string{"n bigint NOT NULL", "line bigint NOT NULL"}
	for i, c := range p.plan.columns {
		text := fmt.Sprintf("c%d %s", i, stageType(c.Kind))
		if c.Kind.IsText() && p.types[i].collation != "" && slices.Contains(natural(c.Kind), p.types[i].kind) {
			text += " COLLATE " + p.types[i].collation
		}
		columns = append(columns, text)
	}
	return "CREATE UNLOGGED TABLE " + quote(stage) + " (" + strings.Join(columns, ", ") + ")"
}

// dropOldStages removes what attempts that died have left. One whose connection
// is still at work keeps its table for now.
func (p *postgres) dropOldStages(ctx context.Context, conn *sql.Conn, prefix string) error {
	rows, err := conn.QueryContext(ctx, `SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid) AND starts_with(relname, $1::text)`, prefix)
	if err != nil {
		return fmt.Errorf("look for old staging tables: %w", err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range names {
		if err := dropTable(ctx, conn, name); err != nil && stateOf(err) != "55P03" {
			return fmt.Errorf("drop the old staging table %s: %w", name, err)
		}
	}
	return nil
}

func dropTable(ctx context.Context, conn *sql.Conn, name string) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // After a commit there is nothing to roll back.
	if _, err := tx.ExecContext(ctx, "SELECT set_config('lock_timeout', '1s', true)"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DROP TABLE IF EXISTS "+quote(name)); err != nil {
		return err
	}
	return tx.Commit()
}

// copyRows sends the lines that win their keys to the staging table, in text:
// the server reads numbers, and no float comes near them.
func (p *postgres) copyRows(ctx context.Context, conn *sql.Conn, stage string) error {
	r, err := p.in.Datasets.Open(ctx, p.set.Rows, p.plan.read...)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // Nothing was written.
	source := &copyReader{ctx: ctx, rows: r, plan: &p.plan, skip: p.settled.repeats, total: p.set.Rows.Rows, progress: p.in.Progress}
	return conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the connection is a %T, not one of pgx", driver)
		}
		_, err := c.Conn().PgConn().CopyFrom(ctx, source, "COPY "+quote(stage)+" FROM STDIN")
		if source.err != nil {
			return source.err
		}
		return err
	})
}
