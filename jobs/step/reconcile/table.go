package reconcile

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"madeira/jobs/dataset"
)

// A table holds the lines of one side, or of one part of it, in memory. Its
// memory is used again for the next part.
type table struct {
	side    *side
	rows    dataset.Batch
	amounts []int64 // at the scale of the plan
	slots   []slot  // one for each row; after order, in the order of their hashes
	sorted  []slot  // memory for order
	starts  []uint32
}

// A slot is the hash of a row's key and the row.
type slot struct {
	hash uint64
	row  uint32
}

// Bytes that a row takes besides its columns: line, amount, two slots and its
// share of starts.
const rowOverhead = 8 + 8 + 2*16 + 4

// rowBytes returns what a row of the schema takes in a table without its texts.
func rowBytes(s dataset.Schema) int64 {
	n := int64(rowOverhead)
	for _, c := range s.Columns {
		if c.Kind.IsText() {
			n += 4
		} else {
			n += 8
		}
	}
	return n
}

func (t *table) reset(s *side) {
	t.side = s
	if len(t.rows.Columns) == 0 || !slices.Equal(t.rows.Schema.Columns, s.schema.Columns) {
		t.rows = *dataset.NewBatch(s.schema)
	}
	t.rows.Reset()
	t.amounts, t.slots = t.amounts[:0], t.slots[:0]
}

// reserve makes room for so many rows and bytes of text, so that growing leaves
// no garbage behind.
func (t *table) reserve(rows int64) {
	n := int(rows)
	for i := range t.rows.Columns {
		v := &t.rows.Columns[i]
		if v.Kind.IsText() {
			v.Ends = slices.Grow(v.Ends[:0], n)
		} else {
			v.Ints = slices.Grow(v.Ints[:0], n)
		}
	}
	t.rows.Lines = slices.Grow(t.rows.Lines[:0], n)
	t.amounts = slices.Grow(t.amounts[:0], n)
	t.slots = slices.Grow(t.slots[:0], n)
}

// bytes returns how many bytes the rows take.
func (t *table) bytes() int64 {
	n := int64(t.rows.Len()) * rowBytes(t.side.schema)
	for i := range t.rows.Columns {
		n += int64(len(t.rows.Columns[i].Bytes))
	}
	return n
}

// add appends a batch whose amounts and hashes have been measured.
func (t *table) add(b *dataset.Batch, m *measure) {
	first := t.rows.Len()
	t.rows.AppendRows(b, 0, b.Len())
	t.measured(m, first)
}

// measured adds what was measured for the rows from first on.
func (t *table) measured(m *measure, first int) {
	t.amounts = append(t.amounts, m.amounts...)
	for i, h := range m.hashes {
		t.slots = append(t.slots, slot{hash: h, row: uint32(first + i)})
	}
}

// order sorts the slots by hash, then row, where the first used bits of all
// hashes are the same. Hashes are spread evenly, so counting by the bits that
// follow leaves a few rows in each bucket.
func (t *table) order(used int) {
	n := len(t.slots)
	width := min(max(bits.Len(uint(n))-2, 1), 22)
	shift := 64 - width
	t.starts = append(t.starts[:0], make([]uint32, 1<<width+1)...)
	for _, s := range t.slots {
		t.starts[s.hash<<used>>shift+1]++
	}
	for i := 1; i < len(t.starts); i++ {
		t.starts[i] += t.starts[i-1]
	}
	t.sorted = slices.Grow(t.sorted[:0], n)[:n]
	for _, s := range t.slots {
		at := &t.starts[s.hash<<used>>shift]
		t.sorted[*at] = s
		*at++ // ends as the start of the next bucket
	}
	start := uint32(0)
	for _, end := range t.starts[:1<<width] {
		if end-start > 1 {
			slices.SortFunc(t.sorted[start:end], compareSlots)
		}
		start = end
	}
	t.slots, t.sorted = t.sorted, t.slots
}

func compareSlots(a, b slot) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.row, b.row))
}

// runLength returns how many slots share the hash of the first one.
func runLength(s []slot) int {
	n := 1
	for n < len(s) && s[n].hash == s[0].hash {
		n++
	}
	return n
}

func (t *table) key(row uint32) dataset.Key {
	return dataset.Key{Batch: &t.rows, Columns: t.side.keys, Row: int(row)}
}

func (t *table) currency(row uint32) []byte {
	return t.rows.Columns[t.side.currency].Text(int(row))
}

// status returns the status of a row, empty when there is none.
func (t *table) status(row uint32) []byte {
	if t.side.status < 0 {
		return nil
	}
	return t.rows.Columns[t.side.status].Text(int(row))
}

// place returns where the date of a row lies; one without a date is inside.
func (t *table) place(row uint32) place {
	if t.side.date < 0 {
		return inside
	}
	v := &t.rows.Columns[t.side.date]
	if v.Null(int(row)) {
		return inside
	}
	return t.side.cutoff.place(v.Ints[row])
}

// date returns the date of a row as text, an instant in the zone of the cut-off.
func (t *table) date(row uint32) string {
	if t.side.zone != nil && t.side.schema.Columns[t.side.date].Kind == dataset.Timestamp {
		return time.UnixMicro(t.rows.Columns[t.side.date].Ints[row]).In(t.side.zone).Format(time.RFC3339Nano)
	}
	return t.side.schema.Columns[t.side.date].Format(&t.rows.Columns[t.side.date], int(row))
}
