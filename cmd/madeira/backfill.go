package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"madeira/engine/store"
	"madeira/jobs"
	"madeira/scheduler"
)

// backfillOptions are the flags of backfill.
type backfillOptions struct {
	from, to string
	dryRun   bool
	yes      bool
	again    string
	reason   string
	as       string
}

func (p *program) backfillCommand() *cobra.Command {
	var o backfillOptions
	c := &cobra.Command{
		Use:   "backfill JOB",
		Short: "Make the runs of due times that have passed without one",
		Long: `Lists every due time of a job from one date to another, both included, with what
it would do: make its run, or leave it, because it is good already, at work, or makes
no run on that day. JOB is a file, or the name of a job in a file below this folder.
Dates are days in the job's time zone; instants are written 2026-10-31T06:00 in that
zone, or with an offset of their own.

With --yes it makes the runs, oldest first. Workers (madeira serve) work at them; they
keep to the job's limits, and wait for one another unless the job says overlap: allow.
Without --yes nothing is made, and the call ends with 2 where something is to be made;
--dry-run only looks and ends with 0.`,
		Example: `  madeira backfill nightly --from 2026-10-01 --to 2026-10-31 --dry-run
  madeira backfill nightly.yaml --from 2026-10-30 --to 2026-10-31 --yes --reason "the server was new"
  madeira backfill nightly --from 2026-10-31T06:00 --to 2026-10-31T06:00 --again "the rates were wrong" --yes`,
		Args: arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case o.from == "" || o.to == "":
				return usage("say from when to when: --from 2026-10-01 --to 2026-10-31")
			case o.yes && o.dryRun:
				return usage("--yes makes the runs, --dry-run does not; give one of them")
			case c.Flags().Changed("again") && strings.TrimSpace(o.again) == "":
				return usage("--again needs a reason, which is kept with the runs")
			}
			job, err := p.findJob(args[0])
			if err != nil {
				return err
			}
			return p.withBackfilled(c.Context(), job, o)
		},
	}
	c.Flags().StringVar(&o.from, "from", "", "the first date or instant")
	c.Flags().StringVar(&o.to, "to", "", "the last date or instant")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say what would be done")
	c.Flags().BoolVar(&o.yes, "yes", false, "make the runs")
	c.Flags().StringVar(&o.again, "again", "", "make new versions of those that are good already, too, and say why")
	c.Flags().StringVar(&o.reason, "reason", "", "why; the due times show it")
	asFlag(c.Flags(), &o.as)
	return c
}

// withBackfilled opens the state database of a job. The embedded one is made where it
// is not there, as run makes it; a preview, which makes nothing, takes an empty one
// that is gone afterwards.
func (p *program) withBackfilled(ctx context.Context, job *jobs.Job, o backfillOptions) (err error) {
	cfg, err := loadConfig(ctx, filepath.Dir(job.Path), p.database, p.environ)
	if err != nil {
		return err
	}
	missing := cfg.hasState()
	switch {
	case missing != nil && !cfg.embedded:
		return missing
	case missing != nil && !o.yes:
		dir, failed := os.MkdirTemp("", "madeira-preview-")
		if failed != nil {
			return fmt.Errorf("make a place for the preview: %w", failed)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		cfg.database = "sqlite://" + filepath.Join(dir, "madeira.db")
		fmt.Fprintln(p.stderr, "nothing has run in this folder so far, so nothing is on record")
	}
	return withStateAt(ctx, cfg, func(db *store.DB, _ *config) error { return p.backfill(ctx, db, job, o) })
}

type fillView struct {
	Entry  string    `json:"entry"`
	DueAt  time.Time `json:"due_at"`
	Local  string    `json:"local"`
	Key    string    `json:"upstream_key"`
	Action string    `json:"action"`
	RunID  string    `json:"run_id"`
	Reason string    `json:"reason"`
}

type backfillView struct {
	Job  string     `json:"job"`
	From time.Time  `json:"from"`
	To   time.Time  `json:"to"`
	Made int        `json:"made"` // runs
	Open int        `json:"open"` // runs that are to be made
	Due  []fillView `json:"due"`
}

func (p *program) backfill(ctx context.Context, db *store.DB, job *jobs.Job, o backfillOptions) error {
	b, err := p.backfillOf(ctx, db, job, o)
	if err != nil {
		return err
	}
	fills, err := scheduler.PlanBackfill(ctx, db, job, b)
	var bad *scheduler.RequestError
	if errors.As(err, &bad) {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	view := backfillView{Job: job.Name, From: b.From, To: b.To, Due: []fillView{}}
	s := scheduler.New(scheduler.Options{Store: db})
	var broken error
	for _, f := range fills {
		if f.Action == scheduler.FillRun && o.yes && broken == nil {
			if f, broken = s.Fill(ctx, job, b, f); broken == nil && f.Action == scheduler.FillRun {
				view.Made++
			}
		}
		if f.Action == scheduler.FillRun && (!o.yes || broken != nil) {
			view.Open++
		}
		view.Due = append(view.Due, fillView{f.Entry, f.DueAt, local(f.DueAt, job.Location), f.Key, f.Action, f.RunID, f.Reason})
	}
	if err := p.printBackfill(view); err != nil || broken != nil {
		return errors.Join(err, broken)
	}
	switch {
	case view.Made > 0:
		fmt.Fprintf(p.stderr, "%s made; madeira serve works at them, madeira runs --job %s shows them\n", count(view.Made, "run"), job.Name)
	case view.Open > 0 && !o.dryRun:
		return usage("nothing was made; the same with --yes makes %s", count(view.Open, "run"))
	case view.Open == 0:
		fmt.Fprintln(p.stderr, "there is nothing to make")
	}
	return nil
}

// backfillOf reads the bounds. What is still to come is the scheduler's.
func (p *program) backfillOf(ctx context.Context, db *store.DB, job *jobs.Job, o backfillOptions) (scheduler.Backfill, error) {
	b := scheduler.Backfill{Again: o.again, Actor: p.actor(o.as), Reason: o.reason}
	if len(job.Schedule) == 0 {
		return b, usage("job %s has no schedule, hence no due times; madeira run makes a run of it, for a period with --period", job.Name)
	}
	now, err := db.Now(ctx)
	if err != nil {
		return b, err
	}
	if b.From, _, err = readTime(o.from, job.Location); err != nil {
		return b, usage("--from %w", err)
	}
	if _, b.To, err = readTime(o.to, job.Location); err != nil {
		return b, usage("--to %w", err)
	}
	switch {
	case b.To.Before(b.From):
		return b, usage("--to %s is before --from %s", o.to, o.from)
	case b.From.After(now):
		return b, usage("--from %s is to come; a backfill is for what has passed", o.from)
	case b.To.After(now):
		fmt.Fprintf(p.stderr, "what is due after now, %s, is the scheduler's and left out\n", local(now, job.Location))
		b.To = now
	}
	return b, nil
}

func (p *program) printBackfill(v backfillView) error {
	if p.output == "json" {
		return p.json(v)
	}
	rows := [][]string{{"DUE", "KEY", "ACTION", "RUN", "REASON"}}
	for _, f := range v.Due {
		rows = append(rows, []string{f.Local, f.Key, f.Action, f.RunID, f.Reason})
	}
	writeTable(p.stdout, rows)
	return nil
}
