package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/jobs/calendar"
	"madeira/jobs/expr"
	"madeira/schemas"
)

// CheckSetting checks a value that takes the place of one setting of a step of a
// built-in type, where no expression can stand. Nil means that it can be given, or
// that nothing is known of the setting.
func CheckSetting(uses, name string, value json.RawMessage) error {
	schema, ok := schemas.Step(uses)
	if !ok {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return err
	}
	d := &Document{Value: map[string]any{name: v}}
	var errs []error
	for _, property := range ofKey([]*jsonschema.Schema{schema}, name) {
		wanted := merged(applying(property, v, nil)).Expression
		if left(wanted) {
			errs = append(errs, checkLeft(name, wanted, v))
			continue
		}
		for _, p := range d.validate(property, v, child("", name)) {
			errs = append(errs, errors.New(p.Message))
		}
		w := walker{visit: func(a annotated) {
			for _, p := range d.checkPlain(a, calendar.LoadZone) {
				errs = append(errs, errors.New(p.Message))
			}
		}}
		w.from(property, d, child("", name))
	}
	return errors.Join(errs...)
}

// left reports whether only what a step left can stand there.
func left(wanted string) bool {
	for kind := range strings.SplitSeq(wanted, "|") {
		if kind != string(expr.TypeFile) && kind != string(expr.TypeDataset) {
			return false
		}
	}
	return true
}

// checkLeft checks the JSON of what a step left: a file, or rows.
func checkLeft(name, wanted string, v any) error {
	m, _ := v.(map[string]any)
	for kind := range strings.SplitSeq(wanted, "|") {
		if _, ok := m[kind].(string); ok {
			return nil
		}
	}
	if strings.Contains(wanted, string(expr.TypeFile)) {
		return errors.New(name + " is a file: write @ and its path")
	}
	return errors.New(name + " is rows that a step left, which cannot be given by hand; give the file to the step that reads it")
}
