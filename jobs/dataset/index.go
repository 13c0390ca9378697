package dataset

import "math/bits"

// An Index finds the rows of a Table by key. It holds row numbers only, 15 to 26
// bytes for each row, and no allocation for any of them: open addressing for
// distinct keys, and a chain in row order through the rows of the same key.
type Index struct {
	table *Table
	cols  []int
	seed  uint64
	slots []uint64 // upper half of the hash, then the first row of the key + 1; 0 is free
	next  []uint32 // for each row the next row of its key + 1; 0 is the end
}

// IndexBytes returns how many bytes an Index of so many rows takes.
func IndexBytes(rows int64) int64 { return 8*slotCount(rows) + 4*rows }

// slotCount returns a power of two that rows fill by at most three quarters.
func slotCount(rows int64) int64 {
	return 1 << bits.Len64(uint64(max(rows, 1)*4/3))
}

// NewIndex indexes all rows of a table of fewer than 2^32 rows by its columns.
func NewIndex(t *Table, cols []int, seed uint64) *Index {
	return NewIndexOf(t, cols, seed, func(int) bool { return true })
}

// NewIndexOf indexes the rows for which keep is true.
func NewIndexOf(t *Table, cols []int, seed uint64, keep func(row int) bool) *Index {
	x := &Index{
		table: t, cols: cols, seed: seed,
		slots: make([]uint64, slotCount(int64(t.Len()))),
		next:  make([]uint32, t.Len()),
	}
	for i := t.Len() - 1; i >= 0; i-- { // from the last, so that chains begin with the first
		if !keep(i) {
			continue
		}
		k := t.Key(cols, i)
		hash := HashKey(k.Batch, cols, k.Row, seed)
		slot := x.find(k, hash)
		x.next[i] = uint32(x.slots[slot])
		x.slots[slot] = hash&upper | uint64(i+1)
	}
	return x
}

// First returns the first row whose key equals that of a row of another batch,
// or -1. The columns of k correspond to those of the index in order.
func (x *Index) First(k Key) int {
	return int(uint32(x.slots[x.find(k, HashKey(k.Batch, k.Columns, k.Row, x.seed))])) - 1
}

// Next returns the next row with the same key as row, which First, Next or Take
// has returned, or -1.
func (x *Index) Next(row int) int { return int(x.next[row]) - 1 }

// Take is First, and removes the row it returns from the index, so that each row
// is taken once and rows of the same key in their order.
func (x *Index) Take(k Key) int {
	slot := x.find(k, HashKey(k.Batch, k.Columns, k.Row, x.seed))
	first := uint32(x.slots[slot])
	if first == 0 {
		return -1
	}
	row := int(first) - 1
	x.slots[slot] = x.slots[slot]&upper | uint64(x.next[row])
	if x.next[row] == 0 {
		x.slots[slot] = used
	}
	return row
}

const (
	// upper is the half of a hash that a slot keeps, to spare most comparisons of
	// different keys. The lower half says where a search begins.
	upper = 0xffffffff << 32

	// used marks a slot whose rows have all been taken: a search goes on behind it.
	used = 1 << 32
)

// find returns the slot that holds the key, or the free one that ends the search.
func (x *Index) find(k Key, hash uint64) uint64 {
	mask := uint64(len(x.slots) - 1)
	for slot := hash & mask; ; slot = (slot + 1) & mask {
		s := x.slots[slot]
		if s == 0 {
			return slot
		}
		if first := uint32(s); first != 0 && s&upper == hash&upper && KeysEqual(x.table.Key(x.cols, int(first)-1), k) {
			return slot
		}
	}
}
