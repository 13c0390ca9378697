package expr

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// Values are what expressions see when they are evaluated. The zero value holds
// nothing and is false for every status.
type Values struct {
	Vars      map[string]any // the contexts by name; see the package comment
	Success   bool           // success(): everything needed ended well
	Failure   bool           // failure(): something needed failed
	Cancelled bool           // cancelled(): the run is being cancelled

	// Unfinished holds the steps that did not end well: an output that one of
	// them did not leave is null. Of any other step it is an error.
	Unfinished map[string]bool
}

// Resolve returns the settings of a step with every expression replaced by its
// value. A text that is one expression becomes a value of its own type; in any
// other text the values are joined in. Keys keep their order. An *Error in the
// chain of the error says which expression failed and why.
func Resolve(settings json.RawMessage, v Values) (json.RawMessage, error) {
	return (&machine{values: v}).resolve(settings)
}

// Elements is Resolve for what a for_each ranges over: its expressions may give
// larger lists, because no step gets all of one.
func Elements(forEach json.RawMessage, v Values) (json.RawMessage, error) {
	return (&machine{values: v, most: maxElements}).resolve(forEach)
}

func (m *machine) resolve(settings json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(settings)) == 0 {
		return nil, nil
	}
	var out bytes.Buffer
	err := rewrite(settings, &out, func(path, text string) error {
		value, err := m.value(text)
		if err == nil {
			err = m.writeResult(&out, value)
		}
		if err != nil {
			return fmt.Errorf("evaluate %s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Text returns a text with the values of its expressions joined in, such as an
// upstream_key. Null, a list or an object there is an error.
func Text(template string, v Values) (string, error) {
	m := &machine{values: v}
	spans, err := Find(template)
	if err != nil {
		return "", err
	}
	return m.joined(template, spans)
}

// Condition reports whether a step runs. An empty condition is success(); one
// that asks neither a status function nor needs.<id>.result is false unless
// success() is true.
func Condition(src string, v Values) (bool, error) {
	if strings.TrimSpace(src) == "" {
		return v.Success, nil
	}
	node, err := parse(src)
	if err != nil {
		err.Source = src
		return false, err
	}
	if !v.Success && !saysWhen(node) {
		return false, nil
	}
	m := &machine{src: src, values: v, status: true}
	value, err := m.result(node)
	if err != nil {
		return false, err
	}
	opened, failed := m.open(value)
	yes, ok := opened.(bool)
	if failed == nil && !ok {
		failed = m.mismatch("a condition is true or false, and this is %s", article(kindOf(opened)))
	}
	if failed != nil {
		return false, m.errorOf(failed)
	}
	return yes, nil
}

// Refs returns the steps whose outputs the settings and the condition refer to,
// sorted, each once.
func Refs(settings json.RawMessage, condition string) ([]string, error) {
	var refs []Ref
	collect := func(src string) error {
		node, err := parse(src)
		if err != nil {
			err.Source = src
			return err
		}
		walk(node, func(n ast.Node) {
			if m, ok := n.(*ast.MemberNode); ok {
				if step, output, ok := stepRef(m); ok {
					refs = append(refs, Ref{Step: step, Output: output})
				}
			}
		})
		return nil
	}
	if strings.TrimSpace(condition) != "" {
		if err := collect(condition); err != nil {
			return nil, fmt.Errorf("read the condition: %w", err)
		}
	}
	if len(bytes.TrimSpace(settings)) > 0 {
		err := rewrite(settings, &bytes.Buffer{}, func(path, text string) error {
			spans, err := Find(text)
			for _, s := range spans {
				err = errors.Join(err, collect(s.Src))
			}
			if err != nil {
				return fmt.Errorf("read %s: %w", path, err)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return stepsOf(refs), nil
}

// Secrets returns the secrets that the settings refer to, sorted, each once. What
// cannot be read refers to none: resolving it says why.
func Secrets(settings json.RawMessage) []string {
	if !bytes.Contains(settings, []byte("secrets")) {
		return nil
	}
	var names []string
	err := rewrite(settings, &bytes.Buffer{}, func(_, text string) error {
		spans, err := Find(text)
		for _, s := range spans {
			node, wrong := parse(s.Src)
			if wrong != nil {
				continue
			}
			walk(node, func(n ast.Node) {
				if m, ok := n.(*ast.MemberNode); ok {
					if root, is := unchain(m.Node).(*ast.IdentifierNode); is && root.Value == "secrets" {
						if name, ok := property(m); ok {
							names = append(names, name)
						}
					}
				}
			})
		}
		return err
	})
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// value evaluates a text that holds an expression.
func (m *machine) value(text string) (any, error) {
	spans, err := Find(text)
	if err != nil {
		return nil, err
	}
	if !whole(text, spans) {
		return m.joined(text, spans)
	}
	v, failed := m.evaluate(spans[0])
	if failed != nil {
		return nil, failed
	}
	return v, nil
}

// evaluate evaluates one expression.
func (m *machine) evaluate(s Span) (any, *Error) {
	m.src = s.Src
	node, err := parse(s.Src)
	if err != nil {
		err.Source = s.Src
		return nil, err
	}
	return m.result(node)
}

func (m *machine) joined(text string, spans []Span) (string, error) {
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(literal(text[at:s.Start]))
		v, err := m.evaluate(s)
		if err != nil {
			return "", err
		}
		part, failed := m.plain(v)
		if failed == nil && b.Len()+len(part) > maxResult {
			failed = m.limit("the text has more than %d bytes", maxResult)
		}
		if failed != nil {
			return "", m.errorOf(failed)
		}
		b.WriteString(part)
		at = s.End
	}
	b.WriteString(literal(text[at:]))
	return b.String(), nil
}

// writeResult writes a value under the limit for one expression.
func (m *machine) writeResult(out *bytes.Buffer, v any) error {
	limit := cmp.Or(m.most, maxResult)
	var b bytes.Buffer
	err := m.write(&b, v)
	if err == nil && b.Len() > limit {
		err = m.limit("the result has %d bytes and the limit is %d; hand large things on as files or datasets", b.Len(), limit)
	}
	if err != nil {
		return m.errorOf(err)
	}
	out.Write(b.Bytes())
	return nil
}
