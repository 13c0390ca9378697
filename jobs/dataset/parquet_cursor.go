package dataset

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// A cursor reads one column of a row group. The pages of different columns do
// not end at the same rows, so each column has its own.
type cursor struct {
	name   string
	kind   Kind
	column int // in the file
	pages  parquet.Pages

	// The page. It has a value for each row that is not null, in ints, days or
	// bits, or in text, cut at ends; with a dictionary, index says which of
	// these it is.
	page       parquet.Page
	rows, row  int    // how many, and how many of them are read
	levels     []byte // 1 where a row has a value, 0 where it is null; nil when none is null
	next       int    // value to read next
	ints       []int64
	days       []int32
	bits       []byte
	text       []byte
	ends       []uint32
	index      []int32
	dictionary bool
}

// load makes sure that the page has a row to read.
func (c *cursor) load() error {
	for c.row == c.rows {
		c.release()
		page, err := c.pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("read column %q of dataset: it is damaged: the column ends before the others", c.name)
		}
		if err != nil {
			return fmt.Errorf("read column %q of dataset: %w", c.name, err)
		}
		if err := c.take(page); err != nil {
			return fmt.Errorf("read column %q of dataset: it is damaged: %w", c.name, err)
		}
	}
	return nil
}

// take makes page the current one and checks that it has the values it claims.
func (c *cursor) take(page parquet.Page) error {
	c.page, c.rows, c.row, c.next = page, int(page.NumRows()), 0, 0
	if page.NumNulls() > 0 {
		c.levels = page.DefinitionLevels()
	}
	values := c.rows - int(page.NumNulls())
	data := page.Data()
	got := 0
	switch dict := page.Dictionary(); {
	case dict != nil:
		words := dict.Page().Data()
		c.dictionary, c.index = true, data.Int32()
		c.text, c.ends = words.ByteArray()
		for _, i := range c.index {
			if int(i) < 0 || int(i)+1 >= len(c.ends) {
				return fmt.Errorf("entry %d of a dictionary of %d", i, len(c.ends)-1)
			}
		}
		got = len(c.index)
	case c.kind.IsText():
		c.text, c.ends = data.ByteArray()
		got = max(0, len(c.ends)-1) // without any value there may be no ends at all
	case c.kind == Date:
		c.days = data.Int32()
		got = len(c.days)
	case c.kind == Boolean:
		c.bits = data.Boolean()
		got = min(values, 8*len(c.bits))
	default:
		c.ints = data.Int64()
		got = len(c.ints)
	}
	if got < values {
		return fmt.Errorf("a page has %d values instead of %d", got, values)
	}
	return nil
}

// read appends the next n rows to v.
func (c *cursor) read(v *Vector, n int) error {
	for n > 0 {
		if err := c.load(); err != nil {
			return err
		}
		k := min(n, c.rows-c.row)
		if c.levels == nil {
			c.copy(v, k)
		} else {
			c.copyNullable(v, c.levels[c.row:c.row+k])
		}
		c.row += k
		n -= k
	}
	return nil
}

// copyNullable appends a row for each level, in runs of values and of nulls.
func (c *cursor) copyNullable(v *Vector, levels []byte) {
	for i := 0; i < len(levels); {
		start := i
		for i < len(levels) && levels[i] != 0 {
			i++
		}
		c.copy(v, i-start)
		for i < len(levels) && levels[i] == 0 {
			v.AppendNull()
			i++
		}
	}
}

// copy appends the next n values.
func (c *cursor) copy(v *Vector, n int) {
	from, to := c.next, c.next+n
	c.next = to
	switch {
	case n == 0:
	case c.dictionary:
		for _, i := range c.index[from:to] {
			v.AppendText(c.text[c.ends[i]:c.ends[i+1]])
		}
	case c.kind.IsText():
		shift := uint32(len(v.Bytes)) - c.ends[from]
		v.Bytes = append(v.Bytes, c.text[c.ends[from]:c.ends[to]]...)
		for _, end := range c.ends[from+1 : to+1] {
			v.Ends = append(v.Ends, end+shift)
		}
	case c.kind == Date:
		for _, day := range c.days[from:to] {
			v.Ints = append(v.Ints, int64(day))
		}
	case c.kind == Boolean:
		for i := from; i < to; i++ {
			v.Ints = append(v.Ints, int64(c.bits[i>>3]>>(i&7)&1))
		}
	default:
		v.Ints = append(v.Ints, c.ints[from:to]...)
	}
}

// release gives the page back and forgets what pointed into it.
func (c *cursor) release() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	*c = cursor{name: c.name, kind: c.kind, column: c.column, pages: c.pages}
}

func (c *cursor) close() error {
	c.release()
	if c.pages == nil {
		return nil
	}
	err := c.pages.Close()
	c.pages = nil
	if err != nil {
		return fmt.Errorf("close column %q of dataset: %w", c.name, err)
	}
	return nil
}
