package reconcile

import (
	"fmt"
	"math"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A measure holds what is computed for each row of a batch, or its last ones. It is used again
// for the next one.
type measure struct {
	amounts []int64 // at the scale of the plan
	hashes  []uint64
}

// of measures the rows of a batch of a side from first on. They must have an
// amount, which check sees to.
func (m *measure) of(p *plan, s *side, b *dataset.Batch, first int) error {
	m.amounts, m.hashes = m.amounts[:0], m.hashes[:0]
	for i, n := range b.Columns[s.amount].Ints[first:] {
		amount := n * s.factor
		if s.factor != 1 && amount/s.factor != n {
			return s.refuse("recon.range", b, first+i, s.amount, fmt.Sprintf("the amount is too large to be compared with %d decimals; declare a smaller scale on the other side", p.scale))
		}
		m.amounts = append(m.amounts, amount)
	}
	for i := first; i < b.Len(); i++ {
		m.hashes = append(m.hashes, dataset.HashKey(b, s.keys, i, 0)&p.hashMask)
	}
	return nil
}

// check refuses rows without a key, an amount or a currency.
func (s *side) check(b *dataset.Batch) error {
	for _, c := range s.keys {
		if err := s.refuseNulls(b, c, "key"); err != nil {
			return err
		}
	}
	if err := s.refuseNulls(b, s.amount, "amount"); err != nil {
		return err
	}
	return s.refuseNulls(b, s.currency, "currency")
}

func (s *side) refuseNulls(b *dataset.Batch, column int, what string) error {
	v := &b.Columns[column]
	if !v.HasNulls() {
		return nil
	}
	for i := range b.Len() {
		if v.Null(i) {
			return s.refuse("recon.null", b, i, column, fmt.Sprintf("there is no value, and a line cannot be compared without its %s; reject or leave out such lines in the step that reads them", what))
		}
	}
	return nil
}

// refuse returns the permanent error about one value of the input.
func (s *side) refuse(code string, b *dataset.Batch, row, column int, why string) error {
	return step.PermanentCode(code, fmt.Errorf("reconcile: %s line %d, column %q: %s", s.name, b.Lines[row], s.schema.Columns[column].Name, why))
}

// equal reports whether a left and a right amount match.
func (s sign) equal(left, right int64) bool {
	if s == same {
		return left == right
	}
	return left == -right && left != math.MinInt64
}

// compare orders a left amount and the one that a right amount would match.
func (s sign) compare(left, right int64) int {
	switch {
	case s == opposite && right == math.MinInt64:
		return -1 // what it would match is larger than every amount
	case s == opposite:
		right = -right
	}
	switch {
	case left < right:
		return -1
	case left > right:
		return 1
	}
	return 0
}

// delta returns left - right, or left + right when signs are opposite.
func (s sign) delta(left, right dataset.Sum) dataset.Sum {
	if s == same {
		left.SubSum(right)
	} else {
		left.AddSum(right)
	}
	return left
}
