package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/file"
)

// The codes of errors, which are part of the interface to users.
const (
	CodeSyntax    = "expr.syntax"    // it cannot be read
	CodeUndefined = "expr.undefined" // a name, step, input or output that is not there
	CodeType      = "expr.type"      // a value of another type is needed
	CodeLimit     = "expr.limit"     // too long, too many steps, or too large a result

	CodeSecretPlace   = "secret.not_allowed" // a secret where what stands is kept and shown
	CodeSecretUnknown = "secret.unknown"     // madeira.yaml does not name it
)

// An Error is one thing that is wrong with an expression, found by a check or
// while evaluating. No error of this package goes away by trying again.
type Error struct {
	Code       string
	Message    string // what is wrong and what to do
	Suggestion string // the name that was probably meant, or ""
	Offset     int    // bytes from the start of the text that was given
	Source     string // the expression, when it is not at hand to the reader
}

// Error returns the message with its code, the suggestion and the expression.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Code, e.Message)
	if e.Suggestion != "" {
		fmt.Fprintf(&b, "; did you mean %s", e.Suggestion)
	}
	if e.Source != "" {
		fmt.Fprintf(&b, " (in %q)", shorten(e.Source))
	}
	return b.String()
}

// shorten keeps a quoted expression to a length that fits a line of a log.
func shorten(s string) string {
	const limit = 120
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// syntaxError translates an error of the parser, whose positions count runes.
func syntaxError(src string, err *file.Error) *Error {
	message := strings.TrimPrefix(err.Message, "compilation failed: ")
	code := CodeSyntax
	if strings.Contains(message, "maximum allowed nodes") {
		code, message = CodeLimit, fmt.Sprintf("the expression has more than %d parts; compute it in a step", maxNodes)
	}
	return &Error{Code: code, Message: plainSyntax(message), Offset: byteOffset(src, err.From)}
}

// plainSyntax replaces the parser's names of tokens by what a user typed.
func plainSyntax(message string) string {
	if token, ok := strings.CutPrefix(message, "unexpected token "); ok {
		kind, text, _ := strings.Cut(token, "(")
		text = strings.TrimSuffix(text, ")")
		if kind == "EOF" {
			return "the expression ends too early"
		}
		return fmt.Sprintf("%s is not expected here", strings.ReplaceAll(text, `\"`, `"`))
	}
	return message
}

// byteOffset turns a position in runes into one in bytes.
func byteOffset(s string, runes int) int {
	for i := range s {
		if runes == 0 {
			return i
		}
		runes--
	}
	return len(s)
}

// nearest returns the candidate closest to name, or "" when none is close: a
// third of the letters wrong, or the name only begun.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, c := range candidates {
		if d := Distance(name, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	for _, c := range candidates {
		if best == "" && len(name) > 2 && strings.HasPrefix(c, name) {
			best = c
		}
	}
	return best
}
