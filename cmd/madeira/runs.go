package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"madeira/engine/store"
	"madeira/engine/task"
)

func (p *program) runsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "runs",
		Short: "List runs, or show one with its steps",
		Example: `  madeira runs
  madeira runs --job nightly --status error,running
  madeira runs show 0199a1b2`,
		Args: arguments(0, 0),
	}
	var f store.RunFilter
	var status []string
	c.Flags().StringVar(&f.Job, "job", "", "only runs of this job")
	c.Flags().StringVar(&f.Key, "upstream-key", "", "only runs of this key")
	c.Flags().StringSliceVar(&status, "status", nil, "only runs in these statuses, such as error,running")
	c.Flags().StringVar(&f.Before, "before", "", "only runs older than the one of this id, with which the page before ends")
	c.Flags().IntVar(&f.Limit, "limit", 50, "most runs to list, up to 1000")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkLimit(f.Limit); err != nil {
			return err
		}
		for _, s := range status {
			if !slices.Contains(runStatuses, task.RunStatus(s)) {
				return usage("--status %s: a run is one of %v", s, runStatuses)
			}
			f.Status = append(f.Status, task.RunStatus(s))
		}
		return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.listRuns(c.Context(), db, f) })
	}
	c.AddCommand(p.cancelCommand(), p.rerunCommand(), &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run with its steps, their moves and what they left; RUN is the start of its id",
		Example: `  madeira runs show 0199a1b2
  madeira runs show 0199a1b2 --output json`,
		Args: arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withState(c.Context(), func(db *store.DB, cfg *config) error { return p.showRun(c.Context(), db, cfg, args[0]) })
		},
	})
	return c
}

var runStatuses = []task.RunStatus{
	task.RunPending, task.RunRunning, task.RunWaiting,
	task.RunSuccess, task.RunWarning, task.RunError, task.RunCancelled, task.RunRepeated,
}

// withState opens the state database that holds for the working folder.
func (p *program) withState(ctx context.Context, fn func(*store.DB, *config) error) error {
	return p.withStateOf(ctx, ".", fn)
}

// withStateOf opens the state database that holds for a folder.
func (p *program) withStateOf(ctx context.Context, dir string, fn func(*store.DB, *config) error) error {
	cfg, err := loadConfig(ctx, dir, p.database, p.environ)
	if err != nil {
		return err
	}
	if err := cfg.hasState(); err != nil {
		return err
	}
	return withStateAt(ctx, cfg, fn)
}

