package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// An ending is everything that is known of an attempt when it is over.
type ending struct {
	Run       task.Run // of the task; zero for one enqueued alone
	Output    step.Output
	Err       error
	Cause     error // why the attempt was cancelled; nil: it was not
	Artifacts []task.Artifact
	Left      task.State    // where the attempt has moved its task itself; "": nowhere
	StartedAt time.Duration // from the claim to the call of the Runner
	Took      time.Duration // of the Runner
}

// infrastructureDelay is the longest pause after a failure of the machine. No
// attempt is spent, so there is no number to grow it with.
const infrastructureDelay = 10 * time.Second

// deliveryRetry is how a message is tried again: for about two hours, because a
// receiver that is down for a deployment or over lunch should still hear of it.
var deliveryRetry = task.Retry{MaxAttempts: 12, Delay: 10 * time.Second, Factor: 2, MaxDelay: 30 * time.Minute}

// outcomeOf decides what the end of an attempt becomes. Random is in [0, 1);
// mask hides secrets in text. It reports false when the result must be dropped,
// because the task is not ours any more. A lease that could only not be renewed
// may be ours still: what the attempt came to is handed in, and the fence decides.
func outcomeOf(c task.Claimed, end ending, random float64, mask func(string) string) (task.Outcome, bool) {
	if errors.Is(end.Cause, errLeaseLost) || errors.Is(end.Err, step.ErrLeaseLost) {
		return task.Outcome{}, false
	}
	o := task.Outcome{
		Hold: c.Hold, StartedAt: end.StartedAt, Took: end.Took,
		Limited: c.Limited, Circuit: c.Circuit, Alone: c.RunID == "", Ungated: !c.Limited && c.Circuit == "",
	}
	outputs, err := outputsOf(end.Output, mask)
	if end.Err == nil {
		end.Err = err
	}
	switch wait := waitOf(end.Output); {
	case end.Err != nil:
		o = fail(o, c, end, random)
	case wait != nil:
		o.To, o.Reason, o.Unspent, o.Delay = task.Waiting, task.ReasonWait, true, wait.Expire
	default:
		o.To, o.Digest = task.Success, end.Output.Digest
	}
	if o.Failure != nil {
		o.Failure.Message, o.Failure.Stack = mask(o.Failure.Message), mask(o.Failure.Stack)
	}
	if o.To.Terminal() || o.To == task.Waiting {
		o.Outputs, o.Artifacts = outputs, named(end.Artifacts, end.Output.Values)
		o.Warning = mask(end.Output.Warning)
		o.Messages = messagesOf(c, end)
	}
	return o, true
}

// waitOf returns the wait that a step asked for, with an expiry that is none or
// still to come; nil when it asked for none.
func waitOf(out step.Output) *step.Wait {
	for _, effect := range out.Effects {
		if w, ok := effect.(step.Wait); ok {
			if w.Expire < 0 {
				w.Expire = time.Millisecond
			}
			return &w
		}
	}
	return nil
}

// named gives each dataset the name of the output that refers to it.
func named(kept []task.Artifact, outputs map[string]any) []task.Artifact {
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		d, ok := outputs[name].(step.Dataset)
		if !ok {
			continue
		}
		for i := range kept {
			if kept[i].Kind == "dataset" && kept[i].Digest == d.Digest {
				kept[i].Name = name
			}
		}
	}
	return kept
}

