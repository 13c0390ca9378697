package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// A Compression says how the pages of a file are compressed.
type Compression string

// The compressions. LZ4 is left out on purpose: parquet-go 0.32 read wrong sums
// back from it.
const (
	Uncompressed Compression = ""
	Zstd         Compression = "zstd" // at its fastest level
)

// WriterOptions are what NewWriter may be told; the zero value is good.
type WriterOptions struct {
	Compression Compression // zero: Uncompressed

	// RowGroupRows is how many rows a row group has; zero is 131072. A group is
	// held in memory until it is complete, and ends early at 16 MiB of values.
	RowGroupRows int
}

const (
	rowGroupRows  = 128 << 10
	rowGroupBytes = 16 << 20
	pageBytes     = 256 << 10
	chunkBytes    = 1 << 20 // of text, after which a chunk ends before it has BatchRows rows
)

// A Writer writes a dataset as a Parquet file. The bytes depend on the schema,
// the options and the rows in their order, and on nothing else: not on how the
// rows were cut into batches, nor on the time. Its methods are called from one
// goroutine.
type Writer struct {
	schema  Schema
	file    *parquet.GenericWriter[any]
	columns []*parquet.ColumnWriter // those of schema, then the lines
	values  []parquet.Value
	chunk   *Batch // rows that do not fill a chunk yet
	rows    int64

	chunkRows, groupLimit int
	groupRows, groupBytes int
	err                   error // the first one; sticks
}

// NewWriter starts a file on w. The caller closes w, after Close.
func NewWriter(w io.Writer, schema Schema, opts WriterOptions) (*Writer, error) {
	nodes, err := parquetSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("write dataset: %w", err)
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("write schema of dataset: %w", err)
	}
	codec, err := opts.Compression.codec()
	if err != nil {
		return nil, fmt.Errorf("write dataset: %w", err)
	}
	limit := opts.RowGroupRows
	if limit <= 0 {
		limit = rowGroupRows
	}
	file := parquet.NewGenericWriter[any](w, nodes,
		parquet.Compression(codec), parquet.PageBufferSize(pageBytes),
		parquet.DataPageStatistics(false), parquet.KeyValueMetadata(schemaKey, string(text)),
		parquet.CreatedBy("madeira", "1.0.0", "dataset")) // the default names a build
	return &Writer{
		schema: schema, file: file, columns: file.ColumnWriters(), chunk: NewBatch(schema),
		chunkRows: min(limit, BatchRows), groupLimit: limit,
	}, nil
}

func (c Compression) codec() (compress.Codec, error) {
	switch c {
	case Uncompressed:
		return &parquet.Uncompressed, nil
	case Zstd:
		return &zstd.Codec{Level: zstd.SpeedFastest, Concurrency: 1}, nil
	}
	return nil, fmt.Errorf("compression %q is unknown; use %q or none", string(c), string(Zstd))
}

// Rows returns how many rows were written.
func (w *Writer) Rows() int64 { return w.rows }

// Write adds the rows of a batch, which the caller may then reuse. After an
// error the file is unusable, and every later call returns that error.
func (w *Writer) Write(b *Batch) error {
	if w.err == nil {
		w.err = w.write(b)
	}
	return w.err
}

func (w *Writer) write(b *Batch) error {
	if err := w.fits(b); err != nil {
		return err
	}
	w.rows += int64(b.Len())
	if w.chunk.Len() == 0 && b.Len() == w.chunkRows && textBytes(b) < chunkBytes {
		return w.writeChunk(b)
	}
	for i := range b.Len() {
		w.chunk.AppendRow(b, i)
		if w.chunk.Len() < w.chunkRows && textBytes(w.chunk) < chunkBytes {
			continue
		}
		if err := w.writeChunk(w.chunk); err != nil {
			return err
		}
		w.chunk.Reset()
	}
	return nil
}

// fits reports whether the batch has the columns of the file.
func (w *Writer) fits(b *Batch) error {
	if len(b.Columns) != len(w.schema.Columns) {
		return fmt.Errorf("write batch of %d columns to a dataset of %d", len(b.Columns), len(w.schema.Columns))
	}
	for i, c := range w.schema.Columns {
		v := &b.Columns[i]
		if v.Kind != c.Kind {
			return fmt.Errorf("write %s to column %q, which is %s", v.Kind, c.Name, c.Kind)
		}
		if v.Len() != b.Len() {
			return fmt.Errorf("write column %q of %d values in a batch of %d rows", c.Name, v.Len(), b.Len())
		}
	}
	return nil
}

func textBytes(b *Batch) int {
	n := 0
	for i := range b.Columns {
		n += len(b.Columns[i].Bytes)
	}
	return n
}

// writeChunk passes rows on. Pages and row groups end only between chunks, and
// where chunks end depends on the rows alone.
func (w *Writer) writeChunk(b *Batch) error {
	for i := range b.Columns {
		if err := w.writeColumn(i, &b.Columns[i]); err != nil {
			return fmt.Errorf("write column %q of dataset: %w", w.schema.Columns[i].Name, err)
		}
	}
	w.values = w.values[:0]
	for _, line := range b.Lines {
		w.values = append(w.values, parquet.Int64Value(line))
	}
	if _, err := w.columns[len(b.Columns)].WriteRowValues(w.values); err != nil {
		return fmt.Errorf("write lines of dataset: %w", err)
	}
	w.groupRows += b.Len()
	w.groupBytes += textBytes(b) + 8*b.Len()*(len(b.Columns)+1)
	if w.groupRows < w.groupLimit && w.groupBytes < rowGroupBytes {
		return nil
	}
	w.groupRows, w.groupBytes = 0, 0
	if err := w.file.Flush(); err != nil {
		return fmt.Errorf("write row group of dataset: %w", err)
	}
	return nil
}

func (w *Writer) writeColumn(column int, v *Vector) error {
	w.values = w.values[:0]
	null := parquet.NullValue().Level(0, 0, column)
	for i := range v.Len() {
		if v.Null(i) {
			w.values = append(w.values, null)
			continue
		}
		value, err := parquetValue(v, i)
		if err != nil {
			return err
		}
		w.values = append(w.values, value.Level(0, 1, column))
	}
	_, err := w.columns[column].WriteRowValues(w.values)
	return err
}

func parquetValue(v *Vector, i int) (parquet.Value, error) {
	switch v.Kind {
	case Text, Currency:
		text := v.Text(i)
		if !utf8.Valid(text) {
			return parquet.Value{}, fmt.Errorf("%q is not UTF-8", text)
		}
		return parquet.ByteArrayValue(text), nil
	case Date:
		if n := v.Ints[i]; n != int64(int32(n)) {
			return parquet.Value{}, fmt.Errorf("day %d is out of range; a date is at most %d days from 1970", n, math.MaxInt32)
		}
		return parquet.Int32Value(int32(v.Ints[i])), nil
	case Boolean:
		return parquet.BooleanValue(v.Ints[i] != 0), nil
	default:
		return parquet.Int64Value(v.Ints[i]), nil
	}
}

// errWriterClosed is what a Writer returns after Close.
var errWriterClosed = errors.New("write dataset: it is closed")

// Close writes what is left and the footer; only then is the file complete.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	w.err = errWriterClosed
	if w.chunk.Len() > 0 {
		if err := w.writeChunk(w.chunk); err != nil {
			return err
		}
	}
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("write footer of dataset: %w", err)
	}
	return nil
}
