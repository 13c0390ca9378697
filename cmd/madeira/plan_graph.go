package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"madeira/jobs"
	"madeira/jobs/step"
)

// phasesPlan are the steps of a job.
type phasesPlan struct {
	Main      []stepPlan `json:"main"`
	OnFailure []stepPlan `json:"on_failure"`
	Finally   []stepPlan `json:"finally"`
}

// A stepPlan is a step with what it waits for.
type stepPlan struct {
	ID              string          `json:"id"`
	Uses            string          `json:"uses"`
	Needs           []string        `json:"needs"`
	If              string          `json:"if"`
	ForEach         json.RawMessage `json:"for_each"`
	MaxParallel     int             `json:"max_parallel"`
	ContinueOnError bool            `json:"continue_on_error"`
	TimeoutMS       int64           `json:"timeout_ms"`
	Call            *callPlan       `json:"call"`
}

// A callPlan is the job that a step calls.
type callPlan struct {
	Job   string     `json:"job"`
	File  string     `json:"file"`
	Steps phasesPlan `json:"steps"`
}

// maxCallDepth is how deep calls of jobs are shown.
const maxCallDepth = 8

func planPhases(job *jobs.Job, depth int) phasesPlan {
	return phasesPlan{planSteps(job.Steps, depth), planSteps(job.OnFailure, depth), planSteps(job.Finally, depth)}
}

func planSteps(steps []jobs.Step, depth int) []stepPlan {
	list := make([]stepPlan, len(steps))
	for i, s := range steps {
		list[i] = stepPlan{
			ID: s.ID, Uses: s.Uses, Needs: append([]string{}, s.Needs...), If: s.If, ForEach: s.ForEach,
			MaxParallel: s.MaxParallel, ContinueOnError: s.ContinueOnError, TimeoutMS: s.Timeout.Milliseconds(),
		}
		if s.EachIf != "" {
			list[i].If = s.EachIf
		}
		if s.Call != nil && s.Call.Job != nil {
			list[i].Call = &callPlan{Job: s.Call.Job.Name, File: displayPath(s.Call.Job.Path)}
			if depth < maxCallDepth {
				list[i].Call.Steps = planPhases(s.Call.Job, depth+1)
			}
		}
	}
	return list
}

// write prints the plan for people.
func (plan jobPlan) write(out io.Writer, job *jobs.Job) {
	fmt.Fprintf(out, "%s  %s\n", plan.Name, plan.File)
	rows := [][]string{{"digest", plan.Digest}}
	if plan.Period != nil {
		rows = append(rows, []string{"period", fmt.Sprintf("%s, from %s to before %s", plan.Period.Label, plan.Period.Start, plan.Period.End)})
	}
	switch {
	case plan.Unknown != "":
		rows = append(rows, []string{"upstream_key", "cannot be told: " + plan.Unknown})
	case plan.Key != "":
		rows = append(rows, []string{"upstream_key", plan.Key})
	default:
		rows = append(rows, []string{"upstream_key", "none: each run is its own"})
	}
	rows = append(rows, []string{"overlap", plan.Overlap})
	if c := job.Concurrency; c != nil {
		rows = append(rows, []string{"concurrency", fmt.Sprintf("%s, %s at once", c.Key, count(c.Limit, "run"))})
	}
	writeTable(out, rows)
	if len(plan.Inputs) > 0 {
		fmt.Fprintln(out, "\ninputs")
		var rows [][]string
		for _, i := range plan.Inputs {
			value := string(i.Value)
			var file step.File
			switch {
			case i.Value == nil:
				value = "-"
			case i.Type == "file" && json.Unmarshal(i.Value, &file) == nil:
				value = fmt.Sprintf("%s  %d bytes  %s", file.Name, file.Size, file.Digest)
			}
			rows = append(rows, []string{"  " + i.Name, i.Type, cut(value, 120), i.From})
		}
		writeTable(out, rows)
	}
	fmt.Fprintln(out, "\nsteps")
	plan.Steps.write(out, "  ")
	plan.writeDue(out, job)
}

// write prints the steps of all phases, those of called jobs below the call.
func (ph phasesPlan) write(out io.Writer, margin string) {
	writeSteps(out, margin, ph.Main)
	for _, phase := range []struct {
		name  string
		steps []stepPlan
	}{{"on_failure", ph.OnFailure}, {"finally", ph.Finally}} {
		if len(phase.steps) > 0 {
			fmt.Fprintf(out, "%s%s\n", margin, phase.name)
			writeSteps(out, margin+"  ", phase.steps)
		}
	}
}

func writeSteps(out io.Writer, margin string, steps []stepPlan) {
	rows := make([][]string, len(steps))
	for i, s := range steps {
		rows[i] = []string{margin + s.ID, s.Uses, s.remarks()}
	}
	if len(rows) == 0 {
		return
	}
	var text bytes.Buffer
	writeTable(&text, rows)
	i := 0
	for line := range strings.Lines(text.String()) {
		fmt.Fprint(out, line)
		if c := steps[i].Call; c != nil {
			fmt.Fprintf(out, "%s  job %s  %s\n", margin, c.Job, c.File)
			c.Steps.write(out, margin+"    ")
		}
		i++
	}
}

// remarks says what a step waits for, and when it runs.
func (s stepPlan) remarks() string {
	var parts []string
	if len(s.Needs) > 0 {
		parts = append(parts, "after "+strings.Join(s.Needs, ", "))
	}
	if s.ForEach != nil {
		each := "for each of " + plainValue(s.ForEach)
		if s.MaxParallel > 0 {
			each += fmt.Sprintf(", %d at once", s.MaxParallel)
		}
		parts = append(parts, each)
	}
	if s.If != "" {
		parts = append(parts, "if "+strings.Join(strings.Fields(s.If), " "))
	}
	if s.ContinueOnError {
		parts = append(parts, "its failure is a warning")
	}
	if s.TimeoutMS > 0 {
		parts = append(parts, "at most "+(time.Duration(s.TimeoutMS)*time.Millisecond).String())
	}
	return strings.Join(parts, "; ")
}

// plainValue is a value as it stands in a job file, shortened.
func plainValue(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return cut(text, 80)
}
