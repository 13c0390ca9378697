package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Problem is one thing that is wrong in a file.
type Problem struct {
	File       string   `json:"file"`
	Line       int      `json:"line"`       // counted from 1; 0 when the file could not be read
	Column     int      `json:"column"`     // characters, counted from 1
	Code       string   `json:"code"`       // stable, such as "yaml.unknown_field"
	Message    string   `json:"message"`    // what is wrong and what to do
	Path       string   `json:"path"`       // such as "steps[2].with.url"; "" for the file itself
	Suggestion string   `json:"suggestion"` // what was probably meant, or ""
	Severity   Severity `json:"severity"`   // what it means for the job
	Value      string   `json:"-"`          // what stands there, shortened; "" where it may be secret
	Rename     string   `json:"-"`          // of an unknown key: the known one that it clearly stands for and that is not there yet
}

// A Severity says whether a job with a problem can run.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"   // it cannot
	SeverityWarning Severity = "warning" // it can, and something should be looked at soon
)

// IsError reports whether the job cannot run because of it. A problem that does
// not say is an error.
func (p Problem) IsError() bool { return p.Severity != SeverityWarning }

// String returns the problem as one line: file:line:column code message. That of a
// warning says so before its message.
func (p Problem) String() string {
	warning := ""
	if !p.IsError() {
		warning = "warning: "
	}
	return fmt.Sprintf("%s:%d:%d %s %s%s", p.File, p.Line, p.Column, p.Code, warning, p.Message)
}

// sortProblems puts the problems of one file into the order of the file, and
// drops those that say the same twice. What does not say how severe it is is an
// error from then on.
func sortProblems(ps []Problem) []Problem {
	for i := range ps {
		ps[i].Severity = cmp.Or(ps[i].Severity, SeverityError)
	}
	slices.SortFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Path, b.Path),
		)
	})
	return slices.Compact(ps)
}

// maxValue is how many characters of an offending value are shown.
const maxValue = 60

// shorten makes a text fit into a line of a terminal: one line, no control
// characters, at most maxValue characters.
func shorten(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == maxValue {
			b.WriteRune('…')
			break
		}
		if unicode.IsControl(r) || hidden(r) || r == utf8.RuneError {
			r = '·'
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// hidden reports whether a character changes the order in which others are
// shown, so that a text reads differently from what it is.
func hidden(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}