// withStateAt opens the state database of a configuration, which makes the embedded
// one where it is not there.
func withStateAt(ctx context.Context, cfg *config, fn func(*store.DB, *config) error) error {
	db, err := openState(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(fn(db, cfg), db.Close())
}

// hasState refuses to look for runs in an embedded database that is not there yet.
func (c *config) hasState() error {
	path, sqlite := strings.CutPrefix(c.database, "sqlite://")
	if !sqlite {
		return nil
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if !c.embedded {
		return usage("there is no state database at %s: to make it there, run madeira migrate%s", displayPath(path), c.migratedBy())
	}
	return usage("there is no state database at %s: no job has run in this folder; say where with --database", displayPath(path))
}

func (p *program) listRuns(ctx context.Context, db *store.DB, f store.RunFilter) error {
	runs, err := db.Runs(ctx, f)
	if err != nil {
		return err
	}
	waits, err := turnsOf(ctx, db, runs)
	if err != nil {
		return err
	}
	if p.output == "json" {
		views := make([]runListView, len(runs))
		for i, r := range runs {
			repeated, err := repeatedBy(ctx, db, r)
			if err != nil {
				return err
			}
			views[i] = runListView{newRunView(r, repeated), r.Trigger, r.CreatedAt, optional(r.FinishedAt)}
			views[i].Turn = newTurnView(waits, r.ID)
		}
		return p.json(views)
	}
	rows := [][]string{{"RUN", "JOB", "KEY", "VERSION", "STATUS", "CREATED", "TOOK", ""}}
	for _, r := range runs {
		why := ""
		if w, ok := waits[r.ID]; ok {
			why = waitText(w)
		}
		rows = append(rows, []string{r.ID, r.Job, r.Key, version(r), string(r.Status), stamp(r.CreatedAt), took(r), why})
	}
	writeTable(p.stdout, rows)
	if len(runs) == f.Limit {
		fmt.Fprintf(p.stderr, "more: --before %s\n", runs[len(runs)-1].ID)
	}
	return nil
}

type runListView struct {
	runView
	Trigger    string     `json:"trigger"`
	CreatedAt  time.Time  `json:"created_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

func (p *program) json(value any) error {
	encoder := json.NewEncoder(p.stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func version(r task.Run) string {
	if r.Version == 0 {
		return "-"
	}
	return fmt.Sprint(r.Version)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.DateTime)
}

func took(r task.Run) string {
	if r.FinishedAt.IsZero() || r.StartedAt.IsZero() {
		return "-"
	}
	return r.FinishedAt.Sub(r.StartedAt).Round(time.Millisecond).String()
}

func (p *program) showRun(ctx context.Context, db *store.DB, cfg *config, prefix string) error {
	run, err := oneRun(ctx, db, prefix)
	if err != nil {
		return err
	}
	if p.output == "json" {
		if err := p.report(ctx, db, cfg, run.ID); err != nil && !isFailedRun(err) {
			return err
		}
		return nil
	}
	return p.printRun(ctx, db, run)
}

// isFailedRun reports whether an error only says that a run has failed.
func isFailedRun(err error) bool {
	var exit *exitError
	return errors.As(err, &exit) && exit.err == nil
}

func (p *program) printRun(ctx context.Context, db *store.DB, run task.Run) error {
	tasks, err := db.Tasks(ctx, run.ID)
	if err != nil {
		return err
	}
	moves, err := db.Log(ctx, run.ID)
	if err != nil {
		return err
	}
	kept, err := db.Artifacts(ctx, run.ID)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "run %s\n%s  version %s  %s\ncreated %s  took %s  by %s\n", run.ID, keyName(run), version(run), run.Status, stamp(run.CreatedAt), took(run), run.Trigger)
	if run.JobCommit != "" {
		fmt.Fprintf(p.stdout, "job %s of commit %s\n", run.JobDigest, run.JobCommit)
	}
	if run.Reason != "" {
		fmt.Fprintf(p.stdout, "reason: %s\n", run.Reason)
	}
	if run.RerunOf != "" {
		fmt.Fprintf(p.stdout, "rerun of run %s by %s\n", run.RerunOf, run.Actor)
	}
	if run.Overrides != nil {
		fmt.Fprintf(p.stdout, "settings changed: %s\n", run.Overrides)
	}
	if run.Stopped != "" {
		fmt.Fprintf(p.stdout, "stopped: %s\n", run.Stopped)
	}
	if run.RepeatedOf != "" {
		fmt.Fprintf(p.stdout, "repeats run %s\n", run.RepeatedOf)
	}
	waits, err := p.printTurn(ctx, db, run)
	if err != nil {
		return err
	}
	steps := [][]string{{"STEP", "TYPE", "STATE", "ATTEMPTS", "TOOK", ""}}
	for _, t := range tasks {
		steps = append(steps, []string{stepName(task.Name(t.Step, t.Element), t.Type), t.Type, string(t.State), fmt.Sprint(t.Attempt), t.Took.String(), explainIn(waits, t)})
	}
	fmt.Fprintln(p.stdout)
	writeTable(p.stdout, steps)
	log := [][]string{{"AT", "STEP", "MOVE", "FENCE", "REASON", ""}}
	for _, m := range moves {
		log = append(log, []string{stamp(m.At), stepName(m.Step, "message"), string(m.From) + " → " + string(m.To), fmt.Sprint(m.Fence), m.Reason, moveDetail(m)})
	}
	fmt.Fprintln(p.stdout)
	writeTable(p.stdout, log)
	files := [][]string{{"KEPT BY", "KIND", "NAME", "BYTES", "ROWS", "DIGEST"}}
	for _, k := range kept {
		files = append(files, []string{k.Step, k.Kind, k.Name, fmt.Sprint(k.Size), fmt.Sprint(k.Rows), k.Digest})
	}
	fmt.Fprintln(p.stdout)
	writeTable(p.stdout, files)
	return nil
}

func stepName(step, otherwise string) string {
	if step == "" {
		return otherwise
	}
	return step
}

func explain(t task.Task) string {
	if t.State == task.Success {
		return t.Warning
	}
	return why(t)
}

func moveDetail(m task.Move) string {
	if m.Failure != nil {
		return failureText(*m.Failure)
	}
	return m.Detail
}

// writeTable prints rows in columns, the first being the heading. Wide characters
// count for two.
func writeTable(out io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-runewidth.StringWidth(cell)+2))
			}
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}
