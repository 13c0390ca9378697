package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"madeira/engine/store"
	"madeira/jobs"
)

func (p *program) jobsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "jobs",
		Short: "List jobs with the version in force, or show one",
		Args:  arguments(0, 0),
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List jobs: file, version in force, next due time, and what is wrong with the file now",
		Long: `Lists the jobs that the state database knows: the file, the digest and the commit of
the version in force, when it is due next, whether it is paused, and, where its file
is broken now, the place. Files without any version in force come last.`,
		Example: `  madeira jobs list
  madeira jobs list --output json`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.listJobs(c.Context(), db) })
		},
	}
	c.AddCommand(list, &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a job: its schedule, its versions, its last runs, and what is wrong with its file",
		Example: `  madeira jobs show nightly`,
		Args:    arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withState(c.Context(), func(db *store.DB, _ *config) error { return p.showJob(c.Context(), db, args[0]) })
		},
	})
	return c
}

// A jobView is a job as people and programs see it.
type jobView struct {
	Name     string        `json:"name"`
	File     string        `json:"file"`
	Source   string        `json:"source"` // what it is followed from; "" when nothing follows its schedule
	Digest   string        `json:"digest"`
	Commit   string        `json:"commit"`
	NextDue  *time.Time    `json:"next_due_at"`
	NextNote string        `json:"next_due_problem"` // why there is none; "" when there is one, or no schedule
	Entries  []entryView   `json:"schedule"`
	Paused   *pauseView    `json:"paused"`
	Problems []problemView `json:"problems"`
}

// An entryView is a line of a schedule.
type entryView struct {
	Entry   string     `json:"entry"`
	NextDue *time.Time `json:"next_due_at"`
	Problem string     `json:"problem"`

	line jobs.Entry
	zone *time.Location
}

