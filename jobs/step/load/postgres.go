package load

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// postgres stages the lines with COPY and merges them in one transaction.
type postgres struct {
	*attempt
	types []postgresColumn // by column of the plan
}

// A postgresColumn is what the server knows about one column of the table.
type postgresColumn struct {
	kind      string // type without its modifiers, domains resolved
	collation string // for a statement; "" for the default one
}

// stageType returns the type of a column in the staging table: the one that
// holds every value of its kind exactly.
func stageType(k dataset.Kind) string {
	switch k {
	case dataset.Integer:
		return "bigint"
	case dataset.Boolean:
		return "boolean"
	case dataset.Money, dataset.Decimal:
		return "numeric"
	case dataset.Date:
		return "date"
	case dataset.Timestamp:
		return "timestamp with time zone"
	}
	return "text"
}

// natural lists the types that compare with a kind's staging type by value.
func natural(k dataset.Kind) []string {
	switch k {
	case dataset.Integer:
		return []string{"bigint", "integer", "smallint", "numeric"}
	case dataset.Money, dataset.Decimal:
		return []string{"numeric", "bigint", "integer", "smallint"}
	case dataset.Boolean:
		return []string{"boolean"}
	case dataset.Date:
		return []string{"date", "timestamp with time zone", "timestamp without time zone"}
	case dataset.Timestamp:
		return []string{"timestamp with time zone", "timestamp without time zone"}
	}
	return []string{"text", "character varying", "character"}
}

func (p *postgres) prepare(ctx context.Context) error {
	if err := p.ownTables(ctx); err != nil {
		return classify(err)
	}
	have, err := p.describe(ctx)
	if err != nil {
		return classify(err)
	}
	if len(have) == 0 {
		create := p.plan.createTable(createType)
		if !p.set.Create {
			return step.PermanentCode("load.no_table", fmt.Errorf("there is no such table; say create: true, or run: %s", create))
		}
		if err := p.makeTable(ctx, create); err != nil {
			return classify(err)
		}
		if have, err = p.describe(ctx); err != nil {
			return classify(err)
		}
	}
	p.types = make([]postgresColumn, len(p.plan.columns))
	for i, c := range p.plan.columns {
		if c.target == "" {
			continue
		}
		col, ok := have[c.target]
		if !ok {
			return step.PermanentCode("load.columns", fmt.Errorf("the table has no column %q", c.target))
		}
		if !c.Kind.IsText() && (col.kind == "double precision" || col.kind == "real") {
			return step.PermanentCode("load.type", fmt.Errorf("column %q is %s, a binary floating point number, which has no exact amount; make it numeric", c.target, col.kind))
		}
		p.types[i] = col
	}
	return p.checkUnique(ctx)
}

// createType is the type of a column of a table that load makes. Keys are
// compared byte by byte, which is faster, and the same for everybody.
func createType(c column) string {
	if c.Kind.IsText() {
		return `text COLLATE "C"`
	}
	return stageType(c.Kind)
}

// makeTable runs a CREATE TABLE IF NOT EXISTS. Two at once are not safe from each
// other; whoever loses finds the table of the other one.
func (p *postgres) makeTable(ctx context.Context, create string) error {
	_, err := p.db.Write.ExecContext(ctx, create)
	if code := stateOf(err); code == "23505" || code == "42P07" {
		return nil
	}
	return err
}

func (p *postgres) ownTables(ctx context.Context) error {
	var n int
	const have = `SELECT (to_regclass('madeira_load') IS NOT NULL)::int + (to_regclass('madeira_load_conflict') IS NOT NULL)::int`
	if err := p.db.Write.QueryRowContext(ctx, have).Scan(&n); err != nil || n == 2 {
		return err
	}
	for _, table := range []string{recordTable, conflictTable} {
		if err := p.makeTable(ctx, table); err != nil {
			return fmt.Errorf("make our own tables in the database: %w; or run: %s; %s", err, recordTable, conflictTable)
		}
	}
	return nil
}

const describeTable = `
SELECT a.attname,
       CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, NULL) ELSE format_type(a.atttypid, NULL) END,
       coalesce(CASE WHEN c.collname <> 'default' THEN quote_ident(n.nspname) || '.' || quote_ident(c.collname) END, '')
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation c ON c.oid = a.attcollation
LEFT JOIN pg_namespace n ON n.oid = c.collnamespace
WHERE a.attrelid = to_regclass($1::text) AND a.attnum > 0 AND NOT a.attisdropped`

// describe returns the columns of the table, none when there is no table.
func (p *postgres) describe(ctx context.Context) (map[string]postgresColumn, error) {
	rows, err := p.db.Write.QueryContext(ctx, describeTable, p.plan.name())
	if err != nil {
		return nil, fmt.Errorf("look at the table: %w", err)
	}
	defer rows.Close()
	have := map[string]postgresColumn{}
	for rows.Next() {
		var name string
		var c postgresColumn
		if err := rows.Scan(&name, &c.kind, &c.collation); err != nil {
			return nil, fmt.Errorf("look at the table: %w", err)
		}
		have[name] = c
	}
	return have, rows.Err()
}

// checkUnique looks for an index that ON CONFLICT can go by.
func (p *postgres) checkUnique(ctx context.Context) error {
	const query = `SELECT 1 FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
		WHERE i.indrelid = to_regclass($1::text) AND i.indisunique AND i.indimmediate AND i.indisvalid
		AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = 1 AND a.attname = $2::text LIMIT 1`
	var one int
	err := p.db.Write.QueryRowContext(ctx, query, p.plan.name(), p.set.Key).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return noUnique(p.plan, p.set.Key)
	}
	return classify(err)
}

// stagePrefix begins the names of all staging tables of a task.
func stagePrefix(t step.Task) string {
	sum := sha256.Sum256([]byte(t.Identity()))
	return "madeira_stage_" + hex.EncodeToString(sum[:8]) + "_"
}

// merge stages all lines and merges them.
func (p *postgres) merge(ctx context.Context, from record) (record, error) {
	conn, err := p.db.Write.Conn(ctx)
	if err != nil {
		return from, err
	}
	defer conn.Close() //nolint:errcheck // It goes back to the pool, broken or not.
	prefix := stagePrefix(p.in.Task)
	if err := p.dropOldStages(ctx, conn, prefix); err != nil {
		return from, classify(err)
	}
	stage := fmt.Sprintf("%s%d", prefix, p.in.Task.Fence)
	if _, err := conn.ExecContext(ctx, p.createStage(stage)); err != nil {
		return from, classify(fmt.Errorf("make the staging table %s: %w", stage, err))
	}
	defer func() { _ = dropTable(context.WithoutCancel(ctx), conn, stage) }() // The next attempt drops what is left.
	if err := p.copyRows(ctx, conn, stage); err != nil {
		return from, classify(fmt.Errorf("stage the rows: %w", err))
	}
	if _, err := conn.ExecContext(ctx, "ANALYZE "+quote(stage)); err != nil {
		return from, classify(err)
	}
	var rec record
	m := newMerger(p, stage)
	err = again(ctx, func() (err error) {
		rec, err = m.run(ctx, conn, from)
		return err
	})
	if err != nil && refusing(err) {
		return from, classify(m.locate(ctx, conn, err))
	}
	p.in.Progress.Report(p.set.Rows.Rows, p.set.Rows.Rows, "rows")
	return rec, classify(err)
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
