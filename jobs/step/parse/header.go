package parse

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"madeira/jobs/step"
)

// A header says what the fields of a part are called.
type header struct {
	name  string   // of the part
	names []string // as the file writes them, blanks taken off; nil: the file names none
	line  int64    // where they stand

	places []place // of the columns of the plan
	width  int     // fields of every row; 0: as many as the first one has
	ruler  *ruler  // of whoever reads the rows
}

// header finds the line with the names and leaves the scanner behind it. Lines
// before it are the banner. Without names to look for it is the first line that
// is not skipped; errNoHeader says that there is none.
func (s *scanner) header(find []string, within int) (*header, error) {
	b := &block{text: s.rest}
	search := search{find: find, first: s.line}
	for p := 0; ; {
		end := p + lineEnd(b.text[p:])
		next := s.behind(b.text, end)
		if next < 0 {
			if len(b.text)-p > s.maxRecord {
				return nil, s.tooLong(len(b.text)-p, "a line")
			}
			if err := s.fill(b); err != nil {
				return nil, err
			}
			continue
		}
		if p == len(b.text) || find != nil && s.line-search.first >= int64(within) {
			return nil, search.failure(s)
		}
		line := b.text[p:end]
		blank := len(bytes.Trim(line, " \t")) == 0
		if find == nil && (blank || s.skip.match(line)) {
			s.outside(line)
			s.line, p = s.line+1, next
			continue
		}
		names, length := s.names(b.text[p:], end-p, &search)
		if names == nil {
			s.outside(line)
			s.line, p = s.line+1, next
			continue
		}
		h := &header{name: s.name, names: names, line: s.line}
		s.line += countLines(b.text[p : p+length])
		s.rest = bytes.Clone(b.text[p+length:])
		s.at = s.dec.offset - s.ruler.sourceLen(s.rest)
		return h, nil
	}
}

// A search remembers the line that came closest, for the message.
type search struct {
	find  []string
	first int64
	lacks []string // of the closest line; nil: no line has any
	has   []string
	line  int64
	some  bool // a line was seen
}

// names returns the names in the line, or in the record that begins with it when
// a quote stays open at the end of the line, and how long that is; nil when it
// is not the header.
func (s *scanner) names(text []byte, line int, search *search) ([]string, int) {
	one := *s
	one.prefix, one.eof = 0, true
	for _, length := range []int{line, len(text)} {
		b := &block{text: text[:length]}
		next, err := one.record(b, 0)
		if err != nil {
			continue
		}
		if length == line {
			next = max(s.behind(text, line), line)
		}
		names := make([]string, len(b.fields))
		for i := range names {
			names[i] = string(trim(b.field(i)))
		}
		if search.accept(names, s.line) {
			return names, next
		}
		return nil, 0
	}
	return nil, 0
}

