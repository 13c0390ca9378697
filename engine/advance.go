package engine

import (
	"context"
	"fmt"
	"time"

	"madeira/engine/task"
	"madeira/jobs/expr"
)

// advanceLimit bounds one transaction of decisions.
const advanceLimit = 200

// advance decides what follows from steps that did not simply succeed, until
// nothing is left to decide.
func (e *Engine) advance(ctx context.Context) (time.Duration, error) {
	var last int64
	for {
		undecided, err := e.cfg.Queue.Undecided(ctx, advanceLimit)
		if err != nil {
			return 0, err
		}
		// The same task twice means that another process is deciding it: look
		// again at the next poll.
		if len(undecided) == 0 || undecided[0].TaskID == last {
			return jitter(e.cfg.Poll), nil
		}
		last = undecided[0].TaskID
		decisions := make([]task.Decision, len(undecided))
		for i, u := range undecided {
			decisions[i] = decide(u)
		}
		if err := e.cfg.Queue.Decide(ctx, decisions); err != nil {
			return 0, fmt.Errorf("decide %d tasks: %w", len(decisions), err)
		}
		e.Wake()
		nudge(e.written)
	}
}

// decide says whether a blocked task runs or is skipped, and why.
func decide(u task.Undecided) task.Decision {
	v := valuesOf(u.Scope.Run, u.Scope.Steps, u.Needs)
	var bad string // a step that did not end well
	v.Success = true
	for id, s := range u.Needs {
		if endedWell(s) {
			continue
		}
		v.Success = false
		v.Failure = v.Failure || s.State != task.Cancelled
		v.Cancelled = v.Cancelled || s.State == task.Cancelled
		if bad == "" || id < bad {
			bad = id
		}
	}
	d := task.Decision{TaskID: u.TaskID, To: task.Skipped}
	yes, err := expr.Condition(u.Condition, v)
	switch {
	case err != nil:
		d.Reason, d.Detail = "condition_error", err.Error()
	case yes:
		d.To = task.Pending
	case !v.Success && failureDecided(u.Condition, v):
		d.Reason, d.Detail = task.ReasonNeedsFailed, fmt.Sprintf("step %s ended as %s", bad, u.Needs[bad].State)
	default:
		d.Reason, d.Detail = task.ReasonCondition, "if: "+u.Condition
	}
	return d
}

// endedWell reports whether a step counts as success for those that need it.
func endedWell(s task.StepResult) bool {
	return s.State == task.Success || s.State == task.Skipped && s.Reason == task.ReasonCondition
}

// failureDecided reports whether a condition is false because something failed,
// and not because of what else it asks: success() is implied in it, or it would
// have been true had everything ended well.
func failureDecided(condition string, v expr.Values) bool {
	if condition == "" || !saysWhen(condition) {
		return true
	}
	v.Success, v.Failure, v.Cancelled = true, false, false
	yes, err := expr.Condition(condition, v)
	return err == nil && yes
}

// saysWhen reports whether a condition asks for the state of what it needs, so
// that success() is not implied. The left side of the "or" decides its value
// alone, and only the implied success() can still make it false.
func saysWhen(condition string) bool {
	yes, err := expr.Condition("true || ("+condition+")", expr.Values{})
	return err == nil && yes
}
