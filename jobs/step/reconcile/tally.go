package reconcile

import (
	"fmt"
	"maps"
	"slices"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// maxCurrencies is how many currencies one dataset may have: more than ISO 4217
// ever knew means that the column holds something else.
const maxCurrencies = 250

// A tally counts and sums one currency: while reading, and again by outcome.
type tally struct {
	currency string
	read     [2]count // left, right
	matched  struct {
		count       int64
		left, right dataset.Sum
	}
	breaks [categories]breakTally
	gross  dataset.Sum // of the absolute deltas
}

type count struct {
	lines int64
	sum   dataset.Sum
}

type breakTally struct {
	count              int64
	left, right, delta dataset.Sum
}

// A ledger holds the tallies and counts lines.
type ledger struct {
	plan     *plan
	ids      map[string]int
	tallies  []tally
	last     int               // of the currency looked up last
	cases    [categories]int64 // breaks; a currency mismatch is one in two currencies
	outcomes [2]int64          // lines of each side that have ended in an outcome
}

func newLedger(p *plan) *ledger {
	return &ledger{plan: p, ids: map[string]int{}}
}

// The two sides as indexes.
const (
	onLeft = iota
	onRight
)

// tally returns that of a currency.
func (l *ledger) tally(currency []byte) (*tally, error) {
	if l.last < len(l.tallies) && string(currency) == l.tallies[l.last].currency {
		return &l.tallies[l.last], nil
	}
	id, ok := l.ids[string(currency)]
	if !ok {
		if len(l.tallies) == maxCurrencies {
			return nil, step.PermanentCode("recon.currency", fmt.Errorf("reconcile: more than %d currencies, the last one %q; is it a column of currencies?", maxCurrencies, currency))
		}
		id = len(l.tallies)
		name := string(currency)
		l.ids[name] = id
		l.tallies = append(l.tallies, tally{currency: name})
	}
	l.last = id
	return &l.tallies[id], nil
}

// reading counts the lines of a batch of one side.
func (l *ledger) reading(which int, s *side, b *dataset.Batch, m *measure) error {
	currencies := &b.Columns[s.currency]
	var t *tally
	for i, amount := range m.amounts {
		c := currencies.Text(i)
		if t == nil || string(c) != t.currency {
			var err error
			if t, err = l.tally(c); err != nil {
				return err
			}
		}
		t.read[which].lines++
		t.read[which].sum.Add(amount)
	}
	return nil
}

func (l *ledger) match(currency []byte, leftAmount, rightAmount int64) error {
	t, err := l.tally(currency)
	if err != nil {
		return err
	}
	t.matched.count++
	t.matched.left.Add(leftAmount)
	t.matched.right.Add(rightAmount)
	l.outcomes[onLeft]++
	l.outcomes[onRight]++
	return nil
}

// sorted returns the tallies by currency.
func (l *ledger) sorted() []*tally {
	byName := make([]*tally, 0, len(l.tallies))
	for _, name := range slices.Sorted(maps.Keys(l.ids)) {
		byName = append(byName, &l.tallies[l.ids[name]])
	}
	return byName
}

func (l *ledger) openCount() int64 {
	n := int64(0)
	for _, c := range l.cases {
		n += c
	}
	return n
}

func (l *ledger) matchedCount() int64 {
	n := int64(0)
	for i := range l.tallies {
		n += l.tallies[i].matched.count
	}
	return n
}

// net returns the sum of all deltas.
func (t *tally) net() dataset.Sum {
	var sum dataset.Sum
	for i := range t.breaks {
		sum.AddSum(t.breaks[i].delta)
	}
	return sum
}

// breakCount returns how many rows of breaks the currency has.
func (t *tally) breakCount() int64 {
	n := int64(0)
	for i := range t.breaks {
		n += t.breaks[i].count
	}
	return n
}

// difference returns left - right as it was read.
func (l *ledger) difference(t *tally) dataset.Sum {
	return l.plan.sign.delta(t.read[onLeft].sum, t.read[onRight].sum)
}

// prove returns an error unless every line has an outcome and the sums that were
// read are those of the outcomes: to the last digit, for each side and currency.
func (l *ledger) prove() error {
	var lines [2]int64
	for _, t := range l.sorted() {
		lines[onLeft] += t.read[onLeft].lines
		lines[onRight] += t.read[onRight].lines
		sums := [2]dataset.Sum{t.matched.left, t.matched.right}
		for i := range t.breaks {
			sums[onLeft].AddSum(t.breaks[i].left)
			sums[onRight].AddSum(t.breaks[i].right)
		}
		if sums[onLeft] != t.read[onLeft].sum || sums[onRight] != t.read[onRight].sum || t.net() != l.difference(t) {
			return l.broken(t, sums)
		}
	}
	for which, s := range []*side{&l.plan.left, &l.plan.right} {
		if lines[which] != s.data.Rows || l.outcomes[which] != s.data.Rows {
			return step.PermanentCode("recon.proof", fmt.Errorf("reconcile: the proof does not hold: the %s has %d lines, %d were read and %d have an outcome; nothing was handed on, report this as a bug",
				s.name, s.data.Rows, lines[which], l.outcomes[which]))
		}
	}
	return nil
}

func (l *ledger) broken(t *tally, sums [2]dataset.Sum) error {
	money := func(s dataset.Sum) string { return s.Money(l.plan.scale, t.currency) }
	return step.PermanentCode("recon.proof", fmt.Errorf("reconcile: the proof of %s does not hold: read left %s, right %s; outcomes left %s, right %s, breaks %s; nothing was handed on, report this as a bug",
		t.currency, money(t.read[onLeft].sum), money(t.read[onRight].sum), money(sums[onLeft]), money(sums[onRight]), money(t.net())))
}
