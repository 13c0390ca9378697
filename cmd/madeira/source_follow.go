package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
)

const (
	quiet     = 200 * time.Millisecond // without an event, so that what is being written is whole
	unquiet   = 2 * time.Second        // after which it is read in any case
	heartbeat = time.Minute            // between two notes that a source is as it was
)

// sourceRows is what a follower notes in the state database.
type sourceRows interface {
	SaveSource(ctx context.Context, s store.Source, inForce []task.JobVersion, problems []store.FileProblem) error
	FailSource(ctx context.Context, s store.Source) error
	TouchSource(ctx context.Context, s store.Source) error
}

// A follower keeps the jobs in force that a source has, while it changes. One
// goroutine runs it.
type follower struct {
	source jobSource
	check  func(fsys fs.FS, root string, paths []string) ([]*jobs.Job, []jobs.Problem, error)
	look   func(ctx context.Context, job *jobs.Job) error // at what a job needs beside its file; its error is said, no more
	follow func([]*jobs.Job)
	rows   sourceRows // nil until the state database is open
	log    *slog.Logger

	first    tree // what begin begins with
	standing standing
	kept     map[string]bool   // files that are broken and whose last good version is in force
	said     map[string]string // what was said of a file, while it is so
	last     tree
	wrong    []jobs.Problem // in the files of last
	problems []store.FileProblem
	failure  string // why the source cannot be read; "": it can
	failedAt time.Time
	read     time.Time // when it could be read last
	saved    bool      // the rows are as this is
	touched  time.Time
}

// A memory is what the state database knows of earlier processes.
type memory interface {
	sourceRows
	Jobs(ctx context.Context) ([]store.FollowedJob, error)
	Sources(ctx context.Context) ([]store.Source, error)
}

// begin puts the first tree into force. Where all of it is broken nothing is in force
// until that is mended: runs that were made before have to be worked at all the same.
func (f *follower) begin(ctx context.Context, known memory) error {
	if f.failure == "" {
		f.read = time.Now()
	}
	if err := f.adopt(ctx, f.first); err != nil {
		return err
	}
	rows, err := known.Jobs(ctx)
	if err != nil {
		return err
	}
	sources, err := known.Sources(ctx)
	if err != nil {
		return err
	}
	for _, s := range sources {
		if s.Name == f.source.name() {
			f.restore(ctx, rows, s.Folder)
			if f.read.IsZero() {
				f.read = s.ReadAt
			}
		}
	}
	if len(f.standing) == 0 && len(f.wrong) == 0 {
		return usage("%w in %s", errNoJobFile, f.source.name())
	}
	if len(f.standing) == 0 {
		f.log.ErrorContext(ctx, "no job is in force, because of the problems above; the first that is mended counts without a new start",
			slog.String("source", f.source.name()), slog.Int("files", len(f.last.files)))
	}
	f.rows = known
	f.note(ctx)
	return nil
}

// run follows the source until ctx is done.
func (f *follower) run(ctx context.Context) {
	timer := time.NewTimer(f.source.every())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.source.changed():
			f.settleDown(ctx)
		case <-timer.C:
		}
		f.pass(ctx)
		timer.Reset(f.source.every())
	}
}

// settleDown waits until nothing changes any more: editors write in several steps.
func (f *follower) settleDown(ctx context.Context) {
	most := time.NewTimer(unquiet)
	defer most.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.source.changed():
		case <-time.After(quiet):
			return
		case <-most.C:
			return
		}
	}
}

