package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/expr"
)

// A RerunRequest asks for a part of a run that is over to be done again.
type RerunRequest struct {
	Rerun  task.Rerun                 // RunID, From, Step, OnlyFailed, Overrides and Action
	Inputs map[string]json.RawMessage // those that change; nil: none
	Frozen bool                       // steps run again as they were frozen then, not as the job's file has them now
}

// A RerunPlan says what becomes of the steps of a run in a rerun of it.
type RerunPlan struct {
	Rerun   task.Rerun // for the store
	Again   []string   // steps that run, in the order of the run
	Reused  []string   // that are taken over with what they left
	Kept    []string   // that stay skipped, as their condition had it
	Left    []string   // that the new run does not have
	Changed []string   // of Reused and Kept: the job's file has them otherwise by now
	Renewed []string   // of Again: they run as the job's file has them now, and not as they ran then
	Partial []string   // of Again: elements that ended well are taken over
	Stale   bool       // the job's file has changed, and steps run as they were frozen then
}

// PlanRerun decides what a rerun does with a run of the job that is over. Steps that
// run again are those of the job as it stands, unless the request says otherwise.
// The error is a *RequestError, a *task.RerunError or a *task.GraphError.
func PlanRerun(job *jobs.Job, old task.Run, steps []task.OldStep, r RerunRequest) (RerunPlan, error) {
	plan := RerunPlan{Rerun: r.Rerun}
	plan.Rerun.RunID = old.ID
	inputs, changed, err := changedInputs(job, old, r.Inputs)
	if err != nil {
		return plan, err
	}
	now, err := Freeze(job, Request{Trigger: old.Trigger, DueAt: old.DueAt, PeriodLabel: labelOf(job, old), Inputs: inputs, Key: old.Key})
	if err != nil {
		return plan, err
	}
	if err := sameKey(job, old, now); err != nil {
		return plan, err
	}
	if len(changed) > 0 {
		plan.Rerun.Inputs = now.Run.Inputs
	}
	if !r.Frozen {
		plan.Rerun.Now = &now
	}
	fates, err := plan.Rerun.Fates(steps)
	if err != nil {
		return plan, err
	}
	differs := task.Changed(steps, now.Tasks)
	for _, s := range steps {
		if s.Step == task.TypeCompare {
			continue
		}
		other := slices.Contains(differs, s.Step)
		switch fates[s.Step] {
		case task.FateAgain:
			plan.Again = append(plan.Again, s.Step)
			if other && !r.Frozen {
				plan.Renewed = append(plan.Renewed, s.Step)
			}
			plan.Stale = plan.Stale || other && r.Frozen
			_, element := task.SplitElement(r.Rerun.Step)
			if s.ForEach && (r.Rerun.OnlyFailed || element != "") {
				plan.Partial = append(plan.Partial, s.Step)
			}
			continue
		case task.FateReused:
			plan.Reused = append(plan.Reused, s.Step)
		case task.FateKept:
			plan.Kept = append(plan.Kept, s.Step)
		default:
			plan.Left = append(plan.Left, s.Step)
			continue
		}
		if other {
			plan.Changed = append(plan.Changed, s.Step)
		}
		name := usesChanged(s.Frozen, changed)
		if other && len(changed) > 0 && s.Frozen.Type == task.TypeJob {
			name = strings.Join(changed, ", ") // was put into what the called job is handed
		}
		if name != "" {
			return plan, &task.RerunError{Why: fmt.Sprintf("step %s used input %s, which changes, and would be taken over as it was: say --from %s, so that it runs again", s.Step, name, s.Step)}
		}
	}
	return plan, nil
}

// changedInputs returns all inputs of the new run, and the names of those that
// differ from the old run's. What the job does not take any more is left out.
func changedInputs(job *jobs.Job, old task.Run, given map[string]json.RawMessage) (all map[string]json.RawMessage, changed []string, err error) {
	var before map[string]json.RawMessage
	if len(old.Inputs) > 0 {
		if err := json.Unmarshal(old.Inputs, &before); err != nil {
			return nil, nil, fmt.Errorf("read the inputs of run %s: %w", old.ID, err)
		}
	}
	all = map[string]json.RawMessage{}
	for _, d := range job.Inputs {
		if v, had := before[d.Name]; had {
			all[d.Name] = v
		}
	}
	for name, v := range given {
		if !task.SameJSON(before[name], v) {
			changed = append(changed, name)
		}
		all[name] = v
	}
	slices.Sort(changed)
	return all, changed, nil
}

// labelOf returns the label of the period of a run that was asked for by it, or ""
// where the due instant gives that period.
func labelOf(job *jobs.Job, old task.Run) string {
	var p struct{ Label string }
	if job.Period == nil || len(old.Period) == 0 || json.Unmarshal(old.Period, &p) != nil {
		return ""
	}
	loc := job.Location
	if loc == nil {
		loc = time.UTC
	}
	if own, err := job.Period.At(old.DueAt, loc); err == nil && own.Label == p.Label {
		return ""
	}
	return p.Label
}

// sameKey refuses inputs under which the run would have another key: that is
// another run.
func sameKey(job *jobs.Job, old task.Run, now task.NewRun) error {
	if job.Key == "" || old.Key == "" {
		return nil
	}
	key := func(inputs json.RawMessage) string {
		f := freezing{job: job, due: old.DueAt, period: now.Run.Period}
		if json.Unmarshal(inputs, &f.inputs) != nil {
			return ""
		}
		k, err := f.key("")
		if err != nil {
			return ""
		}
		return k
	}
	after := key(now.Run.Inputs)
	if key(old.Inputs) != old.Key || after == "" || after == old.Key {
		return nil
	}
	return &task.RerunError{Why: fmt.Sprintf("with these inputs the run would have the key %s and no longer %s: that is a run of its own, so ask for it without a step", after, old.Key)}
}

// usesChanged returns an input that a step used and that changes, or "".
func usesChanged(t task.NewTask, changed []string) string {
	if len(changed) == 0 {
		return ""
	}
	settings := t.Settings
	var sub task.SubJob
	if t.Type == task.TypeJob && json.Unmarshal(settings, &sub) == nil { // what the called job refers to are inputs of its own
		settings = sub.Inputs
	}
	uses := slices.Concat(expr.Uses(settings, t.Condition, t.EachCondition), expr.Uses(t.ForEach), expr.Uses(quoted(sub.Key)))
	for _, u := range uses {
		switch {
		case u.Context != "inputs":
		case u.Name == "":
			return strings.Join(changed, ", ")
		case slices.Contains(changed, u.Name):
			return u.Name
		}
	}
	return ""
}
