package dataset

import (
	"fmt"
	"slices"
)

// An alignment reads one side of a Diff in the columns that both sides share: at
// the same position the same name, with values that can be compared. A last
// column numbers the rows.
type alignment struct {
	RowReader
	row  []aligned // how each column but the last is made
	out  *Batch
	rows int64 // read so far
}

// An aligned column is taken as it is, or written as people read it, or null.
type aligned struct {
	from     int // position in the input; -1 where there is none
	text     bool
	currency string // written behind the amount
}

// rowColumn is the name of the column that numbers rows. It is found by its
// position, so a column of the user may have the same name.
const rowColumn = "_row"

// align returns both sides in the columns of the new one, then those that only
// the old one has.
func align(oldRows, newRows RowReader) (o, n *alignment) {
	o, n = &alignment{RowReader: oldRows}, &alignment{RowReader: newRows}
	before, after := oldRows.Schema(), newRows.Schema()
	names := after.Names()
	for _, name := range before.Names() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var oldSchema, newSchema Schema
	for _, name := range names {
		i, j := before.Index(name), after.Index(name)
		var x, y Column
		switch {
		case i < 0:
			y = after.Columns[j]
			x = y
		case j < 0:
			x = before.Columns[i]
			y = x
		default:
			x, y = before.Columns[i], after.Columns[j]
		}
		text := classOf(x.Kind) != classOf(y.Kind)
		var cx, cy string
		if x.Kind == Money && y.Kind == Money && x.Currency != y.Currency && x.Currency != "" && y.Currency != "" {
			text, cx, cy = true, x.Currency, y.Currency
		}
		if text {
			x, y = Column{Name: name, Kind: Text}, Column{Name: name, Kind: Text}
		}
		oldSchema.Columns, newSchema.Columns = append(oldSchema.Columns, x), append(newSchema.Columns, y)
		o.row, n.row = append(o.row, aligned{i, text, cx}), append(n.row, aligned{j, text, cy})
	}
	number := Column{Name: rowColumn, Kind: Integer}
	o.out = NewBatch(Schema{Columns: append(oldSchema.Columns, number)})
	n.out = NewBatch(Schema{Columns: append(newSchema.Columns, number)})
	return o, n
}

// Schema returns the shared columns, as this side declares them, and the row number.
func (a *alignment) Schema() Schema { return a.out.Schema }

// Next returns the next rows. Columns that are taken as they are keep the memory
// of the input.
func (a *alignment) Next() (*Batch, error) {
	b, err := a.RowReader.Next()
	if err != nil {
		return nil, err
	}
	a.out.Lines = b.Lines
	for c, how := range a.row {
		out := &a.out.Columns[c]
		switch {
		case how.from < 0:
			out.Reset()
			for range b.Len() {
				out.AppendNull()
			}
		case how.text:
			out.Reset()
			appendTexts(out, b, how)
		default:
			*out = b.Columns[how.from]
		}
	}
	numbers := &a.out.Columns[len(a.row)]
	numbers.Reset()
	for range b.Len() {
		numbers.AppendInt(a.rows)
		a.rows++
	}
	return a.out, nil
}

// appendTexts writes a column as people read it.
func appendTexts(out *Vector, b *Batch, how aligned) {
	column, v := b.Schema.Columns[how.from], &b.Columns[how.from]
	var buf []byte
	for i := range b.Len() {
		if v.Null(i) {
			out.AppendNull()
			continue
		}
		buf = column.AppendFormat(buf[:0], v, i)
		if how.currency != "" {
			buf = fmt.Append(buf, " ", how.currency)
		}
		out.AppendText(buf)
	}
}
