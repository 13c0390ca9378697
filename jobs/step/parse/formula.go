package parse

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"madeira/jobs/dataset"
)

// An op is what a node of a formula does.
type op uint8

const (
	opColumn op = iota
	opLiteral
	opNeg
	opAdd
	opSub
	opMul
	opJoin
	opAnd
	opOr
	opNot
	opEqual
	opUnequal
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
)

// A sort is the type of a node: what its values can be combined with.
type sort string

const (
	sortNumber sort = "a number"
	sortText   sort = "text"
	sortDate   sort = "a date"
	sortTime   sort = "a timestamp"
	sortTruth  sort = "true or false"
)

// A node is a compiled formula over the columns of one row. The scale of every
// number is known beforehand, so that evaluating is integer arithmetic; nothing
// is allocated, and nothing is rounded. A node is used by one goroutine.
type node struct {
	op          op
	sort        sort
	scale       int // of a number
	column      int
	number      int64
	text        []byte
	left, right *node
	raiseLeft   int64 // factors that bring both sides to one scale; 0 is 1
	raiseRight  int64
	joined      []byte // memory for comparing joined texts
}

// A state says whether evaluating a node gave a value.
type state uint8

const (
	stateValue state = iota
	stateNull        // a part of it is empty
	stateRange       // it does not fit into 18 digits
)

// newOperation types an operation on two nodes.
func newOperation(o op, left, right *node) (*node, error) {
	if day, err := dataset.ParseDate(right.text); left.sort == sortDate && right.op == opLiteral && err == nil {
		right = &node{op: opLiteral, sort: sortDate, number: day}
	}
	n := &node{op: o, left: left, right: right, sort: left.sort}
	if left.sort != right.sort {
		return nil, fmt.Errorf("%s and %s do not go together", left.sort, right.sort)
	}
	switch {
	case o == opAnd || o == opOr:
		if left.sort != sortTruth {
			return nil, fmt.Errorf("it joins conditions, not %s", left.sort)
		}
		return n, nil
	case o >= opEqual:
		n.sort = sortTruth
		if left.sort == sortTruth && o > opUnequal {
			return nil, fmt.Errorf("%s is neither more nor less", left.sort)
		}
	case o == opAdd && left.sort == sortText:
		n.op = opJoin
		return n, nil
	case left.sort != sortNumber:
		return nil, fmt.Errorf("there is no arithmetic with %s", left.sort)
	}
	if o == opMul {
		n.scale = left.scale + right.scale
	} else if left.sort == sortNumber {
		n.scale = max(left.scale, right.scale)
		n.raiseLeft, n.raiseRight = pow10[n.scale-left.scale], pow10[n.scale-right.scale]
	}
	if n.scale > dataset.MaxScale {
		return nil, fmt.Errorf("the result would have %d decimals, at most %d fit", n.scale, dataset.MaxScale)
	}
	return n, nil
}

// integer evaluates a number, a date or a timestamp in row i.
func (n *node) integer(b *dataset.Batch, i int) (int64, state) {
	switch n.op {
	case opLiteral:
		return n.number, stateValue
	case opColumn:
		v := &b.Columns[n.column]
		if v.Null(i) {
			return 0, stateNull
		}
		return v.Ints[i], stateValue
	case opNeg:
		x, s := n.left.integer(b, i)
		if x == math.MinInt64 {
			return 0, stateRange
		}
		return -x, s
	}
	x, y, s := n.sides(b, i)
	if s != stateValue {
		return 0, s
	}
	switch n.op {
	case opAdd:
		z := x + y
		return z, overflow((z > x) != (y > 0) && y != 0)
	case opSub:
		z := x - y
		return z, overflow((z < x) != (y > 0) && y != 0)
	}
	product, ok := multiply(x, y)
	return product, overflow(!ok)
}

func overflow(yes bool) state {
	if yes {
		return stateRange
	}
	return stateValue
}

// sides evaluates both sides and brings them to one scale.
func (n *node) sides(b *dataset.Batch, i int) (x, y int64, s state) {
	x, s = n.left.integer(b, i)
	if s != stateValue {
		return 0, 0, s
	}
	if y, s = n.right.integer(b, i); s != stateValue {
		return 0, 0, s
	}
	if n.raiseLeft > 1 {
		var ok bool
		if x, ok = multiply(x, n.raiseLeft); !ok {
			return 0, 0, stateRange
		}
	}
	if n.raiseRight > 1 {
		var ok bool
		if y, ok = multiply(y, n.raiseRight); !ok {
			return 0, 0, stateRange
		}
	}
	return x, y, stateValue
}

