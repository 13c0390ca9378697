package load

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A plan says which columns of the rows go where.
type plan struct {
	table   []string // its name, after the schema where one is given
	key     int      // index of the key among columns
	columns []column
	read    []string         // columns of the rows, each once
	schema  []dataset.Column // of read
	money   []int            // indexes of the loaded columns that are summed
}

// A column is one column of the rows on its way into the table.
type column struct {
	dataset.Column        // of the rows
	target         string // its name in the table; "" when it only tells the currency of another
	source         int    // index among the columns read
	currency       int    // of an amount: index of the column that tells its currency, or -1
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// newPlan matches the settings with the schema of the rows. Its errors are
// permanent.
func newPlan(set settings) (plan, error) {
	p := plan{table: strings.Split(set.Table, "."), key: -1}
	for _, part := range p.table {
		if !identifier.MatchString(part) || len(p.table) > 2 {
			return plan{}, wrongColumns("table %q: a name is letters, digits and underscores, with a schema and a point in front where there is one", set.Table)
		}
	}
	pairs := set.Columns
	if len(pairs) == 0 {
		pairs = map[string]string{}
		for _, name := range set.Rows.Schema.Names() {
			pairs[name] = name
		}
	}
	for target, source := range pairs {
		if !identifier.MatchString(target) {
			return plan{}, wrongColumns("column %q: a name is letters, digits and underscores", target)
		}
		c, err := set.Rows.Schema.Column(source)
		if err != nil {
			if target == set.Key {
				return plan{}, keyMissing(fmt.Errorf("the rows have no column %q for the key %q; there are %s", source, set.Key, strings.Join(set.Rows.Schema.Names(), ", ")))
			}
			return plan{}, wrongColumns("column %q: the rows have %w", target, err)
		}
		p.columns = append(p.columns, column{Column: c, target: target, currency: -1})
	}
	slices.SortFunc(p.columns, func(a, b column) int {
		return cmp.Or(cmp.Compare(set.Rows.Schema.Index(a.Name), set.Rows.Schema.Index(b.Name)), cmp.Compare(a.target, b.target))
	})
	p.key = slices.IndexFunc(p.columns, func(c column) bool { return c.target == set.Key })
	if p.key < 0 {
		return plan{}, keyMissing(fmt.Errorf("no column is loaded into the key %q; there are %s", set.Key, strings.Join(p.targets(), ", ")))
	}
	p.findCurrencies(set.Rows.Schema)
	p.findSources()
	return p, nil
}

func wrongColumns(format string, args ...any) error {
	return step.PermanentCode("load.columns", fmt.Errorf(format, args...))
}

func keyMissing(err error) error { return step.PermanentCode("load.key_missing", err) }

// findCurrencies finds for every amount the column that tells its currency: the
// declared currency of the amount itself, else the currency column whose name
// begins with the same word, else the first one.
func (p *plan) findCurrencies(schema dataset.Schema) {
	for i := range p.columns {
		c := &p.columns[i]
		if c.Kind != dataset.Money || i == p.key || c.target == "" {
			continue
		}
		p.money = append(p.money, i)
		if source := currencyColumn(schema, c.Column); source >= 0 {
			c.currency = p.carry(schema.Columns[source])
		}
	}
}

func currencyColumn(schema dataset.Schema, amount dataset.Column) int {
	first := -1
	if amount.Currency != "" {
		return first
	}
	for i, c := range schema.Columns {
		if c.Kind != dataset.Currency {
			continue
		}
		if firstWord(c.Name) == firstWord(amount.Name) {
			return i
		}
		if first < 0 {
			first = i
		}
	}
	return first
}

func firstWord(name string) string {
	word, _, _ := strings.Cut(name, "_")
	return word
}

// carry returns the index of the column, which is added when it is not loaded.
func (p *plan) carry(c dataset.Column) int {
	if i := slices.IndexFunc(p.columns, func(have column) bool { return have.Name == c.Name }); i >= 0 {
		return i
	}
	p.columns = append(p.columns, column{Column: c, currency: -1})
	return len(p.columns) - 1
}

// findSources numbers the columns that are read.
func (p *plan) findSources() {
	for i := range p.columns {
		c := &p.columns[i]
		c.source = slices.Index(p.read, c.Name)
		if c.source < 0 {
			c.source = len(p.read)
			p.read = append(p.read, c.Name)
			p.schema = append(p.schema, c.Column)
		}
	}
}

// targets returns the names of the loaded columns in the table.
func (p *plan) targets() []string {
	var names []string
	for _, c := range p.columns {
		if c.target != "" {
			names = append(names, c.target)
		}
	}
	return names
}

// name returns the table's name for a statement.
func (p *plan) name() string {
	parts := make([]string, len(p.table))
	for i, part := range p.table {
		parts[i] = quote(part)
	}
	return strings.Join(parts, ".")
}

func (p *plan) keyColumn() column { return p.columns[p.key] }

// find returns the loaded column of that name in the table.
func (p *plan) find(target string) (column, bool) {
	i := slices.IndexFunc(p.columns, func(c column) bool { return c.target == target })
	if i < 0 {
		return column{}, false
	}
	return p.columns[i], true
}

// quote returns an identifier for a statement.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// content identifies what is loaded where: a record of other content is of no use.
func (a *attempt) content() string {
	targets := a.plan.targets()
	text, err := json.Marshal([]any{a.set.Rows.Digest, a.set.Table, a.set.Key, a.set.OnConflict, targets, a.plan.read})
	if err != nil {
		panic(err) // only texts
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// createTable returns the statement that makes the table. Types names the type
// of each kind; the key's is completed by keyType.
func (p *plan) createTable(typeOf func(column) string) string {
	var lines []string
	for i, c := range p.columns {
		switch {
		case c.target == "":
		case i == p.key:
			lines = append(lines, quote(c.target)+" "+typeOf(c)+" NOT NULL PRIMARY KEY")
		default:
			lines = append(lines, quote(c.target)+" "+typeOf(c))
		}
	}
	return "CREATE TABLE IF NOT EXISTS " + p.name() + " (" + strings.Join(lines, ", ") + ")"
}