type pauseView struct {
	Since  time.Time `json:"since"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
}

// A problemView is what is wrong in a file.
type problemView struct {
	File     string    `json:"file"`
	Line     int       `json:"line"`
	Column   int       `json:"column"`
	Code     string    `json:"code"`
	Message  string    `json:"message"`
	Severity string    `json:"severity"`
	Job      string    `json:"job"` // of which the last good version is in force; "" when none is
	Since    time.Time `json:"since"`

	source string
}

func (v problemView) String() string {
	return jobs.Problem{File: v.File, Line: v.Line, Column: v.Column, Code: v.Code, Message: v.Message}.String()
}

// A sourceView is a folder, or a ref of git, that is followed or was.
type sourceView struct {
	Name     string     `json:"name"`
	Commit   string     `json:"commit"`
	LookedAt time.Time  `json:"looked_at"`
	ReadAt   *time.Time `json:"read_at"`
	FailedAt *time.Time `json:"failed_at"`
	Failure  string     `json:"failure"`
	Notice   string     `json:"notice"`
	Followed bool       `json:"followed"` // somebody looked lately
}

// lately is how long ago somebody who follows a source has looked at most.
const lately = 5 * time.Minute

// An overview is what is in force and what is wrong.
type overview struct {
	now      time.Time
	jobs     []jobView
	problems []problemView // of sources that somebody follows
	sources  []sourceView
	holds    []store.Hold
}

// overview reads what is in force.
func (p *program) overview(ctx context.Context, db *store.DB) (overview, error) {
	now, err := db.Now(ctx)
	if err != nil {
		return overview{}, err
	}
	o := overview{now: now, problems: []problemView{}, sources: []sourceView{}, jobs: []jobView{}}
	sources, err := db.Sources(ctx)
	if err != nil {
		return o, err
	}
	known := map[string]store.Source{}
	followed := map[string]bool{}
	for _, s := range sources {
		known[s.Name], followed[s.Name] = s, now.Sub(s.LookedAt) < lately
		o.sources = append(o.sources, sourceView{s.Name, s.Commit, s.LookedAt, optional(s.ReadAt), optional(s.FailedAt), s.Failure, s.Notice, followed[s.Name]})
	}
	problems, err := db.FileProblems(ctx)
	if err != nil {
		return o, err
	}
	for _, f := range problems {
		if followed[f.Source] {
			o.problems = append(o.problems, problemView{f.Path, f.Line, f.Col, f.Code, f.Message, f.Severity, f.Job, f.Since, f.Source})
		}
	}
	rows, err := db.Jobs(ctx)
	if err != nil {
		return o, err
	}
	holds, err := db.Holds(ctx)
	if err != nil {
		return o, err
	}
	o.holds = holds
	paused := map[string]store.Hold{}
	for _, h := range holds {
		if name, ok := strings.CutPrefix(h.Gate, "job:"); ok {
			paused[name] = h
		}
	}
	for _, row := range rows {
		o.jobs = append(o.jobs, p.jobView(o, row, known[row.Followed], paused))
	}
	return o, nil
}

func (p *program) jobView(o overview, row store.FollowedJob, s store.Source, paused map[string]store.Hold) jobView {
	v := jobView{Name: row.Name, File: fileOf(row.JobVersion, s.Folder), Source: row.Followed, Digest: row.Digest, Commit: row.Commit, Entries: []entryView{}, Problems: []problemView{}}
	for _, f := range o.problems {
		if f.source == row.Followed && (f.Job == row.Name || f.File == v.File) {
			v.Problems = append(v.Problems, f)
		}
	}
	if at, ok := paused[row.Name]; ok {
		v.Paused = &pauseView{at.Since, at.Actor, at.Reason}
	}
	if row.Followed == "" {
		return v
	}
	job, err := p.jobInForce(row, s)
	if err != nil {
		v.NextNote = err.Error()
		return v
	}
	for _, e := range job.Schedule {
		due, err := nextRun(e, o.now.In(job.Location))
		entry := entryView{Entry: e.Name, NextDue: optional(due), line: e, zone: job.Location}
		if err != nil {
			entry.Problem = err.Error()
			v.NextNote = e.Name + ": " + err.Error()
		}
		if !due.IsZero() && (v.NextDue == nil || due.Before(*v.NextDue)) {
			v.NextDue = &due
		}
		v.Entries = append(v.Entries, entry)
	}
	return v
}

// jobInForce reads the version in force from its row, whatever its file says now.
// Calendars and presets are read where they are.
func (p *program) jobInForce(row store.FollowedJob, s store.Source) (*jobs.Job, error) {
	root := s.Folder
	if row.Commit == "" {
		at, _, err := findRoot(filepath.Dir(row.Path))
		if err != nil {
			return nil, err
		}
		root = at
	}
	checked, problems, err := p.checkIn(overlay{FS: disk{}, name: row.Path, text: row.Source}, root, []string{row.Path}, nil)
	if err != nil {
		return nil, err
	}
	if len(checked) == 0 {
		return nil, fmt.Errorf("the version in force cannot be read here: %w", &problemsError{problems[:1]})
	}
	return checked[0], nil
}

// maxSkips bounds how many due times without a run are passed over for the next.
const maxSkips = 1000

// nextRun returns the next due time of an entry that makes a run, or the zero time.
func nextRun(e jobs.Entry, after time.Time) (time.Time, error) {
	for range maxSkips {
		due, err := e.Schedule.Next(after)
		if err != nil || due.IsZero() || due.Skipped == "" {
			return due.At, err
		}
		after = due.At
	}
	return time.Time{}, nil
}

func (p *program) listJobs(ctx context.Context, db *store.DB) error {
	o, err := p.overview(ctx, db)
	if err != nil {
		return err
	}
	loose := o.loose()
	if p.output == "json" {
		return p.json(map[string]any{"jobs": o.jobs, "broken": loose, "sources": o.sources})
	}
	rows := [][]string{{"JOB", "FILE", "DIGEST", "COMMIT", "NEXT DUE (UTC)", ""}}
	for _, v := range o.jobs {
		next := "-"
		if v.NextDue != nil {
			next = stamp(*v.NextDue)
		}
		rows = append(rows, []string{v.Name, v.File, short(strings.TrimPrefix(v.Digest, "sha256:")), short(v.Commit), next, v.state()})
	}
	for _, f := range loose {
		rows = append(rows, []string{"-", f.File, "-", "-", "-", "broken, and no version of it is in force: " + cut(f.String(), 90)})
	}
	writeTable(p.stdout, rows)
	for _, s := range o.sources {
		if line := s.trouble(o.now); line != "" {
			fmt.Fprintln(p.stderr, line)
		}
	}
	return nil
}

// loose returns the first error of each file of which no version is in force.
func (o overview) loose() []problemView {
	loose := []problemView{}
	seen := map[string]bool{}
	for _, f := range o.problems {
		held := slices.ContainsFunc(o.jobs, func(v jobView) bool { return v.Source == f.source && v.File == f.File })
		if key := f.source + "\x00" + f.File; f.Severity == string(jobs.SeverityError) && f.Job == "" && !held && !seen[key] {
			seen[key] = true
			loose = append(loose, f)
		}
	}
	return loose
}

// state says in a few words what is special about a job.
func (v jobView) state() string {
	var parts []string
	if v.Paused != nil {
		parts = append(parts, "paused: "+v.Paused.Reason)
	}
	if v.Source == "" {
		parts = append(parts, "not followed")
	}
	if i := slices.IndexFunc(v.Problems, func(f problemView) bool { return f.Severity == string(jobs.SeverityError) }); i >= 0 {
		parts = append(parts, "broken now, the last good version is in force: "+cut(v.Problems[i].String(), 90))
	}
	if v.NextNote != "" {
		parts = append(parts, "no next due time: "+v.NextNote)
	}
	return strings.Join(parts, "; ")
}

// cut makes a text fit into a table.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// trouble says what keeps a source from being followed as it is, or "".
func (s sourceView) trouble(now time.Time) string {
	switch {
	case !s.Followed:
		return fmt.Sprintf("nobody follows %s since %s UTC", s.Name, stamp(s.LookedAt))
	case s.FailedAt != nil && s.ReadAt != nil:
		return fmt.Sprintf("%s cannot be read; what was read %s is in force: %s", s.Name, ago(*s.ReadAt, now), s.Failure)
	case s.FailedAt != nil:
		return fmt.Sprintf("%s cannot be read: %s", s.Name, s.Failure)
	case s.Notice != "":
		return fmt.Sprintf("%s: %s", s.Name, s.Notice)
	}
	return ""
}

// short is as much of a digest or commit as tells it from others in a table.
func short(digest string) string {
	if digest == "" {
		return "-"
	}
	return digest[:min(len(digest), 12)]
}
