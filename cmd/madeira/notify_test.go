package main

import (
	"path/filepath"
	"strings"
	"testing"

	"madeira/engine/store/storetest"
)

// A job without a key has runs without an earlier version, whose steps need to know of
// nothing but themselves: what was set for one by hand is told all the same.
func TestRun_MessagesOfAJobWithoutAKeyTellWhatWasSetByHand(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		job := filepath.Join(dir, "job.yaml")
		write(t, filepath.Join(dir, "madeira.yaml"), "channels:\n  finance: {type: log}\n")
		write(t, job, "name: loose\nsteps:\n  - {id: tell, uses: notify, with: {channel: finance, template: text, text: all is well}}\n")
		ok(t, "migrate", "--database", url)
		if r := call(t, "run", job, "--database", url); r.code != exitOK || strings.Contains(r.stderr, "by hand") {
			t.Fatalf("the run exits with %d and says\n%s", r.code, r.stderr)
		}
		id := strings.TrimSpace(strings.TrimPrefix(mustRows(t, database(t, url), "SELECT CAST(id AS text) AS id FROM run")[0], "id="))
		r := call(t, "run", job, "--database", url, "--run", id, "--step", "tell", "--set", "tell.text=mended", "--as", "ann", "--reason", "a typo")
		if r.code != exitOK || !strings.Contains(r.stderr, "finance: mended\n") || !strings.Contains(r.stderr, "finance: set by hand: version 1, by ann at ") || !strings.Contains(r.stderr, "(a typo): tell.text\n") {
			t.Errorf("the rerun exits with %d and says\n%s%s\nwant what was set by hand", r.code, r.stdout, r.stderr)
		}
	})
}
