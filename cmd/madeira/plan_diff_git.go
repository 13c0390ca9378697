package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"madeira/jobs"
)

// A side is the jobs of one version of the files.
type side struct {
	jobs      map[string]*jobs.Job
	unread    map[string]bool         // job files that made no job, by their path from the repository
	broken    map[string]jobs.Problem // the first error of each file, a preset or calendar too, by its path from the repository
	calendars string                  // tells the calendars from another version of them
}

// A planDiffView is what plan --diff says.
type planDiffView struct {
	Ref      string         `json:"ref"`
	Commit   string         `json:"commit"`
	From     time.Time      `json:"from"`
	Until    time.Time      `json:"until"`
	Jobs     []jobDiff      `json:"jobs"`
	Problems []jobs.Problem `json:"problems"` // of files that are broken, now or at the ref
}

func (p *program) planDiff(ctx context.Context, o planOptions, paths []string) error {
	now := time.Now().UTC()
	s := span{from: now, until: now.AddDate(0, 13, 0)}
	if o.until != "" {
		var err error
		s.until, err = time.Parse(time.DateOnly, o.until)
		s.until = s.until.AddDate(0, 0, 1) // the date is included
		if err != nil || !s.until.After(now) {
			return usage("--until %s is no date to come, such as %s", o.until, now.AddDate(1, 1, 0).Format(time.DateOnly))
		}
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	if strings.HasPrefix(o.diff, "-") {
		return usage("--diff %s is no commit, branch or tag", o.diff)
	}
	at, err := p.openRepository(ctx, o.diff, paths)
	if err != nil {
		return usage("%w", err)
	}
	old, fresh, err := p.sides(ctx, at)
	if err != nil {
		return usage("%w", err)
	}
	view := planDiffView{Ref: o.diff, Commit: at.commit, From: s.from, Until: s.until, Jobs: compareSides(old, fresh, s), Problems: []jobs.Problem{}}
	for _, side := range []side{old, fresh} {
		for _, problem := range side.broken {
			view.Problems = append(view.Problems, problem)
		}
	}
	slices.SortFunc(view.Problems, func(a, b jobs.Problem) int { return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line) })
	if p.output == "json" {
		err = p.json(view)
	} else {
		view.write(p.stdout)
		for _, problem := range view.Problems {
			fmt.Fprintln(p.stderr, problem)
		}
	}
	if err != nil {
		return err
	}
	if len(fresh.broken) > 0 {
		return &exitError{code: exitUsage, err: fmt.Errorf("%s cannot be read: its due times are not compared", count(len(fresh.broken), "file"))}
	}
	if slices.ContainsFunc(view.Jobs, func(d jobDiff) bool { return len(d.Due) > 0 }) {
		return &exitError{code: exitFailed}
	}
	return unknownTimes(view.Jobs)
}

// unknownTimes returns which due times could not be compared, or nil.
func unknownTimes(list []jobDiff) error {
	list = slices.DeleteFunc(slices.Clone(list), func(d jobDiff) bool { return len(d.Limits) == 0 })
	if len(list) == 0 {
		return nil
	}
	first := list[0].firstLimit()
	more := ""
	if len(list) > 1 {
		more = fmt.Sprintf(" (and so for %s more)", count(len(list)-1, "job"))
	}
	return &exitError{code: exitUsage, err: fmt.Errorf("whether due times of %s change after %s UTC cannot be told%s: %s", list[0].Job, stamp(first.Until), more, first.Reason)}
}

// compareSides compares the jobs of two versions, by name.
func compareSides(old, fresh side, s span) []jobDiff {
	names := map[string]bool{}
	for name := range old.jobs {
		names[name] = true
	}
	for name := range fresh.jobs {
		names[name] = true
	}
	s.sameCalendars = old.calendars == fresh.calendars
	list := []jobDiff{}
	for name := range names {
		was, now := old.jobs[name], fresh.jobs[name]
		if now == nil {
			if fresh.unread[was.Path] {
				list = append(list, jobDiff{Job: name, File: was.Path, What: "broken", DigestWas: was.Digest})
				continue
			}
		}
		if d := compareJob(was, now, s); d.differs() {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b jobDiff) int { return strings.Compare(a.Job, b.Job) })
	return list
}

// A repository is a work tree with the commit that it is compared with.
type repository struct {
	git    gitProgram
	top    string // absolute, links resolved
	commit string
	paths  []string // that are compared, from the top
	roots  []string // folders from the top that hold all that those are made of
}

