package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"madeira/engine/task"
	"madeira/jobs/expr"
	"madeira/jobs/step"
)

// run sees one attempt to its end. It is the body of a goroutine, which stays
// behind when a Runner ignores that it was cancelled: somebody else says then how
// the attempt ended, and the slot is free only when the Runner has returned.
func (e *Engine) run(ctx context.Context, a *attempt) {
	defer a.cancel(nil)
	if a.Timeout > 0 {
		limited, stop := context.WithTimeoutCause(ctx, a.Timeout, errTimeout)
		defer stop()
		ctx = limited
	}
	var end ending
	defer e.returned(ctx, a, &end) // also when the Runner ends its goroutine
	defer context.AfterFunc(ctx, func() { e.lookAfter(ctx, a) })()
	e.perform(ctx, a, &end)
}

// returned concludes an attempt whose Runner has returned. If that took so long
// that it was given up, only its slot is left to give back.
func (e *Engine) returned(ctx context.Context, a *attempt, end *ending) {
	if !a.concluded.CompareAndSwap(false, true) {
		e.board.free(a)
		return
	}
	end.Cause = context.Cause(ctx)
	e.conclude(ctx, a, *end)
}

// lookAfter gives a cancelled attempt the time to return that Config.Patience
// says, and gives it up then.
func (e *Engine) lookAfter(ctx context.Context, a *attempt) {
	time.AfterFunc(e.cfg.Patience, func() {
		if !a.concluded.CompareAndSwap(false, true) {
			return
		}
		cause := context.Cause(ctx)
		e.board.giveUp(a)
		e.logger(a.Claimed).ErrorContext(ctx, "the step does not return although it was cancelled; its slot stays taken until it does", "cause", cause)
		e.conclude(ctx, a, ending{Err: cause, Cause: cause, Took: e.cfg.Clock().Sub(a.began)})
	})
}

// conclude turns the end of an attempt into its outcome, or drops it.
func (e *Engine) conclude(ctx context.Context, a *attempt, end ending) {
	defer func() {
		if v := recover(); v != nil {
			err := &panicError{value: v, stack: string(debug.Stack())}
			o := fail(task.Outcome{Hold: a.Hold}, a.Claimed, ending{Err: err}, rand.Float64())
			e.board.end(a, o)
		}
	}()
	if end.Left != "" && end.Err == nil {
		e.left(a, end)
		return
	}
	o, ours := outcomeOf(a.Claimed, end, rand.Float64(), e.maskOf(a))
	if !ours {
		e.logger(a.Claimed).WarnContext(ctx, "lease lost: the attempt is cancelled and its result dropped")
		e.board.drop(a)
		return
	}
	if o.Failure != nil {
		level := slog.LevelWarn
		switch {
		case e.cfg.Observer != blind{}:
			level = slog.LevelDebug // told, and by that shown
		case o.To == task.Error:
			level = slog.LevelError
		}
		e.logger(a.Claimed).Log(ctx, level, "attempt failed", "class", o.Failure.Class, "error", o.Failure.Message, "then", o.To, "delay", o.Delay)
	}
	e.board.end(a, o)
}

// left closes the books on an attempt that has moved its task itself.
func (e *Engine) left(a *attempt, end ending) {
	e.board.drop(a)
	e.cfg.Observer.Ended(a.Claimed, task.Outcome{Hold: a.Hold, To: end.Left, StartedAt: end.StartedAt, Took: end.Took})
	nudge(e.decide)
	e.ended()
	e.Wake()
	e.gates.hurry()
}

// A mover is a Runner of the engine's own that may move its task itself, in a
// transaction that checks the fence.
type mover interface {
	step.Runner

	// left returns where the task is now; "" when there is still an outcome to write.
	left() task.State
}

// perform does the work of an attempt and fills in its end. A panic in it is a
// failure like others.
func (e *Engine) perform(ctx context.Context, a *attempt, end *ending) {
	p := newPorts(e.cfg.Artifacts, e.cfg.Scratch)
	started := time.Time{}
	returned := false
	defer func() {
		if v := recover(); v != nil || !returned {
			end.Err = &panicError{value: v, stack: string(debug.Stack())}
		}
		if !started.IsZero() {
			end.Took = e.cfg.Clock().Sub(started)
		}
		end.Artifacts = p.artifacts()
		if err := p.close(); err != nil {
			e.logger(a.Claimed).WarnContext(ctx, "scratch files stay until the next start", "error", err)
		}
	}()
	in, runner, err := e.prepare(ctx, a, p, &end.Run)
	started = e.cfg.Clock()
	end.StartedAt = started.Sub(a.began)
	if err == nil {
		end.Output, err = runner.Run(ctx, in)
	}
	if m, ok := runner.(mover); ok && err == nil {
		end.Left = m.left()
	}
	end.Err, returned = err, true
}

