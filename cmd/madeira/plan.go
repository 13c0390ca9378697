package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/scheduler"
)

// planOptions are the flags of plan.
type planOptions struct {
	inputs []string
	period string
	next   int
	diff   string
	until  string
}

func (p *program) planCommand() *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use:   "plan JOB | plan --diff REF [PATH…]",
		Short: "Show what a job would do and when it is due, or what a change in git would move",
		Long: `Shows the steps of a job and what they wait for, the inputs, the period and the key
that a run now would have, and the next due times with what would become of each.
JOB is a file, or the name of a job in a file below this folder. Nothing is run and
nothing is written; where there is a state database, it is asked which due times
would be caught up and which runs are live.

With --diff it compares the jobs of the work tree with those of a commit, branch or
tag: which are new, gone or changed, in which steps, and every due time that is lost,
new or moved, or is for another period or key than before, up to the date of --until,
which is included and ends with the day in UTC. It exits with 0 when no due time
changes, 1 when some do, and 2 when it cannot tell, such as for a job that is broken
or a calendar that has no data of a year. What a calendar had no data of before and
has now is told, and no change.`,
		Example: `  madeira plan job.yaml
  madeira plan nightly --next 31
  madeira plan --diff origin/main
  madeira plan --diff HEAD~1 nightly.yaml --until 2027-12-31`,
		Args: arguments(0, -1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case o.diff != "":
				for _, name := range []string{"input", "period", "next"} {
					if c.Flags().Changed(name) {
						return usage("--%s is for one job, and --diff compares many", name)
					}
				}
				return p.planDiff(c.Context(), o, args)
			case c.Flags().Changed("until"):
				return usage("--until goes with --diff; --next says how many due times to show")
			case len(args) != 1:
				return usage("%s takes one JOB, or --diff REF and any number of PATH; see %s --help", c.CommandPath(), c.CommandPath())
			case o.next < 0 || o.next > 10_000:
				return usage("--next %d is not between 0 and 10000", o.next)
			}
			return p.planJob(c.Context(), args[0], o)
		},
	}
	c.Flags().StringArrayVar(&o.inputs, "input", nil, "an input as name=value, or name=@FILE for an input of type file; may be repeated")
	c.Flags().StringVar(&o.period, "period", "", "the period to show, such as 2026-10")
	c.Flags().IntVar(&o.next, "next", 10, "how many due times to show")
	c.Flags().StringVar(&o.diff, "diff", "", "compare with this commit, branch or tag of git")
	c.Flags().StringVar(&o.until, "until", "", "with --diff: the date up to which due times are compared (default: 13 months from now)")
	return c
}

// A jobPlan is what plan says of a job.
type jobPlan struct {
	Name    string           `json:"name"`
	File    string           `json:"file"`
	Digest  string           `json:"digest"`
	Overlap string           `json:"overlap"`
	Period  *calendar.Period `json:"period"`
	Key     string           `json:"upstream_key"`
	Unknown string           `json:"unknown"` // why the key of a run now cannot be told; "" when it can
	Inputs  []inputPlan      `json:"inputs"`
	Steps   phasesPlan       `json:"steps"`
	State   string           `json:"state"` // why the state database was not asked; "" when it was
	Past    []duePlan        `json:"past_due"`
	Next    []duePlan        `json:"next"`

	zone *time.Location
}

// An inputPlan is an input with the value it would have.
type inputPlan struct {
	Name  string          `json:"name"`
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"` // null when it is required and not given
	From  string          `json:"from"`  // "given", "default" or "required"
}

func (p *program) planJob(ctx context.Context, name string, o planOptions) error {
	job, err := p.findJob(name)
	if err != nil {
		return err
	}
	inputs, err := readInputs(ctx, measure{}, job, o.inputs)
	if err != nil {
		return usage("%w", err)
	}
	state, closeState := p.peek(ctx, filepath.Dir(job.Path), job)
	defer closeState()
	now := state.now
	if now.IsZero() {
		now = time.Now()
	}
	plan := jobPlan{
		Name: job.Name, File: displayPath(job.Path), Digest: job.Digest, Overlap: string(job.Overlap),
		Inputs: describeInputs(job, inputs), Steps: planPhases(job, 0), zone: job.Location, Past: []duePlan{}, Next: []duePlan{},
	}
	if plan.Period, err = planPeriod(job, o.period, now); err != nil {
		return usage("--period: %w", err)
	}
	run, err := scheduler.Freeze(job, scheduler.Request{DueAt: now, Inputs: inputs, PeriodLabel: o.period})
	var bad *scheduler.RequestError
	switch {
	case err == nil:
		plan.Key = run.Run.Key
	case errors.As(err, &bad) && (bad.Field != "inputs" || len(o.inputs) == 0):
		plan.Unknown = bad.Err.Error() // it is not what was asked for that is wrong
	default:
		return usage("%w", err)
	}
	plan.State = state.unasked
	plan.Past = append(plan.Past, pastDue(job, state, now)...)
	plan.Next = append(plan.Next, nextDue(ctx, job, inputs, state, now, o.next)...)
	if p.output == "json" {
		return p.json(plan)
	}
	plan.write(p.stdout, job)
	return nil
}

// planPeriod returns the period of a label, or that of an instant, or nil for a job
// without one.
func planPeriod(job *jobs.Job, label string, now time.Time) (*calendar.Period, error) {
	if job.Period == nil {
		if label != "" {
			return nil, errors.New("the job has no period; leave it out")
		}
		return nil, nil
	}
	period, err := job.Period.At(now, job.Location)
	if label != "" {
		period, err = job.Period.Parse(label, job.Location)
	}
	return &period, err
}

// findJob returns the job of a file, or the one of a name in the files below the
// working folder.
func (p *program) findJob(name string) (*jobs.Job, error) {
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		f, err := p.checkAll([]string{name})
		if err != nil {
			return nil, usage("%w", err)
		}
		if len(f.jobs) == 0 {
			return nil, &problemsError{f.problems}
		}
		return f.jobs[0], nil
	}
	files, err := jobFiles([]string{"."})
	if err != nil {
		return nil, usage("there is no file %s, and %w", name, err)
	}
	f, err := p.checkAll(files)
	if err != nil {
		return nil, usage("%w", err)
	}
	known := make([]string, len(f.jobs))
	for i, job := range f.jobs {
		if known[i] = job.Name; job.Name == name {
			return job, nil
		}
	}
	hint := ""
	if n := len(files) - len(f.jobs); n > 0 {
		hint = fmt.Sprintf("; %s cannot be read, see madeira validate", count(n, "file"))
	}
	return nil, usage("there is no file %s, and no job of this name below this folder; there are %s%s", name, strings.Join(known, ", "), hint)
}

// describeInputs says of each declared input which value it would have.
func describeInputs(job *jobs.Job, given map[string]json.RawMessage) []inputPlan {
	list := make([]inputPlan, len(job.Inputs))
	for i, d := range job.Inputs {
		list[i] = inputPlan{Name: d.Name, Type: d.Type, Value: d.Default, From: "default"}
		switch value, ok := given[d.Name]; {
		case ok:
			list[i].Value, list[i].From = value, "given"
		case d.Default == nil:
			list[i].From = "required"
		}
	}
	return list
}
