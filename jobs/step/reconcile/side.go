package reconcile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A side is one of the two datasets and where in it the columns are.
type side struct {
	name   string // "left" or "right"
	data   step.Dataset
	schema dataset.Schema

	keys     []int // in the order of the left dataset
	amount   int
	currency int
	date     int // -1 when there is none
	status   int // -1 when there is none

	factor int64 // takes amounts to the scale of both sides
	cutoff cutoff
	zone   *time.Location // in which instants are shown; nil is UTC
}

// A plan is what the settings mean for these two datasets.
type plan struct {
	left, right side
	sign        sign
	scale       int   // of all amounts that are compared and shown
	idKeys      []int // positions in keys, by name, so that ids do not depend on the order of columns
	pass        string
	hashMask    uint64              // all ones; fewer make keys share a hash
	accepts     map[string]statuses // by left status
	hasStatus   bool
}

func newPlan(set settings) (*plan, error) {
	p := &plan{sign: set.Sign == "opposite", pass: set.Match[0].ID, hashMask: math.MaxUint64, accepts: set.Status, hasStatus: set.Left.Status != ""}
	var err error
	if p.left, err = newSide("left", set.Left); err != nil {
		return nil, err
	}
	if p.right, err = newSide("right", set.Right); err != nil {
		return nil, err
	}
	if err := p.findKeys(set.Match[0].Keys); err != nil {
		return nil, err
	}
	if err := p.setCutoffs(set.Cutoff); err != nil {
		return nil, err
	}
	left, right := p.left.schema.Columns[p.left.amount].Scale, p.right.schema.Columns[p.right.amount].Scale
	p.scale = max(left, right)
	p.left.factor, p.right.factor = power10(p.scale-left), power10(p.scale-right)
	return p, nil
}

func newSide(name string, set sideSettings) (side, error) {
	s := side{name: name, data: set.Rows, schema: set.Rows.Schema, date: -1, status: -1}
	if set.Rows.Digest == "" {
		return s, fmt.Errorf("reconcile: %s.rows is no dataset; give it the rows of an earlier step", name)
	}
	for i, r := range set.roles() {
		at := []*int{&s.amount, &s.currency, &s.date, &s.status}[i]
		if r.column == "" && (at == &s.date || at == &s.status) {
			continue
		}
		column, err := s.schema.Column(r.column)
		if err != nil {
			return s, fmt.Errorf("reconcile: %s.%s: %w", name, r.setting, err)
		}
		if !slices.Contains(r.kinds, column.Kind) {
			return s, fmt.Errorf("reconcile: %s.%s: column %q is of type %s; it must be %s", name, r.setting, r.column, column.Kind, orOf(r.kinds))
		}
		*at = s.schema.Index(r.column)
	}
	return s, nil
}

func orOf(kinds []dataset.Kind) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, " or ")
}

// findKeys finds the key columns of both sides. Their order is that of the left
// dataset, as the settings come as an object, which has none.
func (p *plan) findKeys(keys map[string]string) error {
	for name := range keys {
		if _, err := p.left.schema.Column(name); err != nil {
			return fmt.Errorf("reconcile: keys of %q, left side: %w", p.pass, err)
		}
	}
	for i, left := range p.left.schema.Columns {
		name, ok := keys[left.Name]
		if !ok {
			continue
		}
		right, err := p.right.schema.Column(name)
		if err != nil {
			return fmt.Errorf("reconcile: keys of %q, right side: %w", p.pass, err)
		}
		if !comparable(left.Kind, right.Kind) {
			return fmt.Errorf("reconcile: keys of %q: %s", p.pass, neverEqual(left, right))
		}
		p.left.keys = append(p.left.keys, i)
		p.right.keys = append(p.right.keys, p.right.schema.Index(name))
	}
	for i := range p.left.keys {
		p.idKeys = append(p.idKeys, i)
	}
	slices.SortFunc(p.idKeys, func(a, b int) int {
		return strings.Compare(p.left.schema.Columns[p.left.keys[a]].Name, p.left.schema.Columns[p.left.keys[b]].Name)
	})
	return nil
}

// comparable reports whether values of two columns can be equal at all.
func comparable(a, b dataset.Kind) bool {
	numeric := func(k dataset.Kind) bool { return k.IsDecimal() || k == dataset.Integer }
	return a == b || a.IsText() && b.IsText() || numeric(a) && numeric(b)
}

// neverEqual says what to do about two columns of a key that are not comparable.
func neverEqual(left, right dataset.Column) string {
	return fmt.Sprintf("left column %q is %s and right column %q is %s, which are never equal; declare them alike", left.Name, left.Kind, right.Name, right.Kind)
}

func (p *plan) setCutoffs(set *cutoffSettings) error {
	p.left.cutoff, p.right.cutoff = never, never
	if set == nil {
		return nil
	}
	c, err := newCutoffs(set)
	if err != nil {
		return err
	}
	for _, s := range []*side{&p.left, &p.right} {
		s.zone = c.zone
		if s.date < 0 {
			continue
		}
		column := s.schema.Columns[s.date]
		if s.cutoff, err = c.of(column.Kind); err != nil {
			return fmt.Errorf("reconcile: %s.date: column %q: %w", s.name, column.Name, err)
		}
	}
	return nil
}

func power10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}
