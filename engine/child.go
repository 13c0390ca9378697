package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"madeira/engine/task"
	"madeira/jobs/expr"
	"madeira/jobs/step"
)

// triggerJob is the trigger of a run that another run started.
const triggerJob = "job"

// A calling starts a run and, woken, ends as that did.
type calling struct {
	flow    Flow
	attempt *attempt
	scope   task.Scope
	check   func(job string, declared, inputs json.RawMessage) error // Config.CheckInputs
	started func(task.Run)                                           // is told of the run
	parting
}

func (c *calling) Run(ctx context.Context, _ step.Input) (step.Output, error) {
	var sub task.SubJob
	if err := json.Unmarshal(c.attempt.Settings, &sub); err != nil {
		return step.Output{}, step.PermanentCode("job.settings", fmt.Errorf("read the run that step %s starts: %w", c.attempt.Step, err))
	}
	if c.attempt.Woken == task.WakeChild {
		out, over, err := c.result(ctx, sub)
		if over || err != nil {
			return out, err
		}
	}
	return step.Output{}, c.spawn(ctx, sub)
}

// spawn starts the run with what the calling run hands it.
func (c *calling) spawn(ctx context.Context, sub task.SubJob) error {
	n, err := c.called(sub)
	if err != nil {
		return err
	}
	made, err := c.flow.Spawn(ctx, c.attempt.Hold, n)
	if err != nil {
		return ofStore(err)
	}
	c.started(made.Run)
	c.waits = true
	return nil
}

// called returns the run to start, with what was not known when it was frozen.
func (c *calling) called(sub task.SubJob) (task.NewRun, error) {
	values := valuesOf(c.scope, nil, c.attempt.Each)
	n := sub.Run
	n.Run.Trigger, n.Redo = triggerJob, sub.Redo
	n.Run.Actor = cmp.Or(n.Run.Actor, c.scope.Run.Actor)
	if n.Run.DueAt.IsZero() {
		n.Run.DueAt = c.scope.Run.DueAt
	}
	if sub.Inputs != nil {
		inputs, err := expr.Resolve(sub.Inputs, values)
		if err != nil {
			return n, wrong("inputs of step "+c.attempt.Step, err)
		}
		if sub.Declared != nil && c.check != nil {
			if err := c.check(n.Run.Job, sub.Declared, inputs); err != nil {
				return n, step.PermanentCode("job.inputs", fmt.Errorf("step %s: %w", c.attempt.Step, err))
			}
		}
		if n.Run.Inputs, err = overlaid(n.Run.Inputs, inputs); err != nil {
			return n, step.PermanentCode("job.settings", fmt.Errorf("inputs of step %s: %w", c.attempt.Step, err))
		}
	}
	if sub.Late {
		if err := resolveKeys(&n); err != nil {
			return n, wrong("keys of the run that step "+c.attempt.Step+" starts", err)
		}
	}
	if sub.Key != "" {
		key, err := keyOf(sub.Key, values)
		if err != nil {
			return n, wrong("upstream_key of step "+c.attempt.Step, err)
		}
		n.Run.Key = key
	}
	return n, nil
}

// resolveKeys replaces the expressions in the keys of a run and of its limits,
// which see its own inputs.
func resolveKeys(n *task.NewRun) error {
	values := valuesOf(task.Scope{Run: n.Run}, nil, nil)
	var err error
	if n.Run.Key != "" {
		if n.Run.Key, err = keyOf(n.Run.Key, values); err != nil {
			return fmt.Errorf("upstream_key of job %s: %w", n.Run.Job, err)
		}
	}
	if n.Concurrency != nil {
		if n.Concurrency.Key, err = keyOf(n.Concurrency.Key, values); err != nil {
			return fmt.Errorf("concurrency of job %s: %w", n.Run.Job, err)
		}
	}
	for _, t := range n.Tasks {
		for i := range t.Limits {
			if t.Limits[i].Key, err = keyOf(t.Limits[i].Key, values); err != nil {
				return fmt.Errorf("limits of step %s of job %s: %w", t.Step, n.Run.Job, err)
			}
		}
	}
	return nil
}

func keyOf(template string, values expr.Values) (string, error) {
	key, err := expr.Text(template, values)
	if err != nil {
		return "", err
	}
	return key, task.CheckKey(key)
}

// overlaid puts the members of one object over those of another.
func overlaid(under, over json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, raw := range []json.RawMessage{under, over} {
		if len(raw) == 0 {
			continue
		}
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}

// result reports false while the run is live.
func (c *calling) result(ctx context.Context, sub task.SubJob) (step.Output, bool, error) {
	refs, err := expr.Refs(sub.Outputs, "")
	if err != nil {
		return step.Output{}, true, wrong("outputs of step "+c.attempt.Step, err)
	}
	child, err := c.flow.Child(ctx, c.attempt.TaskID, refs)
	if err != nil {
		return step.Output{}, true, ofStore(err)
	}
	if child.Run.Status.Live() {
		return step.Output{}, false, nil
	}
	out, err := outputsOfChild(sub, child)
	if err != nil {
		return out, true, wrong("outputs of step "+c.attempt.Step, err)
	}
	return out, true, endOfChild(&out, child)
}

// outputsOfChild returns what the called run names as its outputs. Of one that
// failed, those of unfinished steps are null.
func outputsOfChild(sub task.SubJob, child task.Scope) (step.Output, error) {
	var out step.Output
	if sub.Outputs == nil {
		return out, nil
	}
	raw, err := expr.Resolve(sub.Outputs, valuesOf(child, nil, nil))
	if err != nil {
		return out, err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return out, err
	}
	out.Values = make(map[string]any, len(values))
	for name, value := range values {
		out.Values[name] = value
	}
	return out, nil
}

// endOfChild makes the end of the called run that of the step.
func endOfChild(out *step.Output, child task.Scope) error {
	run := child.Run
	out.Digest = "run:" + cmp.Or(run.RepeatedOf, run.ID) // what it has read is what that run stands for
	text := fmt.Sprintf("run %s of %s ended as %s", run.ID, run.Job, run.Status)
	switch run.Status {
	case task.RunSuccess, task.RunRepeated:
		return nil
	case task.RunWarning:
		out.Warning = text
		return nil
	case task.RunCancelled:
		return step.PermanentCode("job.cancelled", fmt.Errorf("%s", text))
	}
	if f := child.Failure; f != nil {
		text += fmt.Sprintf(": step %s: %s", f.Step, f.Error)
	}
	return step.PermanentCode("job.failed", fmt.Errorf("%s", text))
}
