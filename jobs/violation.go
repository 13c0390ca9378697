package jobs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/jobs/expr"
	"madeira/schemas"
)

// validate checks a value, which stands at a pointer, against a schema.
func (d *Document) validate(schema *jsonschema.Schema, v any, pointer string) []Problem {
	if accepts(schema, v) {
		return nil
	}
	return d.translate(schema, v, pointer).problems
}

// translate says what is wrong with a value that a schema does not accept.
func (d *Document) translate(schema *jsonschema.Schema, v any, pointer string) *translator {
	t := &translator{doc: d, at: pointer, schemas: map[string]*jsonschema.Schema{}}
	err := schema.Validate(v)
	var root *jsonschema.ValidationError
	switch {
	case errors.As(err, &root):
		collect(schema, t.schemas)
		t.leaves(root)
	case err != nil:
		t.problems = append(t.problems, d.Problem(pointer, "value.type", "cannot be checked: %v", err))
	}
	return t
}

// collect notes a schema and everything below it by location.
func collect(s *jsonschema.Schema, by map[string]*jsonschema.Schema) {
	if s == nil || by[s.Location] != nil {
		return
	}
	by[s.Location] = s
	for _, sub := range below(s) {
		collect(sub, by)
	}
}

// below returns the schemas that a schema is made of.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems)
	all = append(all, s.Ref, s.If, s.Then, s.Else, s.Not, s.PropertyNames, s.Items2020, s.Contains)
	for _, p := range s.Properties {
		all = append(all, p)
	}
	for _, p := range s.PatternProperties {
		all = append(all, p)
	}
	for _, p := range s.DependentSchemas {
		all = append(all, p)
	}
	if p, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		all = append(all, p)
	}
	return all
}

// A translator turns violations of a schema into problems.
type translator struct {
	doc      *Document
	at       string // pointer of the value that was validated
	schemas  map[string]*jsonschema.Schema
	problems []Problem
	misspelt []misspelling
}

// leaves goes down to the violations that say something. Below a oneOf or anyOf
// are only guesses at what was meant.
func (t *translator) leaves(e *jsonschema.ValidationError) {
	location, keyword := splitKeyword(e)
	if len(e.Causes) > 0 && keyword != "oneOf" && keyword != "anyOf" {
		for _, c := range e.Causes {
			t.leaves(c)
		}
		return
	}
	v := violation{
		translator: t,
		keyword:    keyword,
		message:    e.Message,
		pointer:    t.at + plainPointer(e.InstanceLocation),
		name:       strings.HasSuffix(e.KeywordLocation, "/propertyNames/"+keyword),
	}
	for v.schema == nil && location != "" {
		v.schema = t.schemas[location]
		location = location[:max(strings.LastIndexByte(location, '/'), 0)]
	}
	if v.schema == nil {
		v.schema = &jsonschema.Schema{}
	}
	v.note = schemas.AnnotationOf(v.schema)
	v.value = t.doc.at(v.pointer)
	if !t.doc.vague[v.pointer] && !v.elsewhere() {
		v.translate()
	}
}

// splitKeyword splits a location into that of the schema and the keyword, such as
// "required" or "dependentRequired".
func splitKeyword(e *jsonschema.ValidationError) (location, keyword string) {
	abs := e.AbsoluteKeywordLocation
	i := strings.LastIndexByte(abs, '/')
	if i < 0 {
		return abs, ""
	}
	location, keyword = abs[:i], abs[i+1:]
	if before, _, ok := strings.Cut(abs, "/dependentRequired/"); ok && strings.HasPrefix(e.Message, "property ") {
		return before, "dependentRequired"
	}
	return location, keyword
}

// plainPointer undoes the percent-encoding of each token.
func plainPointer(encoded string) string {
	if plain, err := url.PathUnescape(encoded); err == nil {
		return plain
	}
	return encoded
}

// A violation is one leaf.
type violation struct {
	*translator

	keyword string
	message string
	pointer string // of the value
	name    bool   // it is the name of the value that is wrong
	schema  *jsonschema.Schema
	note    schemas.Annotation
	value   any
}

// elsewhere reports whether the walk over annotated values says it better: a
// duration, or an expression whose value is not known yet.
func (v *violation) elsewhere() bool {
	if v.note.Shortest != "" && (v.keyword == "pattern" || v.keyword == "type") {
		return true
	}
	text, ok := v.value.(string)
	return ok && !v.name && expr.Has(text)
}

func (v *violation) add(p Problem) { v.problems = append(v.problems, p) }

// problem returns a problem with the value, or with its name.
func (v *violation) problem(code, format string, args ...any) Problem {
	if v.name {
		p := v.doc.keyProblem(v.pointer, code, format, args...)
		p.Value = shorten(lastToken(v.pointer))
		return p
	}
	p := v.doc.Problem(v.pointer, code, format, args...)
	if !secretName(lastToken(v.pointer)) && code != codeSecret {
		p.Value = shown(v.value)
	}
	return p
}

// about returns a problem whose message begins with what it is about.
func (v *violation) about(code, format string, args ...any) Problem {
	p := v.problem(code, format, args...)
	switch last := lastToken(v.pointer); {
	case v.pointer == "":
	case v.name:
		p.Message = fmt.Sprintf("the name %q %s", shorten(last), p.Message)
	default:
		p.Message = subject(v.pointer) + " " + p.Message
	}
	return p
}

