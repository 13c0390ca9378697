package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A RowReader reads the rows of a dataset in order. Next returns io.EOF after
// the last ones; a batch is valid until the next call.
type RowReader interface {
	Schema() Schema
	Next() (*Batch, error)
}

// DiffOptions says what Diff compares and how.
type DiffOptions struct {
	Old, New RowReader // the caller closes them

	// Key names the columns that say which rows are the same one; both sides have
	// them. None means that a row is its content: it is added or removed, never changed.
	Key []string

	Dir    string // for temporary files, which are gone when Diff returns
	Memory int64  // bytes that may be held; 0 means 64 MiB
}

// A ChangeKind says what happened to a row.
type ChangeKind string

// The kinds of changes.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Changed ChangeKind = "changed"
)

// A Change is one row that differs between two versions of a dataset.
type Change struct {
	Kind    ChangeKind     `json:"kind"`
	OldLine int64          `json:"old_line,omitempty"` // 0 for an added row
	NewLine int64          `json:"new_line,omitempty"` // 0 for a removed row
	Key     []string       `json:"key,omitempty"`      // as people read it, in the order of DiffOptions.Key
	Columns []ColumnChange `json:"columns"`            // those that differ; all of an added or removed row
}

// A ColumnChange is one value before and after, as people read it. A side that
// is null, or where there is no row, is "" with its flag set.
type ColumnChange struct {
	Name    string `json:"name"`
	Old     string `json:"old"`
	New     string `json:"new"`
	OldNull bool   `json:"old_null,omitempty"`
	NewNull bool   `json:"new_null,omitempty"`
}

// DiffCounts counts rows: Old = Same + Changed + Removed and New = Same + Changed + Added.
type DiffCounts struct {
	Old     int64 `json:"old"`
	New     int64 `json:"new"`
	Same    int64 `json:"same"`
	Added   int64 `json:"added"`
	Removed int64 `json:"removed"`
	Changed int64 `json:"changed"`
}

// Diff compares two versions of a dataset and calls emit for every row that
// differs. Where a row stands does not matter, only what it holds. Rows are
// compared column by column by name: a column that one version does not have is
// null there, values of different kinds are compared as people read them, and
// money that is declared in two different currencies differs.
//
// Rows with the same key, or without a key the same content, are paired one to
// one: those of equal content first, the rest in their order.
//
// Changes come in order of new line, then old line, so removed rows come first.
// When they do not fit into a quarter of the memory they come in several such
// runs, one after another. Equal inputs and equal memory give equal calls.
//
// Memory holds whatever the sizes and however often a key repeats, but for one bit
// a row where a single key has more rows than fit. An error of emit ends Diff and
// is returned as it is.
func Diff(ctx context.Context, o DiffOptions, emit func(Change) error) (_ DiffCounts, err error) {
	d, err := newDiffer(o, emit)
	if err != nil {
		return DiffCounts{}, err
	}
	var p pair
	defer p.closeInto(&err)
	w := walk{columns: d.key, loaded: d.compareLoaded, single: d.compareSingle}
	if p.old, err = d.spill(ctx, d.old, w); err != nil {
		return DiffCounts{}, fmt.Errorf("read the old rows: %w", err)
	}
	if p.new, err = d.spill(ctx, d.new, w); err != nil {
		return DiffCounts{}, fmt.Errorf("read the new rows: %w", err)
	}
	d.counts.Old, d.counts.New = d.old.rows, d.new.rows
	for p.part = range d.parts {
		if err := d.walk(ctx, p, w); err != nil {
			return DiffCounts{}, err
		}
	}
	return d.counts, d.flush()
}

// A differ is one call of Diff.
type differ struct {
	old, new *alignment
	key      []int // columns that make two rows the same one
	all      []int // all columns but the row number
	named    int   // how many of key are DiffOptions.Key
	dir      string
	memory   int64
	parts    int
	emit     func(Change) error

	counts  DiffCounts
	pending []Change
	size    int64 // of pending, in bytes
}

const defaultDiffMemory = 64 << 20

func newDiffer(o DiffOptions, emit func(Change) error) (*differ, error) {
	d := &differ{dir: o.Dir, memory: cmp.Or(o.Memory, defaultDiffMemory), emit: emit, named: len(o.Key)}
	// A quarter of the memory is for the buffers of the two sides, of at least 8 KiB each.
	d.parts = int(min(max(d.spillMemory()/(8<<10), 8), 256))
	d.old, d.new = align(o.Old, o.New)
	for c := range d.new.row {
		d.all = append(d.all, c)
	}
	d.key = d.all
	if len(o.Key) > 0 {
		d.key = nil
	}
	for _, name := range o.Key {
		if _, err := o.Old.Schema().Column(name); err != nil {
			return nil, fmt.Errorf("find the key in the old rows: %w", err)
		}
		if _, err := o.New.Schema().Column(name); err != nil {
			return nil, fmt.Errorf("find the key in the new rows: %w", err)
		}
		d.key = append(d.key, d.new.out.Schema.Index(name))
	}
	return d, nil
}

// spillMemory returns the memory of one Spill; two are filled at a time at most.
func (d *differ) spillMemory() int64 { return d.memory / 8 }

// spill reads all rows of one side into partitions.
func (d *differ) spill(ctx context.Context, rows RowReader, w walk) (_ *Spill, err error) {
	s, err := NewSpill(d.dir, rows.Schema(), d.parts, d.spillMemory())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for {
		b, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return s, s.Finish()
		}
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for i := range b.Len() {
			if err := s.Add(s.PartOf(HashKey(b, w.columns, i, w.seed())), b, i); err != nil {
				return nil, err
			}
		}
	}
}

// report keeps a change until enough are there to be sorted.
func (d *differ) report(c Change) error {
	switch c.Kind {
	case Added:
		d.counts.Added++
	case Removed:
		d.counts.Removed++
	default:
		d.counts.Changed++
	}
	d.pending = append(d.pending, c)
	d.size += c.bytes()
	if d.size < d.memory/4 {
		return nil
	}
	return d.flush()
}

// flush emits the changes that are pending.
func (d *differ) flush() error {
	slices.SortStableFunc(d.pending, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.NewLine, b.NewLine), cmp.Compare(a.OldLine, b.OldLine))
	})
	for _, c := range d.pending {
		if err := d.emit(c); err != nil {
			return err
		}
	}
	clear(d.pending)
	d.pending, d.size = d.pending[:0], 0
	return nil
}

// bytes returns about how much memory a change takes.
func (c Change) bytes() int64 {
	n := 120
	for _, k := range c.Key {
		n += 16 + len(k)
	}
	for _, v := range c.Columns {
		n += 56 + len(v.Old) + len(v.New)
	}
	return int64(n)
}
