package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"madeira/jobs/expr"
	"madeira/schemas"
)

// declareInputs reads the inputs of the job in the order of the file.
func (c *checker) declareInputs() {
	decls, _ := c.root["inputs"].(map[string]any)
	c.inputs = make(map[string]expr.Type, len(decls))
	for _, name := range c.doc.inOrder("/inputs", decls) {
		m, _ := decls[name].(map[string]any)
		d := InputDecl{Name: name, Type: text(m, "type"), Doc: text(m, "description"), Schema: fragment(m)}
		c.inputs[name] = inputType(d.Type, text(m, "format"))
		c.declareFields(name, m)
		if v, ok := m["default"]; ok {
			d.Default = marshal(v)
			c.checkDefault(d, v, child(child("/inputs", name), "default"))
		}
		c.job.Inputs = append(c.job.Inputs, d)
	}
}

// declareFields notes what an input holds that is an object of which all is known.
func (c *checker) declareFields(name string, m map[string]any) {
	properties, ok := m["properties"].(map[string]any)
	open, said := m["additionalProperties"].(bool)
	if !ok || open || !said {
		return
	}
	fields := make(map[string]expr.Type, len(properties))
	for field, v := range properties {
		p, _ := v.(map[string]any)
		fields[field] = inputType(text(p, "type"), text(p, "format"))
	}
	if c.fields == nil {
		c.fields = map[string]map[string]expr.Type{}
	}
	c.fields[name] = fields
}

// checkDefault checks a default against the input's own rules.
func (c *checker) checkDefault(d InputDecl, v any, pointer string) {
	if d.Type == fileInput {
		c.add(c.doc.keyProblem(pointer, "input.default", "a file has no default; it is handed over with each run"))
		return
	}
	schema, err := c.lib.inputSchema(d)
	if err != nil {
		return // the schema of job files has said so
	}
	c.problems = append(c.problems, c.doc.validate(schema, v, pointer)...)
}

// fileInput is the type of inputs that are files.
const fileInput = "file"

// fragment returns the JSON Schema that values of an input have to meet.
func fragment(m map[string]any) json.RawMessage {
	f := maps.Clone(m)
	delete(f, "default")
	delete(f, "description")
	if f["type"] == fileInput {
		return json.RawMessage(fileSchema)
	}
	return marshal(f)
}

// fileSchema describes a file that was handed over: the JSON of step.File.
const fileSchema = `{"type": "object", "required": ["file"], "additionalProperties": false, "properties": {
	"file": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$", "x-hint": "sha256: and 64 hexadecimal digits"},
	"name": {"type": "string"}, "size_bytes": {"type": "integer", "minimum": 0}, "origin": {"type": "string"}}}`

// inputType returns the type that expressions see.
func inputType(name, format string) expr.Type {
	switch name {
	case "string":
		switch format {
		case "date":
			return expr.TypeDate
		case "date-time":
			return expr.TypeTimestamp
		}
		return expr.TypeText
	case "integer":
		return expr.TypeInteger
	case "number":
		return expr.TypeNumber
	case "boolean":
		return expr.TypeBoolean
	case fileInput:
		return expr.TypeFile
	case "array":
		return expr.TypeList
	case "object":
		return expr.TypeObject
	}
	return expr.TypeAny
}

// An InputError says what is wrong with one input of a run.
type InputError struct {
	Input   string
	Code    string // "input.unknown", "input.missing", or a code of a Problem
	Message string // completes the sentence that begins with the name
}

// Error returns the whole sentence.
func (e *InputError) Error() string { return fmt.Sprintf("input %q %s", e.Input, e.Message) }

// CheckInputs checks the inputs given for a run and fills in defaults. Values are
// JSON; a file is the JSON of step.File. The error joins an *InputError for each
// input that is wrong, in the order of the job file, unknown ones last.
func (j *Job) CheckInputs(given map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(j.Inputs))
	var errs []error
	names := make([]string, len(j.Inputs))
	for i, d := range j.Inputs {
		names[i] = d.Name
		v, ok := given[d.Name]
		switch {
		case ok:
			errs = append(errs, d.check(v)...)
		case d.Default != nil:
			v = d.Default
		default:
			errs = append(errs, &InputError{d.Name, "input.missing", "is missing; give " + d.form()})
			continue
		}
		out[d.Name] = v
	}
	for _, name := range keys(given) {
		if slices.Contains(names, name) {
			continue
		}
		message := "is not one of job " + j.Name
		if s := nearest(name, names); s != "" {
			message += fmt.Sprintf("; did you mean %q?", s)
		} else if len(names) == 0 {
			message += ", which takes none"
		} else {
			message += "; it takes " + listed(names)
		}
		errs = append(errs, &InputError{shorten(name), "input.unknown", message})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// check returns what is wrong with a value.
func (d InputDecl) check(v json.RawMessage) []error {
	decoder := json.NewDecoder(bytes.NewReader(v))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return []error{&InputError{d.Name, "input.json", fmt.Sprintf("is not JSON: %v; give %s", err, d.form())}}
	}
	schema, err := schemas.Compile("input.json", d.Schema)
	if err != nil {
		return []error{fmt.Errorf("check input %q: %w", d.Name, err)}
	}
	doc := &Document{Value: value}
	var errs []error
	for _, p := range sortProblems(doc.validate(schema, value, "")) {
		message := p.Message + "; give " + d.form()
		if p.Value != "" {
			message = fmt.Sprintf("is %q and %s", p.Value, message)
		}
		errs = append(errs, &InputError{d.Name, p.Code, message})
	}
	return errs
}

// form says what to give for the input.
func (d InputDecl) form() string {
	form := map[string]string{
		"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false", fileInput: "a file",
		"array": "a list", "object": "a mapping",
	}[d.Type]
	if d.Doc != "" {
		form += " (" + strings.TrimSuffix(d.Doc, ".") + ")"
	}
	return form
}

var plainJSONNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// ParseText turns the text that a person typed for the input into JSON of its
// type, without checking it further. A file cannot be typed.
func (d InputDecl) ParseText(text string) (json.RawMessage, error) {
	switch d.Type {
	case "string":
		return marshal(text), nil
	case "integer", "number":
		if plainJSONNumber.MatchString(text) {
			return json.RawMessage(text), nil
		}
	case "boolean":
		if text == "true" || text == "false" {
			return json.RawMessage(text), nil
		}
	case "array", "object":
		if open := map[string]string{"array": "[", "object": "{"}[d.Type]; strings.HasPrefix(strings.TrimSpace(text), open) && json.Valid([]byte(text)) {
			return json.RawMessage(text), nil
		}
		return nil, &InputError{d.Name, "value.type", fmt.Sprintf("is %q; give %s, as JSON", shorten(text), d.form())}
	}
	return nil, &InputError{d.Name, "value.type", fmt.Sprintf("is %q; give %s", shorten(text), d.form())}
}
