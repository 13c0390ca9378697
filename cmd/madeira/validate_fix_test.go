package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestValidate_FixRenamesKeys in files that are named, and only there; a second call
// changes nothing.
func TestValidate_FixRenamesKeys(t *testing.T) {
	t.Parallel()
	const job = "name: small\nconnections: [files]\ntasks:  # what is done\n  - id: bill\n    type: fetch\n    settings: {from: files, path: a.csv}\n"
	dir := configFolder(t, map[string]string{
		"madeira.yaml": "connections:\n  files: {type: folder, path: .}\nlimit: {workers: 4}\n",
		"a/job.yaml":   job + "    depends_on: []\n",
		"b/job.yaml":   strings.Replace(job, "small", "other", 1) + "    needs: []\n    depends_on: []\n",
	})
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if err := os.Chmod(at("a/job.yaml"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../a/job.yaml", at("b/linked.yml")); err != nil {
		t.Fatal(err)
	}

	r := call(t, "validate", "--fix", at("b/linked.yml"))
	if r.code != exitOK || r.stdout != "" || strings.Count(r.stderr, " renamed ") != 5 || !strings.Contains(r.stderr, ":5:5 renamed type to uses\n") {
		t.Errorf("validate --fix exits with %d and prints %q, %q; want 0, nothing and five renamed keys, that of madeira.yaml among them", r.code, r.stdout, r.stderr)
	}
	const mended = "name: small\nconnections: [files]\nsteps:  # what is done\n  - id: bill\n    uses: fetch\n    with: {from: files, path: a.csv}\n    needs: []\n"
	if got := read("a/job.yaml"); got != mended {
		t.Errorf("the file is now\n%s\nwant\n%s", got, mended)
	}
	if got := read("madeira.yaml"); !strings.Contains(got, "\nlimits: {") {
		t.Errorf("madeira.yaml is now %q, want limits", got)
	}
	info, err := os.Lstat(at("a/job.yaml"))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file has mode %v, %v, want 0640", info.Mode(), err)
	}
	if link, err := os.Lstat(at("b/linked.yml")); err != nil || link.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is no link any more: %v, %v", link, err)
	}

	if got := read("b/job.yaml"); !strings.Contains(got, "tasks:") {
		t.Errorf("a file that was not named was changed:\n%s", got)
	}
	r = call(t, "validate", "--fix", at("b/job.yaml"))
	if r.code != exitFailed || strings.Count(r.stdout, "\n") != 1 || !strings.Contains(r.stdout, ":8:5 yaml.unknown_field ") {
		t.Errorf("validate --fix exits with %d and prints %q, want 1 and the key that has to be there once", r.code, r.stdout)
	}
	again := call(t, "validate", "--fix", at("b/job.yaml"))
	if again.stdout != r.stdout || strings.Contains(again.stderr, "renamed") {
		t.Errorf("a second validate --fix prints %q, %q, want the same problem and no renamed key", again.stdout, again.stderr)
	}
	for _, sub := range []string{"a", "b"} {
		left, err := filepath.Glob(at(sub + "/.*"))
		if err != nil || len(left) > 0 {
			t.Errorf("there are files left: %v, %v", left, err)
		}
	}
}
