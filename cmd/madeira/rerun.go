package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"madeira/engine/artifact"
	"madeira/engine/store"
	"madeira/engine/task"
)

func (p *program) rerunCommand() *cobra.Command {
	var as, reason string
	var set []string
	r := task.Rerun{}
	c := &cobra.Command{
		Use:   "rerun RUN",
		Short: "Do a run that is over again as a new version, all of it or a part",
		Long: `Makes a new version of a run that is over, from its steps as they were frozen then,
whatever became of the job's file since. Without a flag all steps run again. Steps
that do not are taken over with what they left. The old version stays as it is.
RUN is the start of its id. Whoever works on the database works at the new version:
madeira serve, or madeira run with the same job and key.`,
		Example: `  madeira runs rerun 0199a1b2 --only-failed --reason "the bank is back"
  madeira runs rerun 0199a1b2 --from recon --set 'recon.expect={"all": {"max": 9, "else": "fail"}}' --reason "as finance asked"
  madeira runs rerun 0199a1b2 --step lines --reason "to look at it"`,
		Args: arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return usage("say why with --reason; whoever finds a second version will read it")
			}
			r.Action = task.Action{Actor: p.actor(as), Reason: reason}
			return p.withState(c.Context(), func(db *store.DB, cfg *config) (err error) {
				if r.Overrides, err = overrides(c.Context(), shelf{cfg}, set); err != nil {
					return err
				}
				return p.rerun(c.Context(), db, args[0], r)
			})
		},
	}
	c.Flags().StringVar(&r.From, "from", "", "this step and everything after it")
	c.Flags().BoolVar(&r.OnlyFailed, "only-failed", false, "what did not end well, and everything after it")
	c.Flags().StringVar(&r.Step, "step", "", "this step alone, or one element of it: STEP[ELEMENT]")
	c.MarkFlagsMutuallyExclusive("from", "only-failed", "step")
	c.Flags().StringArrayVar(&set, "set", nil, "a setting of a step that runs again: STEP.SETTING=VALUE, the value as JSON or text, @FILE for a file")
	c.Flags().StringVar(&reason, "reason", "", "why; the run and the audit log show it")
	asFlag(c.Flags(), &as)
	return c
}

func (p *program) rerun(ctx context.Context, db *store.DB, prefix string, r task.Rerun) error {
	old, err := oneRun(ctx, db, prefix)
	if err != nil {
		return err
	}
	r.RunID = old.ID
	if len(r.Overrides) > 0 {
		_, steps, err := db.OldSteps(ctx, old.ID)
		if err == nil {
			err = checkOverrides(steps, r.Overrides)
		}
		if err != nil {
			return rerunRefused(err, false)
		}
	}
	run, err := db.Rerun(ctx, r)
	if err != nil {
		return rerunRefused(err, false)
	}
	if p.output == "json" {
		return p.json(newRunView(run, task.Run{}))
	}
	fmt.Fprintf(p.stdout, "run %s is version %d of %s\n", run.ID, run.Version, keyName(run))
	fmt.Fprintf(p.stderr, "whoever serves this database works at it; if nobody does: madeira serve, or madeira run with the same job and key. See madeira runs show %s\n", run.ID[:13])
	return nil
}

// A shelf keeps files in the artifact store of a configuration, which it opens for
// each.
type shelf struct{ config *config }

func (s shelf) keepFile(ctx context.Context, path string) (json.RawMessage, error) {
	folder, err := artifact.Open(artifactFolder(s.config))
	if err != nil {
		return nil, err
	}
	file, err := (&process{artifacts: folder}).keepFile(ctx, path)
	return file, errors.Join(err, folder.Close())
}
