package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/jobs"
)

// problemsOf returns what validate finds in a folder, by its JSON.
func problemsOf(t *testing.T, dir string) []jobs.Problem {
	t.Helper()
	var problems []jobs.Problem
	if err := json.Unmarshal([]byte(call(t, "validate", "-o", "json", dir).stdout), &problems); err != nil {
		t.Fatal(err)
	}
	if len(problems) < 100 {
		t.Fatalf("validate finds %d problems in the bad files, want at least 100", len(problems))
	}
	return problems
}

func sarifSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("testdata/sarif/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat = true
	if err := c.AddResource("sarif.json", bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("sarif.json")
}

// TestValidate_WritesSARIF holds the log of all bad files against the published
// schema, and against the JSON of the same problems.
func TestValidate_WritesSARIF(t *testing.T) {
	t.Parallel()
	dir := badFolder(t)
	r := call(t, "validate", "--output", "sarif", dir)
	if r.code != exitFailed {
		t.Errorf("validate exits with %d, want %d", r.code, exitFailed)
	}
	var plain any
	var log sarifLog
	for _, into := range []any{&plain, &log} {
		if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
			t.Fatal(err)
		}
	}
	schema := sarifSchema(t)
	if err := schema.Validate(plain); err != nil {
		t.Errorf("the log does not meet the schema: %#v", err)
	}
	run := log.Runs[0]
	problems := problemsOf(t, dir)
	if len(run.Results) != len(problems) {
		t.Fatalf("the log has %d results, want %d", len(run.Results), len(problems))
	}
	for i, p := range problems {
		got := run.Results[i]
		at := got.Locations[0].Physical
		if got.RuleID != p.Code || got.Message.Text != p.Message || at.Region.Line != p.Line || at.Region.Column != p.Column || got.Level != string(p.Severity) {
			t.Errorf("result %d is %+v, want %s", i, got, p)
		}
		if rule := run.Tool.Driver.Rules[got.RuleIndex]; rule.ID != p.Code || rule.Help.Text == "" {
			t.Errorf("result %d points at rule %q, want %q with a help text", i, rule.ID, p.Code)
		}
		if want := filepath.Base(p.File); !strings.HasSuffix(at.Artifact.URI, want) {
			t.Errorf("result %d is in %q, want %q", i, at.Artifact.URI, p.File)
		}
	}

	// The schema finds what is planted.
	plain.(map[string]any)["runs"].([]any)[0].(map[string]any)["results"].([]any)[0].(map[string]any)["level"] = "fatal"
	if schema.Validate(plain) == nil {
		t.Error("the schema accepts the level fatal")
	}
}

func TestSARIF_AddressesAreRelativeAndEscaped(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"jobs/a.yaml":                     "jobs/a.yaml",
		"jobs/50% ü#1.yaml":               "jobs/50%25%20%C3%BC%231.yaml",
		"a:b.yaml":                        "./a:b.yaml",
		filepath.Join(here, "x", "y.yml"): "x/y.yml",
		"/elsewhere/a b.yaml":             "file:///elsewhere/a%20b.yaml",
	} {
		if got := uri(file); got != want {
			t.Errorf("uri(%q) = %q, want %q", file, got, want)
		}
	}
}

// found is what two files with an error, a warning and odd names bring out.
func found() findings {
	return findings{
		files: []string{"a,b:100%.yaml", "fine.yaml", "gone.yaml", "warned.yaml"},
		jobs:  []*jobs.Job{{}, {}},
		problems: []jobs.Problem{
			{File: "a,b:100%.yaml", Line: 3, Column: 5, Code: "value.form", Message: "50% of\nit, or <all>: & \x01", Severity: jobs.SeverityError},
			{File: "a,b:100%.yaml", Line: 4, Column: 1, Code: "value.type", Message: "must be text", Severity: jobs.SeverityError},
			{File: "gone.yaml", Code: "file.unreadable", Message: "cannot be read", Severity: jobs.SeverityError},
			{File: "warned.yaml", Line: 7, Column: 2, Code: "calendar.year", Message: "no data", Severity: jobs.SeverityWarning},
		},
	}
}

func TestValidate_WritesAnnotations(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := writeAnnotations(&out, found()); err != nil {
		t.Fatal(err)
	}
	want := `::error file=a%2Cb%3A100%25.yaml,line=3,col=5,title=value.form::50%25 of%0Ait, or <all>: & ` + "\x01" + `
::error file=a%2Cb%3A100%25.yaml,line=4,col=1,title=value.type::must be text
::error file=gone.yaml,title=file.unreadable::cannot be read
::warning file=warned.yaml,line=7,col=2,title=calendar.year::no data
`
	if out.String() != want {
		t.Errorf("the annotations are\n%s\nwant\n%s", out.String(), want)
	}

	// As the runner reads them, they are the problems of the bad files.
	dir := badFolder(t)
	command := regexp.MustCompile(`^::(error|warning) file=([^,:]*),line=(\d+),col=(\d+),title=([^,:]*)::(.*)$`)
	plain := strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
	lines := strings.Split(strings.TrimSuffix(call(t, "validate", "-o", "github", dir).stdout, "\n"), "\n")
	problems := problemsOf(t, dir)
	if len(lines) != len(problems) {
		t.Fatalf("there are %d annotations, want %d", len(lines), len(problems))
	}
	for i, p := range problems {
		m := command.FindStringSubmatch(lines[i])
		if m == nil || plain.Replace(m[2]) != p.File || m[3] != strconv.Itoa(p.Line) || m[4] != strconv.Itoa(p.Column) || m[5] != p.Code || plain.Replace(m[6]) != p.Message {
			t.Errorf("annotation %d is %q, want %s", i, lines[i], p)
		}
	}
}

