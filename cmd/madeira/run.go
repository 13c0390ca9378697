package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
	"madeira/scheduler"
)

// runOptions are the flags of run.
type runOptions struct {
	inputs []string
	period string
	key    string
	again  string
	at     string
	due    string
	dry    bool
	as     string

	part   task.Rerun // Step, From and OnlyFailed
	run    string     // id, or the start of it, of the run that a part is taken from
	set    []string
	reason string
	frozen bool
}

// isPart reports whether only a part of a run is asked for.
func (o runOptions) isPart() bool {
	return o.part.Step != "" || o.part.From != "" || o.part.OnlyFailed
}

func (p *program) runCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run JOB",
		Short: "Run a job file now, in this process, or a part of it again",
		Long: `Runs a job file to its end in this process and prints what its steps report. The
runs that its steps start are worked at too. JOB - reads the file from standard
input; relative paths start at the current folder then.

Asked again for a key that ended well, it looks at the sources only: unchanged, the
run is repeated and nothing else happens; changed, it becomes the next version.

With --step, --from or --only-failed it does a part of the last run of the key again,
as its next version: steps before that part are taken over with what they left, the
part runs as the job file has it now (--frozen: as it was then). docs/by-hand.md
walks through it.

Exits with 0 for success and warnings, 1 when the run failed, 2 when the job or the
call is wrong, and 130 when it was interrupted: the same call takes the run up again.`,
		Example: `  madeira run job.yaml
  madeira run job.yaml --input month=2026-09 --dry-run
  madeira run nightly.yaml --period 2026-10-31
  madeira run job.yaml --at 2030-01-02T06:00
  madeira run job.yaml --only-failed
  madeira run job.yaml --from lines --set lines.file=@corrected.csv --reason "the bank sent a corrected file"
  madeira run job.yaml --again "the ledger was wrong"`,
		Args: arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("again") && strings.TrimSpace(o.again) == "" {
				return usage("--again needs a reason, which is kept with the run")
			}
			if err := errors.Join(notEmpty(c, "at", "due", "period", "upstream-key", "step", "from", "run"), o.check()); err != nil {
				return err
			}
			return p.runJob(c.Context(), args[0], o)
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&o.inputs, "input", nil, "an input as name=value, or name=@FILE for an input of type file; may be repeated")
	flags.StringVar(&o.period, "period", "", "the period to run for, such as 2026-10")
	flags.StringVar(&o.key, "upstream-key", "", "the key, in place of the job's own")
	flags.StringVar(&o.again, "again", "", "make a new version although nothing changed, and say why")
	flags.StringVar(&o.at, "at", "", "not now: when it may begin, such as 2026-12-01T06:00 in the zone of the job, or with an offset behind it")
	flags.StringVar(&o.due, "due", "", "the instant that the run is for, from which its period comes (default: now)")
	flags.BoolVar(&o.dry, "dry-run", false, "show what would run, with all that can be known before; touch nothing")
	flags.StringVar(&o.part.Step, "step", "", "run this step alone, or one element of it: STEP[ELEMENT]")
	flags.StringVar(&o.part.From, "from", "", "run this step and everything after it")
	flags.BoolVar(&o.part.OnlyFailed, "only-failed", false, "run what did not end well, and everything after it")
	flags.StringVar(&o.run, "run", "", "the run to take the other steps from: the start of its id (default: the last version of the key)")
	flags.StringArrayVar(&o.set, "set", nil, "a setting of a step that runs again: STEP.SETTING=VALUE, the value as JSON or text, @FILE for a file; may be repeated")
	flags.BoolVar(&o.frozen, "frozen", false, "run the part as its steps were frozen then, not as the job file has them now")
	flags.StringVar(&o.reason, "reason", "", "why a part runs again; needed where the run had ended well")
	asFlag(flags, &o.as)
	c.MarkFlagsMutuallyExclusive("step", "from", "only-failed", "again")
	return c
}

// check refuses flags that do not go together.
func (o runOptions) check() error {
	if o.isPart() {
		for flag, value := range map[string]string{"--at": o.at, "--due": o.due} {
			if value != "" {
				return usage("%s is for a whole run, and a part of one is asked for", flag)
			}
		}
		if o.run != "" && (o.key != "" || o.period != "") {
			return usage("--run names the run; leave out --upstream-key and --period")
		}
		return nil
	}
	for flag, given := range map[string]bool{"--run": o.run != "", "--set": len(o.set) > 0, "--frozen": o.frozen} {
		if given {
			return usage("%s is for a part of a run: say --step, --from or --only-failed too", flag)
		}
	}
	if o.reason != "" {
		return usage("--reason is for a part of a run: say --step, --from or --only-failed too, or --again REASON for a whole new version")
	}
	return nil
}

func (p *program) runJob(ctx context.Context, path string, o runOptions) error {
	cfg, err := loadConfig(ctx, filepath.Dir(path), p.database, p.environ)
	if err != nil {
		return err
	}
	job, err := p.oneJob(path, cfg)
	if err != nil {
		return err
	}
	if err := cfg.checkSecrets(ctx, job); err != nil {
		return usage("%w", err)
	}
	if o.dry && !o.isPart() {
		return p.dryRun(ctx, job, o)
	}
	if o.isPart() {
		if err := cfg.hasState(); err != nil {
			return err
		}
	}
	view := newProgressView(p.stderr, isTerminal(p.stderr))
	r, err := openProcess(ctx, cfg, view, slog.NewTextHandler(view, nil))
	if err != nil {
		view.close()
		return err
	}
	do := p.runWhole
	if o.isPart() {
		do = p.runPart
	}
	return errors.Join(do(ctx, r, view, job, o), r.close())
}

