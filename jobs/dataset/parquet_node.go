package dataset

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// schemaKey is the name under which the footer of a file keeps the Schema as
// JSON: Parquet's own types know neither Currency nor the currency of a column.
const schemaKey = "madeira.schema"

// decimalDigits is the precision that money declares in a file. An int64 has
// room for a nineteenth digit: this package reads it back exactly, other programs
// may refuse to calculate with it.
const decimalDigits = 18

// checkColumns reports the first column that a file could not keep.
func checkColumns(s Schema) error {
	seen := make(map[string]bool, len(s.Columns))
	for i, c := range s.Columns {
		switch {
		case c.Name == "":
			return fmt.Errorf("column %d has no name", i+1)
		case c.Name == LineColumn:
			return fmt.Errorf("column %d is called %q, which is kept for line numbers; rename it", i+1, LineColumn)
		case seen[c.Name]:
			return fmt.Errorf("two columns are called %q; rename one", c.Name)
		case c.Kind.IsDecimal() && (c.Scale < 0 || c.Scale > decimalDigits):
			return fmt.Errorf("column %q has scale %d; it must be 0 to %d", c.Name, c.Scale, decimalDigits)
		}
		if _, err := leaf(c); err != nil {
			return err
		}
		seen[c.Name] = true
	}
	return nil
}

// leaf returns the node of one column. Encodings were measured: a dictionary
// pays for currencies, differences for days, instants and lines.
func leaf(c Column) (parquet.Node, error) {
	switch c.Kind {
	case Text:
		return encoded(parquet.String(), &parquet.DeltaLengthByteArray), nil
	case Currency:
		return encoded(parquet.String(), &parquet.RLEDictionary), nil
	case Integer:
		return encoded(parquet.Int(64), &parquet.Plain), nil
	case Boolean:
		return encoded(parquet.Leaf(parquet.BooleanType), &parquet.Plain), nil
	case Money, Decimal:
		return encoded(parquet.Decimal(c.Scale, decimalDigits, parquet.Int64Type), &parquet.Plain), nil
	case Date:
		return encoded(parquet.Date(), &parquet.DeltaBinaryPacked), nil
	case Timestamp:
		return encoded(parquet.Timestamp(parquet.Microsecond), &parquet.DeltaBinaryPacked), nil
	}
	return nil, fmt.Errorf("column %q is of unknown kind %q", c.Name, c.Kind)
}

func encoded(n parquet.Node, e encoding.Encoding) parquet.Node {
	return parquet.Optional(parquet.Encoded(n, e))
}

// lineLeaf is the node of the line numbers, which are never null.
func lineLeaf() parquet.Node {
	return parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked)
}

// parquetSchema returns the schema of a file: the columns in order, then LineColumn.
func parquetSchema(s Schema) (*parquet.Schema, error) {
	if err := checkColumns(s); err != nil {
		return nil, err
	}
	fields := make([]parquet.Field, 0, len(s.Columns)+1)
	for _, c := range s.Columns {
		n, err := leaf(c)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field{Node: n, name: c.Name})
	}
	fields = append(fields, field{Node: lineLeaf(), name: LineColumn})
	return parquet.NewSchema("dataset", root{Group: parquet.Group{}, fields: fields}), nil
}

// A root is the group of all columns. parquet.Group is a map, which would sort
// the columns by name.
type root struct {
	parquet.Group
	fields []parquet.Field
}

func (r root) Fields() []parquet.Field { return r.fields }

// GoType is not used, as rows are never read into structs; the one of
// parquet.Group panics on names that have a comma.
func (r root) GoType() reflect.Type { return reflect.TypeFor[struct{}]() }

type field struct {
	parquet.Node
	name string
}

func (f field) Name() string { return f.name }

// Value belongs to reading and writing structs, which is never done.
func (f field) Value(reflect.Value) reflect.Value { return reflect.Value{} }

// storedSchema returns the Schema that a file was written with, after checking
// that its columns are the ones that the Schema would make.
func storedSchema(f *parquet.File) (Schema, error) {
	text, ok := f.Lookup(schemaKey)
	if !ok {
		return Schema{}, fmt.Errorf("it is no dataset: the footer has no %q", schemaKey)
	}
	var s Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Schema{}, fmt.Errorf("read %q of the footer: %w", schemaKey, err)
	}
	if err := checkColumns(s); err != nil {
		return Schema{}, err
	}
	columns := f.Root().Columns()
	if len(columns) != len(s.Columns)+1 {
		return Schema{}, fmt.Errorf("it has %d columns, its schema %d", len(columns)-1, len(s.Columns))
	}
	for i, got := range columns {
		name, want := LineColumn, lineLeaf()
		if i < len(s.Columns) {
			name = s.Columns[i].Name
			want, _ = leaf(s.Columns[i]) // checked above
		}
		if got.Name() != name || !got.Leaf() || got.Optional() != want.Optional() || got.Repeated() || got.Type().Kind() != want.Type().Kind() {
			return Schema{}, fmt.Errorf("column %d is %q of type %s, but the schema says %q of type %s", i+1, got.Name(), got.Type(), name, want.Type())
		}
	}
	return s, nil
}
