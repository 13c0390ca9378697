package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// A Reader reads the rows of a dataset in the order they were written, a batch
// at a time, and only the columns asked for. Its methods are called from one
// goroutine.
type Reader struct {
	schema  Schema
	rows    int64
	groups  []parquet.RowGroup
	left    int64    // rows of the current group that are not read yet
	cursors []cursor // one for each column of schema, then the lines
	batch   *Batch
	err     error // what Next returns from now on
}

// readAhead is the read buffer of each column.
const readAhead = 64 << 10

// NewReader opens a file that a Writer wrote. The named columns are read, in
// that order; none means all, and LineColumn alone means nothing but the lines,
// which come with every batch. The caller closes r, after Close.
func NewReader(r io.ReaderAt, size int64, columns ...string) (_ *Reader, err error) {
	defer damaged("open dataset", &err)
	if err := checkFooter(r, size); err != nil {
		return nil, fmt.Errorf("open dataset: %w", err)
	}
	file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(readAhead))
	if err != nil {
		return nil, fmt.Errorf("open dataset: %w", err)
	}
	all, err := storedSchema(file)
	if err != nil {
		return nil, fmt.Errorf("open dataset: %w", err)
	}
	schema, err := project(all, columns)
	if err != nil {
		return nil, fmt.Errorf("open dataset: %w", err)
	}
	rd := &Reader{schema: schema, rows: file.NumRows(), groups: file.RowGroups(), batch: NewBatch(schema)}
	for _, c := range schema.Columns {
		rd.cursors = append(rd.cursors, cursor{name: c.Name, kind: c.Kind, column: all.Index(c.Name)})
	}
	rd.cursors = append(rd.cursors, cursor{name: LineColumn, kind: Integer, column: len(all.Columns)})
	return rd, nil
}

// checkFooter keeps a damaged length from becoming a huge allocation.
func checkFooter(r io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < int64(len("PAR1")+len(tail)) {
		return fmt.Errorf("it has only %d bytes", size)
	}
	if _, err := r.ReadAt(tail[:], size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read its end: %w", err)
	}
	if n := int64(binary.LittleEndian.Uint32(tail[:4])); n > size-int64(len("PAR1")+len(tail)) {
		return fmt.Errorf("it is damaged: its footer of %d bytes does not fit into %d", n, size)
	}
	return nil
}

func project(all Schema, columns []string) (Schema, error) {
	if len(columns) == 0 {
		return all, nil
	}
	columns = slices.DeleteFunc(slices.Clone(columns), func(name string) bool { return name == LineColumn })
	if len(columns) == 0 {
		return Schema{}, nil
	}
	return all.Project(columns...)
}

// damaged turns a panic of the library, which trusts the lengths in a file, into
// an error.
func damaged(doing string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: it is damaged: %v", doing, p)
	}
}

// Schema returns the columns that are read.
func (r *Reader) Schema() Schema { return r.schema }

// Rows returns how many rows the whole dataset has.
func (r *Reader) Rows() int64 { return r.rows }

// Next returns the next rows, or io.EOF after the last ones. The batch is valid
// until the next call.
func (r *Reader) Next() (*Batch, error) {
	if r.err == nil {
		r.err = r.next()
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.batch, nil
}

func (r *Reader) next() (err error) {
	defer damaged("read dataset", &err)
	for r.left == 0 {
		if len(r.groups) == 0 {
			return io.EOF
		}
		if err := r.open(r.groups[0]); err != nil {
			return err
		}
		r.groups = r.groups[1:]
	}
	n, err := r.batchRows()
	if err != nil {
		return err
	}
	r.batch.Reset()
	for i := range r.batch.Columns {
		if err := r.cursors[i].read(&r.batch.Columns[i], n); err != nil {
			return err
		}
	}
	lines := Vector{Kind: Integer, Ints: r.batch.Lines}
	if err := r.cursors[len(r.cursors)-1].read(&lines, n); err != nil {
		return err
	}
	r.batch.Lines = lines.Ints
	r.left -= int64(n)
	return nil
}

// open moves every cursor to the start of a row group.
func (r *Reader) open(g parquet.RowGroup) error {
	chunks := g.ColumnChunks()
	for i := range r.cursors {
		c := &r.cursors[i]
		if err := c.close(); err != nil {
			return err
		}
		c.pages = chunks[c.column].Pages()
	}
	r.left = g.NumRows()
	return nil
}

// wideValue is the mean size in bytes of a text from which on a batch ends with
// the page, so that long texts do not add up to thousands of them.
const wideValue = 1 << 10

// batchRows decides how many rows the next batch has.
func (r *Reader) batchRows() (int, error) {
	n := int(min(r.left, BatchRows))
	for i := range r.cursors {
		c := &r.cursors[i]
		if !c.kind.IsText() {
			continue
		}
		if err := c.load(); err != nil {
			return 0, err
		}
		if len(c.text) > wideValue*c.rows {
			n = min(n, c.rows-c.row)
		}
	}
	return n, nil
}

// Close lets go of the buffers. It may be called at any time, and twice.
func (r *Reader) Close() error {
	var errs []error
	for i := range r.cursors {
		errs = append(errs, r.cursors[i].close())
	}
	if r.err == nil || errors.Is(r.err, io.EOF) {
		r.err = errReaderClosed
	}
	return errors.Join(errs...)
}

// errReaderClosed is what a Reader returns after Close.
var errReaderClosed = errors.New("read dataset: it is closed")
