package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"madeira/engine/store"
	"madeira/engine/task"
)

func (p *program) cancelCommand() *cobra.Command {
	var as, reason string
	c := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Stop a run: what has not begun is cancelled, what runs is told within seconds",
		Long: `Stops a run and the runs that it started. Steps that have not begun are cancelled
at once, those that run are told within five seconds, and when the steps of
finally are over the run ends as cancelled. RUN is the start of its id.`,
		Example: `  madeira runs cancel 0199a1b2 --reason "wrong month"`,
		Args:    arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return usage("say why with --reason; whoever finds the run cancelled will ask")
			}
			a := task.Action{Actor: p.actor(as), Reason: reason}
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.cancel(c.Context(), db, args[0], a) })
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; the audit log shows it")
	asFlag(c.Flags(), &as)
	return c
}

func (p *program) cancel(ctx context.Context, db *store.DB, prefix string, a task.Action) error {
	run, err := oneRun(ctx, db, prefix)
	if err != nil {
		return err
	}
	run, err = db.CancelRun(ctx, run.ID, a)
	if err != nil {
		return refusal(err)
	}
	if p.output == "json" {
		return p.json(newRunView(run, task.Run{}))
	}
	if run.Status.Live() {
		fmt.Fprintf(p.stdout, "run %s is stopped; what is at work is told, and it ends as cancelled\n", run.ID)
		return nil
	}
	fmt.Fprintf(p.stdout, "run %s is %s\n", run.ID, run.Status)
	return nil
}

// oneRun returns the run whose id begins with the prefix.
func oneRun(ctx context.Context, db *store.DB, prefix string) (task.Run, error) {
	run, err := db.FindRun(ctx, prefix)
	var several *store.AmbiguousError
	switch {
	case errors.Is(err, store.ErrNotFound):
		return run, usage("%w; see madeira runs", err)
	case errors.As(err, &several):
		return run, usage("%w", err)
	}
	return run, err
}

// refusal marks what cannot be done to a run as it stands as the caller's error.
func refusal(err error) error {
	var state *store.RunStateError
	if errors.As(err, &state) {
		return usage("%w", err)
	}
	return err
}