// multiply returns the product, or false when it does not fit.
func multiply(x, y int64) (int64, bool) {
	negative := (x < 0) != (y < 0)
	hi, lo := bits.Mul64(magnitude(x), magnitude(y))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	if negative {
		return -int64(lo), true
	}
	return int64(lo), true
}

func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

// join appends the text of row i to dst.
func (n *node) join(dst []byte, b *dataset.Batch, i int) ([]byte, state) {
	switch n.op {
	case opLiteral:
		return append(dst, n.text...), stateValue
	case opColumn:
		v := &b.Columns[n.column]
		if v.Null(i) {
			return dst, stateNull
		}
		return append(dst, v.Text(i)...), stateValue
	}
	dst, s := n.left.join(dst, b, i)
	if s != stateValue {
		return dst, s
	}
	return n.right.join(dst, b, i)
}

// truth evaluates a condition in row i. Comparing with an empty value is false,
// but for "is not", which is true.
func (n *node) truth(b *dataset.Batch, i int) bool {
	switch n.op {
	case opLiteral:
		return n.number != 0
	case opColumn:
		return !b.Columns[n.column].Null(i) && b.Columns[n.column].Ints[i] != 0
	case opNot:
		return !n.left.truth(b, i)
	case opAnd:
		return n.left.truth(b, i) && n.right.truth(b, i)
	case opOr:
		return n.left.truth(b, i) || n.right.truth(b, i)
	}
	order, s := n.compare(b, i)
	switch {
	case s != stateValue:
		return n.op == opUnequal
	case n.op == opEqual:
		return order == 0
	case n.op == opUnequal:
		return order != 0
	case n.op == opLess:
		return order < 0
	case n.op == opLessEqual:
		return order <= 0
	case n.op == opGreater:
		return order > 0
	}
	return order >= 0
}

func (n *node) compare(b *dataset.Batch, i int) (int, state) {
	switch n.left.sort {
	case sortTruth:
		if n.left.truth(b, i) == n.right.truth(b, i) {
			return 0, stateValue
		}
		return 1, stateValue
	case sortText:
		x, s := n.left.look(b, i)
		if s != stateValue {
			return 0, s
		}
		y, s := n.right.look(b, i)
		return bytes.Compare(x, y), s
	}
	x, y, s := n.sides(b, i)
	return cmp.Compare(x, y), s
}

// look is join without a copy where there is nothing to join.
func (n *node) look(b *dataset.Batch, i int) ([]byte, state) {
	switch v := b.Columns; {
	case n.op == opLiteral:
		return n.text, stateValue
	case n.op == opColumn && v[n.column].Null(i):
		return nil, stateNull
	case n.op == opColumn:
		return v[n.column].Text(i), stateValue
	}
	var s state
	n.joined, s = n.join(n.joined[:0], b, i)
	return n.joined, s
}

// uses lists the columns a formula looks at.
func (n *node) uses() []int {
	if n == nil {
		return nil
	}
	list := append(n.left.uses(), n.right.uses()...)
	if n.op == opColumn {
		list = append(list, n.column)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// calculate appends the value of the column's formula for the last row. On a
// fault, value is the text it is about, or nil when it is about the formula.
func (c *column) calculate(v *dataset.Vector, batch *dataset.Batch) (value []byte, wrong fault) {
	i := v.Len()
	if c.kind.IsText() {
		return c.calculateText(v, batch)
	}
	if c.formula.sort == sortTruth {
		v.AppendInt(0)
		if c.formula.truth(batch, i) {
			v.Ints[i] = 1
		}
		return nil, fine
	}
	n, s := c.formula.integer(batch, i)
	switch s {
	case stateNull:
		return nil, c.without(v)
	case stateRange:
		return nil, faultRange
	}
	if c.kind.IsDecimal() {
		if n, wrong = fit(dataset.Fixed{Mant: n, Scale: c.formula.scale}, c.scale, c.round); wrong != fine {
			return nil, wrong
		}
	}
	v.AppendInt(n)
	return nil, fine
}

// calculateText appends the text that the formula joins. A currency is read as
// one of the file is.
func (c *column) calculateText(v *dataset.Vector, batch *dataset.Batch) (value []byte, wrong fault) {
	start := len(v.Bytes)
	joined, s := c.formula.join(v.Bytes, batch, v.Len())
	v.Bytes = joined[:start]
	if s != stateValue {
		return nil, c.without(v)
	}
	if c.kind == dataset.Currency {
		code := trim(joined[start:])
		if len(code) == 0 {
			return nil, c.without(v)
		}
		return code, readCurrency(v, code)
	}
	v.Bytes = joined
	v.Ends = append(v.Ends, uint32(len(joined)))
	return nil, fine
}

func (c *column) without(v *dataset.Vector) fault {
	if c.required {
		return faultNull
	}
	v.AppendNull()
	return fine
}
