package reconcile

import (
	"bytes"
	"slices"

	"madeira/jobs/dataset"
)

// A matcher walks the lines of both sides, key by key, and decides.
type matcher struct {
	plan        *plan
	left, right table
	out         *outcomes

	lefts, rights []uint32 // the lines of one key
}

// compare decides about all lines of the two tables, whose hashes begin with the
// same used bits.
func (m *matcher) compare(used int) error {
	m.left.order(used)
	m.right.order(used)
	ls, rs := m.left.slots, m.right.slots
	for len(ls) > 0 && len(rs) > 0 {
		l, r := 0, 0
		if ls[0].hash <= rs[0].hash {
			l = runLength(ls)
		}
		if rs[0].hash <= ls[0].hash {
			r = runLength(rs)
		}
		if err := m.sameHash(ls[:l], rs[:r]); err != nil {
			return err
		}
		ls, rs = ls[l:], rs[r:]
	}
	for len(ls) > 0 {
		n := runLength(ls)
		if err := m.sameHash(ls[:n], nil); err != nil {
			return err
		}
		ls = ls[n:]
	}
	for len(rs) > 0 {
		n := runLength(rs)
		if err := m.sameHash(nil, rs[:n]); err != nil {
			return err
		}
		rs = rs[n:]
	}
	return nil
}

// sameHash decides about lines whose keys have the same hash, which nearly
// always means that they are the same.
func (m *matcher) sameHash(ls, rs []slot) error {
	if len(ls) == 1 && len(rs) == 1 && dataset.KeysEqual(m.left.key(ls[0].row), m.right.key(rs[0].row)) {
		m.out.newKey()
		return m.onePair(ls[0].row, rs[0].row)
	}
	for len(ls) > 0 || len(rs) > 0 {
		key := m.firstKey(ls, rs)
		ls, m.lefts = takeKey(&m.left, ls, key, m.lefts[:0])
		rs, m.rights = takeKey(&m.right, rs, key, m.rights[:0])
		m.out.newKey()
		if err := m.oneKey(); err != nil {
			return err
		}
	}
	return nil
}

func (m *matcher) firstKey(ls, rs []slot) dataset.Key {
	if len(ls) > 0 {
		return m.left.key(ls[0].row)
	}
	return m.right.key(rs[0].row)
}

// takeKey moves the rows of that key to rows and returns the others.
func takeKey(t *table, slots []slot, key dataset.Key, rows []uint32) (rest []slot, _ []uint32) {
	rest = slots[:0]
	for _, s := range slots {
		if dataset.KeysEqual(t.key(s.row), key) {
			rows = append(rows, s.row)
		} else {
			rest = append(rest, s)
		}
	}
	return rest, rows
}

// onePair decides about the only lines of a key.
func (m *matcher) onePair(l, r uint32) error {
	if m.sameMoney(l, r) {
		return m.out.pair(m.verdict(l, r), l, r)
	}
	return m.mismatch(l, r)
}

func (m *matcher) mismatch(l, r uint32) error {
	if bytes.Equal(m.left.currency(l), m.right.currency(r)) {
		return m.out.broken(amountMismatch, at(l), at(r), "")
	}
	return m.out.currencyMismatch(l, r)
}

// sameMoney reports whether two lines match in amount and currency.
func (m *matcher) sameMoney(l, r uint32) bool {
	return m.plan.sign.equal(m.left.amounts[l], m.right.amounts[r]) && bytes.Equal(m.left.currency(l), m.right.currency(r))
}

// oneKey decides about the lines of one key, in m.lefts and m.rights.
func (m *matcher) oneKey() error {
	if len(m.lefts) == 1 && len(m.rights) == 1 {
		return m.onePair(m.lefts[0], m.rights[0])
	}
	m.left.sortByContent(m.lefts, same)
	m.right.sortByContent(m.rights, m.plan.sign)
	leftOver, rightOver, paired, err := m.pairEqual(m.lefts, m.rights)
	if err != nil {
		return err
	}
	switch {
	case len(leftOver) > 0 && len(rightOver) > 0:
		if m.left.sameMoney(leftOver) == len(leftOver) && m.right.sameMoney(rightOver) == len(rightOver) {
			return m.mismatches(leftOver, rightOver)
		}
		return m.ambiguous(leftOver, rightOver)
	case len(leftOver) > 0:
		return m.alone(leftOver, missingRight, paired)
	case len(rightOver) > 0:
		return m.alone(rightOver, missingLeft, paired)
	}
	return nil
}

