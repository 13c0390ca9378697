package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"madeira/jobs/step"
)

// Type returns the step type "command".
func Type() step.Type {
	return step.Type{
		Name:     "command",
		RunsCode: true,
		Outputs: []step.Field{
			{Name: "exit_code", Type: step.IntegerValue, Doc: "What the program ended with."},
			{Name: "stdout", Type: step.TextValue, Doc: "What it printed, without the last line break; null beyond 64 KiB or when it is not UTF-8."},
			{Name: "file", Type: step.FileValue, Doc: "All that it printed."},
		},
		Runner: runner{grace: killGrace},
	}
}

// killGrace is how long a program has to end after SIGTERM: a cancelled step has
// five seconds from the request to its end.
const killGrace = 3 * time.Second

type settings struct {
	Argv      []json.RawMessage          `json:"argv"` // texts, numbers, files and datasets
	Env       map[string]json.RawMessage `json:"env"`
	Stdin     *step.File                 `json:"stdin"`
	ExitCodes []int                      `json:"exit_codes"` // nil: 0 alone
	MaxOutput int64                      `json:"max_output"` // bytes of standard output; 0: defaultOutput
}

type runner struct {
	grace time.Duration
}

// Run starts the program and waits for it and for all that it has started.
func (r runner) Run(ctx context.Context, in step.Input) (step.Output, error) {
	var set settings
	if err := json.Unmarshal(in.Settings, &set); err != nil {
		return step.Output{}, step.Permanent(fmt.Errorf("read the settings of command: %w", err))
	}
	scratch, err := in.Files.Scratch(ctx)
	if err == nil {
		scratch, err = filepath.Abs(scratch)
	}
	if err == nil {
		in.Dir, err = filepath.Abs(in.Dir)
	}
	if err != nil {
		return step.Output{}, step.Infrastructure(err)
	}
	a := arguments{files: in.Files, folder: scratch}
	argv, err := a.argv(ctx, set.Argv)
	if err != nil {
		return step.Output{}, err
	}
	env, err := a.environment(ctx, in, set.Env)
	if err != nil {
		return step.Output{}, err
	}
	p := &program{argv: argv, env: env, dir: in.Dir, grace: r.grace, stderr: newTail(a.secrets)}
	if set.Stdin != nil {
		file, err := in.Files.Open(ctx, *set.Stdin)
		if err != nil {
			return step.Output{}, err
		}
		defer file.Close() //nolint:errcheck // It is only read.
		p.stdin = file
	}
	out, err := in.Files.Create(ctx, "stdout", "command")
	if err != nil {
		return step.Output{}, step.Infrastructure(err)
	}
	defer out.Discard()
	p.stdout = newCapture(out, set.MaxOutput)
	code, err := p.run(ctx)
	if err != nil {
		return step.Output{}, err
	}
	if len(set.ExitCodes) == 0 {
		set.ExitCodes = []int{0}
	}
	if !slices.Contains(set.ExitCodes, code) {
		return step.Output{}, p.ended(code)
	}
	file, err := out.Commit(ctx)
	if err != nil {
		return step.Output{}, err
	}
	text := p.stdout.text()
	values := map[string]any{"exit_code": code, "file": file, "stdout": nil}
	if text != nil {
		values["stdout"] = *text
	}
	return step.Output{Values: values, Report: p.stdout.report()}, nil
}

// A program is one start of it.
type program struct {
	argv, env []string
	dir       string
	stdin     step.FileReader // nil: empty
	stdout    *capture
	stderr    *tail
	grace     time.Duration
}

// run returns the exit code. The thread that starts the program lives as long as
// it does: Linux takes the end of that thread for the death of the parent.
func (p *program) run(ctx context.Context) (int, error) {
	name, err := p.find()
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p.stdout.full = func() { stop(errOutput) }
	c := exec.CommandContext(ctx, name, p.argv[1:]...) //nolint:gosec // the job file names the program, and nothing parses the arguments again
	c.Args[0] = p.argv[0]
	c.Dir, c.Env, c.Stdout, c.Stderr, c.WaitDelay = p.dir, p.env, p.stdout, p.stderr, p.grace
	if p.stdin != nil {
		c.Stdin = p.stdin
	}
	ownGroup(c)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.Start(); err != nil {
		return 0, p.unstarted(err)
	}
	err = c.Wait()
	killGroup(c)
	return p.outcome(ctx, c, err)
}

// errOutput ends a program that prints more than it may.
var errOutput = errors.New("it printed more than max_output allows")

func (p *program) outcome(ctx context.Context, c *exec.Cmd, err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case errors.Is(context.Cause(ctx), errOutput):
		return 0, step.PermanentCode("command.output", fmt.Errorf("run %s: it printed more than %d bytes; print less, write a file of its own, or raise max_output", p.argv[0], p.stdout.most))
	case p.stdout.err != nil:
		return 0, step.Infrastructure(fmt.Errorf("keep what %s printed: %w", p.argv[0], p.stdout.err))
	case ctx.Err() != nil:
		return 0, fmt.Errorf("run %s: %w%s", p.argv[0], context.Cause(ctx), p.stderr.said())
	case errors.Is(err, exec.ErrWaitDelay):
		return 0, step.PermanentCode("command.left_running", fmt.Errorf("run %s: it ended and left a process behind that still held its output; wait for what it starts, or close its output there", p.argv[0]))
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		return 0, fmt.Errorf("run %s: it was ended by %s%s", p.argv[0], exit.ProcessState, p.stderr.said())
	case err != nil && exit == nil:
		return 0, step.Infrastructure(fmt.Errorf("run %s: %w", p.argv[0], err))
	}
	return c.ProcessState.ExitCode(), nil
}

// ended is the error for an exit code that is not among the good ones.
func (p *program) ended(code int) error {
	return fmt.Errorf("run %s: it ended with exit code %d%s", p.argv[0], code, p.stderr.said())
}

// find returns the program to start: beside the job where its name has a slash,
// and in PATH where it has none, never in the current folder.
func (p *program) find() (string, error) {
	name := p.argv[0]
	if strings.Contains(name, "/") || strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.dir, name)
		}
		return name, nil
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", p.unstarted(err)
	}
	return found, nil
}

// unstarted is the error for a program that there is not, or that may not be run.
// Other causes, such as too many processes, are the machine's.
func (p *program) unstarted(err error) error {
	err = fmt.Errorf("start %s in %s: %w", p.argv[0], p.dir, err)
	var broken *exec.Error
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, exec.ErrNotFound) || errors.As(err, &broken) {
		return step.PermanentCode("command.not_found", err)
	}
	return step.Infrastructure(err)
}
