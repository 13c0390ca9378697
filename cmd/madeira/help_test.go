package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// An example is a line of the help of a command.
type example struct {
	command, line string
}

// examplesIn returns the examples of a command and of those below it.
func examplesIn(c *cobra.Command) []example {
	var list []example
	for line := range strings.Lines(c.Example + "\n" + c.Long) {
		if call, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "  madeira "); indented {
			list = append(list, example{c.CommandPath(), call})
		}
	}
	for _, below := range c.Commands() {
		list = append(list, examplesIn(below)...)
	}
	return list
}

// words splits a call as a shell does, and returns the file that its output goes to.
func words(t *testing.T, call string) (args []string, into string) {
	t.Helper()
	call, into, _ = strings.Cut(call, " > ")
	var word strings.Builder
	quote := rune(0)
	for _, r := range call {
		switch {
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case r == quote:
			quote = 0
		case quote == 0 && r == ' ':
			args = append(args, word.String())
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	if quote != 0 {
		t.Errorf("%s: the quotes do not pair", call)
	}
	return append(args, word.String()), into
}

// Whoever pastes an example of the help gets what it is an example of, and not an answer about wrong usage.
func TestHelp_ExamplesRun(t *testing.T) {
	t.Parallel()
	books := exampleBooks(t)
	fresh := t.TempDir()
	for _, e := range examplesIn(newProgram().command()) {
		args, into := words(t, e.line)
		if args[0] == "serve" {
			continue // does not end
		}
		dir := fresh // the first steps follow one another
		switch {
		case args[0] == "init" && e.command != "madeira":
			dir = t.TempDir()
		case e.command != "madeira":
			dir = t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(books)); err != nil {
				t.Fatal(err)
			}
		}
		if into != "" && filepath.Base(into) != into {
			t.Errorf("%s: %s: the folder of %s may not be there", e.command, e.line, into)
		}
		for i := range args {
			args[i] = nameIn(t, dir, args, i)
		}
		c := start(t, dir, nil, args...)
		if code := c.wait(t); code != exitOK && code != exitFailed {
			t.Errorf("%s: madeira %s exits with %d:\n%s", e.command, e.line, code, c.stderr)
		}
	}
}

// The flags of examples that do not end are those of their command.
func TestHelp_ExamplesHaveFlagsThatAreThere(t *testing.T) {
	t.Parallel()
	for _, e := range examplesIn(newProgram().command()) {
		args, _ := words(t, e.line)
		c, rest, err := newProgram().command().Find(args)
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if err == nil {
			err = c.ValidateArgs(c.Flags().Args())
		}
		if err == nil {
			err = c.ValidateFlagGroups()
		}
		if err != nil {
			t.Errorf("%s: madeira %s: %v", e.command, e.line, err)
		}
	}
}

// exampleBooks is a folder where examples find what they name: jobs, a run that failed, a commit to compare with,
// what is paused, and a circuit that is open.
func exampleBooks(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	in := func(want int, args ...string) {
		t.Helper()
		if c := start(t, dir, nil, args...); c.wait(t) != want {
			t.Fatalf("madeira %v exits with %d, want %d:\n%s", args, c.cmd.ProcessState.ExitCode(), want, c.stderr)
		}
	}
	in(exitOK, "init")
	write(t, filepath.Join(dir, "nightly.yaml"), `name: nightly
timezone: Asia/Shanghai
period: {every: day, of: current}
schedule:
  - {cron: "0 6 * * *"}
upstream_key: nightly/${{ period.label }}
steps:
  - id: only
    run: ["true"]
`)
	whole, err := os.ReadFile(filepath.Join(dir, "bill.csv"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "corrected.csv"), string(whole))
	for _, command := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "one"}, {"commit", "-q", "--allow-empty", "-m", "two"},
		{"update-ref", "refs/remotes/origin/main", "HEAD~1"},
	} {
		git := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, command...)...)
		git.Dir = dir
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", command, err, out)
		}
	}
	write(t, filepath.Join(dir, "bill.csv"), strings.Split(string(whole), "#----")[0])
	in(exitFailed, "run", "job.yaml")
	in(exitOK, "run", "nightly.yaml", "--period", "2026-10-30")
	in(exitOK, "run", "nightly.yaml", "--period", "2026-10-29", "--at", "2099-01-01T06:00")
	if _, err := database(t, "sqlite://"+filepath.Join(dir, ".madeira", "madeira.db")).
		ExecContext(t.Context(), "INSERT INTO circuit (key, state, until, trips) VALUES ('fetch/bank', 'open', 4000000000000000, 1)"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// nameIn puts in what only a database knows: ids of runs and tasks. What is resumed is paused before.
func nameIn(t *testing.T, dir string, args []string, i int) string {
	t.Helper()
	ask := func(args ...string) string {
		c := start(t, dir, nil, append(args, "--output", "json")...)
		var rows []struct{ ID any }
		if c.wait(t); json.Unmarshal(c.stdout.Bytes(), &rows) != nil || len(rows) == 0 {
			t.Fatalf("madeira %v finds nothing: %s", args, c.stdout.String())
		}
		text, err := json.Marshal(rows[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Trim(string(text), `"`)
	}
	switch {
	case args[i] == "0199a1b2" && args[1] == "cancel":
		return ask("runs", "--status", "pending")
	case args[i] == "0199a1b2":
		return ask("runs", "--status", "error")
	case args[i] == "4711":
		return ask("tasks", "list", "--state", "error")
	case args[0] == "resume" && i == 1 && !strings.HasPrefix(args[1], "circuit:"):
		if c := start(t, dir, nil, "pause", args[1], "--reason", "an example"); c.wait(t) != exitOK {
			t.Fatalf("pause %s: %s", args[1], c.stderr)
		}
	}
	return args[i]
}
