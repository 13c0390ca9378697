package load

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// sqlite writes in slices: the only connection that writes is shared, in the
// state database with the engine, and nobody may hold it for long.
type sqlite struct {
	*attempt
}

// sqliteType returns the type of a column of a table that load makes. Amounts are
// text, because SQLite has no decimals and would keep a float.
func sqliteType(c column) string {
	switch c.Kind {
	case dataset.Integer:
		return "INTEGER"
	case dataset.Boolean:
		return "BOOLEAN"
	}
	return "TEXT"
}

func (s *sqlite) prepare(ctx context.Context) error {
	if err := s.ownTables(ctx); err != nil {
		return classify(err)
	}
	types, err := s.columnTypes(ctx)
	if err != nil {
		return classify(err)
	}
	if len(types) == 0 {
		create := s.plan.createTable(sqliteType)
		if !s.set.Create {
			return step.PermanentCode("load.no_table", fmt.Errorf("there is no such table; say create: true, or run: %s", create))
		}
		_, err := s.db.Write.ExecContext(ctx, create)
		return classify(err)
	}
	for _, c := range s.plan.columns {
		if c.target == "" {
			continue
		}
		declared, ok := types[strings.ToLower(c.target)]
		if !ok {
			return step.PermanentCode("load.columns", fmt.Errorf("the table has no column %q", c.target))
		}
		if err := fitsAffinity(c, declared); err != nil {
			return step.PermanentCode("load.type", err)
		}
	}
	return s.checkUnique(ctx)
}

// ownTables makes what is missing of our tables. It looks first, because making
// them takes the connection that writes.
func (s *sqlite) ownTables(ctx context.Context) error {
	var n int
	const have = `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('madeira_load', 'madeira_load_conflict')`
	if err := s.db.Read.QueryRowContext(ctx, have).Scan(&n); err != nil || n == 2 {
		return err
	}
	for _, table := range []string{recordTable, conflictTable} {
		if _, err := s.db.Write.ExecContext(ctx, table); err != nil {
			return fmt.Errorf("make our own tables in the database: %w; or run: %s; %s", err, recordTable, conflictTable)
		}
	}
	return nil
}

// schemaName is the database that the table is in.
func (s *sqlite) schemaName() string {
	if len(s.plan.table) == 2 {
		return s.plan.table[0]
	}
	return "main"
}

func (s *sqlite) tableName() string { return s.plan.table[len(s.plan.table)-1] }

// columnTypes returns the declared types by name in lower case.
func (s *sqlite) columnTypes(ctx context.Context) (map[string]string, error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT name, type FROM pragma_table_info(?, ?)`, s.tableName(), s.schemaName())
	if err != nil {
		return nil, fmt.Errorf("look at the table: %w", err)
	}
	defer rows.Close()
	types := map[string]string{}
	for rows.Next() {
		var name, declared string
		if err := rows.Scan(&name, &declared); err != nil {
			return nil, fmt.Errorf("look at the table: %w", err)
		}
		types[strings.ToLower(name)] = strings.ToUpper(declared)
	}
	return types, rows.Err()
}

// fitsAffinity refuses columns that would change what is loaded: SQLite turns
// digits into a float where the declared type says number, whatever its name.
func fitsAffinity(c column, declared string) error {
	affinity := affinityOf(declared)
	number := affinity == "INTEGER" || affinity == "NUMERIC"
	switch {
	case c.Kind.IsDecimal() && (number || affinity == "REAL"),
		c.Kind == dataset.Integer && affinity == "REAL",
		c.Kind == dataset.Boolean && affinity == "REAL":
		return fmt.Errorf("column %q is declared as %q, in which SQLite keeps binary floating point numbers, which have no exact amount; declare it TEXT", c.target, declared)
	case c.Kind.IsText() && (number || affinity == "REAL"):
		return fmt.Errorf("column %q is declared as %q, in which SQLite turns a text such as 007 into a number; declare it TEXT", c.target, declared)
	}
	return nil
}

// affinityOf follows the rules of section 3.1 of "Datatypes In SQLite".
func affinityOf(declared string) string {
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(declared, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("INT"):
		return "INTEGER"
	case has("CHAR", "CLOB", "TEXT"):
		return "TEXT"
	case declared == "" || has("BLOB"):
		return "BLOB"
	case has("REAL", "FLOA", "DOUB"): //nolint:misspell // SQLite looks for these four letters.
		return "REAL"
	}
	return "NUMERIC"
}

// checkUnique sees to it that the key is unique by itself in every row.
func (s *sqlite) checkUnique(ctx context.Context) error {
	const query = `SELECT 1 FROM pragma_index_list(?1, ?2) AS l
		WHERE l."unique" = 1 AND l.partial = 0
		AND (SELECT count(*) FROM pragma_index_info(l.name, ?2)) = 1
		AND (SELECT lower(name) FROM pragma_index_info(l.name, ?2)) = lower(?3)
		UNION ALL
		SELECT 1 FROM pragma_table_info(?1, ?2) WHERE pk > 0 AND lower(name) = lower(?3)
		AND (SELECT count(*) FROM pragma_table_info(?1, ?2) WHERE pk > 0) = 1`
	var one int
	err := s.db.Read.QueryRowContext(ctx, query, s.tableName(), s.schemaName(), s.set.Key).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return noUnique(s.plan, s.set.Key)
	}
	if err != nil || !s.plan.keyColumn().Kind.IsText() {
		return classify(err)
	}
	return s.checkCollation(ctx)
}

// checkCollation refuses a key of which texts that differ can be equal by its
// unique index. The collation of the column itself is of no account: lines are
// looked up by that of the index.
func (s *sqlite) checkCollation(ctx context.Context) error {
	const query = `SELECT x.coll, l.name, l.origin FROM pragma_index_list(?1, ?2) AS l, pragma_index_xinfo(l.name, ?2) AS x
		WHERE l."unique" = 1 AND l.partial = 0 AND x.key = 1 AND lower(x.name) = lower(?3) AND upper(x.coll) <> 'BINARY'
		AND (SELECT count(*) FROM pragma_index_info(l.name, ?2)) = 1`
	var collation, index, origin string
	err := s.db.Read.QueryRowContext(ctx, query, s.tableName(), s.schemaName(), s.set.Key).Scan(&collation, &index, &origin)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return classify(err)
	}
	cure := "make the table anew with the column declared TEXT, whose collation is BINARY"
	if origin == "c" {
		cure = fmt.Sprintf("run: DROP INDEX %s.%s; %s", quote(s.schemaName()), quote(index), createUnique(s.plan, s.set.Key, " COLLATE BINARY"))
	}
	return step.PermanentCode("load.type", fmt.Errorf(
		"the unique index on column %q has the collation %s, by which keys that differ are equal; %s", s.set.Key, collation, cure))
}

func noUnique(p plan, key string) error {
	return step.PermanentCode("load.no_unique_key", fmt.Errorf(
		"the table has no unique index on %q alone, so nothing keeps a key from coming twice; run: %s", key, createUnique(p, key, "")))
}

// createUnique returns the statement that makes the index a load needs.
func createUnique(p plan, key, collation string) string {
	return fmt.Sprintf("CREATE UNIQUE INDEX %s ON %s (%s%s)", quote(p.table[len(p.table)-1]+"_"+key), p.name(), quote(key), collation)
}
