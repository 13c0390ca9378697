package reconcile

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"madeira/jobs/dataset"
)

// ids makes the ids of breaks and matches. They depend on category or pass, key,
// currency, amounts and occurrence only: not on lines, scales, the order of
// columns or other columns, so that they stay the same from run to run.
type ids struct {
	buf  []byte
	text [2 * idBytes]byte
}

// idBytes of a SHA-256 are kept: enough that no two of 2^48 ids are ever equal.
const idBytes = 16

// of returns the id of a break, valid until the next call.
func (d *ids) of(o *outcomes, b breakRow, currency []byte, occurrence int64) []byte {
	d.buf = append(d.buf[:0], "break\x00"...)
	d.buf = appendText(d.buf, []byte(b.category.String()))
	if b.l != none {
		d.buf = o.plan.appendKey(d.buf, o.left, uint32(b.l))
	} else {
		d.buf = o.plan.appendKey(d.buf, o.right, uint32(b.r))
	}
	return d.sum(o.plan.scale, currency, b.left, b.right, occurrence)
}

// match returns the id of a match, valid until the next call.
func (d *ids) match(p *plan, lt, rt *table, l, r uint32, occurrence int64) []byte {
	d.buf = append(d.buf[:0], "match\x00"...)
	d.buf = appendText(d.buf, []byte(p.pass))
	d.buf = p.appendKey(d.buf, lt, l)
	return d.sum(p.scale, lt.currency(l), amount{lt.amounts[l], true}, amount{rt.amounts[r], true}, occurrence)
}

func (d *ids) sum(scale int, currency []byte, l, r amount, occurrence int64) []byte {
	d.buf = appendText(d.buf, currency)
	d.buf = appendAmount(d.buf, l, scale)
	d.buf = appendAmount(d.buf, r, scale)
	d.buf = binary.AppendVarint(d.buf, occurrence)
	sum := sha256.Sum256(d.buf)
	hex.Encode(d.text[:], sum[:idBytes])
	return d.text[:]
}

// appendKey appends the values of the key, in the order of the names of the left
// columns.
func (p *plan) appendKey(dst []byte, t *table, row uint32) []byte {
	for _, k := range p.idKeys {
		c := t.side.keys[k]
		v := &t.rows.Columns[c]
		switch column := t.side.schema.Columns[c]; {
		case column.Kind.IsText():
			dst = appendText(dst, v.Text(int(row)))
		case column.Kind.IsDecimal():
			dst = appendNumber(dst, v.Ints[row], column.Scale)
		case column.Kind == dataset.Integer:
			dst = appendNumber(dst, v.Ints[row], 0)
		default:
			dst = binary.AppendVarint(dst, v.Ints[row])
		}
	}
	return dst
}

func appendText(dst, text []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

func appendAmount(dst []byte, a amount, scale int) []byte {
	if !a.ok {
		return append(dst, 0)
	}
	return appendNumber(append(dst, 1), a.mant, scale)
}

// appendNumber appends a number so that equal ones are equal at every scale.
func appendNumber(dst []byte, mant int64, scale int) []byte {
	for scale > 0 && mant%10 == 0 {
		mant, scale = mant/10, scale-1
	}
	return append(binary.AppendVarint(dst, mant), byte(scale))
}
