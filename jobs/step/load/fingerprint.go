package load

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// A fingerprint stands for a key: half of its SHA-256, in which no two keys that
// differ will ever meet.
type fingerprint [16]byte

func fingerprintOf(key []byte) fingerprint {
	sum := sha256.Sum256(key)
	return fingerprint(sum[:16])
}

const (
	entryBytes  = 24       // a fingerprint and a row number
	partTarget  = 8 << 20  // bytes of a partition that is sorted in memory
	mostParts   = 256      // open files
	smallBuffer = 16 << 10 // of a partition when there are several
)

// partitions returns how many parts so many keys are spread over.
func partitions(rows int64) int {
	return int(min(max(rows*entryBytes/partTarget+1, 1), mostParts))
}

// A keySet holds the fingerprints of many keys with their row numbers, in files
// by fingerprint, so that keys that are equal meet in one part.
type keySet struct {
	parts []part
}

type part struct {
	buffer []byte
	limit  int
	path   string
	file   *os.File // nil until the buffer has overflowed
}

func newKeySet(dir, name string, parts int) *keySet {
	s := &keySet{parts: make([]part, parts)}
	for i := range s.parts {
		s.parts[i].path = filepath.Join(dir, fmt.Sprintf("%s-%d", name, i))
		s.parts[i].limit = smallBuffer
		if parts == 1 {
			s.parts[i].limit = partTarget
		}
	}
	return s
}

func (s *keySet) add(f fingerprint, row int64) error {
	p := &s.parts[int(binary.BigEndian.Uint32(f[:4]))%len(s.parts)]
	p.buffer = append(p.buffer, f[:]...)
	p.buffer = binary.BigEndian.AppendUint64(p.buffer, uint64(row))
	if len(p.buffer) < p.limit {
		return nil
	}
	return p.flush()
}

func (p *part) flush() error {
	if p.file == nil {
		f, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("sort the keys: %w", err)
		}
		p.file = f
	}
	if _, err := p.file.Write(p.buffer); err != nil {
		return fmt.Errorf("sort the keys: %w", err)
	}
	p.buffer = p.buffer[:0]
	return nil
}

// An entry is a fingerprint and its row number.
type entry struct {
	high, low uint64
	row       int64
}

// readEntry reads what add wrote.
func readEntry(b []byte) entry {
	return entry{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), int64(binary.BigEndian.Uint64(b[16:]))}
}

// compareKey orders entries by fingerprint.
func (e entry) compareKey(f entry) int {
	if e.high != f.high {
		return cmp.Compare(e.high, f.high)
	}
	return cmp.Compare(e.low, f.low)
}

// compare orders entries by fingerprint and row.
func (e entry) compare(f entry) int {
	if c := e.compareKey(f); c != 0 {
		return c
	}
	return cmp.Compare(e.row, f.row)
}

// sorted returns the entries of one part. They are valid until the next call
// with the same buffer.
func (s *keySet) sorted(i int, buffer []entry) ([]entry, error) {
	p := &s.parts[i]
	entries := buffer[:0]
	if p.file != nil {
		if err := p.flush(); err != nil {
			return nil, err
		}
		if _, err := p.file.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("sort the keys: %w", err)
		}
		var err error
		if entries, err = readEntries(p.file, entries); err != nil {
			return nil, fmt.Errorf("sort the keys: %w", err)
		}
	}
	for rest := p.buffer; len(rest) > 0; rest = rest[entryBytes:] {
		entries = append(entries, readEntry(rest))
	}
	slices.SortFunc(entries, entry.compare)
	return entries, nil
}

func readEntries(r io.Reader, entries []entry) ([]entry, error) {
	block := make([]byte, entryBytes<<10)
	for {
		n, err := io.ReadFull(r, block)
		for rest := block[:n]; len(rest) >= entryBytes; rest = rest[entryBytes:] {
			entries = append(entries, readEntry(rest))
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// close removes the files.
func (s *keySet) close() {
	for i := range s.parts {
		if f := s.parts[i].file; f != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}
}

// A bitmap marks row numbers.
type bitmap []uint64

func (m *bitmap) set(row int64) {
	for int64(len(*m)) <= row>>6 {
		*m = append(*m, 0)
	}
	(*m)[row>>6] |= 1 << (row & 63)
}

func (m bitmap) has(row int64) bool {
	return row>>6 < int64(len(m)) && m[row>>6]&(1<<(row&63)) != 0
}
