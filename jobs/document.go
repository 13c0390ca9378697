package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A Document is a YAML file that was read into JSON values, and knows where each
// of them stands.
type Document struct {
	File string

	// Value is made of map[string]any, []any, string, json.Number, bool and nil.
	Value any

	lines  []string         // of the file, without line ends
	places map[string]place // by JSON pointer
	vague  map[string]bool  // pointers of values that were refused already

	// orders is the keys of mappings as they were read, in the order of the file, by
	// pointer. Of one that was changed since it may say something else.
	orders map[string][]string
}

// A place is where a value and its key stand in the file.
type place struct {
	line, column       int32
	keyLine, keyColumn int32 // 0 for an element of a list and for the root
	style              yaml.Style
	loan               *loan // nil: it stands in this document, and is no stand-in
}

// A loan is what a place has that comes from another document.
type loan struct {
	from *Document // that it stands in; nil: the document of the place
	base string    // pointer in this document of the root of the other one
	rank int64     // smaller comes first among the keys of a mapping; what stands in this document has 0
}

// lent returns the loan of a place; the zero one where there is none.
func (p place) lent() loan {
	if p.loan == nil {
		return loan{}
	}
	return *p.loan
}

// JSON returns the value as JSON, keys in the order of the file.
func (d *Document) JSON() json.RawMessage { return d.ordered("", d.Value) }

// ordered returns the JSON of a value at a pointer with the keys in the order of
// the file: the columns of a step come out in the order a person wrote them in.
func (d *Document) ordered(pointer string, v any) json.RawMessage {
	w := jsonWriter{doc: d}
	w.Grow(512) // as most settings need
	w.write(pointer, v)
	return bytes.Clone(w.Bytes()) // it is kept
}

// inOrder returns the keys of the mapping at a pointer in the order of the file.
func (d *Document) inOrder(pointer string, m map[string]any) []string {
	if read := d.orders[pointer]; len(read) == len(m) && !slices.ContainsFunc(read, func(name string) bool { _, there := m[name]; return !there }) {
		return read
	}
	type at struct {
		name string
		place
	}
	all := make([]at, 0, len(m))
	for name := range m {
		all = append(all, at{name, d.places[child(pointer, name)]})
	}
	slices.SortFunc(all, func(a, b at) int {
		return cmp.Or(cmp.Compare(a.lent().rank, b.lent().rank), cmp.Compare(a.keyLine, b.keyLine), cmp.Compare(a.keyColumn, b.keyColumn), strings.Compare(a.name, b.name))
	})
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.name
	}
	return names
}

// Position returns where the value at a JSON pointer stands, or the nearest
// value around it that is in the file.
func (d *Document) Position(pointer string) (line, column int) {
	p := d.place(pointer)
	return int(p.line), int(p.column)
}

// Problem returns a problem with the value at a JSON pointer.
func (d *Document) Problem(pointer, code, format string, args ...any) Problem {
	line, column := d.Position(pointer)
	return d.problem(line, column, pointer, code, format, args...)
}

// keyProblem returns a problem with the key of the value at a pointer.
func (d *Document) keyProblem(pointer, code, format string, args ...any) Problem {
	p := d.place(pointer)
	if p.keyLine == 0 {
		p.keyLine, p.keyColumn = p.line, p.column
	}
	return d.problem(int(p.keyLine), int(p.keyColumn), pointer, code, format, args...)
}

func (d *Document) problem(line, column int, pointer, code, format string, args ...any) Problem {
	file := d.File
	if l := d.place(pointer).lent(); l.from != nil {
		file, pointer = l.from.File, strings.TrimPrefix(pointer, l.base)
	}
	return Problem{File: file, Line: line, Column: column, Code: code,
		Message: fmt.Sprintf(format, args...), Path: pathOf(pointer), Severity: SeverityError}
}

func (d *Document) place(pointer string) place {
	for {
		if p, ok := d.places[pointer]; ok {
			return p
		}
		i := strings.LastIndexByte(pointer, '/')
		if i < 0 {
			return place{line: 1, column: 1}
		}
		pointer = pointer[:i]
	}
}

// at returns the value at a JSON pointer, or nil.
func (d *Document) at(pointer string) any {
	v := d.Value
	if pointer == "" {
		return v
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		switch in := v.(type) {
		case map[string]any:
			v = in[unescape(token)]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// inside returns the position of a byte of the text at a pointer. Where the text
// is written with escapes or folded it is that of the whole value.
func (d *Document) inside(pointer, text string, offset int) (line, column int) {
	p := d.place(pointer)
	line, column = int(p.line), int(p.column)
	if l := p.lent(); l.from != nil {
		d = l.from
	}
	before := text[:min(offset, len(text))]
	row := strings.Count(before, "\n")
	last := before[strings.LastIndexByte(before, '\n')+1:]
	switch {
	case p.style&yaml.LiteralStyle != 0:
		rest, _, _ := strings.Cut(text[len(before)-len(last):], "\n")
		if start := strings.Index(d.line(line+1+row), rest); start >= 0 && rest != "" {
			return line + 1 + row, runes(d.line(line + 1 + row)[:start]+last) + 1
		}
	case p.style&yaml.FoldedStyle == 0 && row == 0:
		source := afterColumn(d.line(line), column)
		quote := ""
		if p.style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 && source != "" {
			quote = source[:1]
		}
		if strings.HasPrefix(source, quote+before) {
			return line, column + runes(quote+before)
		}
	}
	return line, column
}

// cutByComment reports whether a text that is written without quotes ends where a
// comment begins.
func (d *Document) cutByComment(pointer, text string) bool {
	p := d.place(pointer)
	if l := p.lent(); l.from != nil {
		d = l.from
	}
	if p.style != 0 {
		return false
	}
	behind, found := strings.CutPrefix(afterColumn(d.line(int(p.line)), int(p.column)), text)
	return found && strings.HasPrefix(strings.TrimLeft(behind, " \t"), "#")
}

func (d *Document) line(n int) string {
	if n < 1 || n > len(d.lines) {
		return ""
	}
	return d.lines[n-1]
}

// afterColumn returns a line from a column on, which counts characters from 1.
func afterColumn(line string, column int) string {
	for i := range line {
		if column--; column == 0 {
			return line[i:]
		}
	}
	return ""
}

func runes(s string) int { return len([]rune(s)) }

// child returns the pointer of a key or element below another.
func child(pointer, key string) string { return pointer + "/" + escape(key) }

func element(pointer string, i int) string { return pointer + "/" + strconv.Itoa(i) }

func escape(token string) string {
	if strings.IndexByte(token, '~') < 0 && strings.IndexByte(token, '/') < 0 {
		return token
	}
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

func unescape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// pathOf writes a JSON pointer the way people do: steps[2].with.url.
func pathOf(pointer string) string {
	if pointer == "" {
		return ""
	}
	var b strings.Builder
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = unescape(token)
		if _, err := strconv.Atoi(token); err == nil {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(shorten(token))
	}
	return b.String()
}
