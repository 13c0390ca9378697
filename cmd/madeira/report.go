package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// A runView is a run as people and programs see it.
type runView struct {
	ID       string  `json:"id"`
	Job      string  `json:"job"`
	Key      string  `json:"upstream_key"`
	Version  int     `json:"version"`
	Status   string  `json:"status"`
	Digest   string  `json:"job_digest"`
	Commit   string  `json:"job_commit"` // of git; "" for a job that was not read from it
	Repeated *string `json:"repeated"`   // id of the run that had done it, or null

	Turn *turnView `json:"waits_for_turn,omitempty"` // of one that waits for its turn

	ByHand    []correctionView `json:"set_by_hand,omitempty"` // what holds in it, or in what it repeats, and is not the job's
	LeftAside []correctionView `json:"left_aside,omitempty"`  // what held so in the version before, and does not in this one

	held, left []task.Correction
}

// A stepView is a step of a run.
type stepView struct {
	ID         string          `json:"id"`
	Status     string          `json:"status"`
	Attempts   int             `json:"attempts"`
	DurationMS int64           `json:"duration_ms"`
	Outputs    json.RawMessage `json:"outputs"`
	Error      *task.Failure   `json:"error,omitempty"`  // of the last attempt, when the step failed
	Reused     bool            `json:"reused,omitempty"` // taken over from an earlier version
	Run        *calledView     `json:"run,omitempty"`    // that it started

	task task.Task
}

// A calledView is a run that a step started.
type calledView struct {
	runView
	Steps []stepView `json:"steps"`

	run, repeated task.Run
}

// A messageView is a message of a run that is not delivered.
type messageView struct {
	Channel string        `json:"channel"`
	Status  string        `json:"status"`
	Error   *task.Failure `json:"error,omitempty"`
}

// messageViews returns the messages of a run that are not delivered.
func messageViews(tasks []task.Task) []messageView {
	var views []messageView
	for _, t := range tasks {
		if t.Type == task.TypeDeliver && t.State != task.Success {
			views = append(views, messageView{Channel: channelOf(t), Status: string(t.State), Error: failureOf(t)})
		}
	}
	return views
}

// channelOf returns the channel of a delivery, which its key names last but one.
func channelOf(t task.Task) string {
	var key []any
	if json.Unmarshal([]byte(t.Key), &key) == nil && len(key) >= 2 {
		return fmt.Sprint(key[len(key)-2])
	}
	return t.Key
}

// failureOf returns why a task is not a success, where the last attempt failed.
func failureOf(t task.Task) *task.Failure {
	if t.State == task.Success {
		return nil
	}
	return t.Failure
}

// newRunView returns what is shown of a run. A repeated run shows the version it
// repeats.
func newRunView(run, repeated task.Run) runView {
	v := runView{ID: run.ID, Job: run.Job, Key: run.Key, Version: run.Version, Status: string(run.Status), Digest: run.JobDigest, Commit: run.JobCommit}
	if run.RepeatedOf != "" {
		v.Repeated, v.Version = &run.RepeatedOf, repeated.Version
	}
	return v
}

// stepViews returns the steps that the job file has, in its order.
func stepViews(tasks []task.Task) []stepView {
	var steps []stepView
	for _, t := range tasks {
		if t.Step == "" || t.Type == task.TypeCompare {
			continue
		}
		v := stepView{ID: task.Name(t.Step, t.Element), Status: string(t.State), Attempts: t.Attempt, DurationMS: t.Took.Milliseconds(), Outputs: t.Outputs, Error: failureOf(t), Reused: t.Reason == task.ReasonReused, task: t}
		if t.Warning != "" && t.State == task.Success {
			v.Status = "warning"
		}
		if v.Outputs == nil {
			v.Outputs = json.RawMessage("{}")
		}
		steps = append(steps, v)
	}
	return steps
}

// report prints how a run that is over has ended, and returns the error that
// stands for its exit code.
func (p *program) report(ctx context.Context, db *store.DB, cfg *config, runID string) error {
	run, err := db.Run(ctx, runID)
	if err != nil {
		return err
	}
	repeated, err := repeatedBy(ctx, db, run)
	if err != nil {
		return err
	}
	tasks, err := db.Tasks(ctx, runID)
	if err != nil {
		return err
	}
	waits, err := turnsOf(ctx, db, []task.Run{run})
	if err != nil {
		return err
	}
	view, steps := newRunView(run, repeated), stepViews(tasks)
	if err := addCalled(ctx, db, steps, 0); err != nil {
		return err
	}
	if err := view.addCorrections(ctx, db, run); err != nil {
		return err
	}
	view.Turn = newTurnView(waits, run.ID)
	if p.output == "json" {
		object := map[string]any{"run": view, "steps": steps}
		if open := messageViews(tasks); len(open) > 0 {
			object["messages"] = open
		}
		err = p.json(object)
	} else {
		writeReport(p.stdout, view, run, repeated, steps)
		warnLeft(p.stderr, view, steps)
		p.hints(cfg, run, tasks)
	}
	if err == nil && (run.Status == task.RunError || run.Status == task.RunCancelled) {
		err = &exitError{code: exitFailed}
	}
	return err
}

// repeatedBy returns the run that had done what a run found to be done, or the
// zero Run.
func repeatedBy(ctx context.Context, db *store.DB, run task.Run) (task.Run, error) {
	if run.RepeatedOf == "" {
		return task.Run{}, nil
	}
	return db.Run(ctx, run.RepeatedOf)
}

