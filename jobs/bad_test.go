package jobs_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf16"

	"madeira/jobs"
)

// wantLine is a comment in a bad file: where a problem is, its code, and a part
// of its message.
var wantLine = regexp.MustCompile(`(?m)^# want: (\d+):(\d+) (\S+) ?(.*)\r?$`)

// badFiles returns the bad files. Those whose names begin with helper are good, and
// called by others.
func badFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/bad/[^h]*.yaml")
	if err != nil || len(files) < 120 {
		t.Fatalf("Glob(testdata/bad) = %d files, %v, want at least 120", len(files), err)
	}
	return files
}

// TestBadInput_EveryFileBringsOutWhatItWants and nothing else. With -update the
// comments are written anew, to be read before they are committed.
func TestBadInput_EveryFileBringsOutWhatItWants(t *testing.T) {
	t.Parallel()
	for _, file := range badFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			checked, got := jobs.Check([]string{filepath.Base(file)}, env("testdata/bad"))
			if len(checked) > 0 {
				t.Errorf("Check accepts the file as job %q", checked[0].Name)
			}
			wants := wantLine.FindAllStringSubmatch(readText(t, file), -1)
			if *update && !fitAll(got, wants) {
				rewrite(t, file)
				return
			}
			for i := range max(len(got), len(wants)) {
				switch {
				case i >= len(got):
					t.Errorf("missing: %s", wants[i][0])
				case i >= len(wants):
					t.Errorf("not wanted: %s", got[i])
				case !fits(got[i], wants[i]):
					t.Errorf("problem %d:\n got %s\nwant %s", i, got[i], wants[i][0])
				}
			}
		})
	}
}

func fits(got jobs.Problem, want []string) bool {
	return strconv.Itoa(got.Line) == want[1] && strconv.Itoa(got.Column) == want[2] &&
		got.Code == want[3] && strings.Contains(got.Message, want[4])
}

func fitAll(got []jobs.Problem, wants [][]string) bool {
	for i, p := range got {
		if i >= len(wants) || !fits(p, wants[i]) {
			return false
		}
	}
	return len(got) == len(wants)
}