// subject returns the last key of a pointer with the positions behind it, such
// as needs[2].
func subject(pointer string) string {
	path := pathOf(pointer)
	return path[strings.LastIndexByte(path, '.')+1:]
}

func lastToken(pointer string) string {
	return unescape(pointer[strings.LastIndexByte(pointer, '/')+1:])
}

// shown writes an offending value for people; lists and mappings are not shown.
func shown(v any) string {
	switch v := v.(type) {
	case string:
		return shorten(v)
	case json.Number:
		return shorten(v.String())
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

func (v *violation) translate() {
	switch v.keyword {
	case "additionalProperties", "unevaluatedProperties":
		v.unknown()
	case "required", "dependentRequired":
		v.missing()
	case "oneOf":
		v.alternatives()
	case "type":
		v.wrongType()
	case "enum", "const":
		v.wrongChoice()
	case "pattern", "not", "format":
		v.wrongForm()
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		v.outOfRange()
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		v.wrongSize()
	case "uniqueItems":
		v.twice()
	default:
		v.add(v.about("value.invalid", "%s", v.message))
	}
}

// unknown reports each key that is not known.
func (v *violation) unknown() {
	known := make([]string, 0, len(v.schema.Properties))
	for name := range v.schema.Properties {
		known = append(known, name)
	}
	slices.Sort(known)
	here, _ := v.value.(map[string]any)
	takers := map[string]int{} // how many keys would be renamed to one
	for _, name := range quotedNames(v.message) {
		takers[renamed(name, known)]++
	}
	for _, name := range quotedNames(v.message) {
		v.unknownKey(name, known, func(to string) bool { _, taken := here[to]; return !taken && takers[to] == 1 })
	}
}

// unknownKey reports one key. Free says whether it may get another name.
func (v *violation) unknownKey(name string, known []string, free func(to string) bool) {
	at, clear := child(v.pointer, name), renamed(name, known)
	if secretName(name) && clear == "" {
		v.add(v.doc.keyProblem(at, codeSecret, "%q looks like a secret, and secrets do not belong in this file; name it by reference in a connection of madeira.yaml", shorten(name)))
		return
	}
	p := v.doc.keyProblem(at, "yaml.unknown_field", "unknown key %q", shorten(name))
	p.Suggestion = cmp.Or(clear, meant(name, known))
	switch {
	case p.Suggestion == "":
		p.Message += "; known here: " + listed(known)
	case clear != "" && !free(clear):
		p.Message += fmt.Sprintf("; did you mean %q? That key can be here only once", clear)
	case clear != "":
		p.Rename, p.Value = clear, name
		fallthrough
	default:
		p.Message += fmt.Sprintf("; did you mean %q?", p.Suggestion)
	}
	v.add(p)
	if p.Suggestion != "" && (clear == "" || p.Rename != "") {
		v.misspelt = append(v.misspelt, misspelling{in: v.pointer, key: name, to: p.Suggestion, clear: p.Rename != "", schema: v.schema.Properties[p.Suggestion], problem: p})
	}
}

// quotedNames reads the names back that the validator quoted.
func quotedNames(message string) []string {
	var names []string
	for {
		start := strings.IndexByte(message, '\'')
		if start < 0 {
			return names
		}
		end := start + 1
		for end < len(message) && message[end] != '\'' {
			if message[end] == '\\' {
				end++
			}
			end++
		}
		quoted := message[start+1 : min(end, len(message))]
		quoted = strings.ReplaceAll(strings.ReplaceAll(quoted, `\'`, `'`), `"`, `\"`)
		if name, err := strconv.Unquote(`"` + quoted + `"`); err == nil {
			names = append(names, name)
		}
		message = message[min(end+1, len(message)):]
	}
}

func (v *violation) missing() {
	names := quotedNames(v.message)
	code := "yaml.missing_field"
	if inStep(v.pointer) {
		code = "step.missing"
	}
	if v.keyword == "dependentRequired" && len(names) == 2 {
		p := v.problem(code, "%q is missing; it goes with %q", names[0], names[1])
		key := v.doc.keyProblem(child(v.pointer, names[1]), "", "") // which asks for the other one
		p.Line, p.Column = key.Line, key.Column
		v.add(p)
		return
	}
	for _, name := range names {
		p := v.problem(code, "%q is missing", name)
		if s, ok := v.schema.Properties[name]; ok && s.Description != "" {
			p.Message += ": " + s.Description
		}
		v.add(p)
	}
}

// alternatives reports a oneOf whose branches each require one key.
func (v *violation) alternatives() {
	m, _ := v.value.(map[string]any)
	var all, present []string
	for _, branch := range v.schema.OneOf {
		for _, name := range branch.Required {
			all = append(all, name)
			if _, ok := m[name]; ok {
				present = append(present, name)
			}
		}
	}
	exclusive, missing := "yaml.exclusive", "yaml.missing_field"
	if inStep(v.pointer) {
		exclusive, missing = "step.exclusive", "step.missing"
	}
	switch {
	case len(present) > 1:
		v.add(v.doc.keyProblem(child(v.pointer, present[1]), exclusive, "%s exclude each other; keep one", listedAnd(present)))
	case len(all) > 0:
		v.add(v.problem(missing, "one of %s is needed", listed(all)))
	default:
		v.add(v.about("value.invalid", "fits none of the forms it may have"))
	}
}
