package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// batchBytes ends a batch early when its texts are long, so that a reader takes
// little memory whatever the rows are like.
const batchBytes = 1 << 20

// A SpillReader reads the rows of one partition in the order they were added.
type SpillReader struct {
	spill  *Spill
	chunks []spillChunk // not yet read
	tail   []byte       // what never went to the file
	buf    []byte       // memory for a chunk
	rest   []byte       // rows not yet decoded
	batch  *Batch       // nil until Next needs it
}

// errDamaged is a spilled row that ends too early: the file was changed by
// somebody else.
var errDamaged = errors.New("the temporary file is damaged")

// Open returns a reader of a partition, or ErrSpillState before Finish.
func (s *Spill) Open(part int) (*SpillReader, error) {
	if !s.finished || s.err != nil {
		return nil, ErrSpillState
	}
	p := &s.parts[part]
	return &SpillReader{spill: s, chunks: p.chunks, tail: p.buf}, nil
}

// Load reads a whole partition into memory.
func (s *Spill) Load(part int) (*Table, error) {
	r, err := s.Open(part)
	if err != nil {
		return nil, err
	}
	t := NewTable(s.schema)
	for {
		more, err := r.fill()
		if err != nil {
			return nil, err
		}
		if !more {
			return t, nil
		}
		if r.rest, err = decodeRow(t.grow(), r.rest); err != nil {
			return nil, fmt.Errorf("read spilled rows: %w", err)
		}
	}
}

// Schema returns the columns of the rows.
func (r *SpillReader) Schema() Schema { return r.spill.schema }

// Next returns the next rows, at most BatchRows; io.EOF after the last ones. The
// batch is valid until the next call.
func (r *SpillReader) Next() (*Batch, error) {
	if r.batch == nil {
		r.batch = NewBatch(r.spill.schema)
	}
	r.batch.Reset()
	for decoded := 0; !r.batch.Full() && decoded < batchBytes; {
		more, err := r.fill()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		before := len(r.rest)
		if r.rest, err = decodeRow(r.batch, r.rest); err != nil {
			return nil, fmt.Errorf("read spilled rows: %w", err)
		}
		decoded += before - len(r.rest)
	}
	if r.batch.Len() == 0 {
		return nil, io.EOF
	}
	return r.batch, nil
}

// AppendTo appends the next rows to b, which has the columns of the Spill: as many
// as one buffer of it held. After the last ones it returns io.EOF.
func (r *SpillReader) AppendTo(b *Batch) error {
	more, err := r.fill()
	if err != nil {
		return err
	}
	if !more {
		return io.EOF
	}
	for len(r.rest) > 0 {
		if r.rest, err = decodeRow(b, r.rest); err != nil {
			return fmt.Errorf("read spilled rows: %w", err)
		}
	}
	return nil
}

// Close gives up the memory of the reader; there is nothing else to give back. It never fails.
func (r *SpillReader) Close() error {
	r.chunks, r.tail, r.rest = nil, nil, nil
	return nil
}

// fill makes sure that there is a row to decode, or returns false after the last.
func (r *SpillReader) fill() (bool, error) {
	switch {
	case len(r.rest) > 0:
		return true, nil
	case len(r.chunks) > 0:
		c := r.chunks[0]
		if int64(cap(r.buf)) < c.size {
			r.buf = make([]byte, c.size)
		}
		r.rest = r.buf[:c.size]
		if _, err := r.spill.file.ReadAt(r.rest, c.offset); err != nil {
			return false, fmt.Errorf("read spilled rows: %w", err)
		}
		r.chunks = r.chunks[1:]
	default:
		r.rest, r.tail = r.tail, nil
	}
	return len(r.rest) > 0, nil
}

// decodeRow appends the first row of data to b and returns what follows it.
func decodeRow(b *Batch, data []byte) ([]byte, error) {
	line, n := binary.Varint(data)
	width := (len(b.Columns) + 7) / 8
	if n <= 0 || len(data) < n+width {
		return nil, errDamaged
	}
	nulls, data := data[n:n+width], data[n+width:]
	for c := range b.Columns {
		v := &b.Columns[c]
		if nulls[c/8]&(1<<(c%8)) != 0 {
			v.AppendNull()
			continue
		}
		if !v.Kind.IsText() {
			value, n := binary.Varint(data)
			if n <= 0 {
				return nil, errDamaged
			}
			v.AppendInt(value)
			data = data[n:]
			continue
		}
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) {
			return nil, errDamaged
		}
		data = data[n:]
		v.AppendText(data[:size])
		data = data[size:]
	}
	b.Lines = append(b.Lines, line)
	return data, nil
}
