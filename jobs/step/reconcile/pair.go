package reconcile

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"madeira/jobs/dataset"
)

// A verdict says what becomes of two lines of equal key, amount and currency.
// Smaller ones are better.
type verdict uint8

const (
	matched  verdict = iota
	apart            // on different sides of the cut-off, within the grace: timing
	disagree         // the statuses do not go together
	beyond           // one of them lies after the grace: missing on both sides
	verdicts         // how many there are
)

func (m *matcher) verdict(l, r uint32) verdict {
	return verdictOf(m.plan.together(m.left.status(l), m.right.status(r)), m.left.place(l), m.right.place(r))
}

func verdictOf(together bool, l, r place) verdict {
	sameSide := (l == inside) == (r == inside)
	switch {
	case !sameSide && (l == late || r == late):
		return beyond
	case !together:
		return disagree
	case !sameSide:
		return apart
	}
	return matched
}

// together reports whether two statuses go together.
func (p *plan) together(leftStatus, rightStatus []byte) bool {
	if !p.hasStatus {
		return true
	}
	accepted, ok := p.accepts[string(leftStatus)]
	if !ok {
		return bytes.Equal(leftStatus, rightStatus)
	}
	for _, s := range accepted {
		if s == string(rightStatus) {
			return true
		}
	}
	return false
}

// A bin holds right lines that are alike in all that a verdict depends on.
type bin struct {
	status []byte
	place  place
	rows   []uint32 // by content
	places []int    // of rows in the list of all
}

// pairClass pairs lines of equal key, amount and currency as well as it can:
// first all pairs that match, then those apart, and so on. Left lines choose by
// content, but those that go together with fewer statuses before others; each
// takes the first right line by content. What is left over is a duplicate.
func (m *matcher) pairClass(ls, rs []uint32) error {
	if len(ls) == 1 && len(rs) == 1 {
		return m.out.pair(m.verdict(ls[0], rs[0]), ls[0], rs[0])
	}
	bins := m.bins(rs)
	open := slices.Clone(ls)
	if m.plan.hasStatus {
		slices.SortStableFunc(open, func(a, b uint32) int {
			return cmp.Compare(m.plan.choices(m.left.status(a)), m.plan.choices(m.left.status(b)))
		})
	}
	for v := range verdicts {
		rest := open[:0]
		for _, l := range open {
			b := m.choose(bins, l, v)
			if b == nil {
				rest = append(rest, l)
				continue
			}
			r := b.rows[0]
			b.rows, b.places = b.rows[1:], b.places[1:]
			if err := m.out.pair(v, l, r); err != nil {
				return err
			}
		}
		open = rest
	}
	return m.duplicates(open, bins)
}

// choices returns with how many right statuses a left one goes together.
func (p *plan) choices(status []byte) int {
	if accepted, ok := p.accepts[string(status)]; ok {
		return len(accepted)
	}
	return 1
}

func (m *matcher) bins(rs []uint32) []*bin {
	var bins []*bin
	for i, r := range rs {
		status, place := m.right.status(r), m.right.place(r)
		k := slices.IndexFunc(bins, func(b *bin) bool { return b.place == place && bytes.Equal(b.status, status) })
		if k < 0 {
			k = len(bins)
			bins = append(bins, &bin{status: status, place: place})
		}
		bins[k].rows = append(bins[k].rows, r)
		bins[k].places = append(bins[k].places, i)
	}
	return bins
}

// choose returns the bin of the first right line that gives the verdict, or nil.
func (m *matcher) choose(bins []*bin, l uint32, v verdict) *bin {
	var first *bin
	status, place := m.left.status(l), m.left.place(l)
	for _, b := range bins {
		if len(b.rows) == 0 || first != nil && first.places[0] < b.places[0] {
			continue
		}
		if verdictOf(m.plan.together(status, b.status), place, b.place) == v {
			first = b
		}
	}
	return first
}

// duplicates reports what could not be paired; only one side can have such lines.
func (m *matcher) duplicates(open []uint32, bins []*bin) error {
	const note = "the same key, amount and currency again"
	slices.SortFunc(open, m.left.compareContent)
	for _, l := range open {
		if err := m.out.single(duplicateLeft, l, note); err != nil {
			return err
		}
	}
	var rest []uint32
	for _, b := range bins {
		rest = append(rest, b.rows...)
	}
	slices.SortFunc(rest, m.right.compareContent)
	for _, r := range rest {
		if err := m.out.single(duplicateRight, r, note); err != nil {
			return err
		}
	}
	return nil
}

// compareContent orders rows by all they hold, then by line.
func (t *table) compareContent(a, b uint32) int {
	for i := range t.rows.Columns {
		if c := compareValues(&t.rows.Columns[i], int(a), int(b)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(t.rows.Lines[a], t.rows.Lines[b]), cmp.Compare(a, b))
}

// compareValues orders two values of a column; a null comes first.
func compareValues(v *dataset.Vector, a, b int) int {
	if x, y := v.Null(a), v.Null(b); x || y {
		switch {
		case x && y:
			return 0
		case x:
			return -1
		}
		return 1
	}
	if v.Kind.IsText() {
		return bytes.Compare(v.Text(a), v.Text(b))
	}
	return cmp.Compare(v.Ints[a], v.Ints[b])
}

func ambiguousNote(l, r int) string {
	return fmt.Sprintf("left over: %d left, %d right", l, r)
}
