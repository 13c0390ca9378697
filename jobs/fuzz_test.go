package jobs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"madeira/jobs"
	"madeira/schemas"
)

// FuzzCheck holds what every text from outside has to give: no panic, an answer
// within a moment, either a job or problems, and every problem at a place that
// the file has.
func FuzzCheck(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Add([]byte("a: [&x {b: *x}, !!binary aGk=, ? {}, \"\\u0000\"]\n"))
	f.Add([]byte("? a\n: b\n? |\n  c\n: - - - d\n...\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		start := time.Now()
		e := env(".")
		e.FS = fstest.MapFS{"job.yaml": {Data: text}}
		checked, problems := jobs.Check([]string{"job.yaml"}, e)
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("Check took %s", took)
		}
		if len(checked) == 1 == slices.ContainsFunc(problems, jobs.Problem.IsError) {
			t.Errorf("Check gives %d jobs and %d problems, want one or the other", len(checked), len(problems))
		}
		places(t, text, problems)
		for _, j := range checked {
			frozen(t, j)
		}
		if doc, problems := jobs.Decode("madeira.yaml", text, schemas.Configuration()); len(problems) == 0 {
			if !json.Valid(doc.JSON()) {
				t.Errorf("JSON() = %s, want JSON", doc.JSON())
			}
		}
	})
}

// places checks that problems point into the file, in order.
func places(t *testing.T, text []byte, problems []jobs.Problem) {
	t.Helper()
	lines := 1 + strings.Count(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n") + strings.Count(string(text), "\r")
	last := ""
	for _, p := range problems {
		if p.Code == "file.bug" || p.Line < 1 || p.Line > lines+1 || p.Column < 1 || p.Code == "" || p.Message == "" {
			t.Errorf("problem %+v is a bug or lies outside of %d lines", p, lines)
		}
		at := fmt.Sprintf("%09d:%09d", p.Line, p.Column)
		if at < last {
			t.Errorf("problem %s comes after %s", at, last)
		}
		last = at
	}
}

// frozen checks what the rest of the program relies on in a checked job.
func frozen(t *testing.T, j *jobs.Job) {
	t.Helper()
	before := map[string]bool{}
	for _, s := range j.Steps {
		if s.Line < 1 || s.Column < 1 || s.ID == "" || s.Uses == "" || !json.Valid(s.With) {
			t.Errorf("step %+v is not complete", s)
		}
		if before[s.ID] {
			t.Errorf("step %s is there twice", s.ID)
		}
		before[s.ID] = true
	}
	for _, s := range j.Steps {
		for _, n := range append(s.Needs, s.Refs...) {
			if !before[n] {
				t.Errorf("step %s names %s, which is not there", s.ID, n)
			}
		}
	}
}

// BenchmarkCheck checks files of twenty steps: a thousand of them should take no
// more than two seconds on two processors.
func BenchmarkCheck(b *testing.B) {
	var text strings.Builder
	text.WriteString("name: a\ntimezone: Asia/Shanghai\nschedule: [{cron: \"30 10 5 * *\"}]\nperiod: {every: month}\nconnections: [inbox]\nsteps:\n")
	for i := range 10 {
		fmt.Fprintf(&text, "  - {id: bill%d, uses: fetch, with: {from: inbox, path: \"${{ period.label }}/%d.csv\"}}\n", i, i)
		fmt.Fprintf(&text, "  - {id: lines%d, uses: parse, with: {file: \"${{ steps.bill%d.outputs.file }}\", columns: {order_no: {from: A, type: text}, amount: {from: B, type: money, currency: CNY}}}}\n", i, i)
	}
	e := env(".")
	e.FS = fstest.MapFS{"job.yaml": {Data: []byte(text.String())}}
	files := slices.Repeat([]string{"job.yaml"}, 100)
	for b.Loop() {
		if _, problems := jobs.Check(files, e); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*10, "s/1000files")
}
