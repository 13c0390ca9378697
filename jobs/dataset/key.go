package dataset

import (
	"bytes"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// A Key is what one row holds in some of its columns.
type Key struct {
	Batch   *Batch
	Columns []int // positions in the batch; those of two keys correspond in order
	Row     int
}

// KeysEqual reports whether two keys hold equal values. Values are compared in
// full and by what they mean: money, decimals and integers by number, so that
// 1.5 equals 1.50 whatever the scales; texts and currency codes by their bytes;
// booleans, dates and timestamps each only with their like. A null equals a null
// and nothing else, not even an empty text.
func KeysEqual(a, b Key) bool {
	for n := range a.Columns {
		if !valuesEqual(a, b, n) {
			return false
		}
	}
	return true
}

// valuesEqual compares the n-th values of two keys.
func valuesEqual(a, b Key, n int) bool {
	ca, cb := a.Columns[n], b.Columns[n]
	v, w := &a.Batch.Columns[ca], &b.Batch.Columns[cb]
	if null := v.Null(a.Row); null || w.Null(b.Row) {
		return null && w.Null(b.Row)
	}
	class := classOf(v.Kind)
	if class != classOf(w.Kind) {
		return false
	}
	if class == textual {
		return bytes.Equal(v.Text(a.Row), w.Text(b.Row))
	}
	x, y := v.Ints[a.Row], w.Ints[b.Row]
	if class != numeric {
		return x == y
	}
	sx, sy := scaleOf(a.Batch, ca), scaleOf(b.Batch, cb)
	return sx == sy && x == y || sx != sy && Fixed{x, sx}.Cmp(Fixed{y, sy}) == 0
}

// HashKey returns a hash of what row holds in the columns, equal for keys that
// KeysEqual finds equal. It is the same in every process; different seeds give
// unrelated hashes.
func HashKey(b *Batch, cols []int, row int, seed uint64) uint64 {
	h := seed ^ 0x9e3779b97f4a7c15
	for _, c := range cols {
		v := &b.Columns[c]
		switch class := classOf(v.Kind); {
		case v.Null(row):
			h = mix(h, 0)
		case class == textual:
			h = mix(h^uint64(class), xxhash.Sum64(v.Text(row)))
		case class == numeric:
			mant, scale := shortest(v.Ints[row], scaleOf(b, c))
			h = mix(h^uint64(class)^uint64(scale)<<8, uint64(mant))
		default:
			h = mix(h^uint64(class), uint64(v.Ints[row]))
		}
	}
	return h
}

// A class is a set of kinds whose values can be equal.
type class uint8

const (
	textual class = iota + 1
	numeric
	boolean
	date
	timestamp
)

func classOf(k Kind) class {
	switch k {
	case Text, Currency:
		return textual
	case Boolean:
		return boolean
	case Date:
		return date
	case Timestamp:
		return timestamp
	}
	return numeric
}

// scaleOf returns the decimals of a numeric column.
func scaleOf(b *Batch, col int) int {
	if c := &b.Schema.Columns[col]; c.Kind.IsDecimal() {
		return c.Scale
	}
	return 0
}

// shortest returns the same number without zeros at the end of its decimals.
func shortest(mant int64, scale int) (int64, int) {
	for scale > 0 && mant%10 == 0 {
		mant, scale = mant/10, scale-1
	}
	return mant, scale
}

// mix folds a value into a hash: a full multiplication spreads every bit of both
// over the result. The odd constants keep zeros from being absorbing.
func mix(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^0xa0761d6478bd642f, v^0xe7037ed1a0b428db)
	hi, lo = bits.Mul64(hi^lo^h, 0x8ebc6af09c88c6e3)
	return hi ^ lo
}
