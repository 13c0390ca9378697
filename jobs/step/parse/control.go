package parse

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"madeira/jobs/dataset"
)

// A control compares a number that the file declares with what was read.
type control struct {
	set    *controlSetting
	line   *regexp.Regexp // finds the declared number in a line that is no row
	terms  []term
	where  *node
	format amountFormat // of the declared number
	minor  bool         // the declared number is in minor units, as its column is
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
			return nil, &settingError{[]string{"controls", strconv.Itoa(i)}, fmt.Errorf("control %s: %w", list[i].Name, err)}
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
		if c.line.NumSubexp() == 0 && set.Declared.Column == 0 {
			return c, fmt.Errorf("declared.line: %s does not say where the number is; write ( ) around it, or declared.column", set.Declared.Line)
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
			if err := c.fits(p, t.column); err != nil {
				return err
			}
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

// fits refuses amounts that cannot be added to those of the terms before. Where
// rows say the currency, the verdict does.
func (c *control) fits(p *plan, column int) error {
	col := &p.columns[column]
	for _, t := range c.terms {
		if t.column < 0 {
			continue
		}
		of := &p.columns[t.column]
		if of.kind == dataset.Money && col.kind == dataset.Money && of.currency < 0 && col.currency < 0 && of.code != col.code {
			return fmt.Errorf("%s and %s are not in the same currency; give each a control of its own", of.set.Name, col.set.Name)
		}
		if c.line != nil && of.formula == nil && col.formula == nil && of.set.Minor != col.set.Minor {
			return fmt.Errorf("only one of %s and %s has minor_units, so the declared number can be in either; give each a control of its own", of.set.Name, col.set.Name)
		}
	}
	return nil
}

// columnFormat lets the declared number be written as the column writes its own.
func (c *control) columnFormat(col *column) {
	c.scale = max(c.scale, col.scale)
	c.money = c.money || col.kind == dataset.Money
	if col.formula == nil {
		c.minor = col.set.Minor && c.line != nil
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
	code, mixed := t.currency(c, values)
	for i, a := range values {
		scale := 0
		if col := c.terms[i].column; col >= 0 {
			scale = t.plan.columns[col].scale
		}
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
		c.compare(&v, computed, code)
	}
	return v
}

// currency returns the currency of the amounts in a control, and whether there
// are others beside it.
func (t *tally) currency(c *control, values []aggregate) (code string, mixed bool) {
	seen := false
	for i, a := range values {
		if c.terms[i].column < 0 || t.plan.columns[c.terms[i].column].kind != dataset.Money {
			continue
		}
		col := &t.plan.columns[c.terms[i].column]
		of := col.code
		if a.seen && col.currency >= 0 {
			of = t.codes[a.code]
		}
		mixed = mixed || a.mixed || seen && a.seen && of != code
		if a.seen || code == "" {
			code = of
		}
		seen = seen || a.seen
	}
	return code, mixed
}

// compare compares the declared number with the computed one, whose amounts are
// in the currency code.
func (c *control) compare(v *verdict, computed dataset.Sum, code string) {
	n, wrong := c.format.parse([]byte(*v.Declared))
	if wrong != fine {
		of := column{kind: dataset.Decimal, amount: c.format}
		_, v.why = of.explain(wrong, []byte(*v.Declared))
		return
	}
	if c.minor {
		// Amounts were read, so their currency is known; nothing is 0 in any.
		exponent, _ := dataset.Exponent(code)
		if n.Scale += exponent; n.Scale > dataset.MaxScale {
			v.why = "the declared number has too many decimals"
			return
		}
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
		if v.why = "they differ"; c.minor {
			v.why += "; the declared number is read in minor units, as its column is"
		}
	}
}
