package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// within waits until a query gives rows, or none where it should give none.
func within(t *testing.T, db *sql.DB, what string, some bool, query string, args ...any) {
	t.Helper()
	eventually(t, childTime, what, func(ctx context.Context) (bool, error) {
		found, err := rows(ctx, db, query, args...)
		return err == nil && (len(found) > 0) == some, err
	})
}

// ranSince waits for a run that was made after now by a version of a job that reads n.
func ranSince(t *testing.T, db *sql.DB, job, n string) {
	t.Helper()
	last := mustRows(t, db, "SELECT coalesce(max(id), '') AS id FROM run")
	id := strings.TrimPrefix(last[0], "id=")
	within(t, db, "a run of "+job+" in version "+n, true, `SELECT r.id FROM run r JOIN job_version v ON v.job = r.job AND v.digest = r.job_digest
		WHERE r.job = $1 AND r.id > $2 AND v.source LIKE $3`, job, strings.TrimSpace(id), "%SELECT "+n+" AS n%")
}

func (c *child) said(text string) int { return strings.Count(c.stderr.String(), text) }

func TestServe_FollowsAFolderWhileItChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) { // as editors do: a file beside it, then a rename
		t.Helper()
		temp := filepath.Join(dir, "."+name+".tmp")
		write(t, temp, text)
		if err := os.Rename(temp, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	put("a.yaml", everySecondJob("a", "1"))
	write(t, filepath.Join(dir, "madeira.yaml"), "limits: {poll: 100ms}\n")
	url := "sqlite://" + filepath.Join(dir, "state.db")
	ok(t, "migrate", "--database", url)
	db := database(t, url)
	c := start(t, dir, nil, "serve", "--database", url)
	ranSince(t, db, "a", "1")

	put("b.yaml", everySecondJob("b", "1"))
	ranSince(t, db, "b", "1")
	put("a.yaml", everySecondJob("a", "2"))
	ranSince(t, db, "a", "2")

	put("a.yaml", everySecondJob("a", "3")+"junk: 1\n")
	within(t, db, "the problem of a.yaml", true, "SELECT code FROM job_problem WHERE path = 'a.yaml' AND line = 8 AND job = 'a'")
	ranSince(t, db, "a", "2") // its last good version
	ranSince(t, db, "b", "1") // and the others

	r := call(t, "doctor", "--database", url)
	if r.code != exitFailed || !strings.Contains(r.stdout, "a.yaml:8:1 yaml.unknown_field") || !strings.Contains(r.stdout, "last good version of a is in force") {
		t.Errorf("doctor exits with %d and says\n%s\nwant the problem and 1", r.code, r.stdout)
	}
	var list struct{ Jobs []jobView }
	if err := json.Unmarshal([]byte(ok(t, "jobs", "list", "--database", url, "--output", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Jobs) != 2 || list.Jobs[0].Name != "a" || list.Jobs[0].File != "a.yaml" || len(list.Jobs[0].Problems) != 1 || list.Jobs[0].NextDue == nil || len(list.Jobs[1].Problems) != 0 {
		t.Errorf("jobs list has %+v, want a with its problem and its next due time, and b", list.Jobs)
	}

	// A new process goes on with the version that was in force.
	c.signal(t, syscall.SIGKILL)
	c.wait(t)
	c = start(t, dir, nil, "serve", "--database", url)
	ranSince(t, db, "a", "2")
	if n := c.said(jobKept); n != 1 {
		t.Errorf("it says %d times that the last good version stays, want once", n)
	}

	put("a.yaml", everySecondJob("a", "4"))
	ranSince(t, db, "a", "4")
	within(t, db, "no problem any more", false, "SELECT code FROM job_problem")
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	within(t, db, "the end of b", false, "SELECT name FROM job WHERE name = 'b' AND followed IS NOT NULL")
	write(t, filepath.Join(dir, "madeira.yaml"), "limits: {poll: 110ms}\n")
	within(t, db, "the word that madeira.yaml needs a new start", true, "SELECT notice FROM job_source WHERE notice LIKE '%start it again%'")
	c.signal(t, syscall.SIGTERM)
	if code := c.wait(t); code != exitOK {
		t.Errorf("it exits with %d, want 0", code)
	}
}

func TestServe_FollowsARefOfGit(t *testing.T) {
	t.Parallel()
	w := newGitWork(t)
	first := w.put(map[string]string{"jobs/a.yaml": everySecondJob("a", "1"), "madeira.yaml": "limits: {poll: 100ms}\n"})
	home := t.TempDir()
	url := "sqlite://" + filepath.Join(home, "state.db")
	ok(t, "migrate", "--database", url)
	db := database(t, url)
	serve := []string{"serve", "--database", url, "--git", "file://" + w.remote, "--path", "jobs", "--poll", "1s"}
	c := start(t, home, nil, serve...)
	ranSince(t, db, "a", "1")
	within(t, db, "runs with their commit", true, "SELECT id FROM run WHERE job = 'a' AND job_commit = $1", first)

	second := w.put(map[string]string{"jobs/a.yaml": everySecondJob("a", "2"), "jobs/b.yaml": everySecondJob("b", "1")})
	ranSince(t, db, "a", "2")
	within(t, db, "a run of the second commit", true, "SELECT id FROM run WHERE job = 'b' AND job_commit = $1", second)

	broken := w.put(map[string]string{"jobs/a.yaml": "name: a\nsteps: ["})
	within(t, db, "the broken commit", true, "SELECT name FROM job_source WHERE commit_id = $1", broken)
	within(t, db, "a in its last good commit", true, "SELECT name FROM job WHERE name = 'a' AND commit_id = $1", second)
	ranSince(t, db, "a", "2")

	// The history is written anew.
	w.run("reset", "-q", "--hard", first)
	forced := w.put(map[string]string{"jobs/a.yaml": everySecondJob("a", "3")}, "--force")
	ranSince(t, db, "a", "3")
	within(t, db, "the end of b", false, "SELECT name FROM job WHERE name = 'b' AND followed IS NOT NULL")
	if c.said("the history was written anew") != 1 {
		t.Error("it does not say that the history was written anew")
	}
	out := ok(t, "runs", "--database", url, "--limit", "1", "--output", "json")
	if !strings.Contains(out, `"job_commit": "`+forced+`"`) {
		t.Errorf("the newest run is %s, want commit %s", out, forced)
	}

	// The ref is gone: what is in force stays, for a new process too.
	w.run("-C", w.remote, "update-ref", "-d", "refs/heads/main")
	within(t, db, "the failure", true, "SELECT failure FROM job_source WHERE failure LIKE '%no ref main any more%' AND failed_at IS NOT NULL")
	ranSince(t, db, "a", "3")
	if r := call(t, "doctor", "--database", url); r.code != exitFailed || !strings.Contains(r.stdout, "ago is in force") {
		t.Errorf("doctor exits with %d and says\n%s\nwant the age of what is in force and 1", r.code, r.stdout)
	}
	c.signal(t, syscall.SIGKILL)
	c.wait(t)
	c = start(t, home, nil, serve...)
	ranSince(t, db, "a", "3")

	w.run("push", "-q", "origin", "HEAD:main")
	within(t, db, "the end of the failure", true, "SELECT name FROM job_source WHERE failure IS NULL")
	c.signal(t, syscall.SIGTERM)
	if code := c.wait(t); code != exitOK {
		t.Errorf("it exits with %d, want 0", code)
	}
	if log := w.run("-C", w.remote, "for-each-ref"); strings.Count(log, "\n") != 0 || !strings.Contains(log, "refs/heads/main") {
		t.Errorf("the remote has %q, want main alone: it is only read", log)
	}
}
