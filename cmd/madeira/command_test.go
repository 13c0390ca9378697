package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"madeira/engine/store/storetest"
)

// Secrets that must not show up anywhere.
const (
	canary  = "canary-7391-hunter2"
	rotated = "canary-5512-hunter3"
)

// script writes a shell script that can be run.
func script(t *testing.T, dir, name, script string) {
	t.Helper()
	path := filepath.Join(dir, name)
	write(t, path, "#!/bin/sh\n"+script)
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestCommand_RunsAProgramBesideTheJobWithASecretThatIsKeptNowhere runs a script that
// prints the secret it is given, and looks for it in all that is kept and shown.
func TestCommand_RunsAProgramBesideTheJobWithASecretThatIsKeptNowhere(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "token"), canary+"\n")
		if err := os.Chmod(filepath.Join(dir, "token"), 0o600); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "madeira.yaml"), "secrets: {LEDGER_TOKEN: {file: token}}\n")
		script(t, dir, "settle.sh", "echo \"$1 with $TOKEN\"; echo \"$TOKEN\" >&2; exit \"$2\"\n")
		job := filepath.Join(dir, "job.yaml")
		write(t, job, `name: settle
inputs: {month: {type: string, default: "2026-10"}, code: {type: integer, default: 0}}
defaults: {retry: {max_attempts: 1}}
steps:
  - {id: settle, run: [./settle.sh, "${{ inputs.month }}", "${{ inputs.code }}"], env: {TOKEN: "${{ secrets.LEDGER_TOKEN }}"}}
  - {id: tell, run: [printf, "%s", "--", "${{ steps.settle.outputs.stdout }}"]}
`)
		ok(t, "migrate", "--database", url)
		good := ok(t, "run", job, "--database", url)
		if !strings.Contains(good, "2026-10 with ***") {
			t.Errorf("the report is\n%s\nwant the month in it and the secret hidden", good)
		}
		bad := call(t, "run", job, "--database", url, "--input", "code=3")
		if bad.code != exitFailed || !strings.Contains(bad.stdout+bad.stderr, "exit code 3") {
			t.Errorf("an exit code of 3 gives %d\n%s\n%s", bad.code, bad.stdout, bad.stderr)
		}
		option := call(t, "run", job, "--database", url, "--input", "month=--month")
		if option.code != exitFailed || !strings.Contains(option.stdout+option.stderr, "would read as an option") {
			t.Errorf("a value that looks like an option gives %d\n%s\n%s", option.code, option.stdout, option.stderr)
		}
		// A secret that changes while the process runs is one all the same.
		script(t, dir, "rotate.sh", "printf '%s\\n' "+rotated+" > token\n")
		write(t, job, `name: rotate
steps:
  - {id: rotate, run: [./rotate.sh]}
  - {id: settle, run: [./settle.sh, now, "0"], env: {TOKEN: "${{ secrets.LEDGER_TOKEN }}"}}
  - {id: fail, run: [./settle.sh, now, "9"], retry: {max_attempts: 1}, env: {TOKEN: "${{ secrets.LEDGER_TOKEN }}"}}
`)
		changed := call(t, "run", job, "--database", url)
		if changed.code != exitFailed || !strings.Contains(changed.stdout, "now with ***") {
			t.Errorf("a secret that changed gives %d\n%s\n%s", changed.code, changed.stdout, changed.stderr)
		}
		for _, text := range []string{good, bad.stdout, bad.stderr, option.stderr, changed.stdout, changed.stderr} {
			if strings.Contains(text, canary) || strings.Contains(text, rotated) {
				t.Errorf("the secret is shown:\n%s", text)
			}
		}
		db := database(t, url)
		for table, columns := range map[string]string{"task_queue": "outputs payload failure warning", "task_log": "failure"} {
			for column := range strings.FieldsSeq(columns) {
				if kept := mustRows(t, db, "SELECT CAST("+column+" AS text) FROM "+table+" WHERE CAST("+column+" AS text) LIKE '%"+canary+"%' OR CAST("+column+" AS text) LIKE '%"+rotated+"%'"); len(kept) > 0 {
					t.Errorf("%s.%s keeps the secret: %q", table, column, kept)
				}
			}
		}
	})
}
