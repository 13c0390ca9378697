package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/expr"
)

// maxCalls is how many jobs may call each other in a row, as many as runs may wait
// for each other.
const maxCalls = 16

// maxFrozen is how many bytes of JSON the calls of a run may come to.
const maxFrozen = 64 << 20

// A size is what a run with all that it calls has come to so far.
type size struct{ steps, bytes int }

// addSteps adds those of one more job.
func (s *size) addSteps(job *jobs.Job) error {
	if s.steps += len(job.Steps) + len(job.OnFailure) + len(job.Finally); s.steps > jobs.MaxSteps {
		return fmt.Errorf("with those of the jobs that are called there are more than %d steps; call fewer jobs", jobs.MaxSteps)
	}
	return nil
}

// addCall adds the settings of a step that calls a job.
func (s *size) addCall(raw json.RawMessage) error {
	if len(raw) > task.MaxDocument {
		return fmt.Errorf("with all that it calls it comes to %d bytes of JSON where a step may have %d; call fewer jobs", len(raw), task.MaxDocument)
	}
	if s.bytes += len(raw); s.bytes > maxFrozen {
		return fmt.Errorf("the jobs that are called come to more than %d bytes of JSON; call fewer jobs", maxFrozen)
	}
	return nil
}

// call freezes the job that a step calls into the settings of its task: its period
// by its own rule, its inputs as far as they are known. What is known only when
// the step runs stays an expression.
func (f *freezing) call(c jobs.Call) (json.RawMessage, error) {
	child := freezing{job: c.Job, due: f.due, around: f.around, named: f.named, size: f.size, depth: f.depth + 1}
	if f.named {
		year, month, day := f.around.In(f.location()).Date()
		child.around = time.Date(year, month, day, 0, 0, 0, 0, child.location())
	}
	fail := func(field string, err error) (json.RawMessage, error) {
		return nil, &RequestError{Job: c.Job.Name, Field: field, Err: err}
	}
	if child.depth > maxCalls {
		return fail("steps", fmt.Errorf("more than %d jobs call each other: a job calls itself without an end", maxCalls))
	}
	sub := task.SubJob{Key: c.Key, Outputs: c.Job.Outputs}
	late, err := child.take(c.Inputs, f.values())
	if err != nil {
		return fail("inputs", err)
	}
	if err := child.settlePeriod(""); err != nil {
		return fail("period", err)
	}
	if late != nil {
		sub.Late = true
		if sub.Inputs, err = json.Marshal(late); err != nil {
			return fail("inputs", err)
		}
		if sub.Declared, err = json.Marshal(child.declared()); err != nil {
			return fail("inputs", err)
		}
	}
	if sub.Run, err = child.run(); err != nil {
		return nil, err
	}
	switch {
	case c.Key != "":
	case sub.Late:
		sub.Run.Run.Key = c.Job.Key
	default:
		if sub.Run.Run.Key, err = child.key(""); err != nil {
			return fail("upstream_key", err)
		}
	}
	raw, err := json.Marshal(sub)
	if err == nil {
		err = f.size.addCall(raw)
	}
	if err != nil {
		return fail("steps", err)
	}
	return raw, nil
}

// take puts what a caller hands in among the inputs, and returns what is known
// only when the run is started; nil when all is known.
func (f *freezing) take(handed json.RawMessage, caller expr.Values) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if handed != nil {
		if err := json.Unmarshal(handed, &all); err != nil {
			return nil, fmt.Errorf("read what it is handed: %w", err)
		}
	}
	known := map[string]json.RawMessage{}
	var late map[string]json.RawMessage
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value, err := expr.Resolve(all[name], caller)
		var bad *expr.Error
		switch {
		case err == nil:
			known[name] = value
		case errors.As(err, &bad) && bad.Code == expr.CodeUndefined:
			if late == nil {
				late, f.late = map[string]json.RawMessage{}, map[string]bool{}
			}
			late[name], f.late[name] = all[name], true
		default:
			return nil, fmt.Errorf("input %q: %w", name, err)
		}
	}
	var err error
	f.inputs, err = f.early().CheckInputs(known)
	for name := range late {
		if !slices.ContainsFunc(f.job.Inputs, func(d jobs.InputDecl) bool { return d.Name == name }) {
			err = errors.Join(err, fmt.Errorf("input %q is not one of job %s", name, f.job.Name))
		}
	}
	return late, err
}

// early returns the job as if it had only the inputs that are known.
func (f *freezing) early() *jobs.Job {
	job := jobs.Job{Name: f.job.Name}
	for _, d := range f.job.Inputs {
		if !f.late[d.Name] {
			job.Inputs = append(job.Inputs, d)
		}
	}
	return &job
}

// declared returns the declarations of the inputs that come late.
func (f *freezing) declared() []jobs.InputDecl {
	var list []jobs.InputDecl
	for _, d := range f.job.Inputs {
		if f.late[d.Name] {
			list = append(list, d)
		}
	}
	return list
}

// CheckInputs checks inputs of a job that were not known when its run was frozen,
// by what Freeze put down as their declarations. It is Config.CheckInputs of an
// engine.
func CheckInputs(job string, declared, inputs json.RawMessage) error {
	var given map[string]json.RawMessage
	j := jobs.Job{Name: job}
	if err := json.Unmarshal(declared, &j.Inputs); err != nil {
		return fmt.Errorf("read the inputs of job %s: %w", job, err)
	}
	if err := json.Unmarshal(inputs, &given); err != nil {
		return fmt.Errorf("read what job %s is handed: %w", job, err)
	}
	_, err := j.CheckInputs(given)
	return err
}

// quoted returns a text as JSON.
func quoted(text string) json.RawMessage {
	raw, _ := json.Marshal(text) // a text always marshals
	return raw
}
