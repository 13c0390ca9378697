package parse

import (
	"errors"
	"fmt"
	"slices"

	"madeira/jobs/dataset"
)

// keyColumn is the column that identifies a row by convention.
const keyColumn = "upstream_key"

// A plan is the settings, checked and compiled. Everything in it stays as it is,
// but for what layouts remember.
type plan struct {
	set      *settings
	key      []string // columns that identify a row; none: its content does
	columns  []column
	schema   dataset.Schema
	order    []int // columns read from fields: those that others look at first
	formulas []int // columns that are calculated, each behind those it uses
	priced   []int // amounts whose currency is in a column
	skip     *lineMatcher
	end      *lineMatcher
	controls []control
}

func newPlan(set *settings) (*plan, error) {
	p := &plan{set: set, key: set.Key}
	var err error
	if p.skip, err = newLineMatcher("skip_rows", set.SkipRows); err != nil {
		return nil, err
	}
	if set.End != nil {
		if p.end, err = newLineMatcher("end", &set.End.matchSetting); err != nil {
			return nil, err
		}
	}
	if p.key == nil && slices.ContainsFunc(set.Columns, func(c columnSetting) bool { return c.Name == keyColumn }) {
		p.key = []string{keyColumn}
	}
	for i := range set.Columns {
		c, err := newColumn(&set.Columns[i], p.key)
		if err != nil {
			return nil, inColumn(set.Columns[i].Name, err)
		}
		p.columns = append(p.columns, c)
		p.schema.Columns = append(p.schema.Columns, c.column())
		if c.set.Value == "" {
			p.order = append(p.order, i)
		}
	}
	for _, name := range p.key {
		if p.schema.Index(name) < 0 {
			return nil, &settingError{[]string{"key"}, fmt.Errorf("key: no column %q; there are %s", name, quoted(p.schema.Names()))}
		}
	}
	slices.SortStableFunc(p.order, func(a, b int) int { return p.rank(a) - p.rank(b) })
	if err := p.compileFormulas(); err != nil {
		return nil, err
	}
	if err := p.findCurrencies(); err != nil {
		return nil, err
	}
	p.controls, err = newControls(set.Controls, p)
	return p, err
}

// rank puts currencies in front of the amounts that look at them.
func (p *plan) rank(i int) int {
	if p.columns[i].kind == dataset.Currency {
		return 0
	}
	return 1
}

// compileFormulas compiles each formula once all that it uses is known.
func (p *plan) compileFormulas() error {
	waiting := map[string]int{}
	for i := range p.columns {
		if p.columns[i].set.Value != "" {
			waiting[p.columns[i].set.Name] = i
		}
	}
	for len(waiting) > 0 {
		progress := false
		for i := range p.columns {
			name := p.columns[i].set.Name
			if _, ok := waiting[name]; !ok {
				continue
			}
			ready, err := p.ready(i, waiting)
			if err == nil && ready {
				err = p.compileFormula(i)
			}
			if err != nil {
				return inColumn(name, fmt.Errorf("value: %w", err))
			}
			if ready {
				delete(waiting, name)
				progress = true
			}
		}
		if !progress {
			circle := p.columns[first(waiting)].set
			return &settingError{[]string{"columns", circle.Name}, fmt.Errorf("the values of %d columns need one another, as in %q", len(waiting), circle.Value)}
		}
	}
	return nil
}

func first(waiting map[string]int) int {
	least := -1
	for _, i := range waiting {
		if least < 0 || i < least {
			least = i
		}
	}
	return least
}

// ready reports whether the formula of column i uses none of the waiting ones.
func (p *plan) ready(i int, waiting map[string]int) (bool, error) {
	g, err := newGrammar(p.columns[i].set.Value, p.schema)
	if err != nil {
		return false, err
	}
	for _, t := range g.tokens {
		if _, ok := waiting[t.text]; ok {
			return false, nil
		}
	}
	return true, nil
}

func (p *plan) compileFormula(i int) error {
	c := &p.columns[i]
	n, err := compile(c.set.Value, p.schema)
	if err != nil {
		return err
	}
	switch {
	case n.sort != sortOf(c.kind):
		return fmt.Errorf("%q is %s, and the type of the column is %s", c.set.Value, n.sort, c.kind)
	case c.kind == dataset.Integer && n.scale > 0:
		return fmt.Errorf("%q has %d decimals, and the type of the column is integer", c.set.Value, n.scale)
	}
	c.formula = n
	if c.kind.IsDecimal() && c.set.Scale == nil && c.code == "" {
		c.scale = n.scale
	}
	if err := p.inherit(c); err != nil {
		return err
	}
	p.schema.Columns[i] = c.column()
	p.formulas = append(p.formulas, i)
	return nil
}

// inherit gives a calculated amount the currency that all its parts share.
// Amounts of different currencies do not go into one formula.
func (p *plan) inherit(c *column) error {
	var of *column
	for _, i := range c.formula.uses() {
		part := &p.columns[i]
		switch {
		case part.kind != dataset.Money:
		case of == nil:
			of = part
		case of.code != part.code || of.named != part.named:
			return fmt.Errorf("%s and %s are not in the same currency", of.set.Name, part.set.Name)
		}
	}
	if of != nil && c.code == "" && c.named == "" {
		c.code, c.named = of.code, of.named
	}
	return nil
}

// findCurrencies settles which column names the currency of each amount: the one
// it names, else the only one there is.
func (p *plan) findCurrencies() error {
	var all []int
	for i := range p.columns {
		if p.columns[i].kind == dataset.Currency {
			all = append(all, i)
		}
	}
	for i := range p.columns {
		c := &p.columns[i]
		var err error
		switch {
		case c.kind != dataset.Money || c.code != "":
		case c.named != "":
			if c.currency = p.schema.Index(c.named); c.currency < 0 || p.columns[c.currency].kind != dataset.Currency {
				err = fmt.Errorf("currency_column: %q is no column of type currency", c.named)
			}
		case len(all) == 1:
			c.currency, c.named = all[0], p.columns[all[0]].set.Name
		case len(all) > 1:
			err = fmt.Errorf("there are %d columns of type currency; say which is meant with currency_column", len(all))
		}
		if err == nil {
			err = p.minorUnits(c)
		}
		if err != nil {
			return inColumn(c.set.Name, err)
		}
		if c.currency >= 0 {
			p.priced = append(p.priced, i)
		}
	}
	return nil
}

// minorUnits refuses an amount in minor units whose currency is not known when it is
// read.
func (p *plan) minorUnits(c *column) error {
	switch {
	case !c.set.Minor:
	case c.code == "" && c.currency < 0:
		return errors.New("minor_units needs a currency")
	case c.currency >= 0 && p.columns[c.currency].set.Value != "":
		return errors.New("minor_units needs a currency that is read from the file, and " + c.named + " is calculated")
	case c.set.Plus.given() && c.currency >= 0:
		return errors.New("minor_units of plus and minus needs one currency for all rows")
	}
	return nil
}

func inColumn(name string, err error) error {
	return &settingError{[]string{"columns", name}, fmt.Errorf("column %s: %w", name, err)}
}
