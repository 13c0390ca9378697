package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"madeira/jobs"
	"madeira/scheduler"
)

func (p *program) serveCommand() *cobra.Command {
	var dir string
	var types []string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Follow the schedules of all jobs and work at what is due",
		Long: `Follows the schedules of all job files of a folder and works at what is due, until
it is told to stop (SIGTERM or Ctrl-C); then running steps may finish for a while.
Any number of these may work on one PostgreSQL.`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return p.serve(c.Context(), dir, types)
		},
	}
	c.Flags().StringVar(&dir, "jobs", ".", "folder of the job files")
	c.Flags().StringSliceVar(&types, "types", nil, "work only at tasks of these step types, such as fetch,parse; deliver is what sends messages (default: all)")
	return c
}

func (p *program) serve(ctx context.Context, dir string, types []string) error {
	cfg, err := loadConfig(ctx, dir, p.database, p.environ)
	if err != nil {
		return err
	}
	files, err := jobFiles([]string{dir})
	if err != nil {
		return usage("%w", err)
	}
	checked, problems, err := p.check(files, cfg)
	if err != nil {
		return err
	}
	if len(checked) == 0 {
		return &problemsError{problems}
	}
	for _, problem := range problems {
		fmt.Fprintln(p.stderr, problem)
	}
	for _, job := range checked {
		if err := cfg.checkSecrets(ctx, job); err != nil {
			fmt.Fprintf(p.stderr, "%s: %v\n", job.Path, err)
		}
	}
	r, err := openProcess(ctx, cfg, p.stderr, slog.NewJSONHandler(p.stderr, nil))
	if err != nil {
		return err
	}
	for _, name := range types {
		if _, known := r.registry.Lookup(name); !known {
			return errors.Join(usage("--types %s: there is no such step type; known are %s", name, strings.Join(r.registry.Names(), ", ")), r.close())
		}
	}
	r.types = types
	return errors.Join(p.serveJobs(ctx, r, checked), r.close())
}

// openTypes lets anybody insert tasks of the types that madeira.yaml opens.
func (r *process) openTypes(ctx context.Context) error {
	for _, name := range r.config.openTypes {
		switch t, ok := r.registry.Lookup(name); {
		case !ok:
			return usage("config.value: open_types: there is no step type %q; there are %s", name, strings.Join(r.registry.Names(), ", "))
		case t.RunsCode:
			return usage("config.value: open_types: the step type %q runs what it is given and cannot be opened", name)
		}
	}
	return r.db.SetOpenTypes(ctx, r.config.openTypes)
}

func (p *program) serveJobs(ctx context.Context, r *process, checked []*jobs.Job) error {
	if err := r.openTypes(ctx); err != nil {
		return err
	}
	worker, err := r.engine(ctx, "", nil)
	if err != nil {
		return err
	}
	schedules := scheduler.New(scheduler.Options{Store: r.db, Jobs: checked, Log: r.log, Wake: worker.Wake})
	r.log.InfoContext(ctx, "serving", slog.Int("jobs", len(checked)), slog.String("database", redacted(r.config.database)), slog.Int("workers", r.config.limits.Workers))
	var scheduling sync.WaitGroup
	var scheduled error
	scheduling.Go(func() { scheduled = schedules.Run(ctx) })
	err = worker.Run(ctx)
	scheduling.Wait()
	r.log.Info("stopped")
	return errors.Join(err, scheduled)
}