// hints writes to stderr what is no part of the result.
func (p *program) hints(cfg *config, run task.Run, tasks []task.Task) {
	for _, t := range tasks {
		switch {
		case t.Type == task.TypeDeliver && t.State == task.Pending:
			fmt.Fprintf(p.stderr, "the message to %s is not delivered yet: %s; madeira serve goes on with it\n", channelOf(t), why(t))
		case t.Type == task.TypeDeliver && t.State != task.Success:
			fmt.Fprintf(p.stderr, "the message to %s was not delivered: %s\n", channelOf(t), why(t))
		}
		if path := rejectsPath(cfg, t); path != "" {
			fmt.Fprintf(p.stderr, "%s: the refused lines are in %s\n", t.Step, path)
		}
	}
	if run.Status != task.RunRepeated {
		fmt.Fprintf(p.stderr, "run %s; see madeira runs show %s%s\n", run.ID, run.ID[:13], p.elsewhere(cfg))
	}
}

// rejectsPath returns where the refused lines of a step lie, or "" when it has
// refused none.
func rejectsPath(cfg *config, t task.Task) string {
	var outputs struct {
		Count   int64     `json:"reject_count"`
		Rejects step.File `json:"rejects"`
	}
	if json.Unmarshal(t.Outputs, &outputs) != nil || outputs.Count == 0 || outputs.Rejects.Digest == "" {
		return ""
	}
	return displayPath(artifactPath(cfg, outputs.Rejects.Digest))
}

// elsewhere returns the flag that makes a command look into the same database
// from the working folder, or "" when it does so without.
func (p *program) elsewhere(cfg *config) string {
	if here, _, err := findRoot("."); err == nil && here == cfg.root || p.database != "" {
		return ""
	}
	path, sqlite := strings.CutPrefix(cfg.database, "sqlite://")
	if !sqlite {
		return ""
	}
	return " --database sqlite://" + displayPath(path)
}

// writeReport prints the reports of all steps. It holds neither times nor ids of
// this run, so that equal results are equal bytes.
func writeReport(out io.Writer, view runView, run, repeated task.Run, steps []stepView) {
	if run.Status == task.RunRepeated {
		fmt.Fprintf(out, "%s is done: version %d, run %s of %s, ended as %s.\n", keyName(run), repeated.Version,
			repeated.ID, repeated.FinishedAt.UTC().Format(time.DateTime+" UTC"), repeated.Status)
		if len(view.held) > 0 {
			writeKept(out, view, repeated)
			return
		}
		fmt.Fprintln(out, `Its sources have not changed, so nothing was done. To do it all the same: --again "reason".`)
		return
	}
	fmt.Fprintf(out, "%s  version %d  %s\n", keyName(run), run.Version, run.Status)
	writeStepReports(out, "", steps)
}

// writeStepReports prints the reports of steps, those of runs that they started
// below and further in.
func writeStepReports(to io.Writer, margin string, steps []stepView) {
	out := &margined{out: to, margin: margin}
	for _, s := range steps {
		status := s.Status
		if s.Reused {
			status += "  (taken over)"
		}
		fmt.Fprintf(out, "\n%s  %s\n", s.ID, status)
		if s.Run != nil && !s.Reused {
			fmt.Fprintf(out, "  %s  version %d  %s\n", keyName(s.Run.run), s.Run.Version, s.Run.Status)
			writeStepReports(to, margin+"    ", s.Run.Steps)
		}
		if report := reportOf(s.Outputs); report != "" {
			indent(out, report)
		}
		if s.task.Warning != "" {
			indent(out, "warning: "+s.task.Warning)
		}
		if s.task.State != task.Success {
			indent(out, why(s.task))
		}
	}
}

func reportOf(outputs json.RawMessage) string {
	var o struct {
		Report string `json:"report"`
	}
	if err := json.Unmarshal(outputs, &o); err != nil {
		return ""
	}
	return o.Report
}

func indent(out io.Writer, text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		line = strings.TrimRight(line, "\n")
		if line != "" {
			line = "  " + line
		}
		fmt.Fprintln(out, line)
	}
}

// why says why a task is where it is, in one line or more.
func why(t task.Task) string {
	parts := []string{}
	if t.Failure != nil {
		parts = append(parts, failureText(*t.Failure))
	}
	switch t.Reason {
	case task.ReasonNeedsFailed:
		parts = append(parts, "not run: "+t.Detail)
	case task.ReasonCondition:
		not := "not run: " // for a reason outside of it
		if task.IsConditionText(t.Detail) {
			not = "not run, its condition is false: "
		}
		parts = append(parts, not+t.Detail)
	case "":
	default:
		if t.Detail == task.WakeChild || t.Detail == task.WakeJoined {
			break // what woke it, which is no reason
		}
		if t.Detail != "" {
			parts = append(parts, t.Reason+": "+t.Detail)
		} else if t.Failure == nil {
			parts = append(parts, t.Reason)
		}
	}
	if len(parts) == 0 {
		return string(t.State)
	}
	return strings.Join(parts, "; ")
}

// failureText returns the code of a failure, where it has one, and its message.
func failureText(f task.Failure) string {
	if f.Code == "" {
		return f.Message
	}
	return f.Code + ": " + f.Message
}

// keyName names a run as people do: by job and key.
func keyName(run task.Run) string {
	if run.Key == "" {
		return run.Job
	}
	return run.Job + " " + run.Key
}
