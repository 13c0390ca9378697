package engine

import (
	"encoding/json"
	"time"

	"madeira/engine/task"
	"madeira/jobs/expr"
)

// valuesOf gives expressions the contexts of a run. Needs is nil where the
// results of what a step needs are not known, each where the task is no element.
func valuesOf(scope task.Scope, needs map[string]task.StepResult, each json.RawMessage) expr.Values {
	run := scope.Run
	var previous any
	if len(run.PreviousPeriod) > 0 {
		previous = run.PreviousPeriod
	}
	vars := map[string]any{
		"run": map[string]any{
			"id": run.ID, "job": run.Job, "upstream_key": run.Key, "version": int64(run.Version),
			"trigger": run.Trigger, "due_at": instant(run.DueAt), "reason": run.Reason,
			"previous_success": map[string]any{"period": previous},
		},
		"schedule": map[string]any{"due_at": instant(run.DueAt)},
		"inputs":   document(run.Inputs),
		"steps":    outputsByStep(scope.Steps),
		"needs":    resultsByStep(scope.Steps, needs),
	}
	if len(run.Period) > 0 {
		vars["period"] = run.Period
	}
	if len(each) > 0 {
		vars["each"] = each
	}
	switch f := scope.Failure; {
	case f != nil:
		vars["failure"] = map[string]any{"step": f.Step, "error": f.Error, "attempts": int64(f.Attempts)}
	case later(scope.Phase):
		vars["failure"] = nil
	}
	return expr.Values{Vars: vars, Unfinished: unfinished(scope.Steps)}
}

// later reports whether a phase comes after main.
func later(p task.Phase) bool { return p == task.PhaseOnFailure || p == task.PhaseFinally }

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
			result := string(s.State)
			if s.Excused {
				result = string(task.Success)
			}
			results[id] = map[string]any{"result": result}
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
