package load

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"madeira/jobs/step"
)

// postgres stages the lines with COPY and merges them in one transaction.
type postgres struct {
	*attempt
	types []postgresColumn // by column of the plan
}

func (p *postgres) prepare(ctx context.Context) error {
	have, err := p.describe(ctx)
	if err != nil {
		return classify(err)
	}
	create := p.plan.createTable(createType)
	switch {
	case len(have) > 0:
		if err := p.check(ctx, have); err != nil {
			return err
		}
	case !p.set.Create:
		return step.PermanentCode("load.no_table", fmt.Errorf("there is no such table; say create: true, or run: %s", create))
	}
	if err := p.ownTables(ctx); err != nil || len(have) > 0 {
		return classify(err)
	}
	if err := p.makeTable(ctx, create); err != nil {
		return classify(err)
	}
	if have, err = p.describe(ctx); err != nil {
		return classify(err)
	}
	return p.check(ctx, have)
}

// check compares the table with the plan.
func (p *postgres) check(ctx context.Context, have map[string]postgresColumn) error {
	p.types = make([]postgresColumn, len(p.plan.columns))
	for i, c := range p.plan.columns {
		if c.target == "" {
			continue
		}
		col, ok := have[c.target]
		if !ok {
			return step.PermanentCode("load.columns", fmt.Errorf("the table has no column %q", c.target))
		}
		if err := c.fits(col, i == p.plan.key); err != nil {
			return step.PermanentCode("load.type", err)
		}
		p.types[i] = col
	}
	return p.checkUnique(ctx)
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
	stage, err := p.stageName(ctx, conn, prefix)
	if err != nil {
		return from, classify(err)
	}
	if _, err := conn.ExecContext(ctx, p.createStage(stage)); err != nil {
		return from, classify(fmt.Errorf("make the staging table %s: %w", stage, err))
	}
	defer func() { _ = dropTable(context.WithoutCancel(ctx), conn, stage, "1s") }() // The next attempt drops what is left.
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
		if errors.Is(err, errConflicts) {
			m.withheld = true
			rec, err = m.run(ctx, conn, from)
		}
		return err
	})
	if err != nil && refusing(err) {
		return from, classify(m.locate(ctx, conn, err))
	}
	p.in.Progress.Report(p.set.Rows.Rows, p.set.Rows.Rows, "rows")
	return rec, classify(err)
}
