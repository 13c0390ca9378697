package parse

import (
	"bytes"
	"fmt"
	"regexp"

	"madeira/jobs/dataset"
)

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

// A control compares a number that the file declares with what was read.
type control struct {
	set    *controlSetting
	line   *regexp.Regexp // finds the declared number in a line that is no row
	terms  []term
	where  *node
	format amountFormat // of the declared number
	scale  int          // of the computed one
	money  bool
}

// A term is count(), sum(column), min(column) or max(column), added or subtracted.
type term struct {
	what   string
	column int
	minus  bool
}

func newControls(list []controlSetting, p *plan) ([]control, error) {
	var controls []control
	for i := range list {
		c, err := newControl(&list[i], p)
		if err != nil {
			return nil, fmt.Errorf("parse: control %s: %w", list[i].Name, err)
		}
		controls = append(controls, c)
	}
	return controls, nil
}

func newControl(set *controlSetting, p *plan) (control, error) {
	c := control{set: set, format: newAmountFormat(&columnSetting{Groups: []string{","}})}
	var err error
	if set.Declared.Line != "" {
		if c.line, err = regexp.Compile(set.Declared.Line); err != nil {
			return c, fmt.Errorf("declared.line: %w", err)
		}
	}
	if set.Where != "" {
		if c.where, err = compile(set.Where, p.schema); err != nil {
			return c, fmt.Errorf("where: %w", err)
		}
		if c.where.sort != sortTruth {
			return c, fmt.Errorf("where: %q is %s, not a condition", set.Where, c.where.sort)
		}
	}
	if err := c.compileTerms(p); err != nil {
		return c, fmt.Errorf("computed: %w", err)
	}
	return c, nil
}

// compileTerms reads "sum(in) - sum(out)".
func (c *control) compileTerms(p *plan) error {
	g, err := newGrammar(c.set.Computed, p.schema)
	if err != nil {
		return err
	}
	for minus := false; ; {
		t := term{minus: minus, column: -1}
		var ok bool
		if t.what, ok = g.accept("count", "sum", "min", "max"); !ok {
			return g.unexpected()
		}
		if _, ok = g.accept("("); !ok {
			return g.unexpected()
		}
		if t.what != "count" {
			n, err := g.operand()
			if err != nil {
				return err
			}
			if n.op != opColumn || n.sort != sortNumber {
				return fmt.Errorf("%q: %s needs a column of numbers", c.set.Computed, t.what)
			}
			t.column = n.column
			c.columnFormat(&p.columns[n.column])
		}
		if _, ok = g.accept(")"); !ok {
			return g.unexpected()
		}
		c.terms = append(c.terms, t)
		operator, ok := g.accept("+", "-")
		if !ok {
			break
		}
		minus = operator == "-"
	}
	if len(g.tokens) > 0 {
		return g.unexpected()
	}
	return nil
}

// columnFormat lets the declared number be written as the column writes its own.
func (c *control) columnFormat(col *column) {
	c.scale = max(c.scale, col.scale)
	c.money = c.money || col.kind == dataset.Money
	if col.formula == nil {
		groups := c.format.groups
		c.format = col.amount
		if c.format.decimal == '.' && len(c.format.groups) == 0 {
			c.format.groups = groups
		}
		c.format.minus = true
	}
}

// declared collects what the lines that are no rows say about the controls. The
// last line that says something counts: a trailer outranks a banner.
type declared struct {
	plan  *plan
	texts []*string // of each control
}

func newDeclared(p *plan) *declared {
	d := &declared{plan: p, texts: make([]*string, len(p.controls))}
	for i := range p.controls {
		if text := string(p.controls[i].set.Declared.Value); text != "" {
			d.texts[i] = &text
		}
	}
	return d
}

// longestNumber is how much of a declared number is kept, in bytes.
const longestNumber = 100

// look reads one line that is no row.
func (d *declared) look(s *scanner, line []byte) {
	for i := range d.plan.controls {
		c := &d.plan.controls[i]
		if c.line == nil {
			continue
		}
		groups := c.line.FindSubmatch(line)
		if groups == nil {
			continue
		}
		found := groups[min(1, len(groups)-1)]
		if at := c.set.Declared.Column; at > 0 {
			if found = s.fieldAt(line, at); found == nil {
				continue
			}
		}
		found = bytes.Trim(trim(found), "`'")
		text := string(found[:min(len(found), longestNumber)])
		d.texts[i] = &text
	}
}

// fieldAt returns the field at a position, counted from 1, of a line by itself.
func (s *scanner) fieldAt(line []byte, at int) []byte {
	one := *s
	one.eof = true
	b := &block{text: line}
	if _, err := one.record(b, 0); err != nil || at > len(b.fields) {
		return nil
	}
	return b.field(at - 1)
}

// A verdict is how one control ended.
type verdict struct {
	Name     string  `json:"name"`
	Declared *string `json:"declared"` // as the file writes it; null: it does not say
	Computed string  `json:"computed"`
	OK       bool    `json:"ok"`
	Else     string  `json:"else"` // what a difference makes of the step: fail, warn, ignore
	short    bool    // fewer rows than declared, or nothing declared: the file may be cut
	why      string  // for people, "" when ok
}

// verdicts compares every control.
func (t *tally) verdicts(d *declared) []verdict {
	list := make([]verdict, 0, len(t.plan.controls))
	for i := range t.plan.controls {
		list = append(list, t.verdict(&t.plan.controls[i], t.computed[i], d.texts[i]))
	}
	return list
}

func (t *tally) verdict(c *control, values []aggregate, declared *string) verdict {
	v := verdict{Name: c.set.Name, Declared: declared, Else: c.set.Else}
	if v.Else == "" {
		v.Else = "fail"
	}
	var computed dataset.Sum
	code, mixed := "", false
	for i, a := range values {
		scale := 0
		if col := c.terms[i].column; col >= 0 {
			scale = t.plan.columns[col].scale
			code = t.plan.columns[col].code
			if a.seen && t.plan.columns[col].currency >= 0 {
				code = t.codes[a.code]
			}
		}
		mixed = mixed || a.mixed
		raised, err := a.sum.Raise(c.scale - scale)
		if err != nil {
			v.why = err.Error()
			return v
		}
		if c.terms[i].minus {
			raised = raised.Neg()
		}
		computed.AddSum(raised)
	}
	if v.Computed = computed.String(c.scale); c.money {
		v.Computed = computed.Money(c.scale, code)
	}
	switch {
	case mixed:
		v.why = "amounts of several currencies cannot be added; choose one with where"
	case declared == nil:
		v.short, v.why = true, "the file does not say it; it may be cut"
	default:
		c.compare(&v, computed)
	}
	return v
}

func (c *control) compare(v *verdict, computed dataset.Sum) {
	n, wrong := c.format.parse([]byte(*v.Declared))
	if wrong != fine {
		of := column{kind: dataset.Decimal, amount: c.format}
		_, v.why = of.explain(wrong, []byte(*v.Declared))
		return
	}
	scale := max(n.Scale, c.scale)
	left, err := dataset.SumOf(n.Mant).Raise(scale - n.Scale)
	right, err2 := computed.Raise(scale - c.scale)
	switch order := left.Cmp(right); {
	case err != nil || err2 != nil:
		v.why = "the numbers are too large to compare"
	case order == 0:
		v.OK = true
	default:
		v.short = order > 0 && c.terms[0].what == "count"
		v.why = "they differ"
	}
}
