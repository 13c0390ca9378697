package jobs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

const codeSecret = "secret.inline"

func (v *violation) wrongType() {
	number, isNumber := v.value.(json.Number)
	switch {
	case v.note.Code != "":
		v.add(v.about(v.note.Code, "must be %s", v.note.Hint))
	case v.value == nil:
		v.add(v.about("value.type", "has no value; give %s, or leave the key out", typesOf(v.schema.Types)))
	case isNumber && slices.Contains(v.schema.Types, "string") && strings.ContainsAny(number.String(), ".eE"):
		v.add(v.about("value.type", "a number with a point is not exact; put it in quotes: %q", number.String()))
	case isNumber && slices.Contains(v.schema.Types, "string"):
		v.add(v.about("value.type", "must be text; put it in quotes: %q", number.String()))
	default:
		v.add(v.about("value.type", "must be %s, not %s", typesOf(v.schema.Types), typeOf(v.value)))
	}
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "empty"
	case bool:
		return "true or false"
	case string:
		return "text"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "a number with a point"
		}
		return "a number"
	case []any:
		return "a list"
	}
	return "a mapping"
}

func typesOf(types []string) string {
	words := map[string]string{
		"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
		"array": "a list", "object": "a mapping", "null": "nothing",
	}
	out := make([]string, len(types))
	for i, t := range types {
		out[i] = words[t]
	}
	return listedOr(out)
}

func (v *violation) wrongChoice() {
	choices := v.schema.Enum
	if len(choices) == 0 {
		choices = v.schema.Constant
	}
	words := make([]string, len(choices))
	for i, c := range choices {
		words[i] = fmt.Sprint(c)
	}
	p := v.about("value.enum", "must be %s", listedOr(words))
	if text, ok := v.value.(string); ok {
		if s := nearest(text, words); s != "" {
			p.Suggestion = s
			p.Message += fmt.Sprintf("; did you mean %q?", s)
		}
	} else if v.value == nil {
		p.Message += ", and has no value"
	}
	v.add(p)
}

func (v *violation) wrongForm() {
	code := "value.form"
	if v.note.Code != "" {
		code = v.note.Code
	}
	text, _ := v.value.(string)
	switch {
	case v.keyword == "format" && v.schema.Format == "regex":
		_, err := regexp.Compile(text)
		reason := strings.TrimPrefix(fmt.Sprint(err), "error parsing regexp: ")
		v.add(v.about("value.regexp", "is not a regular expression (RE2): %s", reason))
	case v.note.Hint != "":
		p := v.about(code, "must be %s", v.note.Hint)
		if upper := strings.ToUpper(text); v.keyword == "pattern" && !v.name && v.schema.Pattern != nil && v.schema.Pattern.MatchString(upper) {
			p = suggest(p, upper)
		}
		v.add(p)
	case v.keyword == "format":
		v.add(v.about(code, "must be a %s", v.schema.Format))
	case v.keyword == "not" && v.schema.Not != nil && len(v.schema.Not.Constant) > 0:
		v.add(v.about(code, "must not be %v", v.schema.Not.Constant[0]))
	case v.keyword == "pattern" && v.schema.Pattern != nil:
		v.add(v.about(code, "must match %s", v.schema.Pattern))
	default:
		v.add(v.about(code, "%s", v.message))
	}
}

func (v *violation) outOfRange() {
	s := v.schema
	switch {
	case v.note.Hint != "":
		v.add(v.about(cmp.Or(v.note.Code, "value.range"), "must be %s", v.note.Hint))
	case s.Minimum != nil && s.Maximum != nil:
		v.add(v.about("value.range", "must be from %s to %s", number(s.Minimum), number(s.Maximum)))
	case v.keyword == "minimum":
		v.add(v.about("value.range", "must be %s or more", number(s.Minimum)))
	case v.keyword == "maximum":
		v.add(v.about("value.range", "must be %s or less", number(s.Maximum)))
	case v.keyword == "exclusiveMinimum":
		v.add(v.about("value.range", "must be more than %s", number(s.ExclusiveMinimum)))
	case v.keyword == "exclusiveMaximum":
		v.add(v.about("value.range", "must be less than %s", number(s.ExclusiveMaximum)))
	default:
		v.add(v.about("value.range", "must be a multiple of %s", number(s.MultipleOf)))
	}
}

// number writes a limit of a schema the way it was written there.
func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	return strings.TrimRight(r.FloatString(12), "0")
}

func (v *violation) wrongSize() {
	s, what := v.schema, "entries"
	low, high := max(s.MinItems, s.MinProperties, s.MinLength), max(s.MaxItems, s.MaxProperties, s.MaxLength)
	if strings.HasSuffix(v.keyword, "Length") {
		what = "characters"
	}
	switch {
	case v.keyword == "maxLength" && high == 1:
		v.add(v.about("value.size", "must be a single character"))
	case strings.HasPrefix(v.keyword, "max") && high == 1:
		v.add(v.about("value.size", "must not have more than one entry"))
	case strings.HasPrefix(v.keyword, "max"):
		v.add(v.about("value.size", "must not have more than %d %s", high, what))
	case low == 1:
		v.add(v.about("value.size", "must not be empty"))
	default:
		v.add(v.about("value.size", "must have at least %d %s", low, what))
	}
}

// twice reports each entry of a list that stands in it before, up to maxListed.
func (v *violation) twice() {
	entries, _ := v.value.([]any)
	texts := make(map[string]int, len(entries)) // by text where they stand: a list may be long
	found := 0
	for i, entry := range entries {
		if found == maxListed {
			return
		}
		text, isText := entry.(string)
		first, known := texts[text]
		if !isText {
			first = slices.IndexFunc(entries[:min(i, maxListed)], func(other any) bool { return same(entry, other) })
			known = first >= 0
		} else if !known {
			texts[text] = i
		}
		if known {
			found++
			at := element(v.pointer, i)
			p := v.doc.Problem(at, "value.duplicate", "%s is the same as %s; remove one", subject(at), subject(element(v.pointer, first)))
			p.Value = shown(entry)
			v.add(p)
		}
	}
	if found == 0 {
		v.add(v.about("value.duplicate", "holds a value twice: %s", v.message))
	}
}