func (p *program) openRepository(ctx context.Context, ref string, paths []string) (repository, error) {
	dir := paths[0]
	for {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() {
			break
		}
		if filepath.Dir(dir) == dir {
			return repository{}, fmt.Errorf("no folder of %s is there", paths[0])
		}
		dir = filepath.Dir(dir)
	}
	at := repository{git: gitProgram{dir: dir, environ: p.environ}}
	top, err := at.git.line(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return at, fmt.Errorf("%s is in no work tree of git: %w", dir, err)
	}
	if at.top, err = filepath.EvalSymlinks(top); err != nil {
		return at, err
	}
	at.git.dir = at.top
	if at.commit, err = at.git.line(ctx, "rev-parse", "--verify", "--quiet", ref+"^{commit}"); err != nil {
		return at, fmt.Errorf("there is no commit, branch or tag %s here; fetch it first", ref)
	}
	for _, path := range paths {
		rel, err := at.fromTop(path)
		if err != nil {
			return at, err
		}
		at.paths = append(at.paths, rel)
		from := filepath.Join(at.top, rel)
		if info, err := os.Stat(from); err != nil || !info.IsDir() {
			from = filepath.Dir(from)
		}
		root, found, err := findRoot(from)
		if err != nil {
			return at, err
		}
		if !found {
			root = from
		}
		if rel, err = filepath.Rel(at.top, root); err != nil || !filepath.IsLocal(rel) {
			rel = "."
		}
		at.roots = append(at.roots, rel)
	}
	return at, nil
}

// fromTop names a path of the work tree from its top. It need not be there any more.
func (at repository) fromTop(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for dir, rest := abs, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			abs = filepath.Join(real, rest)
			break
		}
		if filepath.Dir(dir) == dir {
			break
		}
	}
	rel, err := filepath.Rel(at.top, abs)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s is not in the work tree %s", path, at.top)
	}
	return rel, nil
}

// sides reads the jobs of the commit and those of the work tree. Those of the commit
// are laid out in a folder that is gone afterwards, so that both are read in one way.
func (p *program) sides(ctx context.Context, at repository) (old, fresh side, err error) {
	dir, err := os.MkdirTemp("", "madeira-plan-")
	if err != nil {
		return old, fresh, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := at.extract(ctx, dir); err != nil {
		return old, fresh, err
	}
	if old, err = p.side(at, dir, " at "+short(at.commit)); err != nil {
		return old, fresh, err
	}
	if fresh, err = p.side(at, at.top, ""); err != nil {
		return old, fresh, err
	}
	if len(old.jobs)+len(old.broken)+len(fresh.jobs)+len(fresh.broken) == 0 {
		return old, fresh, fmt.Errorf("%w in %s, neither now nor at %s", errNoJobFile, strings.Join(at.paths, ", "), short(at.commit))
	}
	return old, fresh, nil
}

// extract writes the YAML of the commit below the roots into a folder.
func (at repository) extract(ctx context.Context, dir string) error {
	entries, err := at.git.list(ctx, at.commit)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e gitEntry) bool {
		within := slices.ContainsFunc(at.roots, func(root string) bool {
			root = filepath.ToSlash(root)
			return root == "." || strings.HasPrefix(e.path, root+"/")
		})
		return !within || !isYAML(e.path) || e.mode == gitLink || e.mode == gitSubmodule || !fs.ValidPath(e.path)
	})
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return at.git.contents(ctx, entries, func(e gitEntry, content io.Reader) error {
		_, err := writeFile(root, e, content)
		return err
	})
}

// side reads the jobs below a folder that is laid out like the repository.
func (p *program) side(at repository, top, suffix string) (side, error) {
	s := side{jobs: map[string]*jobs.Job{}, unread: map[string]bool{}, broken: map[string]jobs.Problem{}}
	var paths []string
	for _, path := range at.paths {
		if _, err := os.Stat(filepath.Join(top, path)); err == nil {
			paths = append(paths, filepath.Join(top, path))
		}
	}
	sum := sha256.New()
	for _, root := range at.roots {
		if err := writeCalendars(sum, filepath.Join(top, root)); err != nil {
			return s, err
		}
	}
	s.calendars = string(sum.Sum(nil))
	if len(paths) == 0 {
		return s, nil
	}
	files, err := jobFiles(paths)
	if errors.Is(err, errNoJobFile) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	found, err := p.checkAll(files)
	if err != nil {
		return s, err
	}
	name := func(path string) string {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		return tree{folder: top}.short(path)
	}
	for _, file := range files {
		s.unread[name(file)] = true
	}
	for _, job := range found.jobs {
		job.Path = name(job.Path)
		delete(s.unread, job.Path)
		s.jobs[job.Name] = job
	}
	for _, problem := range found.problems {
		file := name(problem.File)
		if _, known := s.broken[file]; known || !problem.IsError() {
			continue
		}
		problem.File = file + suffix
		s.broken[file] = problem
	}
	return s, nil
}

// writeCalendars writes the calendars below a folder.
func writeCalendars(out io.Writer, root string) error {
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || !isYAML(name):
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || !slices.Contains(strings.Split(filepath.ToSlash(rel), "/"), calendarsFolder) {
			return err
		}
		text, err := readRegular(name)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\x00%d\x00%s", filepath.ToSlash(rel), len(text), text)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