// rewrite puts what is found into the comments of a file.
func rewrite(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = wantLine.ReplaceAll(text, []byte("\x00"))
	text = bytes.ReplaceAll(text, []byte("\x00\n"), nil)
	head := []byte{}
	if bytes.HasPrefix(text, []byte("# ")) {
		end := bytes.IndexByte(text, '\n') + 1
		head, text = text[:end], text[end:]
	}
	find := func(lines string) []jobs.Problem {
		whole := append(append(bytes.Clone(head), lines...), text...)
		if err := os.WriteFile(file, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		_, problems := jobs.Check([]string{filepath.Base(file)}, env("testdata/bad"))
		return problems
	}
	var lines strings.Builder
	for _, p := range find(strings.Repeat("#\n", len(find("")))) {
		message, _, _ := strings.Cut(p.Message, "\n")
		if r := []rune(message); len(r) > 110 {
			message = string(r[:110])
		}
		fmt.Fprintf(&lines, "# want: %d:%d %s %s\n", p.Line, p.Column, p.Code, strings.TrimSpace(message))
	}
	find(lines.String())
}

// TestBadInput_EveryCodeIsBroughtOut by some file, as far as a file can.
func TestBadInput_EveryCodeIsBroughtOut(t *testing.T) {
	t.Parallel()
	elsewhere := map[string]string{
		"file.unreadable": "TestBadInput_UnreadableFile",
		"file.bug":        "there is none that is known",
		"file.calendar":   "TestCheck_TellsCalendarsAndPresetsFromJobs", "file.preset": "the same test",
		"yaml.too_large":     "TestBadInput_B03_LargeFilesAreNotParsed",
		"value.invalid":      "no keyword of the schemas leads to it",
		"dag.too_large":      "TestBadInput_B19_TooManyStepsAndNeeds",
		"job.duplicate_name": "tests with two files", "job.depth": "tests with ten", "job.broken": "tests with two",
		"preset.nested":    "tests with two files",
		"schedule.strays":  "a warning, which keeps no job from running",
		"config.open_type": "madeira.yaml",
		"input.json":       "the command line",
	}
	found := map[string]bool{}
	for _, file := range badFiles(t) {
		for _, m := range wantLine.FindAllStringSubmatch(readText(t, file), -1) {
			found[m[3]] = true
		}
	}
	for _, c := range jobs.Codes() {
		if _, exempt := elsewhere[c.Name]; found[c.Name] == exempt && !strings.HasPrefix(c.Name, "calendar.") {
			t.Errorf("code %s: in the bad files %v, said to be elsewhere %v", c.Name, found[c.Name], exempt)
		}
	}
	for _, row := range []string{"b01", "b02", "b04", "b05", "b06", "b07", "b08", "b10", "b12", "b13", "b14", "b15", "b17", "b18", "b19", "b20", "b22", "b23", "b24", "b26", "b27", "b29", "b31", "b32", "b33", "b34"} {
		if files, err := filepath.Glob("testdata/bad/" + row + "_*.yaml"); err != nil || len(files) == 0 {
			t.Errorf("row %s has no file: %v", row, err)
		}
	}
}

// checkText checks one file, and returns how long that took and what it allocated.
func checkText(t *testing.T, text string) (problems []jobs.Problem, took time.Duration, bytes uint64) {
	t.Helper()
	e := env(".")
	e.FS = fstest.MapFS{"job.yaml": {Data: []byte(text)}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	_, problems = jobs.Check([]string{"job.yaml"}, e)
	took = time.Since(start)
	runtime.ReadMemStats(&after)
	return problems, took, after.TotalAlloc - before.TotalAlloc
}

// These do not run beside others, which would be counted with them.

func TestBadInput_B01_BillionLaughsCostNothing(t *testing.T) {
	text := "name: a\nlabels:\n  a0: &a0 [lol]\n"
	for level := 1; level <= 9; level++ {
		text += fmt.Sprintf("  a%d: &a%d [%s]\n", level, level, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", level-1), 10), ", "))
	}
	bounded(t, text, "yaml.alias_limit", 20<<20)
}

func TestBadInput_B02_DeepNestingIsRefused(t *testing.T) {
	for _, text := range []string{
		"name: " + strings.Repeat("[", 100_000),
		"name: " + strings.Repeat("{a: ", 30_000),
		strings.Repeat("- ", 100_000),
		"name: a\nlabels: " + strings.Repeat("[", 33) + strings.Repeat("]", 33) + "\n",
	} {
		bounded(t, text, "yaml.depth_limit", 64<<20)
	}
}

func TestBadInput_B03_LargeFilesAreNotParsed(t *testing.T) {
	bounded(t, "name: a\ndescription: "+strings.Repeat("x", 50<<20), "yaml.too_large", 4<<20)
}

// bounded checks that a text is refused for a reason, quickly and with little memory.
// Time is measured on a busy machine: the best of three counts.
func bounded(t *testing.T, text, code string, most uint64) {
	t.Helper()
	best := time.Hour
	for range 3 {
		problems, took, allocated := checkText(t, text)
		if len(problems) == 0 || problems[0].Code != code {
			t.Errorf("Check of %.20q… gives %v, want %s", text, problems, code)
			return
		}
		if allocated > most {
			t.Errorf("Check of %.20q… allocates %d bytes, want at most %d", text, allocated, most)
		}
		best = min(best, took)
	}
	if best > time.Second {
		t.Errorf("Check of %.20q… takes %s", text, best)
	}
}

// TestBadInput_B08_EmptyFile has no place for a comment.
func TestBadInput_B08_EmptyFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "\ufeff", "   ", "---\n", "null\n"} {
		problems, _, _ := checkText(t, text)
		if len(problems) != 1 || problems[0].Code != "yaml.root_not_mapping" || problems[0].Line < 1 {
			t.Errorf("Check of %q gives %v, want that it is empty", text, problems)
		}
	}
}

// TestBadInput_B19_TooManyStepsAndNeeds lies at the limits.
func TestBadInput_B19_TooManyStepsAndNeeds(t *testing.T) {
	t.Parallel()
	steps := func(n int) string {
		return "name: a\nsteps:\n" + strings.Repeat("- {id: a}\n", n)
	}
	problems, _, _ := checkText(t, steps(10_001))
	if len(problems) != 1 || problems[0].Code != "dag.too_large" || problems[0].Line != 2 {
		t.Errorf("Check of 10,001 steps gives %.3v, want dag.too_large in line 2", problems)
	}
	if problems, _, _ = checkText(t, steps(10_000)); len(problems) == 0 || problems[0].Code == "dag.too_large" {
		t.Errorf("Check of 10,000 steps gives %.1v, want other problems only", problems)
	}
	needs := "name: a\nsteps:\n- id: a\n  run: [ls]\n  needs: [" + strings.TrimSuffix(strings.Repeat("b, ", 1001), ", ") + "]\n"
	problems, _, _ = checkText(t, needs)
	large := 0
	for _, p := range problems {
		if p.Code == "dag.too_large" && p.Line == 5 {
			large++
		}
	}
	if large != 1 {
		t.Errorf("Check of 1,001 needs gives %.3v, want dag.too_large in line 5", problems)
	}
}

func TestBadInput_UnreadableFile(t *testing.T) {
	t.Parallel()
	_, problems := jobs.Check([]string{"gone.yaml"}, env("testdata/bad"))
	if len(problems) != 1 || problems[0].Code != "file.unreadable" || problems[0].Line != 0 {
		t.Errorf("Check of a file that is not there gives %v, want file.unreadable", problems)
	}
}

// readText reads a file that may be UTF-16.
func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) < 2 || text[0] != 0xff || text[1] != 0xfe {
		return string(text)
	}
	var units []uint16
	for i := 2; i+1 < len(text); i += 2 {
		units = append(units, uint16(text[i])|uint16(text[i+1])<<8)
	}
	return string(utf16.Decode(units))
}
