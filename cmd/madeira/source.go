package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
)

// A jobSource is where the jobs that serve follows come from. Its methods are for
// one goroutine.
type jobSource interface {
	// name tells it from others, in rows and messages.
	name() string

	// look returns its files as they stand. On error what was there before holds.
	look(ctx context.Context) (tree, error)

	// changed yields when something may have changed; nil: nobody can tell.
	changed() <-chan struct{}

	// every is how often to look without being told.
	every() time.Duration

	// tidy removes what neither these folders nor a run needs.
	tidy(ctx context.Context, now time.Time, needed []string) error

	close() error
}

// A tree is the files of a source at one time.
type tree struct {
	mark   string   // trees with equal marks are the same
	folder string   // absolute, where they lie
	root   string   // of what several folders of jobs share
	files  []string // job files, absolute
	commit string   // of git; "" for a folder
	notice string   // what somebody should do; "": nothing

	problems []jobs.Problem // with files that cannot be had; their paths are absolute
}

// short names a file as the repository or the folder does.
func (t tree) short(file string) string {
	if rel, err := filepath.Rel(t.folder, file); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return file
}

// treeForm is where files of a commit lie.
var treeForm = regexp.MustCompile(`/git/[0-9a-f]{16}/trees/[0-9a-f]{40,64}/(.+)$`)

// fileOf names the file of a job as its source does, whose files begin at folder now.
// That of a commit may lie in the folder of an earlier one.
func fileOf(v task.JobVersion, folder string) string {
	if m := treeForm.FindStringSubmatch(filepath.ToSlash(v.Path)); v.Commit != "" && m != nil {
		return m[1]
	}
	if folder == "" {
		return displayPath(v.Path)
	}
	return tree{folder: folder}.short(v.Path)
}

// A standing is what is in force of a source, by file.
type standing map[string]*jobs.Job

// list returns the jobs in force, by name.
func (s standing) list() []*jobs.Job {
	list := slices.Collect(maps.Values(s))
	slices.SortFunc(list, func(a, b *jobs.Job) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}

// A change is what became of one job when its files changed.
type change struct {
	what string // a constant below
	file string
	job  *jobs.Job // in force now, or before when it is gone
}

// What can become of a job.
const (
	jobAdded   = "job added"
	jobChanged = "job changed"
	jobGone    = "job gone"
	jobKept    = "the file is broken; the last good version of its job stays in force"
	jobBack    = "the file is in order again"
)

// settle decides what is in force after files were read: what each good file says;
// of a broken one, what it said last. A job that another file declares now goes with
// that file. Files are named as the source names them; good are the jobs by file,
// broken the files that give none.
func settle(before standing, keptBefore map[string]bool, good standing, broken map[string]bool) (now standing, kept map[string]bool, changes []change) {
	now, kept = standing{}, map[string]bool{}
	maps.Copy(now, good)
	names, was := map[string]bool{}, map[string]*jobs.Job{}
	for _, job := range good {
		names[job.Name] = true
	}
	for _, job := range before {
		was[job.Name] = job
	}
	for _, file := range slices.Sorted(maps.Keys(broken)) {
		last, had := before[file]
		if _, isGood := good[file]; isGood || !had || names[last.Name] {
			continue
		}
		now[file], kept[file], names[last.Name] = last, true, true
		if !keptBefore[file] {
			changes = append(changes, change{jobKept, file, last})
		}
	}
	for _, file := range slices.Sorted(maps.Keys(good)) {
		job := good[file]
		switch old, known := was[job.Name]; {
		case !known:
			changes = append(changes, change{jobAdded, file, job})
		case string(old.Source) != string(job.Source) || old.Digest != job.Digest:
			changes = append(changes, change{jobChanged, file, job})
		case keptBefore[file]:
			changes = append(changes, change{jobBack, file, job})
		}
	}
	for _, file := range slices.Sorted(maps.Keys(before)) {
		if job := before[file]; !names[job.Name] {
			changes = append(changes, change{jobGone, file, job})
		}
	}
	return now, kept, changes
}

// brokenFiles are the files of a tree that give no job, as the source names them:
// what is wrong may be in a file that they share, such as a preset. Those that cannot
// be had at all are among the problems alone.
func brokenFiles(t tree, good standing, problems []jobs.Problem) map[string]bool {
	broken := map[string]bool{}
	for _, file := range t.files {
		if name := t.short(file); good[name] == nil {
			broken[name] = true
		}
	}
	for _, p := range problems {
		if p.IsError() {
			broken[t.short(p.File)] = true
		}
	}
	return broken
}

// holdersFirst orders files so that one that has declared its job before comes
// before one that wants to declare the same job now.
func holdersFirst(files []string, holds func(file string) bool) []string {
	ordered := slices.Clone(files)
	slices.SortStableFunc(ordered, func(a, b string) int {
		switch ha, hb := holds(a), holds(b); {
		case ha == hb:
			return 0
		case ha:
			return -1
		}
		return 1
	})
	return ordered
}

// ago says how long ago something was, as finely as people want to know.
func ago(at, now time.Time) string {
	d := now.Sub(at)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}
