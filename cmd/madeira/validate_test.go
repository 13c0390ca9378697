package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// badFolder returns a copy of the bad job files of package jobs, with a
// madeira.yaml that has what some of them almost name.
func badFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../jobs/testdata/bad")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "madeira.yaml"), `connections:
  inbox: {type: folder, path: .}
  ledger: {type: postgres, url: "postgres://books@db.example/books", password: {env: NOT_SET_IN_CI}}
secrets:
  BANK: {env: NOT_SET_IN_CI}
channels:
  ops: {type: webhook, url: "https://ops.example/hook", secrets: [{env: NOT_SET_IN_CI}]}
`)
	return dir
}

// TestValidate_PrintsEveryProblemOfEveryBadFile compares what is printed with the
// comments at the top of the bad files, which say line, column and code.
func TestValidate_PrintsEveryProblemOfEveryBadFile(t *testing.T) {
	t.Parallel()
	dir := badFolder(t)
	wanted := regexp.MustCompile(`(?m)^# want: (\d+:\d+ \S+)`)
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if filepath.Base(file) == configName || strings.HasPrefix(filepath.Base(file), "helper") {
			continue // what is right, for others to refer to
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(content), "\x00", "") // one of them is UTF-16
			r := call(t, "validate", file)
			if r.code != exitFailed {
				t.Errorf("validate exits with %d, want %d\n%s", r.code, exitFailed, r.stderr)
			}
			var got []string
			for line := range strings.Lines(r.stdout) {
				place, found := strings.CutPrefix(line, displayPath(file)+":")
				words := strings.SplitN(place, " ", 3)
				if !found || len(words) < 3 {
					t.Fatalf("the line %q is not file:line:column code message", line)
				}
				got = append(got, words[0]+" "+words[1])
			}
			var want []string
			for _, m := range wanted.FindAllStringSubmatch(text, -1) {
				want = append(want, m[1])
			}
			if !slices.Equal(got, want) || len(got) == 0 {
				t.Errorf("the problems are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func TestValidate_SixMistakesAreSixLines(t *testing.T) {
	t.Parallel()
	r := call(t, "validate", filepath.Join(badFolder(t), "six_mistakes.yaml"))
	if got := strings.Count(r.stdout, "\n"); got != 6 || r.code != exitFailed {
		t.Errorf("validate prints %d lines and exits with %d, want 6 and 1:\n%s", got, r.code, r.stdout)
	}
}

// TestValidate_ChecksMadeiraYAMLToo and needs none of the secrets it refers to.
func TestValidate_ChecksMadeiraYAMLToo(t *testing.T) {
	t.Parallel()
	dir := configFolder(t, map[string]string{
		"madeira.yaml": "limits: {worker: 4}\n",
		"job.yaml":     "name: small\nconnections: [files]\nsteps:\n  - id: bill\n    uses: fetch\n    with: {from: files, path: a.csv}\n",
	})
	r := call(t, "validate", dir)
	want := fmt.Sprintf("%s:1:10 yaml.unknown_field ", displayPath(filepath.Join(dir, "madeira.yaml")))
	if r.code != exitFailed || !strings.HasPrefix(r.stdout, want) {
		t.Errorf("validate exits with %d and prints %q, want 1 and %q", r.code, r.stdout, want)
	}
	if r := call(t, "validate", filepath.Join(initFolder(t), "job.yaml")); r.code != exitOK || r.stdout != "" {
		t.Errorf("validate of a good job exits with %d and prints %q", r.code, r.stdout)
	}
}

func TestValidate_PrintsJSON(t *testing.T) {
	t.Parallel()
	r := call(t, "validate", "--output", "json", filepath.Join(badFolder(t), "six_mistakes.yaml"))
	var problems []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.stdout), &problems); err != nil {
		t.Fatalf("%v in %s", err, r.stdout)
	}
	if len(problems) != 6 || r.code != exitFailed {
		t.Errorf("validate prints %d problems and exits with %d, want 6 and 1", len(problems), r.code)
	}
	for _, p := range problems {
		wantKeys(t, "problem", p, "file", "line", "column", "code", "message", "path", "suggestion", "severity")
	}
}
