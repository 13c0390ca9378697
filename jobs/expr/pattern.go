package expr

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// maxPattern bounds the size of a regular expression with its repetitions
// written out.
const maxPattern = 5000

// readPattern reads a regular expression and returns its size. Matching is
// linear in the text, and the size is the factor.
func readPattern(pattern string) (size int, err *Error) {
	re, bad := syntax.Parse(pattern, syntax.Perl)
	if bad != nil {
		return 0, &Error{Code: CodeSyntax, Message: "the pattern cannot be read: " + strings.TrimPrefix(bad.Error(), "error parsing regexp: ")}
	}
	size = patternSize(re)
	if size > maxPattern {
		return 0, &Error{Code: CodeLimit, Message: fmt.Sprintf("the pattern is larger than %d parts, with its repetitions written out", maxPattern)}
	}
	return size, nil
}

// patternSize counts the parts of a pattern, up to a little more than the limit.
func patternSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, maxPattern+1)
}

// matches charges for each part of the pattern and each byte of the text: ten
// of these take about as long as one step.
func (m *machine) matches(text, pattern string) (any, error) {
	size, bad := readPattern(pattern)
	if bad != nil {
		return nil, bad
	}
	if err := m.spend(size + size*len(text)/10); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, m.mismatch("the pattern cannot be read: %v", err)
	}
	return re.MatchString(text), nil
}