// pairEqual pairs lines of equal amount and currency, and returns the lines whose
// amount the other side does not have. Both lists are sorted by content.
func (m *matcher) pairEqual(ls, rs []uint32) (leftOver, rightOver []uint32, paired bool, err error) {
	leftOver, rightOver = ls[:0], rs[:0] // behind what is read
	for len(ls) > 0 || len(rs) > 0 {
		order := m.compareMoney(ls, rs)
		var l, r []uint32
		if order <= 0 {
			n := m.left.sameMoney(ls)
			l, ls = ls[:n], ls[n:]
		}
		if order >= 0 {
			n := m.right.sameMoney(rs)
			r, rs = rs[:n], rs[n:]
		}
		if order != 0 {
			leftOver, rightOver = append(leftOver, l...), append(rightOver, r...)
			continue
		}
		paired = true
		if err := m.pairClass(l, r); err != nil {
			return nil, nil, false, err
		}
	}
	return leftOver, rightOver, paired, nil
}

// compareMoney orders the first lines of two lists by currency, then amount. An
// empty list comes last.
func (m *matcher) compareMoney(ls, rs []uint32) int {
	switch {
	case len(ls) == 0:
		return 1
	case len(rs) == 0:
		return -1
	}
	if c := bytes.Compare(m.left.currency(ls[0]), m.right.currency(rs[0])); c != 0 {
		return c
	}
	return m.plan.sign.compare(m.left.amounts[ls[0]], m.right.amounts[rs[0]])
}

// sameMoney returns how many rows have the amount and currency of the first one.
func (t *table) sameMoney(rows []uint32) int {
	n := 1
	for n < len(rows) && t.amounts[rows[n]] == t.amounts[rows[0]] && bytes.Equal(t.currency(rows[n]), t.currency(rows[0])) {
		n++
	}
	return n
}

// alone decides about lines that the other side has nothing to set against.
func (m *matcher) alone(rows []uint32, missing category, paired bool) error {
	duplicate := duplicateRight
	if missing == missingRight {
		duplicate = duplicateLeft
	}
	for i, row := range rows {
		c, note := duplicate, "the same key again; the other side has no line left for it"
		if i == 0 && !paired {
			c, note = missing, ""
		}
		if err := m.out.single(c, row, note); err != nil {
			return err
		}
	}
	return nil
}

// mismatches decides about left-over lines that are all the same on each side:
// whichever is set against which, the outcome is the same, so none is guessed.
// What one side has more of are duplicates.
func (m *matcher) mismatches(ls, rs []uint32) error {
	n := min(len(ls), len(rs))
	for i := range n {
		if err := m.mismatch(ls[i], rs[i]); err != nil {
			return err
		}
	}
	if len(ls) > n {
		return m.alone(ls[n:], missingRight, true)
	}
	return m.alone(rs[n:], missingLeft, true)
}

func (m *matcher) ambiguous(ls, rs []uint32) error {
	note := ambiguousNote(len(ls), len(rs))
	for _, l := range ls {
		if err := m.out.broken(ambiguous, at(l), none, note); err != nil {
			return err
		}
	}
	for _, r := range rs {
		if err := m.out.broken(ambiguous, none, at(r), note); err != nil {
			return err
		}
	}
	return nil
}

// sortByContent sorts rows of one key by all they hold, currency and amount
// first, then by line. With opposite signs the largest amount comes first, as
// the smallest does on the other side.
func (t *table) sortByContent(rows []uint32, s sign) {
	if len(rows) < 2 {
		return
	}
	slices.SortFunc(rows, func(a, b uint32) int {
		if c := bytes.Compare(t.currency(a), t.currency(b)); c != 0 {
			return c
		}
		if x, y := t.amounts[a], t.amounts[b]; x != y {
			if (x < y) == (s == same) {
				return -1
			}
			return 1
		}
		return t.compareContent(a, b)
	})
}
