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

// stageName returns a name for the staging table of this attempt. It ends with
// the seconds of the server's clock, by which any later load sees how old it is.
func (p *postgres) stageName(ctx context.Context, conn *sql.Conn, prefix string) (string, error) {
	var seconds int64
	if err := conn.QueryRowContext(ctx, "SELECT extract(epoch FROM now())::bigint").Scan(&seconds); err != nil {
		return "", fmt.Errorf("name the staging table: %w", err)
	}
	return fmt.Sprintf("%s%d_%d", prefix, p.in.Task.Fence, seconds), nil
}

// findStages lists the staging tables of the task, and those of other tasks that
// are more than a day old and may be dropped by us.
const findStages = `
SELECT relname, starts_with(relname, $1::text) FROM pg_class
WHERE relkind = 'r' AND pg_table_is_visible(oid) AND starts_with(relname, 'madeira_stage_') AND (starts_with(relname, $1::text)
  OR substring(relname from '^madeira_stage_[0-9a-f]{16}_[0-9]{1,19}_([0-9]{1,11})$')::bigint < extract(epoch FROM now()) - 86400
     AND pg_has_role(relowner, 'USAGE'))`

// dropOldStages removes what attempts that died have left, those of this task
// and those of tasks that were given up. One whose connection is at work keeps
// its table; of another task even a moment's lock is enough.
func (p *postgres) dropOldStages(ctx context.Context, conn *sql.Conn, prefix string) error {
	own, others, err := oldStages(ctx, conn, prefix)
	if err != nil {
		return fmt.Errorf("look for old staging tables: %w", err)
	}
	for _, name := range own {
		if err := dropTable(ctx, conn, name, "1s"); err != nil && stateOf(err) != "55P03" {
			return fmt.Errorf("drop the old staging table %s: %w", name, err)
		}
	}
	for _, name := range others {
		// What the server has against it is no reason not to load.
		if err := dropTable(ctx, conn, name, "10ms"); err != nil && stateOf(err) == "" {
			return fmt.Errorf("drop the old staging table %s: %w", name, err)
		}
	}
	return nil
}

func oldStages(ctx context.Context, conn *sql.Conn, prefix string) (own, others []string, err error) {
	rows, err := conn.QueryContext(ctx, findStages, prefix)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var mine bool
		if err := rows.Scan(&name, &mine); err != nil {
			return nil, nil, err
		}
		if mine {
			own = append(own, name)
		} else {
			others = append(others, name)
		}
	}
	return own, others, rows.Err()
}

// dropTable drops a table unless somebody holds it for longer than wait.
func dropTable(ctx context.Context, conn *sql.Conn, name, wait string) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // After a commit there is nothing to roll back.
	if _, err := tx.ExecContext(ctx, "SELECT set_config('lock_timeout', $1::text, true)", wait); err != nil {
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