func TestValidate_WritesJUnit(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := writeJUnit(&out, found()); err != nil {
		t.Fatal(err)
	}
	var report junitReport
	if err := xml.Unmarshal([]byte(out.String()), &report); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	suite := report.Suites[0]
	if suite.Tests != 4 || suite.Failures != 2 || len(suite.Cases) != 4 {
		t.Errorf("the report counts %d tests and %d failures in %d cases, want 4, 2 and 4", suite.Tests, suite.Failures, len(suite.Cases))
	}
	for i, want := range []struct{ failure, text, output string }{
		{"a,b:100%.yaml:3:5 value.form 50% of\nit, or <all>: & \ufffd (and 1 more)", "a,b:100%.yaml:4:1 value.type must be text\n", ""},
		{},
		{"gone.yaml:0:0 file.unreadable cannot be read", "gone.yaml:0:0 file.unreadable cannot be read\n", ""},
		{"", "", "warned.yaml:7:2 calendar.year warning: no data\n"},
	} {
		c := suite.Cases[i]
		failure := junitFailure{}
		if c.Failure != nil {
			failure = *c.Failure
		}
		if failure.Message != want.failure || !strings.HasSuffix(failure.Text, want.text) || c.Output != want.output {
			t.Errorf("case %s fails with %q %q and prints %q, want %q %q %q", c.Name, failure.Message, failure.Text, c.Output, want.failure, want.text, want.output)
		}
	}

	// One case for each of the bad files, and for the helper and madeira.yaml, which are fine.
	report = junitReport{}
	dir := badFolder(t)
	if err := xml.Unmarshal([]byte(call(t, "validate", "-o", "junit", dir).stdout), &report); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if suite := report.Suites[0]; len(suite.Cases) != len(files) || suite.Failures != len(files)-2 {
		t.Errorf("the report has %d cases and %d failures, want %d and two less", len(suite.Cases), suite.Failures, len(files))
	}
}

// TestValidate_WarningsDoNotFail looks at the summary and the exit code.
func TestValidate_WarningsDoNotFail(t *testing.T) {
	t.Parallel()
	all := found()
	for _, tt := range []struct {
		from, to int
		code     int
		summary  string
	}{
		{0, 4, exitFailed, "3 problems and 1 warning in 4 files"},
		{0, 1, exitFailed, "1 problem in 4 files"},
		{3, 4, exitOK, "2 jobs checked, no problem, 1 warning"},
		{4, 4, exitOK, "2 jobs checked, no problem"},
	} {
		for _, output := range []string{"text", "json", "sarif", "github", "junit"} {
			var stdout, stderr strings.Builder
			p := &program{stdout: &stdout, stderr: &stderr, output: output}
			f := all
			f.problems = all.problems[tt.from:tt.to]
			code := exitOK
			if err := p.printFindings(f); err != nil {
				var exit *exitError
				if !errors.As(err, &exit) {
					t.Fatalf("printFindings gives %v, want an exitError", err)
				}
				code = exit.code
				fmt.Fprintln(&stderr, err)
			}
			if code != tt.code || strings.TrimSpace(stderr.String()) != tt.summary {
				t.Errorf("%s of problems %d to %d exits with %d and says %q, want %d and %q", output, tt.from, tt.to, code, stderr.String(), tt.code, tt.summary)
			}
		}
	}
}

// TestValidate_RefusesWhatItCannotDo as wrong usage.
func TestValidate_RefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"validate", "--output", "yaml"},
		{"validate", "no-such-file.yaml"},
		{"validate", t.TempDir()},
		{"runs", "list", "--output", "sarif"},
	} {
		if r := call(t, args...); r.code != exitUsage || r.stdout != "" || r.stderr == "" {
			t.Errorf("%v exits with %d and prints %q, %q, want %d, nothing and why", args, r.code, r.stdout, r.stderr, exitUsage)
		}
	}
}

// TestValidate_TakesManyPathsInAnyOrder and prints the same: a file that is named
// twice, or lies in a folder that is named too, is checked once.
func TestValidate_TakesManyPathsInAnyOrder(t *testing.T) {
	t.Parallel()
	dir := configFolder(t, map[string]string{
		"madeira.yaml":       "limits: {worker: 4}\n",
		"a/one.yaml":         "name: one\nsteps: 1\n",
		"b/two.yaml":         "name: two\nsteps: 2\n",
		"c/madeira.yaml":     "limits: {workers: 0}\n",
		"c/d/three.yaml":     "name: three\nsteps: 3\n",
		"b/.hidden/not.yaml": "steps: 0\n",
	})
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	want := call(t, "validate", dir).stdout
	if got := strings.Count(want, "\n"); got != 5 {
		t.Fatalf("validate prints %d lines, want 5:\n%s", got, want)
	}
	for _, paths := range [][]string{
		{at("c"), at("b"), at("a")},
		{at("c/d/three.yaml"), dir, at("a/../a/one.yaml"), at("madeira.yaml")},
		{at("b/two.yaml"), at("a/one.yaml"), at("c/madeira.yaml"), at("c/d/")},
	} {
		if got := call(t, append([]string{"validate"}, paths...)...).stdout; got != want {
			t.Errorf("validate %v prints\n%s\nwant\n%s", paths, got, want)
		}
	}
	if got := call(t, "validate", at("madeira.yaml")).stdout; strings.Count(got, "\n") != 1 || !strings.Contains(got, "yaml.unknown_field") {
		t.Errorf("validate madeira.yaml prints %q, want the problem in it", got)
	}
}
