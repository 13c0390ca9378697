package dataset

import (
	"context"
	"errors"
	"io"
)

// compareLoaded compares a pair that fits into memory.
func (d *differ) compareLoaded(_ context.Context, p pair) error {
	before, after, err := p.load()
	if err != nil {
		return err
	}
	oldDone, newDone := make(bitset, before.Len()/64+1), make(bitset, after.Len()/64+1)
	byContent := NewIndex(before, d.all, 0)
	for i := range after.Len() {
		if o := byContent.Take(after.Key(d.all, i)); o >= 0 {
			oldDone.set(o)
			newDone.set(i)
			d.counts.Same++
		}
	}
	if d.named > 0 {
		byKey := NewIndexOf(before, d.key, 0, func(o int) bool { return !oldDone.has(o) })
		for i := range after.Len() {
			if newDone.has(i) {
				continue
			}
			if o := byKey.Take(after.Key(d.key, i)); o >= 0 {
				oldDone.set(o)
				newDone.set(i)
				if err := d.report(d.changed(before.Key(d.all, o), after.Key(d.all, i))); err != nil {
					return err
				}
			}
		}
	}
	for o := range before.Len() {
		if !oldDone.has(o) {
			if err := d.report(d.removed(before.Key(d.all, o))); err != nil {
				return err
			}
		}
	}
	for i := range after.Len() {
		if !newDone.has(i) {
			if err := d.report(d.added(after.Key(d.all, i))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p pair) load() (before, after *Table, err error) {
	if before, err = p.old.Load(p.part); err != nil {
		return nil, nil, err
	}
	after, err = p.new.Load(p.part)
	return before, after, err
}

// compareSingle compares rows of a single key that do not fit into memory: a
// walk by content marks the rows that are the same, then both sides are read in
// order, and what is not marked is paired.
func (d *differ) compareSingle(ctx context.Context, p pair) error {
	m := marker{all: d.all, number: len(d.all), old: make(bitset, d.old.rows/64+1), new: make(bitset, d.new.rows/64+1)}
	w := walk{columns: d.all, content: true, loaded: m.markLoaded, single: m.markSingle}
	if err := d.split(ctx, p, w); err != nil {
		return err
	}
	d.counts.Same += m.same
	o, n, err := p.scan()
	if err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := errors.Join(o.next(m.number, m.old), n.next(m.number, m.new)); err != nil {
			return err
		}
		switch {
		case o.done() && n.done():
			return nil
		case o.done():
			err = d.report(d.added(n.key(d.all)))
		case n.done():
			err = d.report(d.removed(o.key(d.all)))
		default:
			err = d.report(d.changed(o.key(d.all), n.key(d.all)))
		}
		if err != nil {
			return err
		}
	}
}

// A marker notes by row number which rows have one of equal content on the other side.
type marker struct {
	all      []int
	number   int // position of the row number
	old, new bitset
	same     int64
}

func (m *marker) markLoaded(_ context.Context, p pair) error {
	before, after, err := p.load()
	if err != nil {
		return err
	}
	byContent := NewIndex(before, m.all, 0)
	for i := range after.Len() {
		k := after.Key(m.all, i)
		if o := byContent.Take(k); o >= 0 {
			b, row := before.At(o)
			m.mark(b, row, k.Batch, k.Row)
		}
	}
	return nil
}

// markSingle marks as many rows of equal content as both sides have.
func (m *marker) markSingle(_ context.Context, p pair) error {
	o, n, err := p.scan()
	if err != nil {
		return err
	}
	for {
		if err := errors.Join(o.next(m.number, nil), n.next(m.number, nil)); err != nil {
			return err
		}
		if o.done() || n.done() {
			return nil
		}
		m.mark(o.batch, o.row, n.batch, n.row)
	}
}

func (m *marker) mark(before *Batch, o int, after *Batch, n int) {
	m.old.set(int(before.Columns[m.number].Ints[o]))
	m.new.set(int(after.Columns[m.number].Ints[n]))
	m.same++
}

// A scan reads a partition row by row.
type scan struct {
	reader *SpillReader
	batch  *Batch // nil after the last row
	row    int
}

func (p pair) scan() (before, after *scan, err error) {
	o, err := p.old.Open(p.part)
	if err != nil {
		return nil, nil, err
	}
	n, err := p.new.Open(p.part)
	if err != nil {
		return nil, nil, err
	}
	return &scan{reader: o, batch: &Batch{}, row: -1}, &scan{reader: n, batch: &Batch{}, row: -1}, nil
}

// next moves to the next row whose number is not in skip.
func (s *scan) next(number int, skip bitset) error {
	for s.batch != nil {
		s.row++
		if s.row < s.batch.Len() {
			if skip == nil || !skip.has(int(s.batch.Columns[number].Ints[s.row])) {
				return nil
			}
			continue
		}
		b, err := s.reader.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		s.batch, s.row = b, -1
	}
	return nil
}

func (s *scan) done() bool { return s.batch == nil }

func (s *scan) key(cols []int) Key { return Key{Batch: s.batch, Columns: cols, Row: s.row} }

// A bitset is a set of small numbers.
type bitset []uint64

func (s bitset) set(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s bitset) has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }

// changed describes two rows of the same key; their keys are of all columns.
func (d *differ) changed(o, n Key) Change {
	c := Change{Kind: Changed, OldLine: o.Batch.Lines[o.Row], NewLine: n.Batch.Lines[n.Row], Key: d.keyText(n)}
	for i := range d.all {
		if valuesEqual(o, n, i) {
			continue
		}
		v := ColumnChange{Name: n.name(i)}
		v.Old, v.OldNull = o.text(i)
		v.New, v.NewNull = n.text(i)
		c.Columns = append(c.Columns, v)
	}
	return c
}

func (d *differ) added(n Key) Change {
	c := Change{Kind: Added, NewLine: n.Batch.Lines[n.Row], Key: d.keyText(n)}
	for i := range d.all {
		v := ColumnChange{Name: n.name(i), OldNull: true}
		v.New, v.NewNull = n.text(i)
		c.Columns = append(c.Columns, v)
	}
	return c
}

func (d *differ) removed(o Key) Change {
	c := Change{Kind: Removed, OldLine: o.Batch.Lines[o.Row], Key: d.keyText(o)}
	for i := range d.all {
		v := ColumnChange{Name: o.name(i), NewNull: true}
		v.Old, v.OldNull = o.text(i)
		c.Columns = append(c.Columns, v)
	}
	return c
}

// keyText returns the named key of a row as people read it.
func (d *differ) keyText(row Key) []string {
	if d.named == 0 {
		return nil
	}
	texts := make([]string, len(d.key))
	for i, c := range d.key {
		texts[i], _ = row.text(c)
	}
	return texts
}

func (k Key) name(n int) string { return k.Batch.Schema.Columns[k.Columns[n]].Name }

// text returns the n-th value as people read it, and whether it is null.
func (k Key) text(n int) (string, bool) {
	c := k.Columns[n]
	v := &k.Batch.Columns[c]
	return k.Batch.Schema.Columns[c].Format(v, k.Row), v.Null(k.Row)
}
