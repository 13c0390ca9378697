package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
)

func (p *program) deadCommand() *cobra.Command {
	c := &cobra.Command{Use: "dead", Short: "List dead letters, show one, or send them on again"}
	group(c)
	c.AddCommand(p.deadListCommand(), p.deadRedriveCommand(), &cobra.Command{
		Use:     "show TASK",
		Short:   "Show a dead letter with every attempt it made",
		Example: `  madeira dead show 4711`,
		Args:    arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.showTask(c.Context(), db, args[0]) })
		},
	})
	return c
}

// deadFlags are the filters that list and redrive have in common.
func deadFlags(flags *pflag.FlagSet, f *store.DeadFilter, since *string) {
	flags.StringVar(&f.Job, "job", "", "only tasks of this job")
	flags.StringVar(&f.Type, "type", "", "only tasks of this step type")
	flags.StringVar(&f.Class, "class", "", "only failures of this class: permanent, transient, timeout or poison")
	flags.StringVar(since, "since", "", "only those since then: a time such as 2026-11-02T09:00:00Z, or how long ago, such as 24h or 7d")
}

// instantSince reads an instant, or how long ago it was.
func instantSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := jobs.ParseDuration(text)
	if err != nil {
		return time.Time{}, usage("--since %s: it is a time such as 2026-11-02T09:00:00Z, or how long ago, such as 24h or 7d", text)
	}
	return now.Add(-ago), nil
}

func (p *program) deadListCommand() *cobra.Command {
	var f store.DeadFilter
	var since string
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, newest first",
		Long: `Lists dead letters: tasks that have failed for good and wait for somebody to decide.
The run that each belongs to has ended as error. madeira dead redrive sends them on in
that run; madeira runs rerun and madeira run --only-failed make a new version.`,
		Example: `  madeira dead list
  madeira dead list --type fetch --since 24h`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if f.Since, err = instantSince(since, time.Now()); err != nil {
				return err
			}
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.listDead(c.Context(), db, f) })
		},
	}
	deadFlags(c.Flags(), &f, &since)
	c.Flags().StringVar(&f.After, "after", "", "the page after this place, which the page before ended with")
	c.Flags().IntVar(&f.Limit, "limit", 50, "most dead letters to list, up to 1000")
	return c
}

func (p *program) listDead(ctx context.Context, db *store.DB, f store.DeadFilter) error {
	list, err := db.Dead(ctx, f)
	if err != nil {
		return err
	}
	if p.output == "json" {
		type view struct {
			taskView
			Job string    `json:"job,omitempty"`
			At  time.Time `json:"at"`
		}
		views := make([]view, len(list))
		for i, d := range list {
			views[i] = view{newTaskView(d.Task), d.Job, d.At}
			views[i].Outputs = nil
		}
		return p.json(views)
	}
	rows := [][]string{{"TASK", "SINCE", "JOB", "STEP", "TYPE", "ATTEMPTS", "CLASS", "RUN", ""}}
	for _, d := range list {
		class, text := "-", ""
		if d.Failure != nil {
			class, text = string(d.Failure.Class), failureText(*d.Failure)
		}
		rows = append(rows, []string{
			fmt.Sprint(d.ID), stamp(d.At), stepName(d.Job, "-"), stepName(task.Name(d.Step, d.Element), "-"), d.Type,
			fmt.Sprint(d.Attempt), class, shortRun(d.RunID), oneLine(text),
		})
	}
	writeTable(p.stdout, rows)
	if len(list) == f.Limit {
		fmt.Fprintf(p.stderr, "more: --after %s\n", store.DeadCursor(list[len(list)-1]))
	}
	return nil
}

// oneLine is the first line of a text, short enough for a table.
func oneLine(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if runes := []rune(line); len(runes) > 120 {
		line, more = string(runes[:120]), true
	}
	if more {
		line += " …"
	}
	return line
}

func (p *program) deadRedriveCommand() *cobra.Command {
	var f store.DeadFilter
	var as, reason, since, rate string
	var all bool
	c := &cobra.Command{
		Use:   "redrive [TASK…]",
		Short: "Send dead letters on again: those named, or those that the filters name",
		Long: `Sends dead letters on again in the same version of their run, with all their
attempts before them and through the same limits. Steps that were skipped because
of them wait for them again; on_failure and finally are left as they are.
Whoever works on the database works at them.`,
		Example: `  madeira dead redrive 4711 --reason "the bank is back"
  madeira dead redrive --type fetch --since 24h --rate 10/s --reason "the bank is back"`,
		Args: arguments(0, -1),
		RunE: func(c *cobra.Command, args []string) error {
			for _, text := range args {
				id, err := taskID(text)
				if err != nil {
					return err
				}
				f.IDs = append(f.IDs, id)
			}
			perSecond, err := parseRate(rate)
			if err != nil {
				return err
			}
			if f.Since, err = instantSince(since, time.Now()); err != nil {
				return err
			}
			filtered := len(args) > 0 || f.Job != "" || f.Type != "" || f.Class != "" || since != ""
			switch {
			case !filtered && !all:
				return usage("say which: the ids of tasks, --job, --type, --class, --since, or --all")
			case filtered && all:
				return usage("--all does not go with ids or filters")
			case reason == "":
				return usage("say why with --reason; the audit log keeps it")
			}
			a := task.Action{Actor: p.actor(as), Reason: reason}
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.redrive(c.Context(), db, f, perSecond, a) })
		},
	}
	deadFlags(c.Flags(), &f, &since)
	c.Flags().BoolVar(&all, "all", false, "all dead letters there are")
	c.Flags().StringVar(&rate, "rate", "", "how many become due a second, minute or hour, such as 10/s (default: all at once)")
	c.Flags().StringVar(&reason, "reason", "", "why; the audit log shows it")
	asFlag(c.Flags(), &as)
	return c
}

// parseRate reads 10/s, 90/m or 100/h as a number a second.
func parseRate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	seconds := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if err != nil || !(n > 0 && n <= 1e6) || seconds == 0 {
		return 0, usage("--rate %s: it is a number a second, minute or hour, such as 10/s, 90/m or 100/h", text)
	}
	return n / seconds, nil
}

func (p *program) redrive(ctx context.Context, db *store.DB, f store.DeadFilter, rate float64, a task.Action) error {
	done, err := db.Redrive(ctx, f, rate, a)
	var alive *store.NotDeadError
	if errors.As(err, &alive) || errors.Is(err, store.ErrNotFound) {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	if p.output == "json" {
		refused := make([]map[string]any, len(done.Refused))
		for i, r := range done.Refused {
			refused[i] = map[string]any{"task": r.TaskID, "run": r.RunID, "why": r.Why}
		}
		err = p.json(map[string]any{"redriven": done.Tasks, "reopened": done.Reopened, "last_due": optional(done.Last), "refused": refused})
	} else {
		fmt.Fprintf(p.stdout, "%d dead letters go on again, %d tasks wait for them\n", done.Tasks, done.Reopened)
		if rate > 0 && done.Tasks > 0 {
			fmt.Fprintf(p.stdout, "the last is due at %s\n", stamp(done.Last))
		}
		for _, r := range done.Refused {
			fmt.Fprintf(p.stderr, "task %d stays a dead letter: %s\n", r.TaskID, r.Why)
		}
	}
	if err == nil && done.Tasks == 0 && len(done.Refused) > 0 {
		err = &exitError{code: exitFailed}
	}
	return err
}
