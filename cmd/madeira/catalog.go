package main

import (
	"io"

	"madeira/jobs"
	"madeira/jobs/expr"
	"madeira/jobs/step"
	"madeira/jobs/step/builtin"
	"madeira/schemas"
)

// A catalog tells job checking about the step types of a registry.
type catalog struct {
	registry *step.Registry
}

func newCatalog() (catalog, error) {
	registry, err := builtin.Registry(io.Discard)
	return catalog{registry}, err
}

// StepType returns the type of that name, with the schema of its settings. Types
// without a schema are not for job files.
func (c catalog) StepType(name string) (jobs.StepType, bool) {
	typ, ok := c.registry.Lookup(name)
	schema, known := schemas.Step(name)
	if !ok || !known {
		return jobs.StepType{}, false
	}
	outputs := map[string]expr.Type{"report": expr.TypeText}
	for _, f := range typ.Outputs {
		outputs[f.Name] = expr.Type(f.Type)
	}
	return jobs.StepType{Name: name, Source: typ.Source, Outputs: outputs, Schema: schema}, true
}

// Names returns the types that job files can name.
func (c catalog) Names() []string {
	var names []string
	for _, name := range c.registry.Names() {
		if _, ok := schemas.Step(name); ok {
			names = append(names, name)
		}
	}
	return names
}
