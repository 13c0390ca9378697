package query

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// Type returns the step type "query".
func Type() step.Type {
	return step.Type{
		Name:     "query",
		Source:   true,
		RunsCode: true,
		Outputs: []step.Field{
			{Name: "rows", Type: step.DatasetValue, Doc: "What the statement returned."},
			{Name: "row_count", Type: step.IntegerValue, Doc: "How many rows that were."},
		},
		Columns: draftColumns,
		Runner:  runner{},
	}
}

// draftColumns says what the declared columns are called.
func draftColumns(d step.Draft) step.Columns {
	var set struct {
		Columns ordered `json:"columns"`
	}
	if json.Unmarshal(d.Settings, &set) != nil || set.Columns == nil {
		return step.Columns{}
	}
	return step.Columns{Left: map[string][]step.Column{"rows": step.ColumnsOf(dataset.Schema{Columns: set.Columns})}}
}

type settings struct {
	Connection string                     `json:"connection"`
	SQL        string                     `json:"sql"`
	Args       map[string]json.RawMessage `json:"args"`
	Timezone   string                     `json:"timezone"`
	Columns    ordered                    `json:"columns"`
}

type runner struct{}

// Run reads all rows in one read-only transaction. The digest does not depend on
// the order in which the database returns them.
func (runner) Run(ctx context.Context, in step.Input) (step.Output, error) {
	var set settings
	if err := json.Unmarshal(in.Settings, &set); err != nil {
		return step.Output{}, step.Permanent(fmt.Errorf("read the settings of query: %w", err))
	}
	db, err := in.Databases.Database(ctx, set.Connection)
	if err != nil {
		return step.Output{}, err
	}
	zone, err := time.LoadLocation(set.Timezone)
	if err != nil {
		return step.Output{}, step.Permanent(fmt.Errorf("query: timezone: %w", err))
	}
	out, err := newCollector(ctx, in, set.Columns, zone)
	if err != nil {
		return step.Output{}, err
	}
	defer out.discard()
	if err := read(ctx, db, set, zone, out); err != nil {
		return step.Output{}, fmt.Errorf("query connection %q: %w", set.Connection, err)
	}
	rows, err := out.commit(ctx)
	if err != nil {
		return step.Output{}, err
	}
	return step.Output{
		Values: map[string]any{"rows": rows, "row_count": rows.Rows},
		Report: fmt.Sprintf("%d rows", rows.Rows),
		Digest: out.digest.String(),
	}, nil
}

func read(ctx context.Context, db *step.Database, set settings, zone *time.Location, out *collector) error {
	numbered := func(n int) string { return "$" + strconv.Itoa(n) }
	if db.Dialect == step.SQLite {
		numbered = func(n int) string { return "?" + strconv.Itoa(n) }
	}
	st, err := bind(set.SQL, numbered)
	if err != nil {
		return step.PermanentCode("query.sql", err)
	}
	args, err := arguments(st.names, set.Args)
	if err != nil {
		return step.PermanentCode("query.args", err)
	}
	if db.Dialect == step.SQLite {
		return readSQLite(ctx, db.Read, st.sql, args, out)
	}
	return readPostgres(ctx, db.Read, st.sql, args, zone, out)
}

// arguments returns the values in the order of the names. Every name needs a
// value and every value a name: a forgotten one is a wrong result.
func arguments(names []string, given map[string]json.RawMessage) ([]any, error) {
	args := make([]any, len(names))
	for i, name := range names {
		raw, ok := given[name]
		if !ok {
			return nil, fmt.Errorf("the statement uses :%s, and args has %s", name, list(slices.Sorted(maps.Keys(given))))
		}
		var err error
		if args[i], err = argumentValue(raw); err != nil {
			return nil, fmt.Errorf("args.%s: %w", name, err)
		}
	}
	for name := range given {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("args.%s is not used; the statement uses %s", name, list(names))
		}
	}
	return args, nil
}

// list returns names for a message.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func argumentValue(raw json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	switch value := value.(type) {
	case nil, string, bool:
		return value, nil
	case json.Number:
		n, err := strconv.ParseInt(value.String(), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is no whole number; write amounts as strings of digits", value)
		}
		return n, nil
	}
	return nil, errors.New("only text, whole numbers, true, false and null can be arguments")
}

// ordered is the object of columns in the order of the file.
type ordered []dataset.Column

// UnmarshalJSON keeps the order of the keys, which is the order of the columns.
func (o *ordered) UnmarshalJSON(raw []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		var spec json.RawMessage
		if err := decoder.Decode(&spec); err != nil {
			return err
		}
		column, err := column(name.(string), spec)
		if err != nil {
			return err
		}
		*o = append(*o, column)
	}
	return nil
}

func column(name string, spec json.RawMessage) (dataset.Column, error) {
	c := dataset.Column{Name: name}
	if err := json.Unmarshal(spec, &c.Kind); err == nil {
		if c.Kind.IsDecimal() {
			c.Scale = dataset.DefaultScale
		}
		return c, nil
	}
	var long struct {
		Type     dataset.Kind `json:"type"`
		Currency string       `json:"currency"`
		Scale    *int         `json:"scale"`
	}
	if err := json.Unmarshal(spec, &long); err != nil {
		return c, fmt.Errorf("columns.%s: %w", name, err)
	}
	c.Kind, c.Currency = long.Type, long.Currency
	switch exponent, known := dataset.Exponent(long.Currency); {
	case long.Scale != nil:
		c.Scale = *long.Scale
	case known:
		c.Scale = exponent
	case c.Kind.IsDecimal():
		c.Scale = dataset.DefaultScale
	}
	return c, nil
}
