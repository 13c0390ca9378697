package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"madeira/jobs/dataset"
)

// An outcome is what became of one line.
type outcome int

const (
	inserted outcome = iota
	same
	conflict
	gone
	updated // a conflict of which the new content was written; told apart when the load is over
	outcomes
)

var outcomeNames = [outcomes]string{"inserted", "same", "conflict", "gone", "updated"}

// A tally counts lines by outcome and sums every column of amounts by currency.
type tally struct {
	columns  []sumColumn
	counts   [outcomes]int64
	sums     [outcomes][][]currencySum // by column of amounts
	rejected int64

	// withheld says that nothing was written, because of too many conflicts.
	withheld bool
}

// A sumColumn is a column of amounts: where it and its currency are in a batch.
type sumColumn struct {
	dataset.Column
	target   string
	source   int // in the batch, or -1 when it is not summed
	currency int // in the batch, or -1
}

type currencySum struct {
	currency string
	sum      dataset.Sum
}

func newTally(p plan) tally {
	var t tally
	for _, i := range p.money {
		c := p.columns[i]
		s := sumColumn{Column: c.Column, target: c.target, source: c.source, currency: -1}
		if c.currency >= 0 {
			s.currency = p.columns[c.currency].source
		}
		t.columns = append(t.columns, s)
	}
	for o := range t.sums {
		t.sums[o] = make([][]currencySum, len(t.columns))
	}
	return t
}

// add counts row i of a batch.
func (t *tally) add(o outcome, b *dataset.Batch, i int) {
	t.counts[o]++
	for c, s := range t.columns {
		if s.source < 0 {
			continue
		}
		v := &b.Columns[s.source]
		if v.Null(i) {
			continue
		}
		sum := t.currencyOf(o, c, b, i)
		sum.Add(v.Ints[i])
	}
}

// currencyOf returns the sum that an amount of row i belongs to.
func (t *tally) currencyOf(o outcome, c int, b *dataset.Batch, i int) *dataset.Sum {
	s := t.columns[c]
	if s.currency < 0 {
		return t.sum(o, c, s.Currency)
	}
	code := b.Columns[s.currency].Text(i)
	for k := range t.sums[o][c] {
		if bytes.Equal([]byte(t.sums[o][c][k].currency), code) {
			return &t.sums[o][c][k].sum
		}
	}
	return t.sum(o, c, string(code))
}

func (t *tally) sum(o outcome, c int, currency string) *dataset.Sum {
	list := t.sums[o][c]
	for k := range list {
		if list[k].currency == currency {
			return &list[k].sum
		}
	}
	t.sums[o][c] = append(list, currencySum{currency: currency})
	return &t.sums[o][c][len(list)].sum
}

// move takes n of the lines of one outcome, with their sums in m, to another.
func (t *tally) move(from, to outcome, m tally) {
	t.counts[from] -= m.counts[to]
	t.counts[to] += m.counts[to]
	for c := range t.columns {
		for _, s := range m.sums[to][c] {
			t.sum(from, c, s.currency).SubSum(s.sum)
			t.sum(to, c, s.currency).AddSum(s.sum)
		}
	}
}

// plus adds everything another tally has counted.
func (t *tally) plus(m tally) {
	for o := range t.sums {
		t.counts[o] += m.counts[o]
		for c := range t.columns {
			for _, s := range m.sums[o][c] {
				t.sum(outcome(o), c, s.currency).AddSum(s.sum)
			}
		}
	}
	t.rejected += m.rejected
}

// update counts conflicts as lines that were updated.
func (t *tally) update() {
	t.counts[updated], t.counts[conflict] = t.counts[conflict], 0
	t.sums[updated], t.sums[conflict] = t.sums[conflict], make([][]currencySum, len(t.columns))
}

// clone returns a copy that shares nothing.
func (t *tally) clone() tally {
	n := tally{columns: t.columns, withheld: t.withheld}
	for o := range n.sums {
		n.sums[o] = make([][]currencySum, len(t.columns))
	}
	n.plus(*t)
	return n
}

// storedTally is the form of a tally in madeira_load.
type storedTally struct {
	Counts [outcomes]int64 `json:"counts"` // inserted, same, conflict, gone, and one that is always 0
	Sums   []storedSum     `json:"sums"`

	Withheld bool `json:"withheld,omitempty"`
}

type storedSum struct {
	Outcome  outcome `json:"outcome"`
	Column   int     `json:"column"`
	Currency string  `json:"currency"`
	Mantissa string  `json:"mantissa"` // digits, without a point
}

// MarshalJSON writes sums as digits.
func (t tally) MarshalJSON() ([]byte, error) {
	s := storedTally{Counts: t.counts, Withheld: t.withheld}
	for o := range t.sums {
		for c, list := range t.sums[o] {
			for _, x := range list {
				s.Sums = append(s.Sums, storedSum{Outcome: outcome(o), Column: c, Currency: x.currency, Mantissa: x.sum.String(0)})
			}
		}
	}
	return json.Marshal(s)
}

// restore fills a new tally with what MarshalJSON wrote.
func (t *tally) restore(text []byte) error {
	var s storedTally
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("read a tally: %w", err)
	}
	t.counts, t.withheld = s.Counts, s.Withheld
	for _, x := range s.Sums {
		if x.Outcome < 0 || x.Outcome >= outcomes || x.Column < 0 || x.Column >= len(t.columns) {
			return fmt.Errorf("read a tally: it has sums of columns that are not loaded")
		}
		sum, err := parseSum(x.Mantissa, 0)
		if err != nil {
			return err
		}
		t.sum(x.Outcome, x.Column, x.Currency).AddSum(sum)
	}
	return nil
}

// parseSum reads digits, with at most scale of them behind a point, as a sum of
// mantissas at that scale. It reads what sum() of PostgreSQL writes.
func parseSum(text string, scale int) (dataset.Sum, error) {
	digits, negative := strings.CutPrefix(text, "-")
	whole, decimals, _ := strings.Cut(digits, ".")
	decimals = strings.TrimRight(decimals, "0")
	if len(decimals) > scale {
		return dataset.Sum{}, fmt.Errorf("read the sum %s: more than %d decimals", text, scale)
	}
	digits = whole + decimals + strings.Repeat("0", scale-len(decimals))
	var sum dataset.Sum
	for len(digits) > 0 {
		n := min(len(digits), dataset.MaxScale)
		part, err := strconv.ParseUint(digits[:n], 10, 63)
		if err != nil {
			return dataset.Sum{}, fmt.Errorf("read the sum %s: %w", text, err)
		}
		if sum, err = sum.Raise(n); err != nil {
			return dataset.Sum{}, err
		}
		sum.Add(int64(part))
		digits = digits[n:]
	}
	if negative {
		return sum.Neg(), nil
	}
	return sum, nil
}

// sorted returns the sums of an outcome and a column in the order of currencies.
func (t *tally) sorted(o outcome, c int) []currencySum {
	list := slices.Clone(t.sums[o][c])
	slices.SortFunc(list, func(a, b currencySum) int { return strings.Compare(a.currency, b.currency) })
	return list
}
