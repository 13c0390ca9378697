package dataset

// tableRows is how many rows each batch of a Table holds. It is smaller than
// BatchRows so that even texts of a megabyte stay within the 32 bits of Vector.Ends.
const tableRows = 1024

// A Table is a list of rows in memory that are found by number, counted from 0.
type Table struct {
	schema  Schema
	batches []*Batch // full but for the last
	rows    int
}

// NewTable returns an empty table.
func NewTable(schema Schema) *Table { return &Table{schema: schema} }

// Schema returns the columns of the rows.
func (t *Table) Schema() Schema { return t.schema }

// Len returns the number of rows.
func (t *Table) Len() int { return t.rows }

// Append copies a row of b, which has the columns of the table.
func (t *Table) Append(b *Batch, row int) { t.grow().AppendRow(b, row) }

// At returns where row i is: its batch and its position there.
func (t *Table) At(i int) (b *Batch, row int) { return t.batches[i/tableRows], i % tableRows }

// Key returns what row i holds in the columns.
func (t *Table) Key(cols []int, i int) Key {
	b, row := t.At(i)
	return Key{Batch: b, Columns: cols, Row: row}
}

// grow returns the batch that the caller now appends one row to.
func (t *Table) grow() *Batch {
	if t.rows%tableRows == 0 {
		b := &Batch{Schema: t.schema, Columns: make([]Vector, len(t.schema.Columns))}
		for i, c := range t.schema.Columns {
			b.Columns[i].Kind = c.Kind
		}
		t.batches = append(t.batches, b)
	}
	t.rows++
	return t.batches[len(t.batches)-1]
}
