package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
	"madeira/scheduler"
)

// runPart does a part of a run that is over again, as the next version of its key.
func (p *program) runPart(ctx context.Context, r *process, view *progressView, job *jobs.Job, o runOptions) error {
	defer view.close()
	old, err := p.takenFrom(ctx, r.db, job, o)
	if err != nil {
		return err
	}
	plan, old, err := p.planPart(ctx, r, job, old, o)
	if err != nil {
		return rerunRefused(err, true)
	}
	if o.reason == "" && (old.Status == task.RunSuccess || old.Status == task.RunWarning) {
		return usage("run %s of %s ended as %s: say with --reason why a part of it runs again; whoever finds a second version will read it", old.ID, keyName(old), old.Status)
	}
	held, _, err := r.db.Corrections(ctx, old)
	if err != nil {
		return err
	}
	dropped := droppedIn(plan, held)
	if o.dry {
		return p.showPart(old, plan, dropped)
	}
	p.tellPart(old, plan, dropped)
	run, err := r.db.Rerun(ctx, plan.Rerun)
	if err != nil {
		return rerunRefused(err, true)
	}
	return p.finish(ctx, r, view, run.ID, "interrupted; madeira run with the same key, or madeira serve, goes on with run "+run.ID)
}

// takenFrom finds the run that the other steps are taken from.
func (p *program) takenFrom(ctx context.Context, db *store.DB, job *jobs.Job, o runOptions) (task.Run, error) {
	if o.run != "" {
		run, err := oneRun(ctx, db, o.run)
		if err == nil && run.Job != job.Name {
			err = usage("run %s is one of job %s, and the file is job %s", run.ID, run.Job, job.Name)
		}
		return run, err
	}
	key := o.key
	if key == "" {
		now, err := db.Now(ctx)
		if err != nil {
			return task.Run{}, err
		}
		inputs, err := readInputs(ctx, measure{}, job, o.inputs)
		if err != nil {
			return task.Run{}, usage("%w", err)
		}
		frozen, err := scheduler.Freeze(job, scheduler.Request{DueAt: now, PeriodLabel: o.period, Inputs: inputs})
		if err != nil {
			return task.Run{}, usage("%w; say which run is meant with --upstream-key or --run", err)
		}
		if key = frozen.Run.Key; key == "" {
			return task.Run{}, usage("job %s has no upstream_key, so each run is its own: say which one is meant with --run; madeira runs --job %s lists them", job.Name, job.Name)
		}
	}
	run, err := db.LastVersion(ctx, job.Name, key)
	if errors.Is(err, store.ErrNotFound) {
		return run, usage("there is no run of %s %s to take the other steps from: run it without --step, --from and --only-failed; madeira runs --job %s lists what there is", job.Name, key, job.Name)
	}
	return run, err
}

func (p *program) planPart(ctx context.Context, r *process, job *jobs.Job, old task.Run, o runOptions) (scheduler.RerunPlan, task.Run, error) {
	var none scheduler.RerunPlan
	var k keeper = r
	if o.dry {
		k = measure{}
	}
	request := scheduler.RerunRequest{Rerun: o.part, Frozen: o.frozen}
	request.Rerun.Action = task.Action{Actor: p.actor(o.as), Reason: o.reason}
	old, steps, err := r.db.OldSteps(ctx, old.ID)
	if err != nil {
		return none, old, err
	}
	if request.Rerun.Overrides, err = overrides(ctx, k, o.set); err == nil {
		err = checkOverrides(steps, request.Rerun.Overrides)
	}
	if err != nil {
		return none, old, err
	}
	if request.Inputs, err = readInputs(ctx, k, job, o.inputs); err != nil {
		return none, old, usage("%w", err)
	}
	plan, err := scheduler.PlanRerun(job, old, steps, request)
	return plan, old, err
}

// tellPart says what is taken over from which run, and what became of the job's
// file since.
func (p *program) tellPart(old task.Run, plan scheduler.RerunPlan, dropped []task.Correction) {
	from := fmt.Sprintf("run %s, version %d of %s, which ended as %s at %s", old.ID, old.Version, keyName(old), old.Status, old.FinishedAt.UTC().Format(time.DateTime+" UTC"))
	if len(plan.Reused) > 0 {
		fmt.Fprintf(p.stderr, "taken over: %s, from %s\n", strings.Join(plan.Reused, ", "), from)
	} else {
		fmt.Fprintf(p.stderr, "no step is taken over as a whole from %s\n", from)
	}
	again := slices.Clone(plan.Again)
	for i, name := range again {
		if slices.Contains(plan.Partial, name) {
			again[i] += " (elements that ended well are taken over)"
		}
	}
	fmt.Fprintf(p.stderr, "runs again: %s\n", strings.Join(again, ", "))
	if len(dropped) > 0 {
		fmt.Fprintf(p.stderr, "warning: not used again, because what runs again runs as the job file has it, is what was set by hand before: %s; say --set once more, or --frozen\n", task.Corrections(dropped))
	}
	if len(plan.Renewed) > 0 {
		fmt.Fprintf(p.stderr, "what ran then is not what the job file says now (it has changed, or --set was used): %s as it stands now; --frozen runs the steps as they were\n", runsAs(plan.Renewed))
	}
	if len(plan.Changed) > 0 {
		fmt.Fprintf(p.stderr, "what ran then is not what the job file says now (it has changed, or --set was used), but what %s left is taken over as it is; --from %s runs it as it stands now\n", strings.Join(plan.Changed, ", "), plan.Changed[0])
	}
	if plan.Stale {
		fmt.Fprintf(p.stderr, "the job file has changed since; this runs the steps as they were frozen in run %s\n", old.ID)
	}
}

func runsAs(names []string) string {
	if len(names) == 1 {
		return names[0] + " runs"
	}
	return strings.Join(names, ", ") + " run"
}

// showPart prints what a part would do.
func (p *program) showPart(old task.Run, plan scheduler.RerunPlan, dropped []task.Correction) error {
	if p.output == "json" {
		list := func(names []string) []string { return append([]string{}, names...) }
		return p.json(map[string]any{
			"from": newRunView(old, task.Run{}), "again": list(plan.Again), "reused": list(plan.Reused), "kept_skipped": list(plan.Kept),
			"left_out": list(plan.Left), "changed_in_file": list(plan.Changed), "from_file": list(plan.Renewed),
			"left_aside": append([]correctionView{}, correctionViews(dropped)...),
		})
	}
	p.tellPart(old, plan, dropped)
	fmt.Fprintln(p.stdout, "dry run: nothing was done")
	return nil
}

// rerunRefused marks what cannot be done to a run as the caller's error. Where the
// file of the job is at hand, it says how to do without.
func rerunRefused(err error, file bool) error {
	var state *store.RunStateError
	var senseless *task.RerunError
	var graph *task.GraphError
	var bad *scheduler.RequestError
	switch {
	case errors.As(err, &graph) && file:
		return usage("%w (--frozen, or --again REASON)", err)
	case errors.As(err, &state), errors.As(err, &senseless), errors.As(err, &graph), errors.As(err, &bad):
		return usage("%w", err)
	}
	return err
}
