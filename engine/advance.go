package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"madeira/engine/task"
	"madeira/jobs/expr"
)

// advanceLimit bounds one transaction of decisions.
const advanceLimit = 200

// advance decides what follows from steps that did not simply succeed, and begins
// the phases that follow, until nothing is left to decide.
func (e *Engine) advance(ctx context.Context) (time.Duration, error) {
	var last int64
	for {
		begun, err := e.beginPhases(ctx)
		if err != nil {
			return 0, err
		}
		undecided, err := e.cfg.Queue.Undecided(ctx, advanceLimit)
		if err != nil {
			return 0, err
		}
		// The same task twice means that another process is deciding it: look
		// again at the next poll.
		if len(undecided) == 0 && !begun || len(undecided) > 0 && undecided[0].TaskID == last {
			return jitter(e.cfg.Poll), nil
		}
		if len(undecided) == 0 {
			continue
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
		e.ended()
	}
}

// beginPhases begins what follows phases that are over, and reports whether there
// was any.
func (e *Engine) beginPhases(ctx context.Context) (bool, error) {
	if e.cfg.Flow == nil {
		return false, nil
	}
	n, err := e.cfg.Flow.NextPhase(ctx, advanceLimit)
	if err != nil {
		return false, fmt.Errorf("begin the phases that follow: %w", err)
	}
	if n > 0 {
		e.Wake()
		e.ended()
	}
	return n > 0, nil
}

// decide says whether a blocked task runs or is skipped, and why.
func decide(u task.Undecided) task.Decision {
	v := valuesOf(u.Scope, u.Needs, u.Each)
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
	if later(u.Phase) && saysWhen(u.Condition) {
		v = afterMain(v, u.Scope)
	}
	d := task.Decision{TaskID: u.TaskID, To: task.Skipped}
	yes, err := expr.Condition(u.Condition, v)
	if u.Scope.Problem != "" && u.Condition != "" {
		err = errors.New(u.Scope.Problem)
	}
	switch {
	case err != nil:
		d.Reason, d.Detail = "condition_error", err.Error()
	case yes:
		d.To = task.Pending
	case bad != "" && failureDecided(u.Condition, v):
		d.Reason, d.Detail = task.ReasonNeedsFailed, fmt.Sprintf("step %s ended as %s", bad, u.Needs[bad].State)
	default:
		d.Reason, d.Detail = task.ReasonCondition, task.ConditionText(u.Condition)
	}
	return d
}

// afterMain adds how the run went so far to what a condition of on_failure or
// finally asks for by name. That success() is implied where it asks for nothing
// means what the step needs and no more: nothing would run there otherwise.
func afterMain(v expr.Values, scope task.Scope) expr.Values {
	stopped := scope.Run.Stopped
	v.Success = v.Success && scope.Failure == nil && stopped == ""
	v.Failure = v.Failure || scope.Failure != nil || stopped == "timeout"
	v.Cancelled = v.Cancelled || stopped == "cancelled"
	return v
}

// endedWell reports whether a step counts as success for those that need it.
func endedWell(s task.StepResult) bool {
	return s.State == task.Success || s.Excused || s.State == task.Skipped && s.Reason == task.ReasonCondition
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
