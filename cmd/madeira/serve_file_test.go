package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestServe_FollowsASingleFile also when it is replaced, with the madeira.yaml beside it.
func TestServe_FollowsASingleFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, everySecondJob("a", "1"))
	write(t, filepath.Join(dir, "b.yaml"), everySecondJob("b", "1"))
	write(t, filepath.Join(dir, "madeira.yaml"), "limits: {poll: 100ms}\n")
	url := "sqlite://" + filepath.Join(dir, "state.db")
	ok(t, "migrate", "--database", url)
	db := database(t, url)
	c := start(t, t.TempDir(), nil, "serve", "--jobs", file, "--database", url)
	ranSince(t, db, "a", "1")
	write(t, filepath.Join(dir, "new"), everySecondJob("a", "2"))
	if err := os.Rename(filepath.Join(dir, "new"), file); err != nil {
		t.Fatal(err)
	}
	ranSince(t, db, "a", "2")
	within(t, db, "a run of another file", false, "SELECT id FROM run WHERE job = 'b'")
	c.signal(t, syscall.SIGTERM)
	if got := c.wait(t); got != exitOK {
		t.Errorf("serve ends with %d, want 0", got)
	}
}
