package jobs_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"madeira/jobs"
)

// commandJob checks one job of these steps, with the secret LEDGER_TOKEN in madeira.yaml.
func commandJob(t *testing.T, steps string) ([]*jobs.Job, []jobs.Problem) {
	t.Helper()
	e := env(".")
	e.Secrets = []string{"LEDGER_TOKEN"}
	e.FS = fstest.MapFS{"job.yaml": {Data: []byte("name: a\ninputs: {name: {type: string, default: x}}\nsteps:\n" + steps)}}
	return jobs.Check([]string{"job.yaml"}, e)
}

func TestCheck_FreezesAProgramWithItsArgumentsMarked(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]string{
		"run":     `  - {id: a, run: [./settle, 7, "--name=${{ inputs.name }}", "${{ inputs.name }}"], env: {TOKEN: "${{ secrets.LEDGER_TOKEN }}"}, with: {exit_codes: [0, 2]}}`,
		"command": `  - {id: a, uses: command, env: {TOKEN: "${{ secrets.LEDGER_TOKEN }}"}, with: {argv: [./settle, 7, "--name=${{ inputs.name }}", "${{ inputs.name }}"], exit_codes: [0, 2]}}`,
	} {
		checked, problems := commandJob(t, steps)
		if len(checked) != 1 {
			t.Fatalf("%s: %v", name, problems)
		}
		s := checked[0].Steps[0]
		want := `{"argv":["./settle",7,"--name=${{ inputs.name }}",{"value":"${{ inputs.name }}"}],"env":{"TOKEN":{"secret":"${{ secrets.LEDGER_TOKEN }}"}},"exit_codes":[0,2]}`
		if s.Uses != "command" || string(s.With) != want {
			t.Errorf("%s: uses %s with %s\nwant command with %s", name, s.Uses, s.With, want)
		}
	}
}

func TestBadInput_ProgramsAndSecrets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, step, want string }{
		{"B27 a text", `{id: a, run: "echo ${{ inputs.name }}"}`, `job.yaml:4:18 expr.shell_context a value never becomes part of a command line`},
		{"B27 a text in argv", `{id: a, uses: command, with: {argv: "echo ${{ inputs.name }}"}}`, `job.yaml:4:41 expr.shell_context a value never becomes`},
		{"a text without values", `{id: a, run: echo hello}`, `job.yaml:4:18 expr.shell_context run must be a list of the program`},
		{"B24 a secret in the file", `{id: a, run: [x], env: {DB_PASSWORD: hunter2}}`, `job.yaml:4:42 secret.inline "DB_PASSWORD" looks like a secret`},
		{"B24 an unknown secret", `{id: a, run: [x], env: {A: "${{ secrets.LEDGER_TOKN }}"}}`, `job.yaml:4:45 secret.unknown madeira.yaml names no secret LEDGER_TOKN`},
		{"a secret as an argument", `{id: a, run: [x, "${{ secrets.LEDGER_TOKEN }}"]}`, `job.yaml:4:27 secret.not_allowed a secret cannot be used here`},
		{"a secret in a condition", `{id: a, if: secrets.LEDGER_TOKEN == "x", run: [x]}`, `job.yaml:4:17 secret.not_allowed a secret`},
		{"run and uses", `{id: a, run: [x], uses: command, with: {argv: [x]}}`, `job.yaml:4:13 step.exclusive run and uses exclude each other`},
		{"neither", `{id: a}`, `job.yaml:4:5 step.missing "uses" is missing`},
		{"no argv", `{id: a, uses: command, with: {}}`, `job.yaml:4:34 step.missing "argv" is missing`},
		{"env of another type", `{id: a, uses: fetch, env: {A: b}, with: {url: "http://x/y"}}`, `job.yaml:4:26 step.exclusive env is for programs`},
		{"an unknown output", `{id: a, run: [x]}` + "\n  - " + `{id: b, run: [z, "${{ steps.a.outputs.stdot }}"]}`, `job.yaml:5:43 expr.undefined`},
		{"a list as an argument", `{id: a, run: []}`, `job.yaml:4:18 value.size run must not be empty`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, problems := commandJob(t, "  - "+tt.step+"\n")
			if len(problems) != 1 || !strings.HasPrefix(problems[0].String(), tt.want) {
				t.Errorf("problems = %v\nwant one: %s", problems, tt.want)
			}
		})
	}
}

func TestCheck_ValuesStandBehindWhatAShellRuns(t *testing.T) {
	t.Parallel()
	for _, run := range []string{
		`[sh, -c, 'echo "$1"', sh, "${{ inputs.name }}"]`,
		`[env, "A=${{ inputs.name }}", bash, -euo, pipefail, -c, 'echo "$A"', bash, "${{ inputs.name }}"]`,
		`[bash, ./settle.sh, -c, "${{ inputs.name }}"]`,
		`[./settle, -c, "${{ inputs.name }}"]`,
		`[python3, ./settle.py, -c, "${{ inputs.name }}"]`,
		`[python3, -c, "import sys", -c, "${{ inputs.name }}"]`,
		`[perl, -Mstrict, -e, "print @ARGV", "${{ inputs.name }}"]`,
		`[timeout, "5", ./settle, "${{ inputs.name }}"]`,
		`[sh, -c]`,
		`[python3, -c]`,
	} {
		if checked, problems := commandJob(t, "  - {id: a, run: "+run+"}\n"); len(checked) != 1 {
			t.Errorf("%s: %v, want it accepted", run, problems)
		}
	}
}