// pass looks once. A bug that one change brings to light must not end a server.
func (f *follower) pass(ctx context.Context) {
	defer func() {
		if cause := recover(); cause != nil {
			f.log.ErrorContext(ctx, "follow the jobs", slog.String("source", f.source.name()), slog.String("error", fmt.Sprintf("panic: %v", cause)), slog.String("stack", string(debug.Stack())))
		}
	}()
	t, err := f.source.look(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil && t.mark != f.last.mark {
		err = f.adopt(ctx, t)
	}
	if err != nil {
		f.fail(err)
	} else {
		f.recovered(ctx)
	}
	f.note(ctx)
	if err := f.source.tidy(ctx, time.Now(), f.folders()); err != nil && ctx.Err() == nil {
		f.log.WarnContext(ctx, "remove files of earlier commits", slog.String("error", err.Error()))
	}
}

// fail says once that the source cannot be read, and how old what holds is.
func (f *follower) fail(err error) {
	if f.failure == err.Error() {
		return
	}
	if f.failure == "" {
		f.failedAt = time.Now()
	}
	f.failure, f.saved = err.Error(), false
	age := "never"
	if !f.read.IsZero() {
		age = ago(f.read, time.Now())
	}
	f.log.Error("the jobs cannot be read; what is in force stays", slog.String("source", f.source.name()), slog.String("error", f.failure),
		slog.String("commit", f.last.commit), slog.String("read", age), slog.Int("jobs", len(f.standing)))
}

func (f *follower) recovered(ctx context.Context) {
	f.read = time.Now()
	if f.failure != "" {
		f.log.InfoContext(ctx, "the jobs can be read again", slog.String("source", f.source.name()), slog.String("after", time.Since(f.failedAt).Round(time.Second).String()))
		f.failure, f.saved = "", false
	}
}

// adopt puts into force what the files say now.
func (f *follower) adopt(ctx context.Context, t tree) error {
	holds := func(file string) bool { return f.standing[t.short(file)] != nil }
	checked, problems, err := f.check(disk{}, t.root, holdersFirst(t.files, holds))
	if err != nil {
		return err
	}
	problems = append(problems, t.problems...)
	good := standing{}
	for _, job := range checked {
		pin(job, t.commit)
		good[t.short(job.Path)] = job
	}
	var changes []change
	f.standing, f.kept, changes = settle(f.standing, f.kept, good, brokenFiles(t, good, problems))
	f.wrong, f.problems = problems, f.describe(t, problems)
	f.sayProblems(ctx)
	f.sayChanges(ctx, changes)
	if t.notice != "" && t.notice != f.last.notice {
		f.log.WarnContext(ctx, t.notice, slog.String("source", f.source.name()))
	}
	if t.commit != f.last.commit && f.last.mark != "" {
		f.log.InfoContext(ctx, "commit in force", slog.String("commit", t.commit), slog.String("commit_was", f.last.commit))
	}
	f.last, f.saved = t, false
	f.follow(f.standing.list())
	return nil
}

// pin notes the commit in a job and in those that it calls.
func pin(job *jobs.Job, commit string) {
	if commit == "" || job.Commit == commit {
		return
	}
	job.Commit = commit
	for _, steps := range [][]jobs.Step{job.Steps, job.OnFailure, job.Finally} {
		for _, s := range steps {
			if s.Call != nil && s.Call.Job != nil {
				pin(s.Call.Job, commit)
			}
		}
	}
}

// describe turns problems into rows, by file and line.
func (f *follower) describe(t tree, problems []jobs.Problem) []store.FileProblem {
	list := make([]store.FileProblem, len(problems))
	for i, p := range problems {
		list[i] = store.FileProblem{
			Path: t.short(p.File), Line: p.Line, Col: p.Column, Code: p.Code,
			Message: strings.ReplaceAll(p.Message, t.folder+string(filepath.Separator), ""), Severity: string(jobs.SeverityError),
		}
		if !p.IsError() {
			list[i].Severity = string(jobs.SeverityWarning)
		}
		if f.kept[list[i].Path] {
			list[i].Job = f.standing[list[i].Path].Name
		}
	}
	slices.SortStableFunc(list, func(a, b store.FileProblem) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// sayProblems says what is wrong with each file once, until it is another thing.
func (f *follower) sayProblems(ctx context.Context) {
	now := map[string]string{}
	for _, p := range f.problems {
		now[p.Path] += place(p) + " " + p.Code + " " + p.Message + "\n"
	}
	for _, file := range slices.Sorted(maps.Keys(now)) {
		if f.said[file] == now[file] {
			continue
		}
		for _, p := range f.problems {
			if p.Path == file {
				f.log.WarnContext(ctx, "a file of the jobs has a problem", slog.String("file", place(p)), slog.String("code", p.Code), slog.String("problem", p.Message), slog.String("severity", p.Severity))
			}
		}
	}
	f.said = now
}

// place names a problem's place: file:line:column.
func place(p store.FileProblem) string {
	if p.Line == 0 {
		return p.Path
	}
	return fmt.Sprintf("%s:%d:%d", p.Path, p.Line, p.Col)
}

func (f *follower) sayChanges(ctx context.Context, changes []change) {
	for _, c := range changes {
		attrs := []any{slog.String("job", c.job.Name), slog.String("file", c.file), slog.String("digest", c.job.Digest)}
		if c.job.Commit != "" {
			attrs = append(attrs, slog.String("commit", c.job.Commit))
		}
		level := slog.LevelInfo
		if c.what == jobKept {
			level = slog.LevelWarn
		}
		if f.last.mark != "" || c.what == jobKept { // of a start, "serving" says how many there are
			f.log.Log(ctx, level, c.what, attrs...)
		}
		if c.what == jobAdded || c.what == jobChanged {
			if err := f.look(ctx, c.job); err != nil {
				f.log.WarnContext(ctx, "what the job needs is not all there", slog.String("job", c.job.Name), slog.String("file", c.file), slog.String("error", err.Error()))
			}
		}
	}
}

// note writes the rows, unless they are as they should be and fresh.
func (f *follower) note(ctx context.Context) {
	if f.rows == nil || f.saved && time.Since(f.touched) < heartbeat {
		return
	}
	s := store.Source{Name: f.source.name(), Folder: f.last.folder, Commit: f.last.commit, Failure: f.failure, Notice: f.last.notice}
	var err error
	switch {
	case f.failure != "":
		err = f.rows.FailSource(ctx, s)
	case f.saved:
		err = f.rows.TouchSource(ctx, s)
	default:
		inForce := make([]task.JobVersion, 0, len(f.standing))
		for _, j := range f.standing.list() {
			inForce = append(inForce, task.JobVersion{Name: j.Name, Digest: j.Digest, Path: j.Path, Source: j.Source, Commit: j.Commit})
		}
		err = f.rows.SaveSource(ctx, s, inForce, f.problems)
	}
	if err != nil && ctx.Err() == nil {
		f.log.ErrorContext(ctx, "note what is followed", slog.String("error", err.Error()))
		return
	}
	f.saved, f.touched = true, time.Now()
}

// folders are those at which jobs in force begin their relative paths.
func (f *follower) folders() []string {
	folders := []string{f.last.folder}
	for _, job := range f.standing {
		folders = append(folders, filepath.Dir(job.Path))
	}
	return folders
}
