package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// A Spill keeps rows in partitions on disk, so that more rows than fit in memory
// can be joined a partition at a time. Fill it with Add, call Finish, then read
// partitions in any order and as often as needed; Close deletes the file. As
// long as the rows fit into its buffers nothing is written at all.
//
// The file is private to the process: rows one after another, each a line number,
// a bit for every null, and the other values as variable-length integers and
// texts. Filling is for one goroutine, reading a finished Spill for many.
type Spill struct {
	schema   Schema
	dir      string
	file     *os.File // nil until the first chunk is written
	size     int64    // of the file
	chunk    int      // bytes after which a buffer is written
	parts    []spillPart
	row      []byte // memory for the row that is being added
	finished bool
	err      error // the first failure of Add; all later calls return it
}

// A spillPart is one partition: chunks of whole rows in the file, then buf.
type spillPart struct {
	buf    []byte
	chunks []spillChunk
	rows   int64
	bytes  int64
}

type spillChunk struct{ offset, size int64 }

// The sizes of buffers: below the least a write costs more than what it carries,
// beyond the most nothing is gained.
const (
	leastChunk = 1 << 10
	mostChunk  = 256 << 10
)

// ErrSpillState is returned when a Spill is filled after Finish or read before it.
var ErrSpillState = errors.New("spill used out of order")

// NewSpill returns an empty Spill of so many partitions, whose file will be in
// dir. All buffers together take at most memory bytes, but at least 1 KiB for
// each partition.
func NewSpill(dir string, schema Schema, parts int, memory int64) (*Spill, error) {
	if parts < 1 {
		return nil, fmt.Errorf("spill to %s: %d partitions, want at least 1", dir, parts)
	}
	chunk := min(max(memory/int64(parts), leastChunk), mostChunk)
	return &Spill{schema: schema, dir: dir, chunk: int(chunk), parts: make([]spillPart, parts)}, nil
}

// Schema returns the columns of the rows.
func (s *Spill) Schema() Schema { return s.schema }

// Parts returns the number of partitions.
func (s *Spill) Parts() int { return len(s.parts) }

// Rows returns how many rows a partition holds.
func (s *Spill) Rows(part int) int64 { return s.parts[part].rows }

// Bytes returns how many bytes the rows of a partition take in the file.
func (s *Spill) Bytes(part int) int64 { return s.parts[part].bytes }

// Loaded returns about how many bytes the rows of a partition take in a Table.
func (s *Spill) Loaded(part int) int64 {
	p := &s.parts[part]
	loaded := p.bytes + p.rows*int64(8+8*len(s.schema.Columns))
	return loaded + loaded/4 // slices grow by a quarter at a time
}

// PartOf returns the partition of a key with that hash. It uses the upper half of
// the hash and leaves the lower one to an Index.
func (s *Spill) PartOf(hash uint64) int { return int(hash >> 32 % uint64(len(s.parts))) }

// Add copies a row of b, which has the columns of the Spill, to a partition.
func (s *Spill) Add(part int, b *Batch, row int) error {
	if s.finished {
		return ErrSpillState
	}
	if s.err != nil {
		return s.err
	}
	s.row = appendRow(s.row[:0], b, row)
	p := &s.parts[part]
	p.rows++
	p.bytes += int64(len(s.row))
	if len(p.buf)+len(s.row) > s.chunk {
		if s.err = s.write(p, p.buf); s.err != nil {
			return s.err
		}
		p.buf = p.buf[:0]
	}
	if len(s.row) > s.chunk {
		s.err = s.write(p, s.row)
		return s.err
	}
	if need := len(p.buf) + len(s.row); need > cap(p.buf) {
		grown := make([]byte, len(p.buf), min(max(need, 2*cap(p.buf), leastChunk/2), s.chunk))
		copy(grown, p.buf)
		p.buf = grown
	}
	p.buf = append(p.buf, s.row...)
	return nil
}

// write adds rows of a partition to the file.
func (s *Spill) write(p *spillPart, rows []byte) error {
	if len(rows) == 0 {
		return nil
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "spill-*")
		if err != nil {
			return fmt.Errorf("spill rows: %w", err)
		}
		s.file = f
	}
	if _, err := s.file.WriteAt(rows, s.size); err != nil {
		return fmt.Errorf("spill rows: %w", err)
	}
	p.chunks = append(p.chunks, spillChunk{s.size, int64(len(rows))})
	s.size += int64(len(rows))
	return nil
}

// Finish ends filling. If anything was written, the rest is too and the buffers
// are released.
func (s *Spill) Finish() error {
	if s.err != nil || s.finished {
		return s.err
	}
	s.finished = true
	if s.file == nil {
		return nil
	}
	for i := range s.parts {
		p := &s.parts[i]
		if s.err = s.write(p, p.buf); s.err != nil {
			return s.err
		}
		p.buf = nil
	}
	return nil
}

// Close deletes the rows. Readers must not be used afterwards.
func (s *Spill) Close() error {
	s.parts = nil
	s.err = ErrSpillState
	if s.file == nil {
		return nil
	}
	name := s.file.Name()
	err := errors.Join(s.file.Close(), os.Remove(name))
	s.file = nil
	if err != nil {
		return fmt.Errorf("delete spilled rows: %w", err)
	}
	return nil
}

// appendRow appends a row in the form of the file.
func appendRow(dst []byte, b *Batch, row int) []byte {
	dst = binary.AppendVarint(dst, b.Lines[row])
	nulls := len(dst)
	for range (len(b.Columns) + 7) / 8 {
		dst = append(dst, 0)
	}
	for c := range b.Columns {
		v := &b.Columns[c]
		switch {
		case v.Null(row):
			dst[nulls+c/8] |= 1 << (c % 8)
		case v.Kind.IsText():
			text := v.Text(row)
			dst = binary.AppendUvarint(dst, uint64(len(text)))
			dst = append(dst, text...)
		default:
			dst = binary.AppendVarint(dst, v.Ints[row])
		}
	}
	return dst
}
