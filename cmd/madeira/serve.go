package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"madeira/jobs"
	"madeira/scheduler"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	dir   string
	types []string
	git   gitOptions
}

func (p *program) serveCommand() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Follow the schedules of all jobs and work at what is due",
		Long: `Follows the schedules of all job files of a folder and works at what is due, until
it is told to stop (SIGTERM or Ctrl-C); then running steps may finish for a while.
Any number of these may work on one PostgreSQL.

Files that are added, changed or removed count within seconds, without a new start;
what they share (calendars, presets) too. A file that breaks keeps its last good
version in force: the log says so, and so do madeira jobs list and madeira doctor.

With --git it follows a ref of a repository instead, through the program git and
with its credentials. The repository is only read, and each run keeps the commit it
was made from. While the remote is away, what was fetched last stays in force.`,
		Example: `  madeira serve --jobs books
  madeira serve --types fetch,parse
  madeira serve --git https://git.example/finance/jobs.git --ref main --path jobs`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"ref", "path", "poll"} {
				if c.Flags().Changed(name) && o.git.url == "" {
					return usage("--%s goes with --git", name)
				}
			}
			if o.git.url != "" && c.Flags().Changed("jobs") {
				return usage("--jobs and --git exclude each other: --path is the folder of the repository")
			}
			return p.serve(c.Context(), o)
		},
	}
	c.Flags().StringVar(&o.dir, "jobs", ".", "folder of the job files, or a single one")
	c.Flags().StringSliceVar(&o.types, "types", nil, "work only at tasks of these step types, such as fetch,parse; deliver is what sends messages (default: all)")
	c.Flags().StringVar(&o.git.url, "git", "", "repository of the job files: https://…, ssh://…, host:path, file://…")
	c.Flags().StringVar(&o.git.ref, "ref", "main", "with --git: branch, tag, refs/… or commit")
	c.Flags().StringVar(&o.git.path, "path", ".", "with --git: folder of the job files in the repository")
	c.Flags().DurationVar(&o.git.poll, "poll", 30*time.Second, "with --git: how often to fetch")
	return c
}

func (p *program) serve(ctx context.Context, o serveOptions) error {
	log := slog.NewJSONHandler(p.stderr, nil)
	begin := p.beginFolder
	if o.git.url != "" {
		begin = p.beginGit
	}
	f, cfg, err := begin(ctx, o, slog.New(log))
	if err != nil {
		return err
	}
	defer f.source.close() //nolint:errcheck // Nothing was written.
	r, err := openProcess(ctx, cfg, p.stderr, log)
	if err != nil {
		return err
	}
	for _, name := range o.types {
		if _, known := r.registry.Lookup(name); !known {
			return errors.Join(usage("--types %s: there is no such step type; known are %s", name, strings.Join(r.registry.Names(), ", ")), r.close())
		}
	}
	r.types = o.types
	return errors.Join(p.serveJobs(ctx, r, f), r.close())
}

// beginFolder prepares to follow a folder, which has to have a job file.
func (p *program) beginFolder(ctx context.Context, o serveOptions, log *slog.Logger) (*follower, *config, error) {
	beside := o.dir
	if info, err := os.Stat(o.dir); err == nil && !info.IsDir() {
		beside = filepath.Dir(o.dir)
	}
	cfg, err := loadConfig(ctx, beside, p.database, p.environ)
	if err != nil {
		return nil, nil, err
	}
	source, err := newFolderSource(ctx, o.dir, cfg.root, log)
	if err != nil {
		return nil, nil, err
	}
	t, err := source.look(ctx)
	if err != nil {
		return nil, nil, errors.Join(usage("%w", err), source.close())
	}
	return p.newFollower(cfg, source, t, log), cfg, nil
}

// beginGit prepares to follow a ref. Where this machine has no madeira.yaml, that
// of the repository holds.
func (p *program) beginGit(ctx context.Context, o serveOptions, log *slog.Logger) (*follower, *config, error) {
	if err := o.git.check(); err != nil {
		return nil, nil, usage("%w", err)
	}
	root, local, err := findRoot(".")
	if err != nil {
		return nil, nil, err
	}
	source := newGitSource(o.git, filepath.Join(root, stateFolder, "git"), p.environ, log)
	source.local = local
	t, failure := source.look(ctx)
	if failure != nil {
		if t, err = source.lookBack(ctx); err != nil {
			return nil, nil, failure
		}
	}
	path := filepath.Join(t.root, configName)
	if local {
		path = filepath.Join(root, configName)
	} else if _, err := os.Stat(path); err != nil {
		path = ""
	}
	cfg, err := configAt(ctx, root, path, p.database, p.environ)
	if err != nil {
		return nil, nil, usage("%w", err)
	}
	f := p.newFollower(cfg, source, t, log)
	if failure != nil {
		f.fail(failure)
	}
	return f, cfg, nil
}

func (p *program) newFollower(cfg *config, source jobSource, first tree, log *slog.Logger) *follower {
	return &follower{
		source: source, first: first, log: log,
		check: func(fsys fs.FS, root string, paths []string) ([]*jobs.Job, []jobs.Problem, error) {
			return p.checkIn(fsys, root, paths, cfg)
		},
		look:   cfg.checkSecrets,
		follow: func([]*jobs.Job) {},
	}
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

func (p *program) serveJobs(ctx context.Context, r *process, f *follower) error {
	if err := r.openTypes(ctx); err != nil {
		return err
	}
	f.log = r.log
	if g, ok := f.source.(*gitSource); ok {
		g.log, g.inUse = r.log, r.db.BaseFolders
	}
	if err := f.begin(ctx, r.db); err != nil {
		return err
	}
	worker, err := r.engine(ctx, "", nil)
	if err != nil {
		return err
	}
	schedules := scheduler.New(scheduler.Options{Store: r.db, Jobs: f.standing.list(), Log: r.log, Wake: worker.Wake})
	f.follow = schedules.Follow
	r.log.InfoContext(ctx, "serving", slog.Int("jobs", len(f.standing)), slog.String("source", f.source.name()), slog.String("commit", f.last.commit),
		slog.String("database", redacted(r.config.database)), slog.Int("workers", r.config.limits.Workers))
	var beside sync.WaitGroup
	var scheduled error
	beside.Go(func() { scheduled = schedules.Run(ctx) })
	beside.Go(func() { f.run(ctx) })
	err = worker.Run(ctx)
	beside.Wait()
	r.log.Info("stopped")
	return errors.Join(err, scheduled)
}
