package expr

import "strings"

const (
	opening = "${{"
	closing = "}}"
)

// A Span is one expression inside a text.
type Span struct {
	Start int    // byte at which "${{" begins
	End   int    // byte after "}}"
	Src   string // what stands between them, spaces included
	At    int    // byte at which Src begins
}

// Find returns the expressions of a text in order. "$${{" is the text "${{" and
// begins none. The error, an *Error, says where an expression is not closed.
func Find(text string) ([]Span, error) {
	spans, err := find(text)
	if err != nil {
		return spans, err
	}
	return spans, nil
}

func find(text string) ([]Span, *Error) {
	var spans []Span
	for at := 0; ; {
		i := strings.Index(text[at:], opening)
		if i < 0 {
			return spans, nil
		}
		start := at + i
		if start > 0 && text[start-1] == '$' {
			at = start + len(opening)
			continue
		}
		inner := start + len(opening)
		n := closeOf(text[inner:])
		if n < 0 {
			return spans, &Error{Code: CodeSyntax, Offset: start, Message: `"${{" is not closed; add "}}", or write "$${{" for the text itself`}
		}
		spans = append(spans, Span{Start: start, End: inner + n + len(closing), Src: text[inner : inner+n], At: inner})
		at = inner + n + len(closing)
	}
}

// closeOf returns where the "}}" stands that ends an expression, or -1. Quoted
// text and the braces of object literals are passed over.
func closeOf(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"', '\'', '`':
			n := quoted(s[i:])
			if n < 0 {
				return -1
			}
			i += n - 1
		case '{':
			depth++
		case '}':
			if depth > 0 {
				depth--
			} else if strings.HasPrefix(s[i:], closing) {
				return i
			}
		}
	}
	return -1
}

// quoted returns the length of the quoted text that s begins with, or -1. Only a
// backquote knows no escapes.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && s[0] != '`':
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return -1
}

// Has reports whether a text holds an expression, closed or not.
func Has(text string) bool {
	spans, err := Find(text)
	return err != nil || len(spans) > 0
}

// whole reports whether the text is one expression and nothing else, and then
// keeps the type of its value.
func whole(text string, spans []Span) bool {
	return len(spans) == 1 && strings.TrimSpace(text[:spans[0].Start]) == "" && strings.TrimSpace(text[spans[0].End:]) == ""
}

// literal undoes the escape of a text between expressions.
func literal(s string) string {
	return strings.ReplaceAll(s, "$"+opening, opening)
}
