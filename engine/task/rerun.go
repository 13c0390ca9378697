package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Rerun says what of a run that is over is to be done again, as a new version.
// At most one of From, Step and OnlyFailed is set; with none of them all of it is.
type Rerun struct {
	RunID      string
	From       string // a step: it and everything after it
	Step       string // one step alone, or one element of it: "entity[hk]"
	OnlyFailed bool   // what did not end well, and everything after it
	Overrides  map[string]map[string]json.RawMessage
	// Overrides are settings by step that replace the frozen ones of steps that run again.
	Inputs json.RawMessage // object, all inputs of the new run; nil: those of the old
	Now    *NewRun         // the job as its file stands now: steps that run again are taken from it; nil: as they were frozen then
	Action Action
}

// A RerunError says that a rerun is asked for that makes no sense. Asking again in
// the same way gives the same error.
type RerunError struct{ Why string }

// Error returns why.
func (e *RerunError) Error() string { return e.Why }

func senseless(format string, args ...any) error {
	return &RerunError{Why: fmt.Sprintf(format, args...)}
}

// A GraphError is why a rerun cannot take steps from the job's file: its graph is
// no longer that of the run.
type GraphError struct{ Why string }

// Error says what differs and what can be done all the same.
func (e *GraphError) Error() string {
	return "the steps of the job's file are no longer those of the run (" + e.Why + "): run them as they were frozen then, or make a whole new version"
}

// A Fate is what becomes of a step of the old run in the new one.
type Fate string

// The fates of steps.
const (
	FateAgain  Fate = "again"  // it runs again
	FateReused Fate = "reused" // it is a success already, with its old outputs
	FateKept   Fate = "kept"   // it is skipped again, as its condition had it
	FateLeft   Fate = "left"   // it is skipped, because only another step was asked for
)

// An OldStep is a step of the run that is done again.
type OldStep struct {
	Step    string
	State   State
	Reason  string
	Phase   Phase
	Needs   []string
	Refs    []string
	ForEach bool
	Frozen  NewTask // its type, settings, conditions and what it ranges over
}

// reusable reports whether what a step left can stand for it.
func (s OldStep) reusable() bool { return s.State == Success }

// skippedByItself reports whether its own condition ruled it out.
func (s OldStep) skippedByItself() bool { return s.State == Skipped && s.Reason == ReasonCondition }

// SplitElement splits "entity[hk]" into the step and the element; the element is "" where
// a whole step is named.
func SplitElement(name string) (step, element string) {
	step, rest, found := strings.Cut(name, "[")
	if element, closed := strings.CutSuffix(rest, "]"); found && closed {
		return step, element
	}
	return name, ""
}

// Fates decides what becomes of each step. The comparison of an old run has no
// place in a rerun, which has its version at once. The error is a *RerunError or a
// *GraphError.
func (r Rerun) Fates(old []OldStep) (map[string]Fate, error) {
	if r.Now != nil {
		why := otherGraph(old, r.Now.Tasks)
		if name, element := SplitElement(r.Step); why == "" && element != "" {
			why = otherElements(name, old, r.Now.Tasks)
		}
		if why != "" {
			return nil, &GraphError{Why: why}
		}
	}
	steps := make(map[string]OldStep, len(old))
	for _, s := range old {
		steps[s.Step] = s
	}
	var fates map[string]Fate
	var err error
	switch {
	case r.Step != "":
		fates, err = r.alone(old, steps)
	default:
		fates, err = r.behind(old, steps)
	}
	if err != nil {
		return nil, err
	}
	if _, there := steps[TypeCompare]; there {
		fates[TypeCompare] = FateLeft
	}
	return fates, r.checkOverrides(steps, fates)
}

