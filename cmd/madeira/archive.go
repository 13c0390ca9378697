package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"madeira/engine/store"
	"madeira/jobs"
)

// An archiving says when what is over leaves the tables that work goes on in.
type archiving struct {
	After time.Duration // since it was over
	Keep  time.Duration // since it was over, when the archive drops it
}

const day = 24 * time.Hour

// read applies what madeira.yaml says of the archive to the defaults.
func (a *archiving) read(file map[string]json.RawMessage) error {
	*a = archiving{After: 30 * day, Keep: 400 * day}
	return a.set(strings.Trim(string(file["after"]), `"`), strings.Trim(string(file["keep"]), `"`))
}

// set takes what is given in the place of what holds.
func (a *archiving) set(after, keep string) (err error) {
	if after != "" {
		if a.After, err = archiveAge(after); err != nil {
			return fmt.Errorf("config.value: archive after: %w", err)
		}
	}
	if keep != "" {
		if a.Keep, err = archiveAge(keep); err != nil {
			return fmt.Errorf("config.value: archive keep: %w", err)
		}
	}
	if a.Keep < a.After {
		return fmt.Errorf("config.relation: archive keep (%s) is shorter than after (%s): both count from the end of a run", a.Keep, a.After)
	}
	return nil
}

// archiveAge reads how long something has been over.
func archiveAge(text string) (time.Duration, error) {
	d, err := jobs.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q %w", text, err)
	}
	if d < time.Hour || d > 36500*day {
		return 0, fmt.Errorf("%s is not between 1h and 36500d", text)
	}
	return d, nil
}

func (p *program) archiveCommand() *cobra.Command {
	var after, keep string
	c := &cobra.Command{
		Use:   "archive",
		Short: "Move what has been over for long to the archive now, and drop what it has kept long enough",
		Long: `Moves runs and tasks that have been over for 30 days to the archive, and drops
what was over 400 days ago, or as archive in madeira.yaml says. madeira serve does
the same every ten minutes. What is in the archive is found like anything else;
what is dropped is gone, but its keys still hold.`,
		Example: `  madeira archive
  madeira archive --after 90d --keep 3650d`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withState(c.Context(), func(db *store.DB, cfg *config) error {
				a := cfg.archive
				if err := a.set(after, keep); err != nil {
					return usage("%w", err)
				}
				return p.archive(c.Context(), db, a)
			})
		},
	}
	c.Flags().StringVar(&after, "after", "", "how long it has been over, such as 30d (default: archive.after of madeira.yaml)")
	c.Flags().StringVar(&keep, "keep", "", "how long the archive keeps it, such as 400d (default: archive.keep of madeira.yaml)")
	return c
}

func (p *program) archive(ctx context.Context, db *store.DB, a archiving) error {
	const all = 1 << 62
	done, err := db.Archive(ctx, a.After, all)
	if err != nil {
		return err
	}
	gone, err := db.Drop(ctx, a.Keep, all)
	if err != nil {
		return err
	}
	moved, dropped := archived{done.Runs, done.Lone}, archived{gone.Runs, gone.Lone}
	if p.output == "json" {
		return p.json(map[string]archived{"archived": moved, "dropped": dropped})
	}
	fmt.Fprintf(p.stdout, "archived %d runs and %d tasks enqueued alone, dropped %d and %d\n", moved.Runs, moved.Tasks, dropped.Runs, dropped.Tasks)
	return nil
}

// archived counts what went one way.
type archived struct {
	Runs  int `json:"runs"`
	Tasks int `json:"tasks"` // enqueued alone
}
