package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/expr"
)

// A Preview is a run as it would be made, with what can be known before it is.
type Preview struct {
	Run     task.Run // ID, Version and Status are not known
	Late    bool     // inputs come from the steps of the calling run, and so may the key
	Limit   *task.Limit
	Steps   []PreviewStep
	Outputs json.RawMessage // of the job, for whoever calls it; nil: none
}

// A PreviewStep is a step with its settings as far as they are known.
type PreviewStep struct {
	task.NewTask          // Settings and ForEach with known expressions replaced
	Waits        []string // what the rest waits for, such as steps.bill, each.value or secrets.token, sorted
	Call         *Preview // the run that it would start; nil for others
}

// Look shows what Freeze would make of a request, and evaluates all that does not
// wait for a step. Nothing that is secret is read. The error is a *RequestError.
func Look(job *jobs.Job, r Request) (Preview, error) {
	n, err := Freeze(job, r)
	if err != nil {
		return Preview{}, err
	}
	return look(job, n, "", false)
}

func look(job *jobs.Job, n task.NewRun, key string, late bool) (Preview, error) {
	p := Preview{Run: n.Run, Late: late, Limit: n.Concurrency, Outputs: job.Outputs}
	if key != "" {
		p.Run.Key = key
	}
	vars := map[string]any{"schedule": map[string]any{"due_at": n.Run.DueAt}}
	if !late {
		vars["inputs"] = n.Run.Inputs
	}
	if n.Run.Period != nil {
		vars["period"] = n.Run.Period
	}
	known := expr.Values{Vars: vars}
	declared := slices.Concat(job.Steps, job.OnFailure, job.Finally)
	for i, t := range n.Tasks {
		s := PreviewStep{NewTask: t}
		fail := func(err error) (Preview, error) {
			return p, &RequestError{Job: job.Name, Field: "steps", Err: fmt.Errorf("step %s: %w", t.Step, err)}
		}
		if t.Type == task.TypeJob && declared[i].Call != nil {
			var sub task.SubJob
			if err := json.Unmarshal(t.Settings, &sub); err != nil {
				return fail(err)
			}
			call, err := look(declared[i].Call.Job, sub.Run, sub.Key, sub.Late)
			if err != nil {
				return p, err
			}
			s.Call, s.Settings = &call, sub.Inputs
		}
		var err error
		if s.Settings, err = asKnown(s.Settings, known); err != nil {
			return fail(err)
		}
		if s.ForEach, err = asKnown(t.ForEach, known); err != nil {
			return fail(err)
		}
		for _, u := range slices.Concat(expr.Uses(s.Settings), expr.Uses(s.ForEach)) {
			s.Waits = append(s.Waits, u.String())
		}
		slices.Sort(s.Waits)
		s.Waits = slices.Compact(s.Waits)
		p.Steps = append(p.Steps, s)
	}
	return p, nil
}

// asKnown replaces expressions that can be evaluated now, each text by itself, and
// leaves the others as they stand.
func asKnown(raw json.RawMessage, v expr.Values) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	value, err := expr.Resolve(raw, v)
	var bad *expr.Error
	if err == nil || !errors.As(err, &bad) || bad.Code != expr.CodeUndefined {
		return value, err // as a whole it keeps the order of its keys
	}
	var whole any
	var list []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case json.Unmarshal(raw, &object) == nil && object != nil:
		for name, value := range object {
			known, err := asKnown(value, v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			object[name] = known
		}
		whole = object
	case json.Unmarshal(raw, &list) == nil && list != nil:
		for i, value := range list {
			known, err := asKnown(value, v)
			if err != nil {
				return nil, err
			}
			list[i] = known
		}
		whole = list
	default:
		return raw, nil
	}
	return json.Marshal(whole)
}
