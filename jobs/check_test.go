package jobs_test

import (
	"os"
	"time"

	"madeira/jobs"
	"madeira/jobs/dataset"
	"madeira/jobs/expr"
	"madeira/jobs/step"
	"madeira/jobs/step/load"
	"madeira/jobs/step/parse"
	"madeira/jobs/step/query"
	"madeira/jobs/step/reconcile"
)

// catalog declares the built-in step types as far as checking looks at them.
type catalog map[string]jobs.StepType

func (c catalog) StepType(name string) (jobs.StepType, bool) {
	t, ok := c[name]
	return t, ok
}

func (c catalog) Names() []string {
	return []string{"command", "fetch", "load", "notify", "parse", "query", "reconcile"}
}

func builtin() catalog {
	types := catalog{
		"fetch": {Name: "fetch", Source: true, Outputs: map[string]expr.Type{"file": expr.TypeFile}},
		"parse": {Name: "parse", Outputs: map[string]expr.Type{"rows": expr.TypeDataset, "row_count": expr.TypeInteger}},
		"query": {Name: "query", Source: true, Outputs: map[string]expr.Type{"rows": expr.TypeDataset, "row_count": expr.TypeInteger, "total": expr.TypeMoney}},
		"reconcile": {Name: "reconcile", Outputs: map[string]expr.Type{
			"open_count": expr.TypeInteger, "matched_count": expr.TypeInteger, "breaks": expr.TypeDataset, "matches": expr.TypeDataset, "summary": expr.TypeObject}},
		"load":   {Name: "load", Outputs: map[string]expr.Type{"inserted": expr.TypeInteger, "rows": expr.TypeDataset, "conflicts": expr.TypeDataset}},
		"notify": {Name: "notify", Outputs: map[string]expr.Type{}},
		"command": {Name: "command", Outputs: map[string]expr.Type{
			"exit_code": expr.TypeInteger, "stdout": expr.TypeText, "file": expr.TypeFile}},
	}
	for _, typ := range []step.Type{parse.Type(), query.Type(), reconcile.Type(), load.Type()} {
		t := types[typ.Name]
		t.Columns = columnsOf(typ)
		types[typ.Name] = t
	}
	return types
}

// columnsOf is what a real step type says about columns.
func columnsOf(typ step.Type) func(jobs.Draft) jobs.Columns {
	return func(d jobs.Draft) jobs.Columns {
		rows := func(setting ...string) (columns []step.Column) {
			for _, c := range d.Rows(setting...) {
				columns = append(columns, step.Column{Name: c.Name, Kind: dataset.Kind(c.Kind)})
			}
			return columns
		}
		said := typ.Columns(step.Draft{Settings: d.Settings, Rows: rows})
		out := jobs.Columns{Left: map[string][]jobs.Column{}}
		for _, n := range said.Named {
			name := jobs.ColumnName{Name: n.Name, At: n.At, Key: n.Key, Offset: n.Offset, Of: n.Of, Own: columnsFrom(n.Own)}
			for _, kind := range n.Kinds {
				name.Kinds = append(name.Kinds, string(kind))
			}
			out.Named = append(out.Named, name)
		}
		for _, w := range said.Wrong {
			out.Wrong = append(out.Wrong, jobs.WrongSetting(w))
		}
		for output, columns := range said.Left {
			out.Left[output] = columnsFrom(columns)
		}
		return out
	}
}

func columnsFrom(all []step.Column) (columns []jobs.Column) {
	for _, c := range all {
		columns = append(columns, jobs.Column{Name: c.Name, Kind: string(c.Kind)})
	}
	return columns
}

func env(dir string) jobs.Env {
	return jobs.Env{
		FS:          os.DirFS(dir),
		Today:       time.Date(2026, 11, 5, 0, 0, 0, 0, time.UTC),
		Catalog:     builtin(),
		Connections: map[string]string{"inbox": "folder", "ledger": "postgres"},
		Channels:    map[string]string{"ops": "webhook"},
		Secrets:     []string{"BANK"},
	}
}
