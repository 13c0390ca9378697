package dataset

import (
	"fmt"
	"slices"
)

// A Kind says what the values of a column are and how a Vector keeps them.
type Kind string

// The kinds of columns. Money and Decimal are exact: an int64 mantissa at the
// scale of the column.
const (
	Text      Kind = "text"      // UTF-8, in Vector.Bytes
	Currency  Kind = "currency"  // ISO 4217 code in capitals, in Vector.Bytes
	Integer   Kind = "integer"   // int64
	Boolean   Kind = "boolean"   // 0 or 1
	Money     Kind = "money"     // mantissa at Column.Scale
	Decimal   Kind = "decimal"   // mantissa at Column.Scale; a rate or a quantity, not an amount
	Date      Kind = "date"      // days since 1970-01-01
	Timestamp Kind = "timestamp" // microseconds since 1970-01-01 UTC
)

// IsText reports whether values of the kind are bytes rather than integers.
func (k Kind) IsText() bool { return k == Text || k == Currency }

// IsDecimal reports whether values of the kind are mantissas at a scale.
func (k Kind) IsDecimal() bool { return k == Money || k == Decimal }

// LineColumn is the name under which a file keeps Batch.Lines. No column of a
// Schema may have it.
const LineColumn = "_line"

// DefaultScale is the scale of a Money column whose currency is not known when
// it is declared: enough for every ISO 4217 currency, and 922 trillion still fit.
const DefaultScale = 4

// A Column is the declaration of one column.
type Column struct {
	Name     string `json:"name"`
	Kind     Kind   `json:"kind"`
	Scale    int    `json:"scale,omitempty"`    // decimals of Money and Decimal, 0 to 18
	Currency string `json:"currency,omitempty"` // of Money when all rows share it; "" otherwise
}

// A Schema lists the columns of a dataset in order. Every column may hold nulls.
type Schema struct {
	Columns []Column `json:"columns"`
}

// Index returns the position of the column, or -1.
func (s Schema) Index(name string) int {
	return slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
}

// Column returns the declaration of the column, or an error that lists what there is.
func (s Schema) Column(name string) (Column, error) {
	if i := s.Index(name); i >= 0 {
		return s.Columns[i], nil
	}
	return Column{}, fmt.Errorf("no column %q; there are %q", name, s.Names())
}

// Names returns the names of the columns in order.
func (s Schema) Names() []string {
	names := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		names[i] = c.Name
	}
	return names
}

// Project returns a schema of only the named columns, in the order given. No
// names mean all of them.
func (s Schema) Project(names ...string) (Schema, error) {
	if len(names) == 0 {
		return s, nil
	}
	var p Schema
	for _, name := range names {
		c, err := s.Column(name)
		if err != nil {
			return Schema{}, err
		}
		p.Columns = append(p.Columns, c)
	}
	return p, nil
}
