// Command madeira runs multi-step jobs that are declared in YAML and kept in git.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // Zones must be there on a machine without them.

	"github.com/spf13/cobra"

	"madeira/engine/store"
	"madeira/jobs"
)

func main() { os.Exit(newProgram().main()) }

// newProgram returns the call that this process was started for.
func newProgram() *program {
	return &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
}

// main runs the program until it ends or is told to, and returns its exit code.
func (p *program) main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ballast := make([]byte, ballastSize)
	defer runtime.KeepAlive(ballast)
	return p.run(ctx, os.Args[1:])
}

// ballastSize is memory that is asked for and never touched, so that it takes
// address space and nothing else. The collector starts when the heap has doubled;
// that of a worker is so small that this is all the time. With ballast in it the
// queue's bench works at half as many tasks a second again, on two processors.
const ballastSize = 24 << 20

// Exit codes.
const (
	exitOK          = 0   // success or warning
	exitFailed      = 1   // a run failed, or validate found problems
	exitUsage       = 2   // wrong usage, invalid job or configuration
	exitInterrupted = 130 // stopped on request; the run can be taken up again
)

// A program is one call of madeira: what main makes of the process, and tests of
// whatever they like.
type program struct {
	stdin          io.Reader // of run -
	stdout, stderr io.Writer
	environ        []string

	// strict is Strict of jobs.Env.
	strict bool

	// schedule reads cron expressions; nil reads the five fields.
	schedule func(spec string, loc *time.Location) (jobs.Schedule, error)

	database string // --database
	output   string // --output
}

// An exitError ends the program with a code of its own. Its message, where there
// is one, was not printed yet.
type exitError struct {
	code int
	err  error // may be nil
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as the caller's.
func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

func (p *program) run(ctx context.Context, args []string) int {
	out := &checkedWriter{Writer: p.stdout}
	p.stdout = out
	root := p.command() //nolint:contextcheck // Commands get the context when they are executed.
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("write the output: %w", out.err)
	}
	if err == nil {
		return exitOK
	}
	var exit *exitError
	var problems *problemsError
	var schema *store.SchemaError
	switch {
	case errors.As(err, &exit):
	case errors.As(err, &problems), errors.As(err, &schema):
		exit = &exitError{code: exitUsage, err: err}
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		exit = &exitError{code: exitInterrupted, err: errors.New("interrupted")}
	case ctx.Err() != nil:
		exit = &exitError{code: exitInterrupted, err: fmt.Errorf("interrupted: %w", err)}
	default:
		exit = &exitError{code: exitFailed, err: err}
	}
	if text := exit.Error(); text != "" {
		fmt.Fprintln(p.stderr, text)
	}
	return exit.code
}

// A checkedWriter remembers that something could not be written, so that a full
// disk behind the output is not taken for success.
type checkedWriter struct {
	io.Writer
	err error
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "madeira",
		Short: "Run multi-step jobs that are declared in YAML and kept in git",
		Long: `Madeira runs jobs: YAML files that say which file to fetch, how to read it line
by line, what to reconcile it with, where to load it and whom to tell. What ran
and why it stands where it stands is in a database that you can read.

Begin with the first two lines below; every command has more of them behind --help.`,
		Example: `  madeira init books
  madeira run books/job.yaml
  madeira validate books
  madeira serve --jobs books`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%w; see %s --help", err, c.CommandPath())
	})
	root.PersistentFlags().StringVar(&p.database, "database", "", "state database: sqlite://PATH or postgres://… (default: the connection state of madeira.yaml, else .madeira/madeira.db beside it)")
	root.PersistentFlags().StringVarP(&p.output, "output", "o", "text", "text or json; validate and doctor have more")
	root.PersistentPreRunE = p.checkOutput
	under(root, "Write jobs:", p.initCommand(), p.validateCommand(), p.planCommand(), p.calendarCommand(), p.schemaCommand())
	under(root, "Run them:", p.runCommand(), p.serveCommand(), p.backfillCommand())
	under(root, "See what became of it:", p.runsCommand(), p.tasksCommand(), p.occurrencesCommand(), p.jobsCommand(), p.deadCommand(), p.holdsCommand())
	under(root, "Keep it going:", p.pauseCommand(), p.resumeCommand(), p.doctorCommand(), p.migrateCommand(), p.archiveCommand(), p.benchCommand())
	root.AddCommand(p.versionCommand())
	once(root)
	root.InitDefaultCompletionCmd()
	group(root)
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			group(c)
		}
	}
	return root
}

// under adds commands that help lists under a title.
func under(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// outputsOf is the annotation of a command that lists the forms of its output.
const outputsOf = "outputs"

// checkOutput refuses forms of output that a command does not have, and flags that
// exclude each other: both are wrong usage.
func (p *program) checkOutput(c *cobra.Command, _ []string) error {
	if err := c.ValidateFlagGroups(); err != nil {
		return usage("%w; see %s --help", err, c.CommandPath())
	}
	forms := []string{"text", "json"}
	if own, ok := c.Annotations[outputsOf]; ok {
		forms = strings.Fields(own)
	}
	if slices.Contains(forms, p.output) {
		return nil
	}
	last := len(forms) - 1
	return usage("--output %s: %s writes %s or %s", p.output, c.CommandPath(), strings.Join(forms[:last], ", "), forms[last])
}

// group makes a command that only has others below it answer anything else as
// wrong usage, and nothing at all with its help.
func group(c *cobra.Command) {
	c.SuggestionsMinimumDistance = 2
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return usage("%s has no command %q%s; see %s --help", c.CommandPath(), args[0], hint, c.CommandPath())
	}
}

// arguments checks the number of arguments and answers as wrong usage.
func arguments(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			takes := "no arguments"
			if _, named, ok := strings.Cut(c.Use, " "); ok {
				takes = named
			}
			return usage("%s takes %s; see %s --help", c.CommandPath(), takes, c.CommandPath())
		}
		return nil
	}
}
