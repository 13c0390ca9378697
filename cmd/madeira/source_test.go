package main

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"madeira/jobs"
)

// A gitWork is a work tree with a bare repository that it pushes to.
type gitWork struct {
	t           *testing.T
	dir, remote string
}

func newGitWork(t *testing.T) gitWork {
	t.Helper()
	base := t.TempDir()
	w := gitWork{t, filepath.Join(base, "work"), filepath.Join(base, "remote.git")}
	w.run("init", "-q", "--bare", "-b", "main", w.remote)
	w.run("init", "-q", "-b", "main", w.dir)
	w.run("remote", "add", "origin", w.remote)
	return w
}

// run calls git in the work tree, or beside it while there is none.
func (w gitWork) run(args ...string) string {
	w.t.Helper()
	c := exec.Command("git", args...)
	c.Dir = w.dir
	if _, err := os.Stat(w.dir); err != nil {
		c.Dir = filepath.Dir(w.dir)
	}
	c.Env = append(gitEnviron(os.Environ()), "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// put writes files, "" removing one, commits them, pushes, and returns the commit.
func (w gitWork) put(files map[string]string, push ...string) string {
	w.t.Helper()
	for name, text := range files {
		path := filepath.Join(w.dir, name)
		if text == "" {
			if err := os.Remove(path); err != nil {
				w.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.t.Fatal(err)
		}
		write(w.t, path, text)
	}
	w.run("add", "-A")
	w.run("commit", "-q", "--allow-empty", "-m", "change")
	w.run(append([]string{"push", "-q", "origin", "HEAD:main"}, push...)...)
	return w.run("rev-parse", "HEAD")
}

// everySecondJob is a job that is due each second; n makes versions of it.
func everySecondJob(name, n string) string {
	return "name: " + name + `
timezone: UTC
schedule: [{cron: "* * * * * *"}]
steps:
  - id: q
    uses: query
    with: {connection: state, sql: SELECT ` + n + ` AS n, columns: {n: integer}}
`
}

func TestSettle(t *testing.T) {
	t.Parallel()
	a1, a2, b1 := &jobs.Job{Name: "a", Source: []byte("1")}, &jobs.Job{Name: "a", Source: []byte("2")}, &jobs.Job{Name: "b", Source: []byte("1")}
	for _, c := range []struct {
		name         string
		before, good standing
		kept, broken []string
		want         standing
		changes      []string
	}{
		{"the first look", nil, standing{"a": a1}, nil, nil, standing{"a": a1}, []string{jobAdded}},
		{"nothing new", standing{"a": a1}, standing{"a": a1}, nil, nil, standing{"a": a1}, nil},
		{"a change", standing{"a": a1}, standing{"a": a2}, nil, nil, standing{"a": a2}, []string{jobChanged}},
		{"a file is gone", standing{"a": a1, "b": b1}, standing{"a": a1}, nil, nil, standing{"a": a1}, []string{jobGone}},
		{"a file breaks", standing{"a": a1, "b": b1}, standing{"b": b1}, nil, []string{"a"}, standing{"a": a1, "b": b1}, []string{jobKept}},
		{"it stays broken, and is said once", standing{"a": a1}, nil, []string{"a"}, []string{"a"}, standing{"a": a1}, nil},
		{"it is mended as it was", standing{"a": a1}, standing{"a": a1}, []string{"a"}, nil, standing{"a": a1}, []string{jobBack}},
		{"a new file is broken", nil, nil, nil, []string{"a"}, standing{}, nil},
		{"a job moves to another file", standing{"x": a1}, standing{"y": a1}, nil, nil, standing{"y": a1}, nil},
		{"its old file is broken", standing{"x": a1}, standing{"y": a2}, nil, []string{"x"}, standing{"y": a2}, []string{jobChanged}},
	} {
		set := func(files []string) map[string]bool {
			m := map[string]bool{}
			for _, f := range files {
				m[f] = true
			}
			return m
		}
		now, _, changes := settle(c.before, set(c.kept), c.good, set(c.broken))
		var what []string
		for _, ch := range changes {
			what = append(what, ch.what)
		}
		if !maps.Equal(now, c.want) || !slices.Equal(what, c.changes) {
			t.Errorf("%s: in force %v with changes %v, want %v with %v", c.name, now, what, c.want, c.changes)
		}
	}
}

func TestGitOptions_RefuseWhatIsNoRepository(t *testing.T) {
	t.Parallel()
	for _, bad := range []gitOptions{
		{url: "--upload-pack=touch /tmp/x", ref: "main"}, {url: "ext::sh -c touch% /tmp/x", ref: "main"}, {url: "fd::17", ref: "main"},
		{url: "https://u:secret@example.org/r.git", ref: "main"}, {url: "https://example.org/r.git", ref: "-f"},
		{url: "https://example.org/r.git", ref: "a:b"}, {url: "https://example.org/r.git", ref: "main", path: "../x"},
		{url: "https://example.org/r.git", ref: "main", path: "/etc"}, {url: "https://example.org/r.git", ref: "main", poll: time.Millisecond},
	} {
		if bad.poll == 0 {
			bad.poll = time.Second
		}
		if err := bad.check(); err == nil {
			t.Errorf("%+v is accepted", bad)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v shows the password", err)
		}
	}
	for _, good := range []string{"https://example.org/r.git", "git@example.org:team/r.git", "ssh://git@example.org/r", "file:///srv/r.git", "/srv/r.git"} {
		o := gitOptions{url: good, ref: "release/2026.10", path: "./jobs/", poll: time.Second}
		if err := o.check(); err != nil || o.path != "jobs" {
			t.Errorf("%s: %v, path %q; want it accepted, and jobs", good, err, o.path)
		}
	}
}

func TestGitSource_LaysOutATreeAsItIs(t *testing.T) {
	t.Parallel()
	w := newGitWork(t)
	outside := filepath.Join(t.TempDir(), "secret.yaml")
	write(t, outside, "secret: 1")
	for name, to := range map[string]string{
		"jobs/abs.yaml": outside, "jobs/up.yaml": "../../../secret.yaml", "jobs/in.yaml": "real.yaml", "jobs/nowhere.txt": "gone",
		"a/b/deep": "../../top", "through.yaml": "a/b/deep/../../x.yaml",
	} {
		path := filepath.Join(w.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	commit := w.put(map[string]string{
		"jobs/real.yaml": everySecondJob("real", "1"), "top/x": "x", "madeira.yaml": "connections: {}\n",
		"jobs/big.csv":   lfsMark + "v1\noid sha256:00\n",
		".gitattributes": "*.yaml filter=evil text eol=crlf\n*.csv export-ignore\n",
	})
	home := t.TempDir()
	s := newGitSource(gitOptions{url: w.remote, ref: "main", path: "jobs", poll: time.Second}, home, os.Environ(), nil)
	got, err := s.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.commit != commit || got.short(got.files[0]) != "jobs/in.yaml" || len(got.files) != 2 {
		t.Errorf("commit %s with files %v, want %s with jobs/in.yaml and jobs/real.yaml", got.commit, got.files, commit)
	}
	text, err := os.ReadFile(filepath.Join(got.folder, "jobs/real.yaml"))
	if err != nil || string(text) != everySecondJob("real", "1") {
		t.Errorf("the file is %q, %v; want it unchanged", text, err)
	}
	codes := map[string]string{}
	for _, p := range got.problems {
		codes[got.short(p.File)] = p.Code + " " + string(p.Severity)
	}
	want := map[string]string{
		"jobs/abs.yaml": "git.symlink error", "jobs/up.yaml": "git.symlink error", "jobs/nowhere.txt": "git.symlink warning",
		"through.yaml": "git.symlink error", "jobs/big.csv": "git.lfs warning",
	}
	if !maps.Equal(codes, want) {
		t.Errorf("problems %v, want %v", codes, want)
	}
	if info, err := os.Stat(filepath.Join(got.folder, "jobs/real.yaml")); err != nil || info.Mode().Perm() != 0o444 {
		t.Errorf("mode %v, %v; want it read-only", info.Mode(), err)
	}

	// The next tree is another folder, and what nobody needs goes.
	w.put(map[string]string{"jobs/real.yaml": everySecondJob("real", "2")})
	next, err := s.look(t.Context())
	if err != nil || next.folder == got.folder {
		t.Fatalf("the next folder is %s, %v; want another one", next.folder, err)
	}
	s.inUse = func(context.Context) ([]string, error) { return []string{filepath.Join(got.folder, "jobs")}, nil }
	if err := s.tidy(t.Context(), time.Now(), []string{next.folder}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(got.folder); err != nil {
		t.Errorf("a folder that a run needs: %v, want it there", err)
	}
	// A run of another machine needs one that is not here.
	if err := removeTree(got.folder); err != nil {
		t.Fatal(err)
	}
	s.swept = time.Time{}
	if err := s.tidy(t.Context(), time.Now(), []string{next.folder}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(got.folder, "jobs/real.yaml")); err != nil {
		t.Errorf("a folder that a run needs and that was gone: %v, want it laid out again", err)
	}
	s.inUse, s.swept = func(context.Context) ([]string, error) { return nil, nil }, time.Time{}
	if err := s.tidy(t.Context(), time.Now().Add(2*time.Hour), []string{next.folder}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(got.folder); !os.IsNotExist(err) {
		t.Errorf("a folder that nobody needs: %v, want it gone", err)
	}
}

func TestGitSource_RunsNothingThatARepositorySays(t *testing.T) {
	t.Parallel()
	w := newGitWork(t)
	w.put(map[string]string{"a.yaml": everySecondJob("a", "1")})
	mark := filepath.Join(t.TempDir(), "ran")
	g := gitProgram{dir: w.dir, environ: append(os.Environ(), "GIT_ALLOW_PROTOCOL=ext", "GIT_DIR=/nowhere")}
	_, err := g.output(t.Context(), gitTimeout, "fetch", "--", "ext::sh -c touch% "+mark, "main")
	if err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("fetching from a program: %v; want it refused", err)
	}
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Error("the program ran")
	}
	if top, err := g.line(t.Context(), "rev-parse", "--is-inside-work-tree"); err != nil || top != "true" {
		t.Errorf("with GIT_DIR set, as in a hook: %q, %v; want the repository of the folder", top, err)
	}
}

func TestGitProgram_IsEndedAfterItsTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "git"), "#!/bin/sh\nsleep 60 & sleep 60\n")
	if err := os.Chmod(filepath.Join(dir, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := gitProgram{dir: dir, environ: os.Environ()}.command(t.Context(), 200*time.Millisecond, "fetch")
	c.Path, c.Err = filepath.Join(dir, "git"), nil
	begun := time.Now()
	_, err := c.Output()
	if err = c.failure(err); err == nil || !strings.Contains(err.Error(), "not done within 200ms") {
		t.Errorf("it ends with %v, want to hear that it took too long", err)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	c.cancel()
}
