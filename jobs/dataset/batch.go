package dataset

import "slices"

// BatchRows is how many rows a Batch holds at most by convention: enough to
// spread the cost of a call, small enough that a batch of ten columns stays in
// the second-level cache.
const BatchRows = 4096

// A Batch is up to BatchRows rows, column by column. It is reused: whoever
// receives one from a Reader may keep nothing of it after the next call.
type Batch struct {
	Schema  Schema
	Columns []Vector
	Lines   []int64 // physical line in the source, counted from 1; 0 where there is none
}

// NewBatch returns an empty batch with room for BatchRows rows.
func NewBatch(schema Schema) *Batch {
	b := &Batch{Schema: schema, Columns: make([]Vector, len(schema.Columns)), Lines: make([]int64, 0, BatchRows)}
	for i, c := range schema.Columns {
		b.Columns[i].Kind = c.Kind
	}
	return b
}

// Len returns the number of rows.
func (b *Batch) Len() int { return len(b.Lines) }

// Full reports whether the batch should be written before more is added.
func (b *Batch) Full() bool { return len(b.Lines) >= BatchRows }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.Lines = b.Lines[:0]
	for i := range b.Columns {
		b.Columns[i].Reset()
	}
}

// Column returns the vector of the named column, or nil.
func (b *Batch) Column(name string) *Vector {
	if i := b.Schema.Index(name); i >= 0 {
		return &b.Columns[i]
	}
	return nil
}

// AppendRow copies row i of from, whose columns must be of the same kinds in the same order.
func (b *Batch) AppendRow(from *Batch, i int) {
	for c := range b.Columns {
		b.Columns[c].AppendFrom(&from.Columns[c], i)
	}
	b.Lines = append(b.Lines, from.Lines[i])
}

// AppendRows copies the rows from first up to, but not including, end, as AppendRow does.
func (b *Batch) AppendRows(from *Batch, first, end int) {
	for c := range b.Columns {
		b.Columns[c].AppendRange(&from.Columns[c], first, end)
	}
	b.Lines = append(b.Lines, from.Lines[first:end]...)
}

// A Vector is one column of a Batch. Kinds that are text keep their bytes one
// after another in Bytes, value i ending at Ends[i]; all others are in Ints.
// A null is a zero (or empty) value whose bit in Nulls is set; Nulls may be
// shorter than the column, what is missing is not null.
type Vector struct {
	Kind  Kind
	Ints  []int64
	Bytes []byte
	Ends  []uint32
	Nulls []uint64
}

// Len returns the number of values.
func (v *Vector) Len() int {
	if v.Kind.IsText() {
		return len(v.Ends)
	}
	return len(v.Ints)
}

// Reset empties the vector and keeps its memory.
func (v *Vector) Reset() {
	v.Ints, v.Bytes, v.Ends, v.Nulls = v.Ints[:0], v.Bytes[:0], v.Ends[:0], v.Nulls[:0]
}

// Text returns the bytes of value i, valid until the vector changes.
func (v *Vector) Text(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = v.Ends[i-1]
	}
	return v.Bytes[start:v.Ends[i]:v.Ends[i]]
}

// start returns where value i of a text begins.
func (v *Vector) start(i int) uint32 {
	if i == 0 {
		return 0
	}
	return v.Ends[i-1]
}

// Null reports whether value i is null.
func (v *Vector) Null(i int) bool {
	return i>>6 < len(v.Nulls) && v.Nulls[i>>6]&(1<<(i&63)) != 0
}

// HasNulls reports whether any value is null.
func (v *Vector) HasNulls() bool {
	for _, w := range v.Nulls {
		if w != 0 {
			return true
		}
	}
	return false
}

// AppendInt adds a value of a kind that is not text.
func (v *Vector) AppendInt(n int64) { v.Ints = append(v.Ints, n) }

// AppendText adds a copy of a text value.
func (v *Vector) AppendText(text []byte) {
	v.Bytes = append(v.Bytes, text...)
	v.Ends = append(v.Ends, uint32(len(v.Bytes)))
}

// AppendString adds a text value.
func (v *Vector) AppendString(text string) {
	v.Bytes = append(v.Bytes, text...)
	v.Ends = append(v.Ends, uint32(len(v.Bytes)))
}

// AppendNull adds a null.
func (v *Vector) AppendNull() {
	v.setNull(v.Len())
	if v.Kind.IsText() {
		v.Ends = append(v.Ends, uint32(len(v.Bytes)))
		return
	}
	v.Ints = append(v.Ints, 0)
}

// AppendFrom copies value i of another vector of the same kind.
func (v *Vector) AppendFrom(from *Vector, i int) {
	switch {
	case from.Null(i):
		v.AppendNull()
	case v.Kind.IsText():
		v.AppendText(from.Text(i))
	default:
		v.AppendInt(from.Ints[i])
	}
}

// AppendRange copies the values from first up to, but not including, end of
// another vector of the same kind.
func (v *Vector) AppendRange(from *Vector, first, end int) {
	base := v.Len()
	if first == end {
		return
	}
	if v.Kind.IsText() {
		start := from.start(first)
		shift := uint32(len(v.Bytes)) - start
		v.Bytes = append(v.Bytes, from.Bytes[start:from.Ends[end-1]]...)
		for _, e := range from.Ends[first:end] {
			v.Ends = append(v.Ends, e+shift)
		}
	} else {
		v.Ints = append(v.Ints, from.Ints[first:end]...)
	}
	if from.HasNulls() {
		v.copyNulls(base, from, first, end)
	}
}

// copyNulls marks as null, from base on, what is null in that range of from.
func (v *Vector) copyNulls(base int, from *Vector, first, end int) {
	for i := first; i < end; i++ {
		if from.Null(i) {
			v.setNull(base + i - first)
		}
	}
}

func (v *Vector) setNull(i int) {
	for len(v.Nulls) <= i>>6 {
		v.Nulls = append(v.Nulls, 0)
	}
	v.Nulls[i>>6] |= 1 << (i & 63)
}

// AppendRows copies those values of another vector of the same kind, in the
// order of rows.
func (v *Vector) AppendRows(from *Vector, rows []uint32) {
	base := v.Len()
	if v.Kind.IsText() {
		v.Ends = slices.Grow(v.Ends, len(rows))
		for _, r := range rows {
			v.Bytes = append(v.Bytes, from.Text(int(r))...)
			v.Ends = append(v.Ends, uint32(len(v.Bytes)))
		}
	} else {
		v.Ints = slices.Grow(v.Ints, len(rows))
		for _, r := range rows {
			v.Ints = append(v.Ints, from.Ints[r])
		}
	}
	if !from.HasNulls() {
		return
	}
	for i, r := range rows {
		if from.Null(int(r)) {
			v.setNull(base + i)
		}
	}
}
