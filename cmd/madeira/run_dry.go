package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/scheduler"
)

// A dryView is a run that is not made, as programs see it.
type dryView struct {
	Job       string          `json:"job"`
	Key       *string         `json:"upstream_key"` // null: each run is its own; with expressions where it waits for steps of the caller
	DueAt     time.Time       `json:"due_at"`
	NotBefore *time.Time      `json:"not_before,omitempty"`
	Period    json.RawMessage `json:"period"`
	Inputs    json.RawMessage `json:"inputs"`
	Limit     *task.Limit     `json:"concurrency,omitempty"`
	Steps     []dryStep       `json:"steps"`
}

// A dryStep is a step of it.
type dryStep struct {
	ID      string          `json:"id"`
	Phase   task.Phase      `json:"phase"`
	Uses    string          `json:"uses"`
	Needs   []string        `json:"needs"`
	If      string          `json:"if,omitempty"`
	ForEach json.RawMessage `json:"for_each,omitempty"`
	With    json.RawMessage `json:"with"`
	Waits   []string        `json:"waits_for"` // what the expressions left in with and for_each need
	Limits  []task.Limit    `json:"limits,omitempty"`
	Run     *dryView        `json:"run,omitempty"` // that it would start
}

// dryRun shows the run that would be made. It makes no database, keeps no file and
// asks nobody outside.
func (p *program) dryRun(ctx context.Context, job *jobs.Job, o runOptions) error {
	request, err := p.request(job, o)
	if err != nil {
		return err
	}
	if request.Inputs, err = readInputs(ctx, measure{}, job, o.inputs); err != nil {
		return usage("%w", err)
	}
	if request.DueAt.IsZero() {
		request.DueAt, _ = machineClock{}.Now(ctx) // a run takes the database's clock
	}
	if err := toCome(ctx, machineClock{}, request.NotBefore); err != nil {
		return err
	}
	preview, err := scheduler.Look(job, request)
	var bad *scheduler.RequestError
	if errors.As(err, &bad) {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	view := newDryView(preview)
	view.NotBefore = optional(request.NotBefore)
	if p.output == "json" {
		return p.json(map[string]any{"dry_run": view})
	}
	view.write(p.stdout, "")
	fmt.Fprintln(p.stderr, "dry run: the job is valid, its connections, channels and secrets are there, and nothing was done")
	return nil
}

// A machineClock is what a dry run has, which opens no database.
type machineClock struct{}

// Now returns the time of this machine.
func (machineClock) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func newDryView(from scheduler.Preview) *dryView {
	v := &dryView{Job: from.Run.Job, DueAt: from.Run.DueAt, Period: from.Run.Period, Inputs: from.Run.Inputs, Limit: from.Limit, Steps: []dryStep{}}
	if from.Run.Key != "" {
		v.Key = &from.Run.Key
	}
	for _, s := range from.Steps {
		step := dryStep{
			ID: s.Step, Phase: s.Phase, Uses: s.Type, Needs: append([]string{}, s.Needs...), If: s.Condition,
			ForEach: s.ForEach, With: s.Settings, Waits: append([]string{}, s.Waits...), Limits: s.Limits,
		}
		if step.Phase == "" {
			step.Phase = task.PhaseMain
		}
		if s.EachCondition != "" {
			step.If = s.EachCondition
		}
		if step.With == nil {
			step.With = json.RawMessage("{}")
		}
		if s.Call != nil {
			step.Run = newDryView(*s.Call)
		}
		v.Steps = append(v.Steps, step)
	}
	return v
}

// write prints the run for people.
func (v *dryView) write(out io.Writer, margin string) {
	key := "each run is its own"
	if v.Key != nil {
		key = *v.Key
	}
	line := func(name, value string) { fmt.Fprintf(out, "%s%-13s %s\n", margin, name, value) }
	fmt.Fprintf(out, "%s%s\n", margin, v.Job)
	line("upstream_key", key)
	line("due at", v.DueAt.UTC().Format(time.RFC3339))
	if v.NotBefore != nil {
		line("not before", v.NotBefore.Format(time.RFC3339))
	}
	var period struct{ Label, Start, End string }
	if json.Unmarshal(v.Period, &period) == nil && period.Label != "" {
		line("period", fmt.Sprintf("%s, from %s to before %s", period.Label, period.Start, period.End))
	}
	if len(v.Inputs) > 2 {
		line("inputs", string(v.Inputs))
	}
	if v.Limit != nil {
		line("concurrency", fmt.Sprintf("%s, %s at once", v.Limit.Key, count(v.Limit.Slots, "run")))
	}
	phase := task.PhaseMain
	for _, s := range v.Steps {
		if s.Phase != phase {
			phase = s.Phase
			fmt.Fprintf(out, "\n%s%s\n", margin, phase)
		}
		s.write(out, margin)
	}
}

func (s dryStep) write(out io.Writer, margin string) {
	var notes []string
	if len(s.Needs) > 0 {
		notes = append(notes, "after "+strings.Join(s.Needs, ", "))
	}
	if s.If != "" {
		notes = append(notes, "if "+strings.Join(strings.Fields(s.If), " "))
	}
	each := s.ForEach != nil && plainValue(s.ForEach) != wholeValue(s.ForEach, "") // too long for a note
	switch {
	case each:
		notes = append(notes, "for each of what for_each names")
	case s.ForEach != nil:
		notes = append(notes, "for each of "+plainValue(s.ForEach))
	}
	for _, l := range s.Limits {
		notes = append(notes, "under "+l.Key)
	}
	if len(s.Waits) > 0 {
		notes = append(notes, "waits for "+strings.Join(s.Waits, ", "))
	}
	fmt.Fprintf(out, "\n%s%s  %s", margin, s.ID, s.Uses)
	if len(notes) > 0 {
		fmt.Fprintf(out, "  %s", strings.Join(notes, "; "))
	}
	fmt.Fprintln(out)
	if each {
		fmt.Fprintf(out, "%s  for_each: %s\n", margin, wholeValue(s.ForEach, margin+"    "))
	}
	var settings map[string]json.RawMessage
	if json.Unmarshal(s.With, &settings) == nil {
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			fmt.Fprintf(out, "%s  %s: %s\n", margin, name, wholeValue(settings[name], margin+"    "))
		}
	}
	if s.Run != nil {
		s.Run.write(out, margin+"    ")
	}
}

// wholeValue is a value as it stands in a job file, all of it: who looks before a run
// has to see what it would do. A text of several lines is a block below its key.
func wholeValue(raw json.RawMessage, margin string) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return string(raw)
	}
	visible := func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '·'
		}
		return r
	}
	text = strings.Map(visible, strings.TrimSuffix(text, "\n"))
	if !strings.Contains(text, "\n") {
		return text
	}
	return "|\n" + margin + strings.ReplaceAll(text, "\n", "\n"+margin)
}
