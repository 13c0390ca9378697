package parse

import (
	"bytes"
	"errors"
	"fmt"

	"madeira/jobs/step"
)

// errPlain says that a field only looked as if it were quoted.
var errPlain = errors.New("unquoted field")

// quoted scans the field at p if it is quoted: blanks, a quote, anything with
// doubled or escaped quotes, a quote, blanks. Text behind the closing quote
// spoils the record; it is scanned on as unquoted so that the next one is found.
func (s *scanner) quoted(b *block, p int, rec *record, lines *int64) (int, error) {
	text := b.text
	open := p
	for open < len(text) && (text[open] == ' ' || text[open] == '\t') && text[open] != s.sep {
		open++
	}
	if open == len(text) && !s.eof {
		return 0, errIncomplete
	}
	if open == len(text) || text[open] != s.quote {
		return 0, errPlain
	}
	closing, field, err := s.unquote(b, open+1)
	if err != nil {
		return 0, err
	}
	end := closing + 1
	for end < len(text) && (text[end] == ' ' || text[end] == '\t') && text[end] != s.sep {
		end++
	}
	if !s.whole(text, end) {
		return 0, errIncomplete
	}
	number, breaks := int32(len(b.fields))-rec.first+1, countLines(text[open:closing])
	*lines += breaks
	if breaks > 0 && rec.broken == 0 {
		rec.broken, rec.opens = number, uint32(open)
	}
	if end < len(text) && text[end] != s.sep && text[end] != '\n' && text[end] != '\r' {
		if rec.spoilt == 0 {
			rec.spoilt = number
			if breaks > 0 {
				rec.broken, rec.opens = number, uint32(open)
			}
		}
		if end = s.plain(text, end); !s.whole(text, end) {
			return 0, errIncomplete
		}
	}
	b.fields = append(b.fields, field)
	return end, nil
}

// unquote finds the closing quote of the field whose content begins at p.
func (s *scanner) unquote(b *block, p int) (closing int, field span, err error) {
	text, side := b.text, len(b.side)
	piece := p // what of the content is not in side yet
	for {
		i := s.nextQuote(text, p)
		switch {
		case i < 0, i+1 == len(text) && !s.eof:
			return 0, span{}, errIncomplete
		case text[i] == s.quote && (s.backslash || i+1 == len(text) || text[i+1] != s.quote):
			if len(b.side) == side { // the content is one piece of the text
				return i, span{uint32(piece), uint32(i)}, nil
			}
			b.side = append(b.side, text[piece:i]...)
			return i, span{uint32(side) | inSide, uint32(len(b.side))}, nil
		case i+1 == len(text):
			return 0, span{}, errIncomplete
		case text[i] == s.quote || text[i+1] == s.quote || text[i+1] == '\\':
			// The character behind is meant, and this one only says so.
			b.side = append(b.side, text[piece:i]...)
			piece, p = i+1, i+2
		default:
			p = i + 1
		}
	}
}

func (s *scanner) nextQuote(text []byte, p int) int {
	i := bytes.IndexByte(text[p:], s.quote)
	if s.backslash {
		i = bytes.IndexAny(text[p:], string([]byte{s.quote, '\\'}))
	}
	if i < 0 {
		return -1
	}
	return p + i
}

func countLines(text []byte) int64 {
	n := bytes.Count(text, []byte{'\n'}) + bytes.Count(text, []byte{'\r'}) - bytes.Count(text, []byte("\r\n"))
	return int64(n)
}

// hides refuses a part in which a record of several lines is not whole: a stray
// quote made one record of lines that are rows by themselves.
func (r *record) hides(b *block, why string) error {
	line := r.line + countLines(b.text[r.start:r.opens])
	return step.PermanentCode("parse.quote", fmt.Errorf("%s: line %d, column %d: the quote that opens here makes one record of lines %d to %d, and %s: %s; double the quote if it belongs to the value, or declare quote: none",
		b.head.name, line, r.broken, r.line, r.line+countLines(b.text[r.start:r.end]), why, shorten(b.text[r.opens:r.end], 40)))
}

// giveUp decides what an unfinished record means: wait for more, or refuse the
// file because a quote is never closed or something is too long. From is where
// the unfinished field begins. What the record left in the block is taken back.
func (s *scanner) giveUp(b *block, start, from int, rec record, side int) error {
	number := len(b.fields) - int(rec.first) + 1
	b.fields, b.side = b.fields[:rec.first], b.side[:side]
	length := len(b.text) - from
	isQuoted := from < len(b.text) && s.opens[b.text[from]] && bytes.HasPrefix(bytes.TrimLeft(b.text[from:], " \t"), []byte{s.quote})
	switch {
	case isQuoted && (s.eof || length > s.maxField):
		line := s.line + countLines(b.text[start:from])
		within := "before the file ends"
		if length > s.maxField {
			within = fmt.Sprintf("within %d bytes", s.maxField)
		}
		return step.PermanentCode("parse.quote", fmt.Errorf("%s: line %d, column %d: the quote that opens here is not closed %s: %s; close it, or declare quote: none", s.name, line, number, within, shorten(b.text[from:], 40)))
	case length > s.maxField:
		return s.tooLong(length, fmt.Sprintf("field %d", number))
	case len(b.text)-start > s.maxRecord:
		return s.tooLong(len(b.text)-start, "the record")
	}
	return errIncomplete
}

func (s *scanner) tooLong(length int, what string) error {
	return step.PermanentCode("parse.line_too_long", fmt.Errorf("%s: line %d: %s has %d bytes or more, at most %d in a field and %d in a record are read; a separator or a line end may be missing, or raise limits", s.name, s.line, what, length, s.maxField, s.maxRecord))
}
