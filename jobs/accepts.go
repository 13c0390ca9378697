package jobs

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// accepts reports whether a value meets a schema: the answer of Schema.Validate,
// without its reasons, which cost twenty times as much. Nearly all values of nearly
// all files are right. What the schemas of this program do not use is left to Validate.
func accepts(s *jsonschema.Schema, v any) bool {
	if unusual(s) {
		return s.Validate(v) == nil
	}
	if s.Always != nil {
		return *s.Always
	}
	if len(s.Types) > 0 && !slices.ContainsFunc(s.Types, func(t string) bool { return isOf(t, v) }) {
		return false
	}
	if len(s.Constant) > 0 && !same(v, s.Constant[0]) ||
		len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return same(v, e) }) {
		return false
	}
	if format := jsonschema.Formats[s.Format]; format != nil && !format(v) {
		return false
	}
	var ok bool
	switch v := v.(type) {
	case map[string]any:
		ok = acceptsObject(s, v)
	case []any:
		ok = acceptsList(s, v)
	case string:
		ok = acceptsText(s, v)
	case json.Number:
		ok = acceptsNumber(s, v)
	default:
		ok = true
	}
	return ok && acceptsHere(s, v)
}

// unusual reports whether a schema says something that accepts does not know.
func unusual(s *jsonschema.Schema) bool {
	return s.RecursiveAnchor || s.RecursiveRef != nil || s.DynamicAnchor != "" || s.DynamicRef != nil ||
		s.RegexProperties || len(s.PatternProperties) > 0 || len(s.Dependencies) > 0 || len(s.DependentSchemas) > 0 ||
		s.UnevaluatedProperties != nil || s.Items != nil || s.AdditionalItems != nil || len(s.PrefixItems) > 0 ||
		s.Contains != nil || s.UnevaluatedItems != nil || s.ContentEncoding != "" || s.ContentMediaType != "" || s.ContentSchema != nil
}

// acceptsHere checks what other schemas say about the same value.
func acceptsHere(s *jsonschema.Schema, v any) bool {
	if s.Ref != nil && !accepts(s.Ref, v) || s.Not != nil && accepts(s.Not, v) {
		return false
	}
	for _, sub := range s.AllOf {
		if !accepts(sub, v) {
			return false
		}
	}
	meets := func(sub *jsonschema.Schema) bool { return accepts(sub, v) }
	if len(s.AnyOf) > 0 && !slices.ContainsFunc(s.AnyOf, meets) {
		return false
	}
	if len(s.OneOf) > 0 {
		first := slices.IndexFunc(s.OneOf, meets)
		if first < 0 || slices.ContainsFunc(s.OneOf[first+1:], meets) {
			return false
		}
	}
	if s.If == nil {
		return true
	}
	branch := s.Else
	if accepts(s.If, v) {
		branch = s.Then
	}
	return branch == nil || accepts(branch, v)
}

func acceptsObject(s *jsonschema.Schema, v map[string]any) bool {
	if !within(len(v), s.MinProperties, s.MaxProperties) {
		return false
	}
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return false
		}
	}
	if s.PropertyNames == nil && s.AdditionalProperties == nil && len(s.Properties) < len(v) {
		for name, p := range s.Properties {
			if value, ok := v[name]; ok && !accepts(p, value) {
				return false
			}
		}
		return acceptsTogether(s, v)
	}
	for name, value := range v {
		if s.PropertyNames != nil && !accepts(s.PropertyNames, name) {
			return false
		}
		if p, ok := s.Properties[name]; ok {
			if !accepts(p, value) {
				return false
			}
			continue
		}
		switch more := s.AdditionalProperties.(type) {
		case bool:
			if !more {
				return false
			}
		case *jsonschema.Schema:
			if !accepts(more, value) {
				return false
			}
		}
	}
	return acceptsTogether(s, v)
}

// acceptsTogether checks which keys go together.
func acceptsTogether(s *jsonschema.Schema, v map[string]any) bool {
	for name, with := range s.DependentRequired {
		if _, ok := v[name]; ok && slices.ContainsFunc(with, func(other string) bool { _, ok := v[other]; return !ok }) {
			return false
		}
	}
	return true
}

func acceptsList(s *jsonschema.Schema, v []any) bool {
	if !within(len(v), s.MinItems, s.MaxItems) {
		return false
	}
	if s.Items2020 != nil {
		for _, item := range v {
			if !accepts(s.Items2020, item) {
				return false
			}
		}
	}
	return !s.UniqueItems || unique(v)
}

// unique reports whether no two entries are the same. Long lists are of texts.
func unique(v []any) bool {
	texts := make(map[string]bool, len(v))
	for i, item := range v {
		text, ok := item.(string)
		if ok && texts[text] || !ok && slices.ContainsFunc(v[:i], func(other any) bool { return same(item, other) }) {
			return false
		}
		if ok {
			texts[text] = true
		}
	}
	return true
}

func acceptsText(s *jsonschema.Schema, v string) bool {
	if (s.MinLength >= 0 || s.MaxLength >= 0) && !within(utf8.RuneCountInString(v), s.MinLength, s.MaxLength) {
		return false
	}
	return s.Pattern == nil || s.Pattern.MatchString(v)
}

func acceptsNumber(s *jsonschema.Schema, v json.Number) bool {
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return true
	}
	n, ok := rational(v)
	switch {
	case !ok,
		s.Minimum != nil && n.Cmp(s.Minimum) < 0, s.Maximum != nil && n.Cmp(s.Maximum) > 0,
		s.ExclusiveMinimum != nil && n.Cmp(s.ExclusiveMinimum) <= 0, s.ExclusiveMaximum != nil && n.Cmp(s.ExclusiveMaximum) >= 0:
		return false
	}
	return s.MultipleOf == nil || new(big.Rat).Quo(n, s.MultipleOf).IsInt()
}

func rational(v json.Number) (*big.Rat, bool) {
	if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
		return new(big.Rat).SetInt64(i), true // many times faster
	}
	return new(big.Rat).SetString(v.String())
}

// within reports whether a count lies between two limits, of which -1 is none.
func within(n, least, most int) bool { return n >= least && (most < 0 || n <= most) }

// isOf reports whether a value is of a type of JSON Schema.
func isOf(typ string, v any) bool {
	switch v := v.(type) {
	case nil:
		return typ == "null"
	case bool:
		return typ == "boolean"
	case string:
		return typ == "string"
	case []any:
		return typ == "array"
	case map[string]any:
		return typ == "object"
	case json.Number:
		return typ == "number" || typ == "integer" && whole(v)
	}
	return false
}

// whole reports whether a number has no fraction: 1.0 and 1e3 have none.
func whole(v json.Number) bool {
	if !strings.ContainsAny(v.String(), ".eE") {
		return true
	}
	n, ok := new(big.Rat).SetString(v.String())
	return ok && n.IsInt()
}

// same reports whether two JSON values are equal, numbers by what they are worth.
func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		other, ok := b.(json.Number)
		if !ok || a == other {
			return ok
		}
		x, fine := new(big.Rat).SetString(a.String())
		y, too := new(big.Rat).SetString(other.String())
		return fine && too && x.Cmp(y) == 0
	case []any:
		other, ok := b.([]any)
		return ok && slices.EqualFunc(a, other, same)
	case map[string]any:
		other, ok := b.(map[string]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for key, value := range a {
			if o, there := other[key]; !there || !same(value, o) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}
