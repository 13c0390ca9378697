//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestServe_PipesInTheFolderAreToldAndNotWaitedFor: reading one would hold the
// scheduler until somebody writes into it.
func TestServe_PipesInTheFolderAreToldAndNotWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobs := filepath.Join(dir, "settlement")
	if err := os.Mkdir(jobs, 0o755); err != nil {
		t.Fatal(err)
	}
	pipe := func(name string) {
		t.Helper()
		if err := syscall.Mkfifo(filepath.Join(jobs, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(jobs, "a.yaml"), everySecondJob("a", "1"))
	write(t, filepath.Join(dir, "madeira.yaml"), "limits: {poll: 100ms}\n")
	pipe("early.yaml")
	url := "sqlite://" + filepath.Join(dir, "state.db")
	ok(t, "migrate", "--database", url)
	db := database(t, url)
	c := start(t, dir, nil, "serve", "--jobs", jobs, "--database", url)
	const told = "SELECT message FROM job_problem WHERE path LIKE '%' || $1 AND code = 'file.unreadable' AND message LIKE '%' || $2 || '%'"
	within(t, db, "the problem of early.yaml", true, told, "early.yaml", errNoFile.Error())
	ranSince(t, db, "a", "1")

	pipe("late.yaml")
	within(t, db, "the problem of late.yaml", true, told, "late.yaml", errNoFile.Error())
	write(t, filepath.Join(jobs, "a.yaml"), everySecondJob("a", "2"))
	ranSince(t, db, "a", "2")
	if err := os.Remove(filepath.Join(jobs, "early.yaml")); err != nil {
		t.Fatal(err)
	}
	within(t, db, "the problem of early.yaml", false, told, "early.yaml", errNoFile.Error())

	c.signal(t, syscall.SIGTERM)
	if got := c.wait(t); got != exitOK {
		t.Errorf("serve ends with %d, want 0", got)
	}
}
