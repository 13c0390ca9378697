package parse

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

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
		return nil, fmt.Errorf("parse: %s.match: %w", what, err)
	}
	tree, err := syntax.Parse(m.Match, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("parse: %s.match: %w", what, err)
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
