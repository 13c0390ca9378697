package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"madeira/jobs"
	"madeira/scheduler"
)

// runOptions are the flags of run.
type runOptions struct {
	inputs []string
	period string
	key    string
	again  string
}

func (p *program) runCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run JOB",
		Short: "Run a job file now, in this process",
		Long: `Runs a job file to its end in this process and prints what its steps report.

Asked again for a key that ended well, it looks at the sources only: unchanged, the
run is repeated and nothing else happens; changed, it becomes the next version.

Exits with 0 for success and warnings, 1 when the run failed, 2 when the job or the
call is wrong, and 130 when it was interrupted: the same call takes the run up again.`,
		Args: arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("again") && strings.TrimSpace(o.again) == "" {
				return usage("--again needs a reason, which is kept with the run")
			}
			return p.runJob(c.Context(), args[0], o)
		},
	}
	c.Flags().StringArrayVar(&o.inputs, "input", nil, "an input as name=value, or name=@FILE for an input of type file; may be repeated")
	c.Flags().StringVar(&o.period, "period", "", "the period to run for, such as 2026-10")
	c.Flags().StringVar(&o.key, "upstream-key", "", "the key, in place of the job's own")
	c.Flags().StringVar(&o.again, "again", "", "make a new version although nothing changed, and say why")
	return c
}

func (p *program) runJob(ctx context.Context, path string, o runOptions) error {
	cfg, err := loadConfig(ctx, filepath.Dir(path), p.database, p.environ)
	if err != nil {
		return err
	}
	checked, problems, err := p.check([]string{path}, cfg)
	if err != nil {
		return err
	}
	if len(checked) == 0 {
		return &problemsError{problems}
	}
	for _, warning := range problems {
		fmt.Fprintln(p.stderr, warning)
	}
	if err := cfg.checkSecrets(ctx, checked[0]); err != nil {
		return usage("%w", err)
	}
	view := newProgressView(p.stderr, isTerminal(p.stderr))
	r, err := openProcess(ctx, cfg, view, slog.NewTextHandler(view, nil))
	if err != nil {
		view.close()
		return err
	}
	return errors.Join(p.runChecked(ctx, r, view, checked[0], o), r.close())
}

func (p *program) runChecked(ctx context.Context, r *process, view *progressView, job *jobs.Job, o runOptions) error {
	defer view.close()
	request := scheduler.Request{Trigger: scheduler.TriggerManual, PeriodLabel: o.period, Key: o.key, Again: o.again}
	var err error
	if request.Inputs, err = readInputs(ctx, r, job, o.inputs); err != nil {
		return usage("%w", err)
	}
	created, err := scheduler.New(scheduler.Options{Store: r.db}).Start(ctx, job, request)
	var bad *scheduler.RequestError
	if errors.As(err, &bad) {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	if created.Existing {
		fmt.Fprintf(p.stderr, "%s is open as run %s; taking it up\n", keyName(created.Run), created.Run.ID)
	}
	takeUp := "interrupted; the same call takes the run up again"
	if created.Run.Key == "" {
		takeUp = "interrupted; the job has no upstream_key, so the same call makes a new run: madeira serve goes on with this one"
	}
	if err := work(ctx, r, view, created.Run.ID, takeUp); err != nil {
		return err
	}
	return p.report(ctx, r.db, r.config, created.Run.ID)
}

// work runs an engine for one run until it is over, and shows how far it is. When
// it is interrupted, takeUp says how to go on.
func work(ctx context.Context, r *process, view *progressView, runID, takeUp string) error {
	worker, err := r.engine(ctx, runID, view)
	if err != nil {
		return err
	}
	waits, err := r.db.Turns(ctx, []string{runID})
	if w, ok := waits[runID]; err == nil && ok {
		_, err = fmt.Fprintln(view, waitText(w))
	}
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		view.watch(watching, worker.Running)
	}()
	status, err := worker.RunUntilOver(ctx, r.db)
	stop()
	<-watched
	view.close()
	if err == nil && (status == "" || status.Live()) { // "": interrupted before anybody looked
		return &exitError{code: exitInterrupted, err: errors.New(takeUp)}
	}
	return err
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// readInputs turns name=value pairs into the JSON that their declarations ask for.
func readInputs(ctx context.Context, r *process, job *jobs.Job, pairs []string) (map[string]json.RawMessage, error) {
	inputs := map[string]json.RawMessage{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("--input %s: write name=value", pair)
		}
		var err error
		if inputs[name], err = inputValue(ctx, r, inputType(job, name), value); err != nil {
			return nil, fmt.Errorf("--input %s: %w", name, err)
		}
	}
	return inputs, nil
}

func inputType(job *jobs.Job, name string) string {
	for _, d := range job.Inputs {
		if d.Name == name {
			return d.Type
		}
	}
	return "" // checking the inputs says what is wrong
}

func inputValue(ctx context.Context, r *process, typ, value string) (json.RawMessage, error) {
	switch typ {
	case "file":
		path, ok := strings.CutPrefix(value, "@")
		if !ok {
			return nil, errors.New("it is a file: write @PATH")
		}
		return r.keepFile(ctx, path)
	case "string", "":
		return json.Marshal(value)
	}
	if !json.Valid([]byte(value)) {
		return nil, fmt.Errorf("%q is no JSON of type %s", value, typ)
	}
	return json.RawMessage(value), nil
}