// prepare gathers what a Runner gets. It fills in run as soon as it is known.
func (e *Engine) prepare(ctx context.Context, a *attempt, p *ports, run *task.Run) (step.Input, step.Runner, error) {
	if a.Type == task.TypeCompare {
		return step.Input{}, comparison{engine: e, attempt: a}, nil
	}
	typ, ok := e.cfg.Registry.Lookup(a.Type)
	if !ok && (a.Type != task.TypeJob || e.cfg.Flow == nil) {
		return step.Input{}, nil, step.Infrastructure(fmt.Errorf("run task %d: this worker does not know the type %q", a.TaskID, a.Type))
	}
	scope, err := e.scope(ctx, a.Claimed)
	if err != nil {
		return step.Input{}, nil, err
	}
	*run = scope.Run
	if own := e.own(a, scope); own != nil {
		return step.Input{}, own, nil
	}
	secrets, err := e.secretsOf(ctx, a.Settings)
	if err != nil {
		return step.Input{}, nil, err
	}
	a.know(secrets)
	settings, err := resolved(a.Claimed, scope, secrets)
	if err != nil {
		return step.Input{}, nil, err
	}
	grant := Grant{Hold: a.Hold, Run: scope.Run}
	return step.Input{
		Task:      taskOf(a.Claimed, scope.Run),
		Settings:  settings,
		Previous:  scope.Earlier,
		ByHand:    namesOf(scope.ByHand),
		Dir:       scope.Run.BaseDir,
		Databases: e.cfg.Connections.Databases(grant),
		Remotes:   e.cfg.Connections.Remotes(grant),
		Channels:  e.cfg.Connections.Channels(grant),
		Files:     files{ports: p, kind: "file"},
		Datasets:  p.datasets(),
		Progress:  &a.progress,
		Memory:    e.cfg.Memory,
		Now:       a.At,
	}, typ.Runner, nil
}

// scope asks for what the expressions of a task refer to. The database that
// answers is the machine's own, so a failure spends no attempt.
func (e *Engine) scope(ctx context.Context, c task.Claimed) (task.Scope, error) {
	if c.RunID == "" {
		return task.Scope{}, nil
	}
	if c.Run != nil && len(c.Refs) == 0 && c.Run.RerunOf == "" && (c.Run.Key == "" || c.Run.Version == 1 || c.Step == "") {
		return task.Scope{Run: *c.Run, Phase: task.PhaseMain}, nil // no other step, no earlier version and nothing set by hand to ask for
	}
	scope, err := e.cfg.Queue.Scope(ctx, c)
	if err != nil {
		return task.Scope{}, step.Infrastructure(fmt.Errorf("read what task %d refers to: %w", c.TaskID, err))
	}
	return scope, nil
}

// resolved returns the settings of a step with its expressions replaced. What is
// not a step has plain data for settings, where "${{" means nothing.
func resolved(c task.Claimed, scope task.Scope, secrets map[string]any) ([]byte, error) {
	if c.Step == "" || !bytes.Contains(c.Settings, []byte("{{")) && !bytes.Contains(c.Settings, []byte(`\u`)) {
		return c.Settings, nil // nothing opens an expression, not even one written as \u007b
	}
	values := valuesOf(scope, nil, c.Each)
	if secrets != nil {
		values.Vars["secrets"] = secrets
	}
	settings, err := expr.Resolve(c.Settings, values)
	if err == nil {
		return settings, nil
	}
	var wrong *expr.Error
	if errors.As(err, &wrong) {
		return nil, step.PermanentCode(wrong.Code, fmt.Errorf("settings of step %s: %w", c.Step, err))
	}
	return nil, step.Permanent(fmt.Errorf("settings of step %s: %w", c.Step, err))
}

// namesOf says what was set by hand, without the values.
func namesOf(list []task.Correction) []string {
	var texts []string
	for _, c := range list {
		texts = append(texts, c.Names())
	}
	return texts
}

func taskOf(c task.Claimed, run task.Run) step.Task {
	return step.Task{ID: c.TaskID, Run: c.RunID, Job: run.Job, Key: cmp.Or(c.Key, run.Key), Version: run.Version, Step: c.Step, Element: c.Element, Attempt: c.Attempt, Fence: c.Fence, Woken: c.Woken}
}

// logger adds what names an attempt in a log.
func (e *Engine) logger(c task.Claimed) *slog.Logger {
	log := e.cfg.Logger.With("task_id", c.TaskID, "type", c.Type, "attempt", c.Attempt)
	if c.RunID != "" {
		log = log.With("run_id", c.RunID)
	}
	if c.Element != "" {
		log = log.With("step", c.Step+"["+c.Element+"]")
	} else if c.Step != "" {
		log = log.With("step", c.Step)
	}
	return log
}

// A comparison is the Runner of tasks of type compare.
type comparison struct {
	engine  *Engine
	attempt *attempt
}

func (comparison) left() task.State { return task.Success }

func (r comparison) Run(ctx context.Context, _ step.Input) (step.Output, error) {
	took := r.engine.cfg.Clock().Sub(r.attempt.began)
	_, _, err := r.engine.cfg.Comparer.Compare(ctx, r.attempt.Hold, took)
	if err != nil && !errors.Is(err, step.ErrLeaseLost) {
		err = step.Infrastructure(fmt.Errorf("compare the sources of run %s: %w", r.attempt.RunID, err))
	}
	return step.Output{}, err
}

// A panicError is a panic of a Runner. A Runner that ends its goroutine without
// returning counts as one.
type panicError struct {
	value any
	stack string
}

func (p *panicError) Error() string {
	if p.value == nil {
		return "the step ended its goroutine without returning"
	}
	return fmt.Sprintf("the step panicked: %v", p.value)
}
