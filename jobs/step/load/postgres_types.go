package load

import (
	"context"
	"fmt"
	"slices"

	"madeira/jobs/dataset"
)

// A postgresColumn is what the server knows about one column of the table.
type postgresColumn struct {
	kind      string // type without its modifiers, domains resolved
	labels    bool   // it is an enum
	collation string // for a statement; "" for the default one
	loose     bool   // texts that differ can be equal, by the collation
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
	return texts
}

// texts lists the types that keep a text byte for byte.
var texts = []string{"text", "character varying"}

// fits refuses a column that would change what is loaded without a word: 007 in
// an integer is 7, a padded text loses its blanks, a time in a date its hour.
// The key has to be compared as well, and may not equal a key that differs.
func (c column) fits(there postgresColumn, key bool) error {
	compared := slices.Contains(natural(c.Kind), there.kind) || c.Kind.IsText() && there.labels
	switch {
	case !c.Kind.IsText() && (there.kind == "double precision" || there.kind == "real"):
		return fmt.Errorf("column %q is %s, a binary floating point number, which has no exact amount; make it numeric", c.target, there.kind)
	case key && compared && there.loose:
		return fmt.Errorf("column %q has the collation %s, by which keys that differ are equal; make it text COLLATE \"C\"", c.target, there.collation)
	case compared || !key && slices.Contains(texts, there.kind):
		return nil
	case c.Kind.IsText():
		return fmt.Errorf("column %q is %s, which does not keep every text byte for byte, such as 007 or blanks at the end; make it text", c.target, there.kind)
	}
	return fmt.Errorf("column %q is %s, which does not hold every %s as it is; make it %s", c.target, there.kind, c.Kind, stageType(c.Kind))
}

// createType is the type of a column of a table that load makes. Keys are
// compared byte by byte, which is faster, and the same for everybody.
func createType(c column) string {
	if c.Kind.IsText() {
		return `text COLLATE "C"`
	}
	return stageType(c.Kind)
}

const describeTable = `
SELECT a.attname,
       format_type(t.oid, NULL),
       t.typtype = 'e',
       coalesce(CASE WHEN c.collname <> 'default' THEN quote_ident(n.nspname) || '.' || quote_ident(c.collname) END, ''),
       NOT coalesce(c.collisdeterministic, true)
FROM pg_attribute a
JOIN pg_type d ON d.oid = a.atttypid
JOIN pg_type t ON t.oid = CASE WHEN d.typtype = 'd' THEN d.typbasetype ELSE d.oid END
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
		if err := rows.Scan(&name, &c.kind, &c.labels, &c.collation, &c.loose); err != nil {
			return nil, fmt.Errorf("look at the table: %w", err)
		}
		have[name] = c
	}
	return have, rows.Err()
}
