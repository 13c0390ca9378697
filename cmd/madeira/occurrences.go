package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
	"madeira/scheduler"
)

var dueOutcomes = []task.DueOutcome{task.DueRan, task.DueCaughtUp, task.DueSkipped, task.DueRepeated, task.DueMissed, task.DueWaiting}

func (p *program) occurrencesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "occurrences",
		Short: "List due times with what became of each, or explain one",
		Args:  arguments(0, 0),
	}
	c.AddCommand(p.occurrencesListCommand(), &cobra.Command{
		Use:     "show JOB WHEN",
		Aliases: []string{"explain"},
		Short:   "Say in one sentence what became, or will become, of the due times of a day or an instant",
		Long: `Says what became of the due times of a job on a day, or at an instant, and why: those
that are on record, those to come, and those that have no record. Where there is none,
it says so, with the one before and the next, and the one that the day was rolled to. JOB is a file, or the name of a job in a
file below this folder; WHEN is a date in its time zone (2026-10-31) or an instant
(2026-10-31T06:00, or with an offset of its own).`,
		Example: `  madeira occurrences show nightly 2026-10-31
  madeira occurrences show nightly.yaml 2026-10-31T06:00`,
		Args: arguments(2, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.showOccurrences(c.Context(), db, args[0], args[1]) })
		},
	})
	return c
}

func (p *program) occurrencesListCommand() *cobra.Command {
	var f store.OccurrenceFilter
	var outcomes []string
	var since, until string
	c := &cobra.Command{
		Use:   "list",
		Short: "List due times that are on record, the last ones first",
		Long: `Lists the due times that are on record with what became of each, the last ones first,
each in the time zone of its schedule. --since and --until take a date (2026-10-31) or
an instant (2026-10-31T06:00), which are in the zone of the job that --job names, else
in UTC, or an instant with an offset as it is listed.`,
		Example: `  madeira occurrences list --job nightly --since 2026-10-01
  madeira occurrences list --outcome skipped,missed
  madeira occurrences list --since "Sat 2026-10-31 06:00 +08:00" --limit 10`,
		Args: arguments(0, 0),
	}
	c.Flags().StringVar(&f.Job, "job", "", "only due times of this job")
	c.Flags().StringSliceVar(&outcomes, "outcome", nil, "only those of which this became, such as skipped,missed")
	c.Flags().StringVar(&since, "since", "", "from this date or instant on")
	c.Flags().StringVar(&until, "until", "", "up to this date or instant")
	c.Flags().StringVar(&f.After, "after", "", "the page behind this place, which the page before ends with")
	c.Flags().IntVar(&f.Limit, "limit", 50, "most due times to list, up to 1000")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkLimit(f.Limit); err != nil {
			return err
		}
		for _, o := range outcomes {
			if !slices.Contains(dueOutcomes, task.DueOutcome(o)) {
				return unknownOutcome(o)
			}
			f.Outcome = append(f.Outcome, task.DueOutcome(o))
		}
		return p.withState(c.Context(), func(db *store.DB, _ *config) error {
			if err := bound(c.Context(), db, &f, since, until); err != nil {
				return err
			}
			return p.listOccurrences(c.Context(), db, f)
		})
	}
	return c
}

func unknownOutcome(name string) error {
	known := make([]string, len(dueOutcomes))
	for i, o := range dueOutcomes {
		known[i] = string(o)
	}
	meant := ""
	if near := jobs.Nearest(name, known); near != "" {
		meant = fmt.Sprintf("; did you mean %q?", near)
	}
	return usage("--outcome %s: there is no such outcome of a due time; there are %s%s", name, strings.Join(known, ", "), meant)
}

// bound reads the bounds of a list.
func bound(ctx context.Context, db *store.DB, f *store.OccurrenceFilter, since, until string) error {
	if since == "" && until == "" {
		return nil
	}
	loc := time.UTC
	var err error
	if f.Job != "" {
		if loc, err = zoneOnRecord(ctx, db, f.Job); err != nil {
			return err
		}
	}
	if since != "" {
		if f.Since, _, err = readTime(since, loc); err != nil {
			return usage("--since %w", err)
		}
	}
	if until != "" {
		if _, f.Until, err = readTime(until, loc); err != nil {
			return usage("--until %w", err)
		}
	}
	return nil
}

type occurrenceView struct {
	Job        string     `json:"job"`
	Entry      string     `json:"entry"`
	DueAt      time.Time  `json:"due_at"`
	Outcome    string     `json:"outcome"`
	Reason     string     `json:"reason"`
	RunID      string     `json:"run_id"`
	RunStatus  string     `json:"run_status"`
	Trigger    string     `json:"trigger"`
	RecordedAt *time.Time `json:"recorded_at"`
}

