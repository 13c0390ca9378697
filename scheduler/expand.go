package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/jobs/expr"
)

// What makes runs.
const (
	TriggerSchedule = "schedule"
	TriggerManual   = "manual"
)

// A Request asks for a run of a job. Its zero value asks for one now, with the
// defaults of all inputs.
type Request struct {
	Trigger     string                     // TriggerSchedule or TriggerManual; "" is TriggerManual
	DueAt       time.Time                  // the instant the run is for; zero: now, by the database's clock
	Inputs      map[string]json.RawMessage // JSON by name; a file is the JSON of step.File
	PeriodLabel string                     // in place of the period that DueAt gives; "" keeps that
	Key         string                     // in place of what upstream_key gives; "" keeps that
	Again       string                     // why to make a new version of a key that ended well, changed or not; "": only if changed
}

// A RequestError says that a run cannot be made of what was asked for. Asking
// again in the same way gives the same error.
type RequestError struct {
	Job   string
	Field string // "inputs", "period", "upstream_key" or "limits"
	Err   error
}

// Error names the job and the cause.
func (e *RequestError) Error() string {
	if e.Field == "inputs" {
		return fmt.Sprintf("run job %s: %v", e.Job, e.Err)
	}
	return fmt.Sprintf("run job %s: %s: %v", e.Job, e.Field, e.Err)
}

// Unwrap returns the cause.
func (e *RequestError) Unwrap() error { return e.Err }

// Freeze turns a job into the rows of a run: what is left to find out later is
// only what steps leave for one another. DueAt of the request must be set. The
// error is a *RequestError.
func Freeze(job *jobs.Job, r Request) (task.NewRun, error) {
	fail := func(field string, err error) (task.NewRun, error) {
		return task.NewRun{}, &RequestError{Job: job.Name, Field: field, Err: err}
	}
	due := r.DueAt.UTC().Truncate(time.Microsecond) // as finely as databases keep it
	inputs, err := job.CheckInputs(r.Inputs)
	if err != nil {
		return fail("inputs", err)
	}
	period, err := freezePeriod(job, r.PeriodLabel, due)
	if err != nil {
		return fail("period", err)
	}
	key, err := freezeKey(job, r.Key, keyValues(inputs, period, due))
	if err != nil {
		return fail("upstream_key", err)
	}
	run := task.Run{
		Job: job.Name, JobDigest: job.Digest, Key: key,
		Trigger: r.Trigger, DueAt: due,
		Period:  period,
		BaseDir: filepath.Dir(job.Path), Connections: job.Connections,
		Reason: r.Again,
	}
	if run.Trigger == "" {
		run.Trigger = TriggerManual
	}
	if run.Inputs, err = json.Marshal(inputs); err != nil {
		return fail("inputs", err)
	}
	tasks, err := freezeSteps(job, keyValues(inputs, period, due))
	if err != nil {
		return fail("limits", err)
	}
	return task.NewRun{Run: run, Again: r.Again != "", Tasks: tasks, Job: version(job)}, nil
}

// version returns the job as its file stands.
func version(job *jobs.Job) task.JobVersion {
	return task.JobVersion{Name: job.Name, Digest: job.Digest, Path: job.Path, Source: job.Source}
}

// freezePeriod returns the JSON of the period that a label or an instant names,
// or nil for a job without one.
func freezePeriod(job *jobs.Job, label string, due time.Time) (json.RawMessage, error) {
	loc := job.Location
	if loc == nil {
		loc = time.UTC
	}
	var p calendar.Period
	var err error
	switch {
	case job.Period == nil && label == "":
		return nil, nil
	case job.Period == nil:
		return nil, errors.New("the job has no period; leave it out")
	case label == "":
		p, err = job.Period.At(due, loc)
	default:
		p, err = job.Period.Parse(label, loc)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

// keyValues are what upstream_key can refer to: all that is known before there
// is a run.
func keyValues(inputs map[string]json.RawMessage, period json.RawMessage, due time.Time) expr.Values {
	vars := map[string]any{
		"inputs":   inputs,
		"schedule": map[string]any{"due_at": due},
	}
	if period != nil {
		vars["period"] = period
	}
	return expr.Values{Vars: vars}
}

// maxKey bounds the bytes of a key, so that it fits into an index of every
// database.
const maxKey = 1024

// freezeKey returns the key of the run; "" makes each run its own.
func freezeKey(job *jobs.Job, override string, v expr.Values) (string, error) {
	if override == "" && job.Key == "" {
		return "", nil
	}
	key := override
	if key == "" {
		var err error
		if key, err = expr.Text(job.Key, v); err != nil {
			return "", err
		}
	}
	if strings.TrimSpace(key) == "" {
		return "", errors.New("the key is empty; a key names the business behind a run")
	}
	return key, checkKey(key)
}

// checkKey checks that a key can be kept and shown.
func checkKey(key string) error {
	switch {
	case strings.TrimSpace(key) == "":
		return errors.New("the key is empty")
	case len(key) > maxKey:
		return fmt.Errorf("the key has %d bytes; the limit is %d", len(key), maxKey)
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return fmt.Errorf("the key %q has characters that cannot be printed", key)
	}
	return nil
}

// freezeSteps turns steps into tasks, in the order of the file. What their keys
// refer to is v.
func freezeSteps(job *jobs.Job, v expr.Values) ([]task.NewTask, error) {
	tasks := make([]task.NewTask, len(job.Steps))
	for i, s := range job.Steps {
		tasks[i] = task.NewTask{
			Step: s.ID, Type: s.Uses, Source: s.Source,
			Settings: s.With, Refs: s.Refs, Condition: s.If, Needs: s.Needs,
			Retry:   task.Retry{MaxAttempts: s.Retry.MaxAttempts, Delay: s.Retry.Delay, Factor: s.Retry.Factor, MaxDelay: s.Retry.MaxDelay},
			Timeout: s.Timeout, Priority: job.Priority,
		}
		if s.Priority != nil {
			tasks[i].Priority = *s.Priority
		}
		if s.Connection != "" {
			tasks[i].Circuit = s.Uses + "/" + s.Connection
		}
		var err error
		if tasks[i].Limits, err = freezeLimits(s, v); err != nil {
			return nil, fmt.Errorf("step %s: %w", s.ID, err)
		}
	}
	return tasks, nil
}

// freezeLimits returns what a step has to pass, slots first: where they are all
// taken, nobody waits for a token.
func freezeLimits(s jobs.Step, v expr.Values) ([]task.Limit, error) {
	var limits []task.Limit
	if c := s.Concurrency; c != nil {
		key, err := limitKey(c.Key, v)
		if err != nil {
			return nil, fmt.Errorf("concurrency: %w", err)
		}
		limits = append(limits, task.Limit{Key: key, Slots: c.Limit})
	}
	if r := s.RateLimit; r != nil {
		key, err := limitKey(r.Key, v)
		if err != nil {
			return nil, fmt.Errorf("rate_limit: %w", err)
		}
		limits = append(limits, task.Limit{Key: key, Rate: r.PerSecond, Burst: r.Burst})
	}
	return limits, nil
}

func limitKey(template string, v expr.Values) (string, error) {
	key, err := expr.Text(template, v)
	if err != nil {
		return "", err
	}
	return key, checkKey(key)
}
