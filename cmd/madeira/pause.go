package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/step/builtin"
)

func (p *program) pauseCommand() *cobra.Command {
	var as, reason string
	c := &cobra.Command{
		Use:   "pause type:NAME|job:NAME",
		Short: "Let no more tasks of a step type or of a job begin",
		Long: `Lets no more tasks of a step type or of a job begin, in any process on this
database, until madeira resume. What is at work goes on to its end. What comes due of
a paused job meanwhile is skipped, and its due times say so.`,
		Example: `  madeira pause job:nightly --reason "the ledger is being moved"
  madeira pause type:fetch --reason "the bank is closed"`,
		Args: arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return usage("say why with --reason; those who wonder why nothing begins will read it")
			}
			a := task.Action{Actor: p.actor(as), Action: "pause", Subject: args[0], Reason: reason}
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.pause(c.Context(), db, a) })
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; holds and the audit log show it")
	asFlag(c.Flags(), &as)
	return c
}

func (p *program) resumeCommand() *cobra.Command {
	var as, reason string
	c := &cobra.Command{
		Use:   "resume type:NAME|job:NAME|circuit:KEY",
		Short: "End a pause, or try a downstream again whose circuit is open",
		Long: `Ends a pause of a step type or of a job. Of a circuit that is open, which madeira
holds lists, it ends the wait: three tasks at most are tried at once, and it closes
when they go well, else it opens again.`,
		Example: `  madeira resume type:fetch
  madeira resume job:nightly --reason "the calendar is right again"
  madeira resume circuit:fetch/bank --reason "the bank says that it is back"`,
		Args: arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			a := task.Action{Actor: p.actor(as), Action: "resume", Subject: args[0], Reason: reason}
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.resume(c.Context(), db, a) })
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; the audit log shows it")
	asFlag(c.Flags(), &as)
	return c
}

func (p *program) holdsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "holds",
		Short: "List what keeps tasks from beginning: pauses, and circuits that are not closed",
		Long: `Lists pauses with who, why and since when, and circuits that are not closed with the
time from which they are tried again, each with the number of tasks that wait for it.
A circuit opens when too many attempts at one downstream fail, and closes by itself
when it is well again; madeira resume circuit:KEY tries it at once.`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.listHolds(c.Context(), db) })
		},
	}
}

func (p *program) pause(ctx context.Context, db *store.DB, a task.Action) error {
	if err := pausable(a.Subject); err != nil {
		return err
	}
	if job, ok := strings.CutPrefix(a.Subject, "job:"); ok {
		if err := p.checkJobKnown(ctx, db, job); err != nil {
			return err
		}
	}
	fresh, err := db.Pause(ctx, a)
	if err != nil {
		return err
	}
	if !fresh {
		return usage("%s is paused already; see madeira holds", a.Subject)
	}
	fmt.Fprintf(p.stderr, "%s is paused; madeira resume %s ends it\n", a.Subject, a.Subject)
	return nil
}

// checkJobKnown refuses to pause a job that is not known and has nearly the name of
// one that is: who pauses in a hurry must not believe that the other one rests. One
// that is like none is probably to come.
func (p *program) checkJobKnown(ctx context.Context, db *store.DB, name string) error {
	inForce, err := db.Jobs(ctx)
	if err != nil {
		return err
	}
	known := make([]string, len(inForce))
	for i, job := range inForce {
		known[i] = job.Name
	}
	if slices.Contains(known, name) {
		return nil
	}
	runs, err := db.Runs(ctx, store.RunFilter{Job: name, Limit: 1})
	if err != nil || len(runs) > 0 {
		return err
	}
	if runs, err = db.Runs(ctx, store.RunFilter{Limit: 1000}); err != nil {
		return err
	}
	for _, run := range runs {
		known = append(known, run.Job)
	}
	if near := jobs.Nearest(name, known); near != "" {
		return usage("no job %s is in force or has run here, so nothing is paused; did you mean job:%s?", name, near)
	}
	fmt.Fprintf(p.stderr, "no job %s is in force or has run here; it is paused all the same, in case it is to come\n", name)
	return nil
}

func (p *program) resume(ctx context.Context, db *store.DB, a task.Action) error {
	if strings.HasPrefix(a.Subject, "circuit:") {
		return p.tryCircuit(ctx, db, a)
	}
	if err := pausable(a.Subject); err != nil {
		return err
	}
	ended, err := db.Resume(ctx, a)
	if err != nil {
		return err
	}
	if !ended {
		return usage("%s is not paused; see madeira holds", a.Subject)
	}
	fmt.Fprintf(p.stderr, "%s goes on\n", a.Subject)
	return nil
}

func (p *program) tryCircuit(ctx context.Context, db *store.DB, a task.Action) error {
	open, err := db.TryCircuit(ctx, a)
	if err != nil {
		return err
	}
	if !open {
		return usage("%s is not open; see madeira holds", a.Subject)
	}
	fmt.Fprintf(p.stderr, "whoever works on this database tries %s within seconds; madeira holds shows how it goes\n", a.Subject)
	return nil
}

// pausable checks that a subject can be paused. A type that is written wrong must
// not look as if it were paused.
func pausable(subject string) error {
	kind, name, _ := strings.Cut(subject, ":")
	if kind != "type" && kind != "job" || name == "" {
		return usage("%q cannot be paused; say type:NAME or job:NAME", subject)
	}
	registry, err := builtin.Registry(io.Discard)
	if err != nil {
		return err
	}
	if names := registry.Names(); kind == "type" && !slices.Contains(names, name) {
		return usage("there is no step type %q; known are %s", name, strings.Join(names, ", "))
	}
	return nil
}

type holdView struct {
	Gate   string     `json:"gate"`
	Since  time.Time  `json:"since"`
	Actor  string     `json:"actor"`
	Reason string     `json:"reason"`
	Held   int        `json:"held"`
	State  string     `json:"state"`
	Until  *time.Time `json:"until"`
}

func (p *program) listHolds(ctx context.Context, db *store.DB) error {
	holds, err := db.Holds(ctx)
	if err != nil {
		return err
	}
	if p.output == "json" {
		views := make([]holdView, len(holds))
		for i, h := range holds {
			views[i] = holdView{h.Gate, h.Since, h.Actor, h.Reason, h.Held, holdState(h), optional(h.Until)}
		}
		return p.json(views)
	}
	rows := [][]string{{"GATE", "STATE", "SINCE (UTC)", "UNTIL (UTC)", "BY", "HELD", "REASON"}}
	for _, h := range holds {
		rows = append(rows, []string{h.Gate, holdState(h), stamp(h.Since), stamp(h.Until), h.Actor, fmt.Sprint(h.Held), strings.Join(strings.Fields(h.Reason), " ")})
	}
	writeTable(p.stdout, rows)
	return nil
}

func holdState(h store.Hold) string {
	if h.State == "" {
		return "paused"
	}
	return string(h.State)
}