func newOccurrenceView(o task.Occurrence, recorded time.Time, status task.RunStatus) occurrenceView {
	loc := zoneOf(o.Entry)
	due := o.DueAt
	if !due.IsZero() {
		due = due.In(loc)
	}
	return occurrenceView{o.Job, o.Entry, due, string(o.Outcome), o.Reason, o.RunID, string(status), o.Trigger, optional(recorded.In(loc))}
}

// listOccurrences prints one page, and what is wrong with schedules, which leave no
// due times.
func (p *program) listOccurrences(ctx context.Context, db *store.DB, f store.OccurrenceFilter) error {
	list, err := db.Occurrences(ctx, f)
	if errors.Is(err, store.ErrPlace) {
		return usage("--after %w", err)
	}
	if err != nil {
		return err
	}
	entries, err := db.Entries(ctx, f.Job)
	if err != nil {
		return err
	}
	if p.output == "json" {
		views := make([]occurrenceView, len(list))
		for i, o := range list {
			views[i] = newOccurrenceView(o.Occurrence, o.RecordedAt, o.RunStatus)
		}
		err = p.json(views)
	} else {
		rows := [][]string{{"DUE", "JOB", "ENTRY", "OUTCOME", "RUN", "STATUS", "REASON"}}
		for _, o := range list {
			rows = append(rows, []string{local(o.DueAt, zoneOf(o.Entry)), o.Job, o.Entry, string(o.Outcome), o.RunID, string(o.RunStatus), o.Reason})
		}
		writeTable(p.stdout, rows)
	}
	for _, e := range entries {
		if e.Problem != "" {
			fmt.Fprintf(p.stderr, "job %s, %s cannot be followed: %s\n", e.Job, e.Entry, e.Problem)
		}
	}
	if len(list) == f.Limit {
		fmt.Fprintf(p.stderr, "more: --after '%s'\n", list[len(list)-1].Place())
	}
	return err
}

type explanationView struct {
	occurrenceView
	Local string `json:"local"`
	Why   string `json:"why"`
}

func (p *program) showOccurrences(ctx context.Context, db *store.DB, name, when string) error {
	job, missing := p.findJob(name)
	loc, err := zoneOnRecord(ctx, db, name)
	if err != nil {
		return err
	}
	if job != nil {
		name, loc = job.Name, job.Location
	}
	from, to, err := readTime(when, loc)
	if err != nil {
		return usage("%w", err)
	}
	past, err := pastOf(ctx, db, name, from, to)
	if err != nil {
		return err
	}
	if job == nil && len(past.Records) == 0 {
		return errors.Join(usage("nothing is on record of %s then", name), missing)
	}
	if job == nil {
		fmt.Fprintf(p.stderr, "only what is on record is known: %v\n", missing)
	}
	return p.printExplanations(scheduler.Explain(job, name, from, to, past), job, loc)
}

// pastOf reads what is on record about a job.
func pastOf(ctx context.Context, db *store.DB, job string, from, to time.Time) (past scheduler.Past, err error) {
	if past.Now, err = db.Now(ctx); err != nil {
		return past, err
	}
	list, err := db.Occurrences(ctx, store.OccurrenceFilter{Job: job, Since: from, Until: to, Limit: scheduler.MaxBackfill})
	if err != nil {
		return past, err
	}
	for _, o := range list {
		past.Records = append(past.Records, scheduler.Record{Occurrence: o.Occurrence, RecordedAt: o.RecordedAt, RunStatus: o.RunStatus, RepeatedOf: o.RepeatedOf})
	}
	entries, err := db.Entries(ctx, job)
	if err != nil {
		return past, err
	}
	past.Entries = map[string]scheduler.Followed{}
	for _, e := range entries {
		past.Entries[e.Entry] = scheduler.Followed{Watermark: e.Watermark, KnownSince: e.KnownSince, Problem: e.Problem}
	}
	pauses, err := db.Pauses(ctx, from)
	for _, pause := range pauses {
		if pause.Job == job {
			past.Pauses = append(past.Pauses, pause)
		}
	}
	return past, err
}

func (p *program) printExplanations(list []scheduler.Explanation, job *jobs.Job, loc *time.Location) error {
	if p.output == "json" {
		views := make([]explanationView, len(list))
		for i, x := range list {
			views[i] = explanationView{newOccurrenceView(x.Occurrence, x.RecordedAt, x.RunStatus), "", x.Why}
			if !x.DueAt.IsZero() {
				views[i].Local = local(x.DueAt, loc)
			}
		}
		return p.json(views)
	}
	for _, x := range list {
		if x.DueAt.IsZero() {
			fmt.Fprintln(p.stdout, x.Why)
			continue
		}
		entry := ""
		if job == nil || len(job.Schedule) > 1 {
			entry = " [" + x.Entry + "]"
		}
		fmt.Fprintf(p.stdout, "%s%s: %s\n", local(x.DueAt, loc), entry, x.Why)
	}
	return nil
}