// alone runs one step and reuses what it can of the others but for what comes after it.
func (r Rerun) alone(old []OldStep, steps map[string]OldStep) (map[string]Fate, error) {
	name, element := SplitElement(r.Step)
	only, err := mainStep(steps, name)
	if err != nil {
		return nil, err
	}
	if element != "" && !only.ForEach {
		return nil, senseless("step %s has no for_each, and so no element %s; name it without [%s]", name, element, element)
	}
	after := behind(old, map[string]bool{name: true})
	fates := map[string]Fate{}
	for _, s := range old {
		switch {
		case s.Step == name:
			fates[s.Step] = FateAgain
		case s.Phase != PhaseMain, after[s.Step]:
			fates[s.Step] = FateLeft
		case s.reusable():
			fates[s.Step] = FateReused
		case s.skippedByItself():
			fates[s.Step] = FateKept
		default:
			fates[s.Step] = FateLeft
		}
	}
	for _, ref := range only.Refs {
		if fates[ref] == FateLeft {
			return nil, senseless("step %s refers to step %s, which left nothing to reuse (%s): rerun from %s", name, ref, steps[ref].State, ref)
		}
	}
	return fates, nil
}

// behind runs what was asked for, what cannot be reused, and everything after both.
func (r Rerun) behind(old []OldStep, steps map[string]OldStep) (map[string]Fate, error) {
	all := r.From == "" && !r.OnlyFailed
	if r.From != "" {
		if _, err := mainStep(steps, r.From); err != nil {
			return nil, err
		}
	}
	again := map[string]bool{}
	for _, s := range old {
		if s.Step != TypeCompare && s.Phase == PhaseMain && (all || s.Step == r.From || !s.reusable() && !s.skippedByItself()) {
			again[s.Step] = true
		}
	}
	if len(again) == 0 {
		return nil, senseless("no step of run %s failed: say --from STEP, or nothing to do all of it again", r.RunID)
	}
	again = behind(old, again)
	fates := map[string]Fate{}
	for _, s := range old {
		switch {
		case s.Phase != PhaseMain || again[s.Step]:
			fates[s.Step] = FateAgain
		case s.reusable():
			fates[s.Step] = FateReused
		default:
			fates[s.Step] = FateKept
		}
	}
	return fates, nil
}

// behind returns the given steps and everything that needs them, however far.
func behind(old []OldStep, from map[string]bool) map[string]bool {
	after := map[string][]string{}
	for _, s := range old {
		for _, n := range s.Needs {
			after[n] = append(after[n], s.Step)
		}
	}
	found := map[string]bool{}
	var next []string
	for s := range from {
		next = append(next, s)
	}
	for len(next) > 0 {
		s := next[len(next)-1]
		next = next[:len(next)-1]
		if !found[s] {
			found[s] = true
			next = append(next, after[s]...)
		}
	}
	return found
}

func mainStep(steps map[string]OldStep, name string) (OldStep, error) {
	s, ok := steps[name]
	switch {
	case !ok || name == TypeCompare:
		var names []string
		for n := range steps {
			if n != TypeCompare {
				names = append(names, n)
			}
		}
		slices.Sort(names)
		return s, senseless("the run has no step %q; it has %s", name, strings.Join(names, ", "))
	case s.Phase != PhaseMain:
		return s, senseless("step %s belongs to %s and cannot be run by itself", name, s.Phase)
	}
	return s, nil
}

func (r Rerun) checkOverrides(steps map[string]OldStep, fates map[string]Fate) error {
	for name, settings := range r.Overrides {
		if _, err := mainStep(steps, name); err != nil && steps[name].Step == "" {
			return senseless("override %s: %v", name, err)
		}
		if steps[name].Frozen.Type == TypeJob {
			return senseless("override %s: that step runs another job; change what it is handed with an input of this one", name)
		}
		if fates[name] != FateAgain {
			return senseless("override %s: that step does not run again in this rerun (%s)", name, fates[name])
		}
		for setting, value := range settings {
			if strings.Contains(string(value), "${{") {
				return senseless("override %s.%s: give a value, not an expression", name, setting)
			}
		}
	}
	return nil
}
