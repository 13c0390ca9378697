package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/scheduler"
)

// A correctionView is what somebody had set by hand for a version.
type correctionView struct {
	Run      string                                `json:"run"`
	Version  int                                   `json:"version"`
	Actor    string                                `json:"actor"`
	At       time.Time                             `json:"at"`
	Reason   string                                `json:"reason"`
	Settings map[string]map[string]json.RawMessage `json:"settings"`
	Inputs   map[string]json.RawMessage            `json:"inputs"`
}

func correctionViews(list []task.Correction) []correctionView {
	var views []correctionView
	for _, c := range list {
		views = append(views, correctionView{c.RunID, c.Version, c.Actor, c.At, c.Reason, c.Settings, c.Inputs})
	}
	return views
}

// addCorrections puts into a view what was set by hand for the run, and for the
// version before it.
func (v *runView) addCorrections(ctx context.Context, db *store.DB, run task.Run) (err error) {
	v.held, v.left, err = db.Corrections(ctx, run)
	v.ByHand, v.LeftAside = correctionViews(v.held), correctionViews(v.left)
	return err
}

// writeKept says that a result stands which was set by hand.
func writeKept(out io.Writer, v runView, repeated task.Run) {
	fmt.Fprintf(out, "It was set by hand: %s.\n", task.Corrections(v.held))
	fmt.Fprintln(out, "Nothing new has come from its sources since, so it stands, and nothing was done.")
	fmt.Fprintf(out, "To run the job without these settings: --again \"reason\"; with them: madeira runs rerun %s --reason \"reason\".\n", repeated.ID[:13])
}

// warnLeft says of a run, and of those that its steps started, what was set by hand
// for the version before and is not in it.
func warnLeft(out io.Writer, v runView, steps []stepView) {
	if len(v.left) > 0 {
		fmt.Fprintf(out, "warning: version %d of %s is without what was set by hand before: %s\n", v.Version, v.name(), task.Corrections(v.left))
		fmt.Fprintf(out, "to go back to that, as the next version: madeira runs rerun %s --reason \"reason\"\n", v.left[0].RunID[:13])
	}
	for _, s := range steps {
		if s.Run != nil && !s.Reused {
			warnLeft(out, s.Run.runView, s.Run.Steps)
		}
	}
}

func (v runView) name() string { return keyName(task.Run{Job: v.Job, Key: v.Key}) }

// droppedIn returns what was set by hand for steps that run again as the job's file
// has them.
func droppedIn(plan scheduler.RerunPlan, held []task.Correction) []task.Correction {
	if plan.Rerun.Now == nil {
		return nil
	}
	settings := map[string]json.RawMessage{}
	for _, t := range plan.Rerun.Now.Tasks {
		settings[t.Step] = t.Settings
	}
	var dropped []task.Correction
	for _, c := range held {
		again := map[string]map[string]json.RawMessage{}
		for step, set := range c.Settings {
			if slices.Contains(plan.Again, step) {
				again[step] = maps.Clone(set)
				maps.DeleteFunc(again[step], func(name string, _ json.RawMessage) bool { return plan.Rerun.Overrides[step][name] != nil })
			}
		}
		c.Settings, c.Inputs = again, nil
		if c = c.Without(settings, nil); !c.Empty() {
			dropped = append(dropped, c)
		}
	}
	return dropped
}
