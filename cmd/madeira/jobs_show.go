package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
)

func (p *program) showJob(ctx context.Context, db *store.DB, name string) error {
	o, err := p.overview(ctx, db)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(o.jobs, func(v jobView) bool { return v.Name == name })
	if i < 0 {
		return usage("no job %q is known here; see madeira jobs list", name)
	}
	v := o.jobs[i]
	versions, err := db.JobVersions(ctx, name, 10)
	if err != nil {
		return err
	}
	runs, err := db.Runs(ctx, store.RunFilter{Job: name, Limit: 5})
	if err != nil {
		return err
	}
	if p.output == "json" {
		last := make([]runView, len(runs))
		for i, r := range runs {
			last[i] = newRunView(r, task.Run{})
		}
		seen := make([]versionView, len(versions))
		for i, w := range versions {
			seen[i] = versionView{w.Digest, w.Commit, w.SeenAt}
		}
		return p.json(struct {
			jobView
			Versions []versionView `json:"versions"`
			Runs     []runView     `json:"runs"`
		}{v, seen, last})
	}
	p.printJob(v, versions, runs)
	return nil
}

// A versionView is a meaning that a job had.
type versionView struct {
	Digest      string    `json:"digest"`
	Commit      string    `json:"commit"`
	FirstSeenAt time.Time `json:"first_seen_at"`
}

func (p *program) printJob(v jobView, versions []store.FollowedJob, runs []task.Run) {
	out := p.stdout
	fmt.Fprintf(out, "job       %s\nfile      %s\n", v.Name, v.File)
	if v.Source != "" {
		fmt.Fprintf(out, "followed  from %s\n", v.Source)
	} else {
		fmt.Fprintln(out, "followed  from nowhere: its schedule makes no runs")
	}
	fmt.Fprintf(out, "digest    %s\n", v.Digest)
	if v.Commit != "" {
		fmt.Fprintf(out, "commit    %s\n", v.Commit)
	}
	if v.Paused != nil {
		fmt.Fprintf(out, "paused    since %s UTC by %s: %s\n", stamp(v.Paused.Since), v.Paused.Actor, v.Paused.Reason)
	}
	for _, e := range v.Entries {
		switch {
		case e.NextDue != nil:
			fmt.Fprintf(out, "due       %s UTC  %s\n", stamp(*e.NextDue), e.Entry)
		default:
			fmt.Fprintf(out, "due       never again, as far as can be told  %s  %s\n", e.Entry, e.Problem)
		}
	}
	if v.NextNote != "" && len(v.Entries) == 0 {
		fmt.Fprintf(out, "due       %s\n", v.NextNote)
	}
	for _, f := range v.Problems {
		fmt.Fprintf(out, "%-9s %s (since %s UTC)\n", f.Severity, f, stamp(f.Since))
	}
	rows := [][]string{{"DIGEST", "COMMIT", "FIRST SEEN (UTC)"}}
	for _, w := range versions {
		rows = append(rows, []string{short(strings.TrimPrefix(w.Digest, "sha256:")), short(w.Commit), stamp(w.SeenAt)})
	}
	fmt.Fprintln(out)
	writeTable(out, rows)
	rows = [][]string{{"RUN", "KEY", "VERSION", "STATUS", "CREATED"}}
	for _, r := range runs {
		rows = append(rows, []string{r.ID, r.Key, version(r), string(r.Status), stamp(r.CreatedAt)})
	}
	fmt.Fprintln(out)
	writeTable(out, rows)
}
