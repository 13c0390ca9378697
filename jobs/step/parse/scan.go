package parse

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// blockSize is how much text a block holds, unless one record is longer.
const blockSize = 256 << 10

// A block is a stretch of text and the records in it. It goes from the feeder to
// the rows and back.
type block struct {
	text    []byte   // the records, one after another, as UTF-8
	side    []byte   // fields whose quotes were taken off
	fields  []span   // of all records
	records []record // in order
	offset  int64    // of text in the part
	head    *header  // of the part
	read    int64    // bytes of the file read so far
}

// A span is a field: text[start:end], or side when start has the top bit.
type span struct{ start, end uint32 }

const inSide = 1 << 31

// A record is one row as the file writes it.
type record struct {
	start, end uint32 // in text, without the line end
	first      int32  // its first field; the next record's first is behind its last
	opens      uint32 // in text, where the quotes of the field broken open
	line       int64  // where it begins, counted from 1
	spoilt     int32  // field behind whose closing quote stands text, counted from 1; 0: none
	broken     int32  // field with a line break in it, spoilt if that one has, else the first; 0: none
}

// field returns the bytes of a field, valid as long as the block.
func (b *block) field(i int) []byte {
	s := b.fields[i]
	if s.start&inSide != 0 {
		return b.side[s.start&^inSide : s.end]
	}
	return b.text[s.start:s.end]
}

// fieldsOf returns the range of the fields of record i.
func (b *block) fieldsOf(i int) (first, last int) {
	if i+1 < len(b.records) {
		return int(b.records[i].first), int(b.records[i+1].first)
	}
	return int(b.records[i].first), len(b.fields)
}

// errIncomplete says that a record goes on behind the text at hand.
var errIncomplete = errors.New("incomplete record")

// A scanner cuts decoded text into records and fields.
type scanner struct {
	dec       *decoder
	ruler     *ruler
	name      string // of the part
	sep       byte
	quote     byte // 0: none
	prefix    byte // a separator counts only in front of it; 0: always
	backslash bool
	size      int // of a block, but for longer records
	maxField  int
	maxRecord int
	skip, end *lineMatcher
	outside   func(line []byte) // takes the lines that are no rows
	look      [256]bool         // a line that begins so may be no row
	opens     [256]bool         // a field that begins so may be quoted
	rest      []byte            // decoded and not yet scanned
	at        int64             // of rest in the part
	line      int64             // of the next record
	skipped   int64             // lines that skip has matched
	ended     int64             // line that end has matched: no rows follow; 0: not yet
	beyond    int64             // lines behind it that are not blank
	eof       bool              // rest is all there is
	unended   bool              // the last line has no line end
}

func newScanner(dec *decoder, set *settings, skip, end *lineMatcher, outside func([]byte)) *scanner {
	s := &scanner{
		dec: dec, ruler: newRuler(dec.set), name: dec.name, size: blockSize, sep: set.CSV.Separator[0], backslash: set.CSV.Escape == "backslash",
		maxField: int(set.Limits.Field), maxRecord: int(set.Limits.Record),
		skip: skip, end: end, outside: outside, at: dec.offset, line: 1,
	}
	if set.CSV.Quote != "none" {
		s.quote = set.CSV.Quote[0]
		s.opens[s.quote] = true
	}
	if set.CSV.Prefix != "" {
		s.prefix, s.quote = set.CSV.Prefix[0], 0
	}
	for _, blank := range []byte(" \t") {
		s.opens[blank] = s.quote != 0 && blank != s.sep
		s.look[blank] = blank != s.sep
	}
	s.look['\n'], s.look['\r'] = true, true
	skip.may(&s.look)
	end.may(&s.look)
	return s
}

// next fills the block with records, at least one unless it returns io.EOF.
func (s *scanner) next(b *block) error {
	if cap(b.text) > 4*blockSize {
		b.text = nil
	}
	b.text = append(b.text[:0], s.rest...)
	for {
		b.side, b.fields, b.records = b.side[:0], b.fields[:0], b.records[:0]
		if err := s.fill(b); err != nil {
			return err
		}
		line := s.line
		used, err := s.scan(b)
		if err != nil {
			return err
		}
		if used == 0 && !s.eof { // one record does not fit: more of it
			s.line = line
			continue
		}
		s.rest = append(s.rest[:0], b.text[used:]...)
		b.offset, s.at = s.at, s.dec.offset-s.ruler.sourceLen(s.rest)
		b.text = b.text[:used]
		if s.eof && len(s.rest) == 0 && len(b.records) == 0 {
			return io.EOF
		}
		if len(b.records) > 0 {
			return nil
		}
		b.text = append(b.text[:0], s.rest...)
	}
}

