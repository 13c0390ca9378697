package reconcile

import (
	"bytes"
	"fmt"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A line is a row of a table, or none.
type line int64

// none is the line that is not there.
const none line = -1

func at(row uint32) line { return line(row) }

// outcomes takes what the matcher decides: it counts, sums, and passes matches
// and breaks on.
type outcomes struct {
	plan        *plan
	left, right *table
	ledger      *ledger
	matches     *matchWriter
	breaks      *breakList
	ids         ids
	seen        [categories + 1]occurrence // of the current key, the last one for matches
}

// An occurrence counts outcomes of one key that are alike in category, amounts
// and currency. Like ones come one after another.
type occurrence struct {
	n           int64
	currency    []byte
	left, right amount
}

// An amount may be missing.
type amount struct {
	mant int64
	ok   bool
}

// flush writes what waits to be written.
func (o *outcomes) flush() error {
	if err := o.matches.flush(); err != nil {
		return err
	}
	return o.breaks.flush()
}

// newKey is called before the lines of another key.
func (o *outcomes) newKey() { clear(o.seen[:]) }

func (o *outcomes) occurrence(kind category, currency []byte, l, r amount) int64 {
	s := &o.seen[kind]
	if s.n == 0 || s.left != l || s.right != r || !bytes.Equal(s.currency, currency) {
		*s = occurrence{currency: currency, left: l, right: r}
	}
	s.n++
	return s.n
}

// pair ends two lines of equal amount and currency.
func (o *outcomes) pair(v verdict, l, r uint32) error {
	switch v {
	case apart:
		return o.broken(timing, at(l), at(r), fmt.Sprintf("left %s, right %s", o.left.day(l), o.right.day(r)))
	case disagree:
		return o.broken(statusMismatch, at(l), at(r), fmt.Sprintf("left status %q, right status %q", o.left.status(l), o.right.status(r)))
	case beyond:
		if err := o.single(missingRight, l, o.right.beyondNote(r)); err != nil {
			return err
		}
		return o.single(missingLeft, r, o.left.beyondNote(l))
	}
	currency := o.left.currency(l)
	la, ra := o.left.amounts[l], o.right.amounts[r]
	if err := o.ledger.match(currency, la, ra); err != nil {
		return err
	}
	n := o.occurrence(categories, currency, amount{la, true}, amount{ra, true})
	return o.matches.add(l, r, n)
}

// beyondNote says that a line would have matched if it were not so far off.
func (t *table) beyondNote(row uint32) string {
	return fmt.Sprintf("the %s line that agrees is of %s; between the two lie cut-off and grace", t.side.name, t.day(row))
}

// day returns the date of a row for a note.
func (t *table) day(row uint32) string {
	if t.side.date < 0 || t.rows.Columns[t.side.date].Null(int(row)) {
		return "no date"
	}
	return t.date(row)
}

// single ends a line that has no counterpart.
func (o *outcomes) single(c category, row uint32, note string) error {
	if c == missingRight || c == duplicateLeft {
		return o.broken(c, at(row), none, note)
	}
	return o.broken(c, none, at(row), note)
}

// broken ends one or two lines of one currency as a break.
func (o *outcomes) broken(c category, l, r line, note string) error {
	o.ledger.cases[c]++
	o.count(l, r)
	return o.add(breakRow{category: c, l: l, r: r, left: o.left.amount(l), right: o.right.amount(r), note: note})
}

// currencyMismatch ends two lines as one break with a row in each currency.
func (o *outcomes) currencyMismatch(l, r uint32) error {
	o.ledger.cases[currencyMismatch]++
	o.count(at(l), at(r))
	note := fmt.Sprintf("left %s, right %s", o.left.currency(l), o.right.currency(r))
	row := breakRow{category: currencyMismatch, l: at(l), r: at(r), note: note}
	row.left = o.left.amount(at(l))
	if err := o.add(row); err != nil {
		return err
	}
	row.left, row.right = amount{}, o.right.amount(at(r))
	return o.add(row)
}

func (o *outcomes) count(l, r line) {
	if l != none {
		o.ledger.outcomes[onLeft]++
	}
	if r != none {
		o.ledger.outcomes[onRight]++
	}
}

func (t *table) amount(row line) amount {
	if row == none {
		return amount{}
	}
	return amount{t.amounts[row], true}
}

// A breakRow is one row of the output breaks.
type breakRow struct {
	category    category
	l, r        line
	left, right amount // of the currency of the row
	note        string
}

// add counts a row and passes it on.
func (o *outcomes) add(b breakRow) error {
	currency := o.currencyOf(b)
	t, err := o.ledger.tally(currency)
	if err != nil {
		return err
	}
	l, r := dataset.SumOf(b.left.mant), dataset.SumOf(b.right.mant)
	delta := o.plan.sign.delta(l, r)
	mant, ok := delta.Int64()
	if !ok {
		return step.PermanentCode("recon.range", fmt.Errorf("reconcile: key %s: the difference %s %s has too many digits to be kept; declare a smaller scale",
			o.keyText(b), currency, delta.Money(o.plan.scale, string(currency))))
	}
	sums := &t.breaks[b.category]
	sums.count++
	sums.left.AddSum(l)
	sums.right.AddSum(r)
	sums.delta.AddSum(delta)
	t.gross.AddSum(delta.Abs())
	id := o.ids.of(o, b, currency, o.occurrence(b.category, currency, b.left, b.right))
	o.breaks.add(o, b, id, currency, mant)
	return nil
}

func (o *outcomes) currencyOf(b breakRow) []byte {
	if b.left.ok {
		return o.left.currency(uint32(b.l))
	}
	return o.right.currency(uint32(b.r))
}

// keyText returns the key as people read it.
func (o *outcomes) keyText(b breakRow) string {
	if b.l != none {
		return o.left.keyText(uint32(b.l))
	}
	return o.right.keyText(uint32(b.r))
}

func (t *table) keyText(row uint32) string { return keyText(t.side, &t.rows, int(row)) }

// keyText returns the values of the key, separated by slashes.
func keyText(s *side, b *dataset.Batch, row int) string {
	var text []byte
	for i, c := range s.keys {
		if i > 0 {
			text = append(text, " / "...)
		}
		text = s.schema.Columns[c].AppendFormat(text, &b.Columns[c], row)
	}
	return string(text)
}
