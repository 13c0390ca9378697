package engine

import (
	"encoding/json"
	"time"

	"madeira/engine/task"
	"madeira/jobs/expr"
)

// valuesOf gives expressions the contexts of a run. Needs is nil where the
// results of what a step needs are not known.
func valuesOf(run task.Run, steps, needs map[string]task.StepResult) expr.Values {
	vars := map[string]any{
		"run": map[string]any{
			"id": run.ID, "job": run.Job, "upstream_key": run.Key, "version": int64(run.Version),
			"trigger": run.Trigger, "due_at": instant(run.DueAt), "reason": run.Reason,
		},
		"schedule": map[string]any{"due_at": instant(run.DueAt)},
		"inputs":   document(run.Inputs),
		"steps":    outputsByStep(steps),
		"needs":    resultsByStep(steps, needs),
	}
	if len(run.Period) > 0 {
		vars["period"] = run.Period
	}
	return expr.Values{Vars: vars, Unfinished: unfinished(steps)}
}

func unfinished(steps map[string]task.StepResult) map[string]bool {
	ids := map[string]bool{}
	for id, s := range steps {
		ids[id] = s.State != task.Success
	}
	return ids
}

func outputsByStep(steps map[string]task.StepResult) map[string]any {
	outputs := make(map[string]any, len(steps))
	for id, s := range steps {
		outputs[id] = map[string]any{"outputs": nil}
		if len(s.Outputs) > 0 {
			outputs[id] = map[string]any{"outputs": s.Outputs}
		}
	}
	return outputs
}

func resultsByStep(all ...map[string]task.StepResult) map[string]any {
	results := map[string]any{}
	for _, steps := range all {
		for id, s := range steps {
			results[id] = map[string]any{"result": string(s.State)}
		}
	}
	return results
}

func document(raw json.RawMessage) any {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// instant writes an instant as expressions and people read it.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
