package main

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/jobs"
)

const presetJob = `name: lines
steps:
  - {id: bill, uses: fetch, with: {url: "https://bank.example/a.csv"}}
  - id: lines
    uses: parse
    with: {preset: bank, file: "${{ steps.bill.outputs.file }}"}
`

const (
	bankPreset   = "columns: {b: {from: B, type: text}}\n"
	brokenPreset = "columns: {b: {from: B, type: no-such-type}}\n"
)

// stateIn makes a state database in a folder.
func stateIn(t *testing.T, dir string) *store.DB {
	t.Helper()
	url := "sqlite://" + filepath.Join(dir, "state.db")
	ok(t, "migrate", "--database", url)
	db, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// following begins to follow a source as serve does, and returns what it says.
func following(t *testing.T, source jobSource, root string, db *store.DB) (*follower, *bytes.Buffer) {
	t.Helper()
	p := &program{schedule: withSeconds, environ: cleanEnviron()}
	first, err := source.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said := &bytes.Buffer{}
	f := p.newFollower(&config{root: root}, source, first, slog.New(slog.NewTextHandler(said, nil)))
	if err := f.begin(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return f, said
}

// kept fails unless the last good version of lines is in force for a broken preset.
func kept(t *testing.T, f *follower, db *store.DB) {
	t.Helper()
	rows, err := db.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Followed != f.source.name() || len(f.standing.list()) != 1 {
		t.Errorf("followed are %+v with %d in force, want lines to stay", rows, len(f.standing))
	}
	if len(f.problems) == 0 || !strings.HasSuffix(f.problems[0].Path, "presets/bank.yaml") || f.problems[0].Severity != "error" {
		t.Errorf("problems are %+v, want that of the preset", f.problems)
	}
}

func TestFollower_ABrokenPresetLeavesItsJobsInForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := filepath.Join(dir, "jobs")
	if err := os.MkdirAll(filepath.Join(at, "presets"), 0o755); err != nil {
		t.Fatal(err)
	}
	preset := filepath.Join(at, "presets", "bank.yaml")
	write(t, filepath.Join(at, "lines.yaml"), presetJob)
	write(t, preset, bankPreset)
	source, err := newFolderSource(t.Context(), at, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.close() }()
	db := stateIn(t, dir)
	f, said := following(t, source, dir, db)

	write(t, preset, brokenPreset)
	f.pass(t.Context())
	kept(t, f, db)
	if !strings.Contains(said.String(), jobKept) || strings.Contains(said.String(), jobGone) {
		t.Errorf("it says\n%s\nwant that the last good version stays", said)
	}

	write(t, preset, bankPreset+"header: {find: [B]}\n")
	f.pass(t.Context())
	if len(f.kept) != 0 || len(f.problems) != 0 || !strings.Contains(said.String(), jobChanged) {
		t.Errorf("after it is mended, kept are %v with problems %v; it says\n%s", f.kept, f.problems, said)
	}
}

// A process that begins while nothing is in order takes each job up as its files are mended.
func TestFollower_TakesUpWhatIsMendedAfterItBegan(t *testing.T) {
	t.Parallel()
	for name, link := range map[string]bool{"folder": false, "link": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			at, presets := filepath.Join(dir, "jobs"), filepath.Join(dir, "presets")
			if link {
				presets = filepath.Join(dir, "elsewhere")
				if err := os.Symlink(presets, filepath.Join(dir, "presets")); err != nil {
					t.Skipf("no symbolic links: %v", err)
				}
			}
			for _, folder := range []string{at, presets} {
				if err := os.Mkdir(folder, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			preset := filepath.Join(presets, "bank.yaml")
			if link {
				if err := errors.Join(os.Symlink(at, filepath.Join(at, "calendars")), os.Symlink(dir, filepath.Join(presets, "presets"))); err != nil {
					t.Fatal(err)
				}
			}
			write(t, filepath.Join(at, "lines.yaml"), presetJob)
			write(t, preset, brokenPreset)
			source, err := newFolderSource(t.Context(), at, dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = source.close() }()
			f, said := following(t, source, dir, stateIn(t, dir))
			if n := len(f.standing); n != 0 || !strings.Contains(said.String(), "no job is in force") {
				t.Fatalf("%d jobs are in force; it says\n%s", n, said)
			}
			write(t, preset, bankPreset)
			f.pass(t.Context())
			if list := f.standing.list(); len(list) != 1 || list[0].Name != "lines" || len(f.problems) != 0 || !strings.Contains(said.String(), jobAdded) {
				t.Errorf("after it is mended, in force are %v with problems %v; it says\n%s", list, f.problems, said)
			}
		})
	}
}

func TestFollower_ABrokenPresetLeavesItsJobsInForceInANewProcess(t *testing.T) {
	t.Parallel()
	w, home := newGitWork(t), t.TempDir()
	first := w.put(map[string]string{"lines.yaml": presetJob, "presets/bank.yaml": bankPreset})
	open := func() *gitSource {
		return newGitSource(gitOptions{url: w.remote, ref: "main", path: ".", poll: time.Second}, filepath.Join(home, "git"), os.Environ(), slog.New(slog.DiscardHandler))
	}
	db := stateIn(t, home)
	f, _ := following(t, open(), home, db)
	w.put(map[string]string{"presets/bank.yaml": brokenPreset})
	f.pass(t.Context())
	kept(t, f, db)

	f, said := following(t, open(), home, db)
	kept(t, f, db)
	if list := f.standing.list(); len(list) != 1 || list[0].Commit != first || !strings.Contains(said.String(), jobKept) {
		t.Errorf("in force are %v; it says\n%s\nwant lines of commit %s", list, said, first)
	}
}

func TestFollower_SaysOnceThatWhatIsThereCannotBeChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), everySecondJob("a", "1"))
	source, err := newFolderSource(t.Context(), dir, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.close() }()
	db := stateIn(t, t.TempDir())
	f, said := following(t, source, dir, db)
	check := f.check
	f.check = func(fs.FS, string, []string) ([]*jobs.Job, []jobs.Problem, error) {
		return nil, nil, errors.New("the schemas cannot be read")
	}
	write(t, filepath.Join(dir, "a.yaml"), everySecondJob("a", "22"))
	for range 3 {
		f.pass(t.Context())
	}
	lines := func(text string) int { return strings.Count(said.String(), text) }
	if lines("cannot be read;") != 1 || lines("can be read again") != 0 {
		t.Errorf("it says\n%s\nwant once that the jobs cannot be read", said)
	}
	f.check = check
	f.pass(t.Context())
	if lines("can be read again") != 1 || f.failure != "" || !slices.ContainsFunc(f.standing.list(), func(j *jobs.Job) bool { return bytes.Contains(j.Source, []byte("SELECT 22")) }) {
		t.Errorf("it says\n%s\nwant that the jobs can be read again", said)
	}
}
