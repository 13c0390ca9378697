package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

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
	NotBefore   time.Time                  // no step begins earlier; zero: at once
	Inputs      map[string]json.RawMessage // JSON by name; a file is the JSON of step.File
	PeriodLabel string                     // in place of the period that DueAt gives; "" keeps that
	Key         string                     // in place of what upstream_key gives; "" keeps that
	Again       string                     // why to make a new version of a key that ended well, changed or not; "": only if changed
	Actor       string                     // who asks; "" for a schedule
}

// A RequestError says that a run cannot be made of what was asked for. Asking
// again in the same way gives the same error.
type RequestError struct {
	Job   string
	Field string // "inputs", "period", "upstream_key", "limits", "steps" or "schedule"
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
// only what steps leave for one another. The jobs that its steps call are frozen
// with it. DueAt of the request must be set. The error is a *RequestError.
func Freeze(job *jobs.Job, r Request) (task.NewRun, error) {
	f := freezing{job: job, size: &size{}, due: r.DueAt.UTC().Truncate(time.Microsecond)} // as finely as databases keep it
	fail := func(field string, err error) (task.NewRun, error) {
		return task.NewRun{}, &RequestError{Job: job.Name, Field: field, Err: err}
	}
	var err error
	if f.inputs, err = job.CheckInputs(r.Inputs); err != nil {
		return fail("inputs", err)
	}
	if err := f.settlePeriod(r.PeriodLabel); err != nil {
		return fail("period", err)
	}
	n, err := f.run()
	if err != nil {
		return n, err
	}
	if n.Run.Key, err = f.key(r.Key); err != nil {
		return fail("upstream_key", err)
	}
	n.Run.Trigger, n.Run.Reason, n.Run.Actor = TriggerManual, r.Again, r.Actor
	if r.Trigger != "" {
		n.Run.Trigger = r.Trigger
	}
	n.Again, n.NotBefore = r.Again != "", r.NotBefore
	if r.Trigger == TriggerSchedule {
		n.Overlap = task.Overlap(job.Overlap)
	}
	return n, nil
}

// A freezing is one job on its way into rows.
type freezing struct {
	job    *jobs.Job
	due    time.Time
	inputs map[string]json.RawMessage // checked, defaults filled in; those that come late are not in it
	late   map[string]bool            // inputs that are known only when the run is started; nil: none
	period json.RawMessage            // nil for a job without one
	around time.Time                  // the instant from which the jobs that it calls take their periods
	named  bool                       // around comes from the label of a period, and is midnight in every zone
	size   *size                      // of it and of all jobs that are frozen with it
	depth  int                        // how many jobs call each other down to this one
}

// run freezes everything of a run but what tells it from others of its job: key,
// trigger, and who asked for it.
func (f *freezing) run() (task.NewRun, error) {
	job := f.job
	n := task.NewRun{
		Run: task.Run{
			Job: job.Name, JobDigest: job.Digest, JobCommit: job.Commit, DueAt: f.due, Period: f.period,
			BaseDir: filepath.Dir(job.Path), Connections: job.Connections, Timeout: job.Timeout,
		},
		Job: version(job),
	}
	fail := func(field string, err error) (task.NewRun, error) {
		return n, &RequestError{Job: job.Name, Field: field, Err: err}
	}
	var err error
	if n.Run.Inputs, err = json.Marshal(f.inputs); err != nil {
		return fail("inputs", err)
	}
	if c := job.Concurrency; c != nil {
		key, err := f.limitKey(c.Key)
		if err != nil {
			return fail("limits", fmt.Errorf("concurrency: %w", err))
		}
		n.Concurrency = &task.Limit{Key: key, Slots: c.Limit}
	}
	if err := f.size.addSteps(job); err != nil {
		return fail("steps", err)
	}
	n.Tasks, err = f.steps()
	var inner *RequestError
	switch {
	case errors.As(err, &inner):
		return n, err
	case err != nil:
		return fail("limits", err)
	}
	return n, nil
}

// version returns the job as its file stands.
func version(job *jobs.Job) task.JobVersion {
	return task.JobVersion{Name: job.Name, Digest: job.Digest, Path: job.Path, Source: job.Source, Commit: job.Commit}
}

// settlePeriod finds the period that a label or the due instant names. A label
// takes the jobs that are called back to an instant at which this job would have
// had that period.
func (f *freezing) settlePeriod(label string) error {
	rule := f.job.Period
	if f.around.IsZero() {
		f.around = f.due
	}
	var p calendar.Period
	var err error
	switch {
	case rule == nil && label == "":
		return nil
	case rule == nil:
		return errors.New("the job has no period; leave it out")
	case label == "":
		p, err = rule.At(f.around, f.location())
	default:
		if p, err = rule.Parse(label, f.location()); rule.Of == calendar.Current {
			f.around = p.StartAt
		} else {
			f.around = p.EndAt
		}
		f.named = true
	}
	if err != nil {
		return err
	}
	f.period, err = json.Marshal(p)
	return err
}

func (f *freezing) location() *time.Location {
	if f.job.Location == nil {
		return time.UTC
	}
	return f.job.Location
}

// values are what upstream_key can refer to: all that is known before there is a
// run. Where an input comes late, none is known, so that nothing is taken for null.
func (f *freezing) values() expr.Values {
	vars := map[string]any{"schedule": map[string]any{"due_at": f.due}}
	if f.late == nil {
		vars["inputs"] = f.inputs
	}
	if f.period != nil {
		vars["period"] = f.period
	}
	return expr.Values{Vars: vars}
}

// key returns the key of the run; "" makes each run its own.
func (f *freezing) key(override string) (string, error) {
	if override == "" && f.job.Key == "" {
		return "", nil
	}
	key := override
	if key == "" {
		var err error
		if key, err = expr.Text(f.job.Key, f.values()); err != nil {
			return "", err
		}
	}
	if strings.TrimSpace(key) == "" {
		return "", errors.New("the key is empty; a key names the business behind a run")
	}
	return key, task.CheckKey(key)
}
