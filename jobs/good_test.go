package jobs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"madeira/jobs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestCheck_ReadsGoodFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob(testdata/good) = %v, %v, want files", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			checked, problems := jobs.Check([]string{filepath.Base(file)}, env("testdata/good"))
			for _, p := range problems {
				t.Error(p)
			}
			if len(checked) != 1 {
				t.Fatalf("Check gives %d jobs, want 1", len(checked))
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", summary(t, checked[0]))
		})
	}
}

// summary writes what a job means for people.
func summary(t *testing.T, j *jobs.Job) string {
	t.Helper()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("job %s in %s, priority %d", j.Name, j.Location, j.Priority)
	line("key %q, connections %v, labels %v", j.Key, j.Connections, j.Labels)
	if j.Period != nil {
		line("period: every %s, the %s one", j.Period.Every, j.Period.Of)
	}
	from := time.Date(2026, 11, 5, 12, 0, 0, 0, j.Location)
	for _, e := range j.Schedule {
		due, err := e.Schedule.Next(from)
		if err != nil {
			t.Fatal(err)
		}
		line("due %s: next %s, catchup %s within %s", e.Name, due.At.Format(time.RFC3339), e.Catchup, e.Window)
	}
	for _, d := range j.Inputs {
		line("input %s: %s, default %s, schema %s", d.Name, d.Type, d.Default, d.Schema)
	}
	if j.Timeout > 0 || j.Overlap != jobs.OverlapQueue || j.Concurrency != nil {
		line("timeout %s, overlap %s, concurrency %+v", j.Timeout, j.Overlap, j.Concurrency)
	}
	for phase, steps := range [][]jobs.Step{j.Steps, j.OnFailure, j.Finally} {
		for _, s := range steps {
			line("\n%s %s uses %s at %d:%d, source %t", []string{"step", "on_failure", "finally"}[phase], s.ID, s.Uses, s.Line, s.Column, s.Source)
			line("  needs %v, refers to %v, if %q", s.Needs, s.Refs, s.If)
			line("  timeout %s, retry %+v", s.Timeout, s.Retry)
			if s.ForEach != nil || s.ContinueOnError {
				line("  continue on error %t, for each of %s, %d at once, if %q", s.ContinueOnError, s.ForEach, s.MaxParallel, s.EachIf)
			}
			line("  with %s", s.With)
			if s.Call != nil {
				line("  calls %s for %q with %s", s.Call.Job.Path, s.Call.Key, s.Call.Inputs)
			}
		}
	}
	if j.Outputs != nil {
		line("\noutputs %s", j.Outputs)
	}
	return b.String()
}

// golden compares a text with a file, or rewrites the file with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		_ = os.WriteFile(file+".got", []byte(got), 0o644)
		t.Errorf("%s differs; see %s.got, or run go test -update", file, file)
	}
}

func TestCheck_DigestIsThatOfTheMeaning(t *testing.T) {
	t.Parallel()
	digest := func(text string) string {
		checked, problems := check(t, text)
		if len(checked) != 1 {
			t.Fatalf("Check gives problems %v, want none", problems)
		}
		return checked[0].Digest
	}
	first := digest("name: a\nsteps:\n  - id: x\n    uses: fetch\n    with: {url: \"https://bank.example/x\"}\n")
	same := digest("# A comment.\nsteps: [{with: {url: 'https://bank.example/x'}, uses: fetch, id: x}]\nname: a # end\n")
	renamed := digest("name: a\ndescription: The bill.\npriority: 5\nlabels: {team: a}\ntimezone: UTC\nsteps:\n  - id: x\n    uses: fetch\n    with: {url: \"https://bank.example/x\"}\n")
	due := digest("name: a\ntimezone: UTC\nschedule: [{cron: \"0 6 * * *\"}]\nsteps:\n  - id: x\n    uses: fetch\n    with: {url: \"https://bank.example/x\"}\n")
	if renamed != due {
		t.Errorf("description and schedule count: %s and %s, want one", renamed, due)
	}
	other := digest("name: a\nsteps:\n  - id: x\n    uses: fetch\n    with: {url: \"https://bank.example/y\"}\n")
	if first != same {
		t.Errorf("digests of the same job laid out differently: %s and %s, want one", first, same)
	}
	if first == other {
		t.Errorf("digests of different jobs are both %s, want two", first)
	}
	if !strings.HasPrefix(first, "sha256:") || len(first) != len("sha256:")+64 {
		t.Errorf("digest = %q, want sha256: and 64 digits", first)
	}
}

// What is frozen carries no types, so amounts are made explicit where they are
// compared or joined.
func TestCheck_FreezesExpressionsInTheirExplicitForm(t *testing.T) {
	t.Parallel()
	checked, problems := check(t, `name: a
steps:
  - {id: rows, uses: query, with: {connection: state, sql: SELECT 1 AS a, columns: {a: integer}}}
  - id: tell
    uses: notify
    if: steps.rows.outputs.total > dec("1.00")
    with: {channel: ops, template: text, text: "${{ steps.rows.outputs.total + dec(\"1\") }} and ${{ steps.rows.outputs.report }}"}
`)
	if len(checked) != 1 {
		t.Fatalf("Check gives %v, want a job", problems)
	}
	s := checked[0].Steps[1]
	if want := `dec(steps.rows.outputs.total) > dec("1.00")`; s.If != want {
		t.Errorf("if = %s, want %s", s.If, want)
	}
	if want := `${{ dec(steps.rows.outputs.total) + dec(\"1\") }} and ${{ steps.rows.outputs.report }}`; !strings.Contains(string(s.With), want) {
		t.Errorf("with = %s, want %s in it", s.With, want)
	}
}

func TestCheck_PutsTheZoneOfTheJobWhereAStepLeavesItOut(t *testing.T) {
	t.Parallel()
	checked, problems := check(t, `name: a
timezone: Asia/Shanghai
steps:
  - {id: own, uses: query, with: {connection: state, sql: SELECT 1 AS a, columns: {a: integer}, timezone: UTC}}
  - {id: job, uses: query, with: {connection: state, sql: SELECT 1 AS a, columns: {a: integer}}}
`)
	if len(checked) != 1 {
		t.Fatalf("Check gives %v, want a job", problems)
	}
	for i, want := range []string{`"timezone":"UTC"`, `"timezone":"Asia/Shanghai"`} {
		if with := string(checked[0].Steps[i].With); !strings.Contains(with, want) {
			t.Errorf("settings of step %d: %s, want %s in them", i, with, want)
		}
	}
}
