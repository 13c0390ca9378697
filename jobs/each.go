package jobs

import (
	"encoding/json"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/jobs/expr"
	"madeira/schemas"
)

// elements finds out what the for_each of a step ranges over.
func (c *checker) elements(s *stepInfo) {
	v, ok := s.values["for_each"]
	if !ok {
		return
	}
	s.each = elementOf(v)
	if s.ID != "" && c.byID[s.ID] == len(c.steps) {
		c.lists[s.ID] = true
	}
}

// elementOf returns what is known of the elements of a list or mapping that is
// written out: their type where they have one, and the names in those that are
// mappings.
func elementOf(v any) *expr.Element {
	var all []any
	switch v := v.(type) {
	case []any:
		all = v
	case map[string]any:
		for _, key := range keys(v) {
			all = append(all, v[key])
		}
	}
	of := &expr.Element{}
	for i, item := range all {
		t := literalType(item)
		if i > 0 && t != of.Value {
			return &expr.Element{}
		}
		of.Value = t
		if m, ok := item.(map[string]any); ok {
			if of.Fields == nil {
				of.Fields = map[string]expr.Type{}
			}
			for name, value := range m {
				if t := literalType(value); of.Fields[name] == "" || of.Fields[name] == t {
					of.Fields[name] = t
				} else {
					of.Fields[name] = expr.TypeAny
				}
			}
		}
	}
	return of
}

// literalType returns the type of a value as it is written in a file.
func literalType(v any) expr.Type {
	switch v := v.(type) {
	case string:
		if expr.Has(v) {
			return expr.TypeAny
		}
		return expr.TypeText
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return expr.TypeNumber
		}
		return expr.TypeInteger
	case bool:
		return expr.TypeBoolean
	case []any:
		return expr.TypeList
	case map[string]any:
		return expr.TypeObject
	}
	return expr.TypeAny
}

// forEach checks what a step ranges over: one expression, or a list or mapping with
// expressions in it.
func (c *checker) forEach(i int, env expr.Env) {
	s := &c.steps[i]
	v, ok := s.values["for_each"]
	if !ok {
		return
	}
	env.Each = nil
	one := annotated{value: v, above: s.pointer, mapping: s.values, key: "for_each"}
	if _, written := v.(string); written {
		one.note = schemas.Annotation{Expression: "list|object"}
		c.value(one, env, i)
		return
	}
	c.free(one, env, i)
}

// free checks the expressions in a value that may hold any of them.
func (c *checker) free(v annotated, env expr.Env, step int) {
	w := walker{free: true, visit: func(v annotated) { c.value(v, env, step) }}
	w.walk([]*jsonschema.Schema(nil), v)
}

// ranges puts what a step ranges over into the job, in the form to freeze.
func (c *checker) ranges(s *stepInfo) {
	if v, ok := s.values["for_each"]; ok {
		s.ForEach = c.doc.ordered(child(s.pointer, "for_each"), v)
	}
	if n, ok := s.values["max_parallel"].(json.Number); ok {
		s.MaxParallel = int(integerOf(n))
	}
}
