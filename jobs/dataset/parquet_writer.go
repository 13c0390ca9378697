package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

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
	for from := 0; from < b.Len(); {
		n := w.room(b, from)
		w.chunk.AppendRows(b, from, from+n)
		from += n
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

// room returns how many rows of b can be added to the chunk at once: as many as
// it lacks, or one where their texts may fill it before that.
func (w *Writer) room(b *Batch, from int) int {
	n := min(b.Len()-from, w.chunkRows-w.chunk.Len())
	size := textBytes(w.chunk)
	for i := range b.Columns {
		if v := &b.Columns[i]; v.Kind.IsText() {
			size += int(v.Ends[from+n-1] - v.start(from))
		}
	}
	if size < chunkBytes {
		return n
	}
	return 1
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
	values, err := parquetValues(w.values, v)
	w.values = values
	if err != nil {
		return err
	}
	_, err = w.columns[column].WriteRowValues(values)
	return err
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
