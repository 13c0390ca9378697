package jobs

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/schemas"
)

// An annotated value is a value that is no list and no mapping, with what the
// schema says about it.
type annotated struct {
	value any
	note  schemas.Annotation

	// Where it stands: under a key of a mapping or at a place of a list, whose pointer
	// is above; in neither at the top, where above is its own.
	above   string
	mapping map[string]any
	key     string
	list    []any
	at      int
}

// pointer is put together only where it is asked for: few values have anything wrong.
func (v annotated) pointer() string {
	switch {
	case v.mapping != nil:
		return child(v.above, v.key)
	case v.list != nil:
		return element(v.above, v.at)
	}
	return v.above
}

// replace puts another value in its place.
func (v annotated) replace(n any) {
	switch {
	case v.mapping != nil:
		v.mapping[v.key] = n
	case v.list != nil:
		v.list[v.at] = n
	}
}

// walkValues visits every single value at and below a pointer in a fixed order.
// Without a schema every text may hold expressions of any type.
func walkValues(schema *jsonschema.Schema, doc *Document, pointer string, visit func(annotated)) {
	w := walker{visit: visit, free: schema == nil}
	w.from(schema, doc, pointer)
}

// from visits what stands at and below a pointer.
func (w *walker) from(schema *jsonschema.Schema, doc *Document, pointer string) {
	var start []*jsonschema.Schema
	if schema != nil {
		start = append(start, schema)
	}
	w.walk(start, annotated{above: pointer, value: doc.at(pointer)})
}

type walker struct {
	visit func(annotated)
	free  bool
	skip  func(annotated) bool // subtrees to leave out; nil for none
}

func (w *walker) walk(all []*jsonschema.Schema, v annotated) {
	if w.skip != nil && w.skip(v) {
		return
	}
	var few [8]*jsonschema.Schema // more than nearly any value has
	here := few[:0]
	for _, s := range all {
		here = applying(s, v.value, here)
	}
	switch in := v.value.(type) {
	case map[string]any:
		pointer := v.pointer()
		for _, key := range keys(in) {
			if unknownIn(here, key) {
				continue // what stands there is not known either
			}
			w.walk(ofKey(here, key), annotated{value: in[key], above: pointer, mapping: in, key: key})
		}
	case []any:
		pointer := v.pointer()
		for i := range in {
			w.walk(ofItems(here), annotated{value: in[i], above: pointer, list: in, at: i})
		}
	default:
		v.note = merged(here)
		if w.free {
			v.note.Expression = "any"
		}
		w.visit(v)
	}
}

// applying appends a schema and those that describe the same value.
func applying(s *jsonschema.Schema, v any, to []*jsonschema.Schema) []*jsonschema.Schema {
	if s == nil || slices.Contains(to, s) {
		return to
	}
	to = append(to, s)
	to = applying(s.Ref, v, to)
	for _, sub := range s.AllOf {
		to = applying(sub, v, to)
	}
	if s.If != nil {
		branch := s.Else
		if accepts(s.If, v) {
			branch = s.Then
		}
		to = applying(branch, v, to)
	}
	return to
}

func ofKey(all []*jsonschema.Schema, key string) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, s := range all {
		if p, ok := s.Properties[key]; ok {
			out = append(out, p)
		} else if p, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
			out = append(out, p)
		}
	}
	return out
}

// unknownIn reports whether a schema has refused the key of a mapping.
func unknownIn(all []*jsonschema.Schema, key string) bool {
	return slices.ContainsFunc(all, func(s *jsonschema.Schema) bool {
		more, ok := s.AdditionalProperties.(bool)
		return ok && !more && s.Properties[key] == nil
	})
}

func ofItems(all []*jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, s := range all {
		if s.Items2020 != nil {
			out = append(out, s.Items2020)
		}
	}
	return out
}

// merged returns what several schemas say about one value.
func merged(all []*jsonschema.Schema) schemas.Annotation {
	var note schemas.Annotation
	for _, s := range all {
		a := schemas.AnnotationOf(s)
		if a.Expression != "" {
			note.Expression = a.Expression
		}
		if a.Shortest != "" {
			note.Shortest, note.Longest = a.Shortest, a.Longest
		}
		if len(a.Connections) > 0 {
			note.Connections = a.Connections
		}
		note.Timezone = note.Timezone || a.Timezone
		note.Channel = note.Channel || a.Channel
		note.Secret = note.Secret || a.Secret
	}
	return note
}
