package parse

import "madeira/jobs/dataset"

// A tally adds up what was read, batch by batch: every amount per currency, and
// what the controls compute.
type tally struct {
	plan     *plan
	rows     int64
	codes    []string           // currencies seen, in order
	sums     map[int][]subtotal // of each column of money, by currency
	computed [][]aggregate      // of each term of each control
}

// A subtotal is what a column adds up to in one currency.
type subtotal struct {
	sum  dataset.Sum
	rows int64
}

// An aggregate is the running value of one term of a control.
type aggregate struct {
	sum   dataset.Sum
	seen  bool
	code  int  // currency of the amounts so far
	mixed bool // they are of several currencies, so their sum means nothing
}

func newTally(p *plan) *tally {
	t := &tally{plan: p, sums: map[int][]subtotal{}}
	for i := range p.columns {
		if p.columns[i].kind == dataset.Money {
			t.sums[i] = nil
		}
	}
	for i := range p.controls {
		t.computed = append(t.computed, make([]aggregate, len(p.controls[i].terms)))
	}
	return t
}

func (t *tally) add(b *dataset.Batch) {
	t.rows += int64(b.Len())
	for i := range t.sums {
		t.sums[i] = t.total(t.sums[i], i, b)
	}
	for i := range t.plan.controls {
		t.compute(&t.plan.controls[i], t.computed[i], b)
	}
}

// total adds a column of amounts to its sums. A null counts as nothing.
func (t *tally) total(sums []subtotal, column int, b *dataset.Batch) []subtotal {
	c, values := &t.plan.columns[column], &b.Columns[column]
	code := -1
	if c.currency < 0 {
		code = t.code([]byte(c.code))
	}
	for i, n := range values.Ints {
		if c.currency >= 0 {
			if values.Null(i) {
				continue
			}
			code = t.codeAt(code, b.Columns[c.currency].Text(i))
		}
		for code >= len(sums) {
			sums = append(sums, subtotal{})
		}
		sums[code].sum.Add(n)
		sums[code].rows++
	}
	return sums
}

// code returns the number of a currency.
func (t *tally) code(text []byte) int {
	for i, code := range t.codes {
		if code == string(text) {
			return i
		}
	}
	t.codes = append(t.codes, string(text))
	return len(t.codes) - 1
}

// codeAt is code, tried first with that of the row before.
func (t *tally) codeAt(last int, text []byte) int {
	if last >= 0 && last < len(t.codes) && t.codes[last] == string(text) {
		return last
	}
	return t.code(text)
}

func (t *tally) compute(c *control, values []aggregate, b *dataset.Batch) {
	if c.where == nil && c.terms[0].what == "count" && len(c.terms) == 1 {
		values[0].sum.Add(int64(b.Len()))
		return
	}
	for i := range b.Len() {
		if c.where != nil && !c.where.truth(b, i) {
			continue
		}
		for j := range c.terms {
			t.take(&c.terms[j], &values[j], b, i)
		}
	}
}

func (t *tally) take(term *term, a *aggregate, b *dataset.Batch, i int) {
	if term.what == "count" {
		a.sum.Add(1)
		return
	}
	v := &b.Columns[term.column]
	if v.Null(i) {
		return
	}
	if currency := t.plan.columns[term.column].currency; currency >= 0 {
		code := t.codeAt(a.code, b.Columns[currency].Text(i))
		a.mixed = a.mixed || a.seen && code != a.code
		a.code = code
	}
	n := dataset.SumOf(v.Ints[i])
	switch {
	case term.what == "sum":
		a.sum.AddSum(n)
	case !a.seen, term.what == "min" && n.Cmp(a.sum) < 0, term.what == "max" && n.Cmp(a.sum) > 0:
		a.sum = n
	}
	a.seen = true
}

// totals returns the sums as the step's output: by column and currency, as digits.
func (t *tally) totals() map[string]map[string]string {
	all := map[string]map[string]string{}
	for i, sums := range t.sums {
		c := &t.plan.columns[i]
		by := map[string]string{}
		if c.currency < 0 {
			by[c.code] = dataset.Sum{}.Money(c.scale, c.code)
		}
		for code, sum := range sums {
			if sum.rows > 0 {
				by[t.codes[code]] = sum.sum.Money(c.scale, t.codes[code])
			}
		}
		all[c.set.Name] = by
	}
	return all
}
