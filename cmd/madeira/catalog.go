package main

import (
	"io"

	"madeira/jobs"
	"madeira/jobs/dataset"
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
	return jobs.StepType{Name: name, Source: typ.Source, Outputs: outputs, Schema: schema, Columns: columnsOf(typ)}, true
}

// columnsOf tells job checking what a step type says about columns.
func columnsOf(typ step.Type) func(jobs.Draft) jobs.Columns {
	if typ.Columns == nil {
		return nil
	}
	return func(d jobs.Draft) jobs.Columns {
		said := typ.Columns(step.Draft{Settings: d.Settings, Rows: func(setting ...string) []step.Column {
			return stepColumns(d.Rows(setting...))
		}})
		out := jobs.Columns{Left: map[string][]jobs.Column{}}
		for _, n := range said.Named {
			name := jobs.ColumnName{Name: n.Name, At: n.At, Key: n.Key, Offset: n.Offset, Of: n.Of, Own: jobColumns(n.Own), Text: n.Text}
			for _, kind := range n.Kinds {
				name.Kinds = append(name.Kinds, string(kind))
			}
			out.Named = append(out.Named, name)
		}
		for _, w := range said.Wrong {
			out.Wrong = append(out.Wrong, jobs.WrongSetting(w))
		}
		for output, columns := range said.Left {
			out.Left[output] = jobColumns(columns)
		}
		return out
	}
}

// jobColumns returns columns in the words of job checking; nil stays nil.
func jobColumns(columns []step.Column) []jobs.Column {
	var out []jobs.Column
	for _, c := range columns {
		out = append(out, jobs.Column{Name: c.Name, Kind: string(c.Kind)})
	}
	return out
}

// stepColumns returns columns in the words of step types; nil stays nil.
func stepColumns(columns []jobs.Column) []step.Column {
	var out []step.Column
	for _, c := range columns {
		out = append(out, step.Column{Name: c.Name, Kind: dataset.Kind(c.Kind)})
	}
	return out
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