// oneJob reads and checks one job file; "-" is standard input. Its warnings go to
// stderr. What is wrong is printed as JSON too where that is asked for.
func (p *program) oneJob(path string, cfg *config) (*jobs.Job, error) {
	fsys, err := p.jobFiles(path)
	if err != nil {
		return nil, err
	}
	checked, problems, err := p.checkIn(fsys, cfg.root, []string{path}, cfg)
	if err != nil {
		return nil, err
	}
	if len(checked) == 0 {
		if p.output == "json" {
			if err := p.json(map[string]any{"problems": problems}); err != nil {
				return nil, err
			}
		}
		return nil, &problemsError{problems}
	}
	for _, warning := range problems {
		fmt.Fprintln(p.stderr, warning)
	}
	return checked[0], nil
}

// request is what the flags ask for, the files of inputs aside.
func (p *program) request(job *jobs.Job, o runOptions) (scheduler.Request, error) {
	r := scheduler.Request{Trigger: scheduler.TriggerManual, PeriodLabel: o.period, Key: o.key, Again: o.again, Actor: p.actor(o.as)}
	var err error
	if o.at != "" {
		if r.NotBefore, err = instantIn(job, o.at); err != nil {
			return r, usage("--at %w", err)
		}
	}
	if o.due != "" {
		if r.DueAt, err = instantIn(job, o.due); err != nil {
			return r, usage("--due %w", err)
		}
	}
	return r, nil
}

func (p *program) runWhole(ctx context.Context, r *process, view *progressView, job *jobs.Job, o runOptions) error {
	defer view.close()
	request, err := p.request(job, o)
	if err != nil {
		return err
	}
	if request.Inputs, err = readInputs(ctx, r, job, o.inputs); err != nil {
		return usage("%w", err)
	}
	if err := toCome(ctx, r.db, request.NotBefore); err != nil {
		return err
	}
	created, err := scheduler.New(scheduler.Options{Store: r.db}).Start(ctx, job, request)
	var bad *scheduler.RequestError
	if errors.As(err, &bad) {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	if !request.NotBefore.IsZero() {
		return p.putOff(created, request.NotBefore)
	}
	if created.Existing {
		fmt.Fprintf(p.stderr, "%s is open as run %s; taking it up\n", keyName(created.Run), created.Run.ID)
		if err := p.tellLeases(ctx, r.db, created.Run.ID); err != nil {
			return err
		}
	}
	takeUp := "interrupted; the same call takes the run up again"
	if created.Run.Key == "" {
		takeUp = "interrupted; the job has no upstream_key, so the same call makes a new run: madeira serve goes on with this one"
	}
	return p.finish(ctx, r, view, created.Run.ID, takeUp)
}

// tellLeases says what other processes are at in a run, and how long this one waits
// for that where they have ended without giving it back.
func (p *program) tellLeases(ctx context.Context, db *store.DB, runID string) error {
	leases, err := db.Leases(ctx, runID)
	if err != nil {
		return err
	}
	for i, l := range leases {
		if i == maxLeases {
			fmt.Fprintf(p.stderr, "and so it is with %d more of its tasks\n", len(leases)-i)
			break
		}
		what := "step " + task.Name(l.Step, l.Element)
		if l.Step == "" {
			what = "a task of type " + l.Type
		}
		who := "another process"
		if l.Host != "" {
			who = fmt.Sprintf("process %d on %s", l.PID, l.Host)
		}
		fmt.Fprintf(p.stderr, "%s is the work of %s: this one waits for it to end, or for its lease to run out, which it does at %s UTC unless it is renewed\n", what, who, stamp(l.Until))
	}
	return nil
}

// maxLeases is how many leases of other processes are told singly.
const maxLeases = 5

// finish works at a run until it is over, and reports.
func (p *program) finish(ctx context.Context, r *process, view *progressView, runID, takeUp string) error {
	view.family = newFamily(ctx, r.db, runID)
	if err := work(ctx, r, view, runID, takeUp); err != nil {
		return err
	}
	return p.report(ctx, r.db, r.config, runID)
}

// putOff says what becomes of a run that is to begin later.
func (p *program) putOff(created task.Created, at time.Time) error {
	if p.output == "json" {
		return p.json(newRunView(created.Run, task.Run{}))
	}
	run := created.Run
	if created.Existing {
		fmt.Fprintf(p.stdout, "%s is open already as run %s, which is left as it is\n", keyName(run), run.ID)
		return nil
	}
	fmt.Fprintf(p.stdout, "run %s of %s begins at %s at the earliest\n", run.ID, keyName(run), at.Format(time.RFC3339))
	or := ", or the same call without --at after that time"
	if run.Key == "" {
		or = ""
	}
	fmt.Fprintf(p.stderr, "whoever serves this database runs it then; if nobody does, start madeira serve%s\n", or)
	return nil
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
