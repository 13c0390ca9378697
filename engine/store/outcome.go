package store

import (
	"encoding/json"
	"fmt"

	"madeira/engine/task"
)

// An ended attempt is an outcome made fit to be written.
type ended struct {
	task.Outcome
	crashed  bool     // the rescuer says so, not the worker: only while the lease is over
	outputs  document // nil: keep what the row has, unless it is a success
	failure  document // without the stack
	logged   document // with it
	messages []message
}

// A message is a task of type deliver to be made.
type message struct {
	key     string
	payload document
}

// prepare makes an outcome fit to be written. What cannot be made fit becomes a
// failure that says so: an attempt must never hang because of what it returned.
func prepare(o task.Outcome) ended {
	e, err := convert(o)
	if err != nil {
		return fallback(o, err.Error())
	}
	return e
}

func convert(o task.Outcome) (ended, error) {
	if !task.CanMove(task.Processing, o.To) {
		return ended{}, fmt.Errorf("an attempt cannot end as %q", o.To)
	}
	o.Reason, o.Warning, o.Digest = clean(o.Reason, maxLine), clean(o.Warning, maxLine), clean(o.Digest, maxLine)
	e := ended{Outcome: o}
	var err error
	if e.outputs, err = cleanJSON(o.Outputs); err != nil {
		return ended{}, fmt.Errorf("keep the outputs: %w", err)
	}
	if e.failure, e.logged, err = failureJSON(o.Failure); err != nil {
		return ended{}, err
	}
	for _, m := range o.Messages {
		made, err := deliverable(m)
		if err != nil {
			return ended{}, fmt.Errorf("keep a message to %s: %w", m.Channel, err)
		}
		e.messages = append(e.messages, made)
	}
	e.Artifacts = make([]task.Artifact, len(o.Artifacts))
	for i, a := range o.Artifacts {
		a.Name, a.Origin, a.Digest = clean(a.Name, maxLine), clean(a.Origin, maxLine), clean(a.Digest, maxLine)
		e.Artifacts[i] = a
	}
	return e, nil
}

func failureJSON(f *task.Failure) (row, logged document, err error) {
	if f == nil {
		return nil, nil, nil
	}
	c := task.Failure{
		Class:   task.Class(clean(string(f.Class), maxLine)),
		Code:    clean(f.Code, maxLine),
		Message: clean(f.Message, maxMessage),
		Stack:   clean(f.Stack, maxStack),
	}
	if logged, err = json.Marshal(c); err != nil {
		return nil, nil, fmt.Errorf("keep the failure: %w", err)
	}
	c.Stack = ""
	row, err = json.Marshal(c)
	return row, logged, err
}

// deliverable writes a message as the payload of its task.
func deliverable(m task.Message) (message, error) {
	body := m.Payload
	if body == nil {
		body = json.RawMessage("null")
	}
	raw, err := json.Marshal(struct {
		Channel  string          `json:"channel"`
		Template string          `json:"template"`
		Body     json.RawMessage `json:"body"`
	}{m.Channel, m.Template, body})
	if err != nil {
		return message{}, err
	}
	payload, err := cleanJSON(raw)
	return message{key: clean(m.Key, maxLine), payload: payload}, err
}

// fallback is the least that can be written of an outcome: how it ended, and why
// nothing else is there. A success without its outputs would mislead what comes
// after it, so it becomes an error.
func fallback(o task.Outcome, why string) ended {
	to := o.To
	if to == task.Success || to == task.Waiting || !task.CanMove(task.Processing, to) {
		to = task.Error
	}
	min := task.Outcome{Hold: o.Hold, To: to, Unspent: o.Unspent, Delay: o.Delay, StartedAt: o.StartedAt, Took: o.Took}
	class := task.PermanentFailure
	if to == task.Pending {
		min.Reason, class = task.ReasonRetry, task.TransientFailure
	} else {
		min.Reason = string(class)
	}
	min.Failure = &task.Failure{Class: class, Code: "store.refused", Message: "what the step left could not be stored: " + clean(why, maxMessage)}
	e := ended{Outcome: min}
	e.failure, e.logged, _ = failureJSON(min.Failure) // strings always marshal
	return e
}
