package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/uptrace/bun/schema"
)

// bulkRows is how many rows a statement takes at most.
const bulkRows = 2000

// A bulk is rows of one table, column by column.
type bulk struct {
	into    string // the table, with its alias
	columns []bulkColumn
	rows    int
	clause  string // ON CONFLICT …; "": a conflict is an error
}

// A bulkColumn has a value for every row, or one that is that of all.
type bulkColumn struct {
	name   string
	kind   kind
	values []any // nil, string, int64, bool or time.Time
}

func (c bulkColumn) same() bool { return len(c.values) == 1 }

// A kind is the type that PostgreSQL is told a column has.
type kind string

const (
	kindText   kind = "text"
	kindUUID   kind = "uuid"
	kindNumber kind = "bigint"
	kindTruth  kind = "boolean"
	kindMoment kind = "timestamptz"
	kindJSON   kind = "json"
)

// bulks are inserted one after the other.
type bulks []bulk

// insertMany inserts rows of one table, and returns how many were written.
func insertMany[T any](ctx context.Context, tx txn, rows []T, clause string) (int, error) {
	written := 0
	for part := range slices.Chunk(rows, bulkRows) {
		var b bulks
		err := addRows(&b, tx, part)
		if err != nil {
			return written, err
		}
		b[0].clause = clause
		n, err := tx.dialect.insert(ctx, tx.Tx, b)
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

// addRows adds rows of one table, or pointers to them, in as many parts as it takes.
func addRows[T any](all *bulks, tx txn, rows []T) error {
	of := reflect.TypeFor[T]()
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	table := tx.Dialect().Tables().Get(of)
	for part := range slices.Chunk(rows, bulkRows) {
		b, err := columns(table, reflect.ValueOf(part))
		if err != nil {
			return err
		}
		*all = append(*all, b)
	}
	return nil
}

// columns reads the values of rows as bun would write them.
func columns(table *schema.Table, rows reflect.Value) (bulk, error) {
	b := bulk{into: string(table.SQLName) + " AS " + string(table.SQLAlias), rows: rows.Len(), columns: make([]bulkColumn, len(table.Fields))}
	for i, field := range table.Fields {
		c := bulkColumn{name: string(field.SQLName), kind: kindOf(field), values: make([]any, b.rows)}
		varies := false
		for n := range c.values {
			v, err := value(field, reflect.Indirect(rows.Index(n)))
			if err != nil {
				return b, fmt.Errorf("write %s of %s: %w", field.Name, table.Name, err)
			}
			c.values[n] = v
			varies = varies || v != c.values[0]
		}
		if !varies && (i > 0 || b.rows == 1) { // the first tells how many there are
			c.values = c.values[:1]
		}
		b.columns[i] = c
	}
	return b, nil
}

func kindOf(f *schema.Field) kind {
	switch reflect.Zero(f.IndirectType).Interface().(type) {
	case instant:
		return kindMoment
	case document:
		return kindJSON
	}
	switch f.IndirectType.Kind() { //nolint:exhaustive // The rest is text.
	case reflect.Int, reflect.Int64:
		return kindNumber
	case reflect.Bool:
		return kindTruth
	}
	switch f.Name {
	case "id", "run_id", "repeated_of", "rerun_of":
		return kindUUID
	}
	return kindText
}

var errNUL = errors.New("text holds a NUL, which no database keeps")

// value is what a field of a row holds; nil is NULL.
func value(f *schema.Field, row reflect.Value) (any, error) {
	v := f.Value(row)
	if f.NullZero && v.IsZero() {
		return nil, nil
	}
	switch kindOf(f) {
	case kindNumber:
		return v.Int(), nil
	case kindTruth:
		return v.Bool(), nil
	case kindMoment:
		if at := v.Field(0).Interface().(time.Time); !at.IsZero() { //nolint:forcetypeassert // An instant is nothing else.
			return at, nil
		}
		return nil, nil
	case kindJSON:
		if v.IsNil() {
			return nil, nil
		}
		return fit(string(v.Bytes()))
	default:
		return fit(v.String())
	}
}

// fit makes text fit for both databases, as bun does.
func fit(s string) (string, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return "", errNUL
	}
	if !utf8.ValidString(s) {
		return string([]rune(s)), nil
	}
	return s, nil
}
