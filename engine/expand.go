package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"madeira/engine/task"
	"madeira/jobs/expr"
	"madeira/jobs/step"
)

// maxElements bounds one for_each: each element is a row, and so is each of its moves.
const maxElements = 100_000

// own returns the Runner of a task that is not for a step type to run: a step with
// for_each, which expands and later joins, and the start of another run; nil for
// all others.
func (e *Engine) own(a *attempt, scope task.Scope) step.Runner {
	switch {
	case a.ForEach != nil && e.cfg.Flow == nil:
		return unable{fmt.Errorf("run task %d: this worker cannot expand a for_each", a.TaskID)}
	case a.ForEach != nil && a.Woken == task.WakeJoined:
		return joining{flow: e.cfg.Flow, attempt: a}
	case a.ForEach != nil:
		return &expansion{flow: e.cfg.Flow, attempt: a, scope: scope}
	case a.Type == task.TypeJob:
		return &calling{flow: e.cfg.Flow, attempt: a, scope: scope, check: e.cfg.CheckInputs, started: e.joined}
	}
	return nil
}

// unable is the Runner of what another worker has to do.
type unable struct{ err error }

func (u unable) Run(context.Context, step.Input) (step.Output, error) {
	return step.Output{}, step.Infrastructure(u.err)
}

// A parting is what a mover has done with its task: nothing, or put it into waiting.
type parting struct{ waits bool }

func (p *parting) left() task.State {
	if p.waits {
		return task.Waiting
	}
	return ""
}

// An expansion makes the elements of a for_each.
type expansion struct {
	flow    Flow
	attempt *attempt
	scope   task.Scope
	parting
}

func (x *expansion) Run(ctx context.Context, _ step.Input) (step.Output, error) {
	c := x.attempt.Claimed
	list, err := expr.Elements(c.ForEach, valuesOf(x.scope, nil, nil))
	if err != nil {
		return step.Output{}, wrong("for_each of step "+c.Step, err)
	}
	elements, err := elementsOf(list)
	if err != nil {
		return step.Output{}, step.PermanentCode("for_each.type", fmt.Errorf("for_each of step %s: %w", c.Step, err))
	}
	if len(elements) == 0 {
		return step.Output{}, nil
	}
	if err := x.flow.Expand(ctx, c.Hold, elements); err != nil {
		return step.Output{}, ofStore(err)
	}
	x.waits = true
	return step.Output{}, nil
}

// ofStore classes an error of the state database: what it does not call permanent
// or lost is the machine's.
func ofStore(err error) error {
	var permanent *step.PermanentError
	if errors.Is(err, step.ErrLeaseLost) || errors.As(err, &permanent) {
		return err
	}
	return step.Infrastructure(err)
}

// elementsOf returns the elements of a list or an object in their order.
func elementsOf(raw json.RawMessage) ([]task.Element, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	open, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("read what it ranges over: %w", err)
	}
	if open != json.Delim('[') && open != json.Delim('{') {
		return nil, fmt.Errorf("it ranges over a list or an object, and this is %.60s", raw)
	}
	var all []task.Element
	for d.More() {
		e := task.Element{Key: strconv.Itoa(len(all))}
		if open == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return nil, fmt.Errorf("read what it ranges over: %w", err)
			}
			e.Key, _ = key.(string)
		}
		if err := d.Decode(&e.Value); err != nil {
			return nil, fmt.Errorf("read what it ranges over: %w", err)
		}
		if all = append(all, e); len(all) > maxElements {
			return nil, fmt.Errorf("it has more than %d elements: hand them on in groups", maxElements)
		}
	}
	return all, nil
}

// A joining ends a for_each as its elements did.
type joining struct {
	flow    Flow
	attempt *attempt
}

func (j joining) Run(ctx context.Context, _ step.Input) (step.Output, error) {
	results, err := j.flow.Elements(ctx, j.attempt.TaskID)
	if err != nil {
		return step.Output{}, step.Infrastructure(err)
	}
	return joined(j.attempt.Step, results)
}

// namedElements is how many elements a sentence about them names.
const namedElements = 10

// joined says what becomes of a step with for_each. What it leaves is read from its
// elements whenever it is asked for, and not kept twice.
func joined(name string, results []task.ElementResult) (step.Output, error) {
	var failed, warned []string
	first := ""
	digest := sha256.New()
	read := len(results) > 0
	for _, r := range results {
		element := task.Name(name, r.Key)
		skipped := r.State == task.Skipped && r.Reason == task.ReasonCondition
		switch {
		case r.State != task.Success && !skipped:
			if failed = append(failed, element); first == "" {
				first = r.Error
			}
		case r.Warning != "":
			warned = append(warned, element)
		}
		read = read && (r.Digest != "" || skipped)
		fmt.Fprintf(digest, "%q %q\n", r.Key, r.Digest)
	}
	var out step.Output
	if len(warned) > 0 {
		out.Warning = fmt.Sprintf("%d of %d elements have a warning: %s", len(warned), len(results), few(warned))
	}
	if read {
		out.Digest = "sha256:" + hex.EncodeToString(digest.Sum(nil))
	}
	if len(failed) == 0 {
		return out, nil
	}
	text := fmt.Sprintf("%d of %d elements did not end well: %s", len(failed), len(results), few(failed))
	if first != "" {
		text += "; the first of them: " + first
	}
	return out, step.PermanentCode("for_each.failed", errors.New(text))
}

func few(names []string) string {
	if len(names) <= namedElements {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namedElements], ", "), len(names)-namedElements)
}

// wrong makes an error of expressions permanent, with the code it has.
func wrong(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	var bad *expr.Error
	if errors.As(err, &bad) {
		return step.PermanentCode(bad.Code, err)
	}
	return step.Permanent(err)
}
