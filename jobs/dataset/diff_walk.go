package dataset

import (
	"context"
	"errors"
	"io"
)

// A pair is one partition of both sides.
type pair struct {
	old, new *Spill
	part     int
}

// A walk takes a pair apart until each piece either fits into memory or is a
// single key. Pieces never share a key.
type walk struct {
	columns []int
	level   int
	content bool // hash with other seeds than the walk by key that this one is inside of
	loaded  func(ctx context.Context, p pair) error
	single  func(ctx context.Context, p pair) error
}

// deepest is the level at which a pair is loaded whatever its size: with at
// least 8^8 partitions only texts made to collide are still together.
const deepest = 8

// seed returns a seed that no other level uses.
func (w walk) seed() uint64 {
	s := uint64(w.level) + 1
	if w.content {
		s |= 1 << 32
	}
	return s
}

// walk handles a pair that was partitioned at the level of w.
func (d *differ) walk(ctx context.Context, p pair, w walk) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.empty() {
		return nil
	}
	if p.bytes() <= d.memory/2 || w.level >= deepest {
		return w.loaded(ctx, p)
	}
	single, err := p.singleKey(w.columns)
	if err != nil {
		return err
	}
	if single {
		return w.single(ctx, p)
	}
	w.level++
	return d.split(ctx, p, w)
}

// split partitions a pair once more and walks through the parts.
func (d *differ) split(ctx context.Context, p pair, w walk) (err error) {
	var sub pair
	defer sub.closeInto(&err)
	if sub.old, err = d.respill(ctx, p.old, p.part, w); err != nil {
		return err
	}
	if sub.new, err = d.respill(ctx, p.new, p.part, w); err != nil {
		return err
	}
	for sub.part = range d.parts {
		if err := d.walk(ctx, sub, w); err != nil {
			return err
		}
	}
	return nil
}

// respill partitions one partition by the seed of w.
func (d *differ) respill(ctx context.Context, s *Spill, part int, w walk) (*Spill, error) {
	r, err := s.Open(part)
	if err != nil {
		return nil, err
	}
	return d.spill(ctx, r, w)
}

func (p pair) empty() bool { return p.old.Rows(p.part) == 0 && p.new.Rows(p.part) == 0 }

// bytes returns about how much memory comparing takes when all is loaded: the
// rows, an index of the old ones, and the index by content being collected.
func (p pair) bytes() int64 {
	rows := p.old.Rows(p.part)
	return p.old.Loaded(p.part) + p.new.Loaded(p.part) + 2*IndexBytes(rows) + (rows+p.new.Rows(p.part))/8
}

// singleKey reports whether all rows of both sides have the same key. It reads no
// further than to the first that differs.
func (p pair) singleKey(cols []int) (bool, error) {
	first := NewTable(p.new.Schema())
	for _, s := range []*Spill{p.new, p.old} {
		same, err := sameKeys(s, p.part, cols, &first)
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// sameKeys compares the keys of a partition with that of the only row of first,
// which the first row read becomes if there is none.
func sameKeys(s *Spill, part int, cols []int, first **Table) (bool, error) {
	r, err := s.Open(part)
	if err != nil {
		return false, err
	}
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if (*first).Len() == 0 {
			*first = NewTable(s.Schema())
			(*first).Append(b, 0)
		}
		key := (*first).Key(cols, 0)
		for i := range b.Len() {
			if !KeysEqual(key, Key{b, cols, i}) {
				return false, nil
			}
		}
	}
}

// closeInto deletes both sides and adds what goes wrong to err.
func (p *pair) closeInto(err *error) {
	for _, s := range []*Spill{p.old, p.new} {
		if s == nil {
			continue
		}
		if e := s.Close(); e != nil {
			*err = errors.Join(*err, e)
		}
	}
}
