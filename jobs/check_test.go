package jobs_test

import (
	"os"
	"time"

	"madeira/jobs"
	"madeira/jobs/expr"
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
	return catalog{
		"fetch": {Name: "fetch", Source: true, Outputs: map[string]expr.Type{"file": expr.TypeFile}},
		"parse": {Name: "parse", Outputs: map[string]expr.Type{"rows": expr.TypeDataset, "row_count": expr.TypeInteger}},
		"query": {Name: "query", Source: true, Outputs: map[string]expr.Type{"rows": expr.TypeDataset, "row_count": expr.TypeInteger, "total": expr.TypeMoney}},
		"reconcile": {Name: "reconcile", Outputs: map[string]expr.Type{
			"open_count": expr.TypeInteger, "matched_count": expr.TypeInteger, "breaks": expr.TypeDataset, "matches": expr.TypeDataset, "summary": expr.TypeObject}},
		"load":   {Name: "load", Outputs: map[string]expr.Type{"inserted": expr.TypeInteger}},
		"notify": {Name: "notify", Outputs: map[string]expr.Type{}},
		"command": {Name: "command", Outputs: map[string]expr.Type{
			"exit_code": expr.TypeInteger, "stdout": expr.TypeText, "file": expr.TypeFile}},
	}
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