// fail decides what becomes of an attempt that ended with an error.
func fail(o task.Outcome, c task.Claimed, end ending, random float64) task.Outcome {
	class := classOf(end.Cause, end.Err)
	if released(end.Cause, end.Err, class) {
		o.To, o.Reason, o.Unspent = task.Pending, task.ReasonReleased, true
		return o
	}
	if errors.Is(end.Cause, errStopped) {
		o.To, o.Reason = task.Cancelled, task.ReasonCancelled
		return o
	}
	o.Failure = failureOf(class, end)
	failed := c.Attempt - c.Crashes // what died with its worker has a limit of its own
	if c.Type == task.TypeDeliver && c.Retry.IsZero() {
		c.Retry = deliveryRetry
	}
	switch {
	case class == task.InfrastructureFailure:
		o.To, o.Reason, o.Unspent = task.Pending, task.ReasonInfrastructure, true
		if !errors.Is(end.Cause, errUnrenewed) { // which took most of a lease, and is over when this is read
			o.Delay = time.Duration((1 + random) / 2 * float64(infrastructureDelay))
		}
	case !c.Retry.Retries(*o.Failure), failed >= c.Retry.Attempts():
		o.To, o.Reason = task.Error, string(class)
	default:
		o.To, o.Reason = task.Pending, task.ReasonRetry
		o.Delay = max(c.Retry.Wait(failed, random), asked(c.Retry, end.Err))
	}
	return o
}

// asked is the pause that the cause of a failure asked for, as far as the step
// allows it.
func asked(r task.Retry, err error) time.Duration {
	var after *step.RetryAfterError
	if !errors.As(err, &after) {
		return 0
	}
	return max(min(after.After, r.Longest()), 0)
}

// classOf tells what kind of failure an attempt ended with.
func classOf(cause, err error) task.Class {
	var permanent *step.PermanentError
	var infrastructure *step.InfrastructureError
	unrenewed := errors.Is(cause, errUnrenewed)
	switch {
	case unrenewed && (errors.Is(err, context.Canceled) || errors.Is(err, errUnrenewed)):
		return task.InfrastructureFailure // whatever the step calls that
	case errors.As(err, &permanent):
		return task.PermanentFailure
	case errors.As(err, &infrastructure), machineFull(err), unrenewed:
		return task.InfrastructureFailure
	case errors.Is(cause, errTimeout):
		return task.TimeoutFailure
	}
	return task.TransientFailure
}

// released reports whether the attempt ended because the worker is leaving, and
// not of itself.
func released(cause, err error, class task.Class) bool {
	if !errors.Is(cause, errShutdown) {
		return false
	}
	return class != task.PermanentFailure || errors.Is(err, context.Canceled)
}

func failureOf(class task.Class, end ending) *task.Failure {
	f := &task.Failure{Class: class, Message: end.Err.Error()}
	var permanent *step.PermanentError
	if errors.As(end.Err, &permanent) {
		f.Code = permanent.Code
	}
	var crash *panicError
	if errors.As(end.Err, &crash) {
		f.Code, f.Stack = "step.panic", crash.stack
	}
	if class == task.InfrastructureFailure && errors.Is(end.Cause, errUnrenewed) && !errors.Is(end.Err, errUnrenewed) {
		f.Message = errUnrenewed.Error() + ": " + f.Message
	}
	if class == task.TimeoutFailure {
		f.Code = "step.timeout"
		if !errors.Is(end.Err, errTimeout) {
			f.Message = errTimeout.Error() + ": " + f.Message
		}
	}
	return f
}

// messagesOf gives every message of an attempt the key that makes it one,
// however often it is composed.
func messagesOf(c task.Claimed, end ending) []task.Message {
	var messages []task.Message
	for _, effect := range end.Output.Effects {
		if m, ok := effect.(step.Message); ok {
			messages = append(messages, task.Message{
				Key: messageKey(c, end.Run, m), Channel: m.Channel, Template: m.Template, Payload: m.Body,
			})
		}
	}
	return messages
}

// messageKey is a list rather than a joined text, so that no two different
// messages can have the same key whatever their parts hold.
func messageKey(c task.Claimed, run task.Run, m step.Message) string {
	owner := []any{run.Job, run.Key, run.Version}
	switch {
	case run.ID == "":
		owner = []any{"task", c.TaskID}
	case run.Key == "" || run.Version == 0: // asked again and failed before it was compared
		owner = []any{run.Job, run.ID}
	}
	key, err := json.Marshal(append(owner, c.Step, c.Element, m.Channel, m.Template))
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	return string(key)
}
