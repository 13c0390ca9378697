package scheduler

import (
	"fmt"
	"slices"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/expr"
)

// steps turns the steps of all phases into tasks, in the order of the file.
func (f *freezing) steps() ([]task.NewTask, error) {
	tasks := make([]task.NewTask, 0, len(f.job.Steps)+len(f.job.OnFailure)+len(f.job.Finally))
	for _, part := range []struct {
		phase task.Phase
		steps []jobs.Step
	}{{"", f.job.Steps}, {task.PhaseOnFailure, f.job.OnFailure}, {task.PhaseFinally, f.job.Finally}} {
		for _, s := range part.steps {
			t, err := f.step(s)
			if err != nil {
				return nil, fmt.Errorf("step %s: %w", s.ID, err)
			}
			t.Phase = part.phase
			tasks = append(tasks, t)
		}
	}
	return tasks, nil
}

func (f *freezing) step(s jobs.Step) (task.NewTask, error) {
	t := task.NewTask{
		Step: s.ID, Type: s.Uses, Source: s.Source,
		Settings: s.With, Refs: s.Refs, Condition: s.If, Needs: s.Needs,
		Retry: task.Retry{
			MaxAttempts: s.Retry.MaxAttempts, Delay: s.Retry.Delay, Factor: s.Retry.Factor, MaxDelay: s.Retry.MaxDelay,
			RetryOn: s.Retry.RetryOn, NoRetryOn: s.Retry.NoRetryOn,
		},
		Timeout: s.Timeout, Priority: f.job.Priority, ContinueOnError: s.ContinueOnError,
		ForEach: s.ForEach, EachCondition: s.EachIf, MaxParallel: s.MaxParallel,
	}
	if s.Priority != nil {
		t.Priority = *s.Priority
	}
	if s.Connection != "" {
		t.Circuit = s.Uses + "/" + s.Connection
	}
	var err error
	if t.Limits, err = f.limits(s); err != nil {
		return t, err
	}
	if s.Call != nil {
		t.Type, t.Source = task.TypeJob, true // whether its run is another one says whether anything has changed
		if t.Settings, err = f.call(*s.Call); err != nil {
			return t, err
		}
	}
	if s.Call != nil || s.ForEach != nil {
		t.Refs, err = allRefs(s)
	}
	return t, err
}

// allRefs returns the steps whose outputs anything of a step refers to.
func allRefs(s jobs.Step) ([]string, error) {
	refs := slices.Clone(s.Refs)
	add := func(more []string, err error) error {
		refs = append(refs, more...)
		return err
	}
	err := add(expr.Refs(s.ForEach, s.EachIf))
	if err == nil && s.Call != nil {
		err = add(expr.Refs(s.Call.Inputs, ""))
	}
	if err == nil && s.Call != nil {
		err = add(expr.Refs(quoted(s.Call.Key), ""))
	}
	slices.Sort(refs)
	return slices.Compact(refs), err
}

// limits returns what a step has to pass, slots first: where they are all taken,
// nobody waits for a token.
func (f *freezing) limits(s jobs.Step) ([]task.Limit, error) {
	var limits []task.Limit
	if c := s.Concurrency; c != nil {
		key, err := f.limitKey(c.Key)
		if err != nil {
			return nil, fmt.Errorf("concurrency: %w", err)
		}
		limits = append(limits, task.Limit{Key: key, Slots: c.Limit})
	}
	if r := s.RateLimit; r != nil {
		key, err := f.limitKey(r.Key)
		if err != nil {
			return nil, fmt.Errorf("rate_limit: %w", err)
		}
		limits = append(limits, task.Limit{Key: key, Rate: r.PerSecond, Burst: r.Burst})
	}
	return limits, nil
}

// limitKey returns the key of a limit, as it stands where inputs come late.
func (f *freezing) limitKey(template string) (string, error) {
	if f.late != nil {
		return template, nil
	}
	key, err := expr.Text(template, f.values())
	if err != nil {
		return "", err
	}
	return key, task.CheckKey(key)
}