// fill reads on until the block is full, or twice as full as before.
func (s *scanner) fill(b *block) error {
	want := max(s.size, 2*len(b.text))
	for !s.eof && len(b.text) < want {
		if cap(b.text)-len(b.text) < s.size {
			grown := make([]byte, len(b.text), want+s.size)
			copy(grown, b.text)
			b.text = grown
		}
		var err error
		if b.text, err = s.dec.more(b.text); errors.Is(err, io.EOF) {
			s.eof = true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// scan cuts the text of the block and returns how much of it is whole records
// and lines.
func (s *scanner) scan(b *block) (int, error) {
	p := 0
	for p < len(b.text) {
		next, row, err := p, true, error(nil)
		if s.ended > 0 || s.look[b.text[p]] {
			next, row, err = s.aside(b.text, p)
		}
		if row && err == nil {
			next, err = s.record(b, p)
		}
		if errors.Is(err, errIncomplete) {
			break
		}
		if err != nil {
			return 0, err
		}
		p = next
	}
	return p, nil
}

// aside takes the line at p when it is no row: blank, skipped, or behind the end.
func (s *scanner) aside(text []byte, p int) (next int, row bool, err error) {
	end := p + lineEnd(text[p:])
	if next = s.behind(text, end); next < 0 {
		if len(text)-p > s.maxRecord {
			return 0, false, s.tooLong(len(text)-p, "a line")
		}
		return 0, false, errIncomplete
	}
	line := text[p:end]
	blank := len(bytes.Trim(line, " \t")) == 0 && bytes.IndexByte(line, s.sep) < 0
	switch {
	case blank:
	case s.ended > 0:
		s.beyond++
	case s.end.match(line):
		s.ended = s.line
	case s.skip.match(line):
		s.skipped++
	default:
		return 0, true, nil
	}
	if !blank {
		s.outside(line)
	}
	s.line++
	return next, false, nil
}

// lineEnd returns where the line ends, which is len(text) when it has no end. It
// looks at a stretch at a time: a file with one kind of line end only would
// otherwise be searched to its end for the other.
func lineEnd(text []byte) int {
	const stretch = 512
	for at := 0; at < len(text); at += stretch {
		piece := text[at:min(at+stretch, len(text))]
		n := bytes.IndexByte(piece, '\n')
		if n >= 0 {
			piece = piece[:n]
		}
		if r := bytes.IndexByte(piece, '\r'); r >= 0 {
			return at + r
		}
		if n >= 0 {
			return at + n
		}
	}
	return len(text)
}

// behind returns where the line after the line end at p begins, or -1 when that
// cannot be known yet.
func (s *scanner) behind(text []byte, p int) int {
	switch {
	case p == len(text) && !s.eof, p+1 == len(text) && text[p] == '\r' && !s.eof:
		return -1
	case p == len(text):
		s.unended = true
		return p
	case text[p] == '\r' && p+1 < len(text) && text[p+1] == '\n':
		return p + 2
	}
	return p + 1
}

// record scans the record at p and returns where the next one begins.
func (s *scanner) record(b *block, p int) (int, error) {
	text, start := b.text, p
	rec := record{start: uint32(p), first: int32(len(b.fields)), line: s.line}
	side, lines := len(b.side), int64(1)
	for {
		from, end := p, -1
		if p < len(text) && s.opens[text[p]] {
			q, err := s.quoted(b, p, &rec, &lines)
			if err == nil {
				end = q
			}
			if errors.Is(err, errIncomplete) {
				err = s.giveUp(b, start, p, rec, side)
			}
			if err != nil && !errors.Is(err, errPlain) {
				return 0, err
			}
		}
		if end < 0 {
			end = s.plain(text, p)
			if !s.whole(text, end) {
				return 0, s.giveUp(b, start, from, rec, side)
			}
			b.fields = append(b.fields, span{uint32(from), uint32(end)})
		}
		if end-from > s.maxField {
			return 0, s.tooLong(end-from, fmt.Sprintf("field %d", len(b.fields)-int(rec.first)))
		}
		if end < len(text) && text[end] == s.sep {
			p = end + 1
			continue
		}
		rec.end = uint32(end)
		if end-start > s.maxRecord {
			return 0, s.tooLong(end-start, "the record")
		}
		b.records = append(b.records, rec)
		s.line += lines
		return s.behind(text, end), nil
	}
}

// whole reports whether what ends at end is known to end there.
func (s *scanner) whole(text []byte, end int) bool {
	return s.eof || end+1 < len(text) || end < len(text) && text[end] == '\n'
}

// plain returns where the unquoted field at p ends: at a separator, a line end
// or the end of the text. A quote inside it is a character like any other. It
// looks at eight bytes at a time.
func (s *scanner) plain(text []byte, p int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	seps := uint64(s.sep) * ones
	for ; p+8 <= len(text); p += 8 {
		w := binary.LittleEndian.Uint64(text[p:])
		x := w ^ seps
		// The first term has the high bit of each byte that equals the separator,
		// the second of each byte below 0x0E, which line ends are.
		hits := ^((x&^highs + ^uint64(highs)) | x | ^uint64(highs)) | ^(w&^highs+0x72*ones|w)&highs
		for ; hits != 0; hits &= hits - 1 {
			i := p + bits.TrailingZeros64(hits)>>3
			if c := text[i]; c == '\n' || c == '\r' || c == s.sep && s.separates(text, i) {
				return i
			}
		}
	}
	for ; p < len(text); p++ {
		if c := text[p]; c == '\n' || c == '\r' || c == s.sep && s.separates(text, p) {
			return p
		}
	}
	return p
}

func (s *scanner) separates(text []byte, i int) bool {
	return s.prefix == 0 || i+1 < len(text) && text[i+1] == s.prefix || i+1 == len(text) && !s.eof
}