func (s *search) accept(names []string, line int64) bool {
	s.some = true
	var lacks []string
	for _, name := range s.find {
		if !slices.Contains(names, name) {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) < len(s.find) && (s.lacks == nil || len(lacks) < len(s.lacks)) {
		s.lacks, s.has, s.line = lacks, names, line
	}
	return len(lacks) == 0
}

// errNoHeader says that a part has no line that could be the header.
var errNoHeader = errors.New("no header")

func (s *search) failure(sc *scanner) error {
	if s.find == nil && !s.some {
		return errNoHeader
	}
	text := fmt.Sprintf("%s: none of lines %d to %d is a header with %s", sc.name, s.first, max(sc.line-1, s.first), quoted(s.find))
	if s.lacks != nil {
		text += fmt.Sprintf("; line %d comes closest, it lacks %s and has %s", s.line, quoted(s.lacks), quoted(s.has))
	}
	if sc.dec.invalid {
		text += "; the file is not UTF-8: declare its encoding, such as gb18030"
	}
	return step.PermanentCode("parse.header", errors.New(text))
}

// quoted lists names in quotes, at most forty of them.
func quoted(names []string) string {
	const most = 40
	list := make([]string, 0, most)
	for _, name := range names[:min(len(names), most)] {
		list = append(list, `"`+shorten([]byte(name), 60)+`"`)
	}
	if len(names) > most {
		list = append(list, fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(list, ", ")
}

// A place says where in the records of one part a column's fields are; -1: none.
type place struct{ from, plus, minus, sign int }

// locate finds every column of the plan in the header, or says all that is wrong.
func (h *header) locate(columns []column) ([]place, error) {
	var missing, twice []string
	find := func(src source, optional bool) int {
		at, n := h.find(src)
		switch {
		case !src.given(), n == 0 && optional:
			return -1
		case n == 0:
			missing = append(missing, src.String())
		case n > 1:
			twice = append(twice, fmt.Sprintf(`%q stands there %d times; say %q or %q, or a position`, src.name, n, src.name+"[1]", src.name+"[2]"))
		}
		return at
	}
	places := make([]place, len(columns))
	for i := range columns {
		c := &columns[i]
		places[i] = place{find(c.set.From, c.optional), find(c.set.Plus, false), find(c.set.Minus, false), -1}
		if c.set.Sign != nil {
			places[i].sign = find(c.set.Sign.From, false)
		}
		if p := places[i]; p.plus >= 0 && p.plus == p.minus {
			return nil, step.PermanentCode("parse.columns", fmt.Errorf("%s: column %s: plus %s and minus %s are the same field of the line; name one for what comes in and another for what goes out", h.name, c.set.Name, c.set.Plus, c.set.Minus))
		}
	}
	switch {
	case len(missing)+len(twice) == 0:
		return places, nil
	case h.names == nil:
		return nil, step.PermanentCode("parse.columns", fmt.Errorf("%s: it has no header, so columns need positions, not names: %s", h.name, strings.Join(missing, ", ")))
	case len(missing) > 0:
		twice = append([]string{fmt.Sprintf("it lacks %s; it has %s", strings.Join(missing, ", "), quoted(h.names))}, twice...)
	}
	return nil, step.PermanentCode("parse.columns", fmt.Errorf("%s: line %d: the header does not fit: %s", h.name, h.line, strings.Join(twice, "; ")))
}

// find returns where a source is, counted from 0, and how many fields could be meant.
func (h *header) find(src source) (at, n int) {
	if src.position > 0 {
		if h.names != nil && src.position > len(h.names) {
			return -1, 0
		}
		return src.position - 1, 1
	}
	at = -1
	for i, name := range h.names {
		if name == src.name {
			if n++; at < 0 {
				at = i
			}
		}
	}
	if base, nth, ok := src.nth(); ok && n == 0 {
		for i, name := range h.names {
			if name != base {
				continue
			}
			if nth--; nth == 0 {
				return i, 1
			}
		}
	}
	return at, n
}

// unused lists the names that no column is read from.
func (h *header) unused(places []place) []string {
	used := map[int]bool{}
	for _, p := range places {
		used[p.from], used[p.plus], used[p.minus], used[p.sign] = true, true, true, true
	}
	var names []string
	for i, name := range h.names {
		if !used[i] && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// A lineMatcher is a regular expression over the text of a line. Most begin with
// "^" and a few letters; first then lets nearly every row pass without running it.
type lineMatcher struct {
	re    *regexp.Regexp
	first *[256]bool // bytes that a match can begin with; nil: any
}

func newLineMatcher(what string, m *matchSetting) (*lineMatcher, error) {
	if m == nil {
		return nil, nil
	}
	re, err := regexp.Compile(m.Match)
	if err != nil {
		return nil, &settingError{[]string{what, "match"}, fmt.Errorf("%s.match: %w", what, err)}
	}
	tree, err := syntax.Parse(m.Match, syntax.Perl)
	if err != nil {
		return nil, &settingError{[]string{what, "match"}, fmt.Errorf("%s.match: %w", what, err)}
	}
	first := new([256]bool)
	if tree = tree.Simplify(); !anchored(tree) || !firstBytes(tree, first) {
		first = nil
	}
	return &lineMatcher{re: re, first: first}, nil
}

// may marks the bytes with which a matching line can begin.
func (m *lineMatcher) may(look *[256]bool) {
	if m == nil {
		return
	}
	for b := range look {
		look[b] = look[b] || m.first == nil || m.first[b]
	}
}

func (m *lineMatcher) match(line []byte) bool {
	if m == nil || len(line) > 0 && m.first != nil && !m.first[line[0]] {
		return false
	}
	return m.re.Match(line)
}

// anchored reports whether every match begins at the start of the line.
func anchored(tree *syntax.Regexp) bool {
	switch tree.Op {
	case syntax.OpBeginText:
		return true
	case syntax.OpConcat, syntax.OpCapture:
		return anchored(tree.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range tree.Sub {
			if !anchored(sub) {
				return false
			}
		}
		return true
	}
	return false
}

// firstBytes adds the bytes that a match of the tree can begin with, and reports
// whether they are known and a match has at least one.
func firstBytes(tree *syntax.Regexp, set *[256]bool) bool {
	switch tree.Op {
	case syntax.OpLiteral:
		var first [utf8.UTFMax]byte
		utf8.EncodeRune(first[:], tree.Rune[0])
		set[first[0]] = true
		return tree.Flags&syntax.FoldCase == 0
	case syntax.OpCharClass:
		for i := 0; i < len(tree.Rune); i += 2 {
			for r := tree.Rune[i]; r <= min(tree.Rune[i+1], utf8.RuneSelf); r++ {
				set[r] = true
			}
			for b := utf8.RuneSelf; b < len(set) && tree.Rune[i+1] >= utf8.RuneSelf; b++ {
				set[b] = true
			}
		}
		return true
	case syntax.OpCapture, syntax.OpPlus:
		return firstBytes(tree.Sub[0], set)
	case syntax.OpConcat:
		rest := tree.Sub
		for len(rest) > 1 && rest[0].Op == syntax.OpBeginText {
			rest = rest[1:]
		}
		return firstBytes(rest[0], set)
	case syntax.OpAlternate:
		for _, sub := range tree.Sub {
			if !firstBytes(sub, set) {
				return false
			}
		}
		return true
	}
	return false
}
