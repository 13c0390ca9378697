package jobs_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"madeira/jobs"
)

// files checks job files, given in the order of their names without those in names of
// folders, beside others that are only there.
func files(t *testing.T, all map[string]string) ([]*jobs.Job, []jobs.Problem) {
	t.Helper()
	e := env(".")
	fsys := fstest.MapFS{}
	var given []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fsys[strings.TrimPrefix(name, "beside:")] = &fstest.MapFile{Data: []byte(all[name])}
		if !strings.Contains(name, "/") && !strings.HasPrefix(name, "beside:") {
			given = append(given, name)
		}
	}
	e.FS, e.Root = fsys, "root"
	return jobs.Check(given, e)
}

// finds checks files and compares the beginnings of all problems.
func finds(t *testing.T, all map[string]string, want ...string) {
	t.Helper()
	_, problems := files(t, all)
	for i := range max(len(problems), len(want)) {
		if i >= len(problems) || i >= len(want) || !strings.HasPrefix(problems[i].String(), want[i]) {
			t.Errorf("problems:\n%s\nwant:\n%s", lines(problems), strings.Join(want, "\n"))
			return
		}
	}
}

func lines(problems []jobs.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

const note = "uses: notify, with: {channel: ops, template: text, text: "

func TestCheck_OrdersPhases(t *testing.T) {
	t.Parallel()
	finds(t, map[string]string{"a.yaml": `name: a
steps:
  - {id: one, needs: [], ` + note + `"${{ failure.step }}"}}
  - {id: two, needs: [late], ` + note + `"${{ steps.late.outputs.report }}"}}
on_failure:
  - {id: page, needs: [two], ` + note + `"${{ failure.stp }}"}}
  - {id: one, ` + note + `x}}
finally:
  - {id: late, ` + note + `"${{ steps.page.outputs.report }} ${{ steps.two.outputs.repot }} ${{ needs.page.result }}"}}
  - {id: last, if: "failure.attempts > 1 && needs.late.result == 'success'", ` + note + `"${{ steps.last.outputs.report }}"}}
`},
		`a.yaml:3:88 expr.undefined failure is known only in steps of on_failure and finally`,
		`a.yaml:4:23 dag.phase step "late" is one of finally, which begins when all of steps is over; it cannot be needed here`,
		`a.yaml:4:92 dag.not_before step "late" is one of finally and runs later`,
		`a.yaml:6:24 dag.phase step "page" of on_failure begins when all of steps is over; leave it out of needs`,
		`a.yaml:6:100 expr.undefined failure has no stp; there is attempts, error, step; did you mean "step"?`,
		`a.yaml:7:5 dag.needs_missing step "one" has no needs, and other steps do`,
		`a.yaml:7:10 dag.duplicate_id step "one" is here twice: in line 3 and here`,
		`a.yaml:9:129 expr.undefined steps.two.outputs has no repot; there is report; did you mean "report"?`,
		`a.yaml:9:148 expr.undefined the step does not need page; name it under needs`,
		`a.yaml:10:140 dag.not_before step "last" cannot refer to its own outputs`,
	)
}

func TestCheck_StepsOfAPhaseFollowOneAnother(t *testing.T) {
	t.Parallel()
	checked, problems := files(t, map[string]string{"a.yaml": `name: a
steps:
  - {id: one, needs: [], ` + note + `x}}
  - {id: two, needs: [], ` + note + `x}}
on_failure:
  - {id: three, ` + note + `x}}
  - {id: four, ` + note + `x}}
finally:
  - {id: five, ` + note + `x}}
`})
	if len(checked) != 1 {
		t.Fatalf("Check gives %v, want a job", problems)
	}
	j := checked[0]
	got := fmt.Sprint(j.Steps[1].Needs, j.OnFailure[0].Needs, j.OnFailure[1].Needs, j.Finally[0].Needs)
	if want := "[] [] [three] []"; got != want {
		t.Errorf("needs = %s, want %s", got, want)
	}
}

func TestCheck_SaysWhatForEachMayBe(t *testing.T) {
	t.Parallel()
	finds(t, map[string]string{"a.yaml": `name: a
upstream_key: a/${{ each.key }}
inputs: {names: {type: array}, one: {type: string}, bill: {type: file}}
steps:
  - {id: a, for_each: "${{ inputs.names }}", concurrency: {key: "x ${{ each.key }}", limit: 1}, ` + note + `"${{ each.valu }}"}}
  - {id: b, for_each: "${{ inputs.one }}", ` + note + `"${{ steps.a.outputs.report }}"}}
  - {id: c, for_each: some, ` + note + `"${{ steps.a.outputs[0].reprot }}"}}
  - {id: d, for_each: [{code: x}, {code: "${{ inputs.on }}"}], ` + note + `"${{ each.value.cod }} ${{ each.value.code }}"}}
  - {id: e, for_each: 5, ` + note + `x}}
  - {id: f, max_parallel: 2, ` + note + `"${{ each.key }}"}}
  - {id: g, for_each: "${{ each.key }}", ` + note + `x}}
  - {id: h, if: each.index > 1, ` + note + `x}}
  - {id: i, if: "sum(steps.a.outputs, #.report) > 0.5", ` + note + `x}}
  - id: j
    if: sum(steps.a.outputs, #.report) > 1
    uses: notify
    with: {channel: ops, template: text, text: x}
  - {id: k, for_each: [1, 2], ` + note + `"${{ each.value + \"x\" }}"}}
`},
		`a.yaml:2:21 expr.undefined each cannot be used here: this is evaluated when the run is made, before there are elements; it is known in with and if of a step with for_each`,
		`a.yaml:5:72 expr.undefined each cannot be used here: this is evaluated when the run is made`,
		`a.yaml:5:164 expr.undefined each has no valu; there is index, key, value; did you mean "value"?`,
		`a.yaml:6:23 expr.type this is of type text; list or object is needed`,
		`a.yaml:6:122 expr.type steps.a.outputs is a list, one entry for each element of its for_each; write steps.a.outputs[0].report for one of them, or map(steps.a.outputs, #.report) for all`,
		`a.yaml:7:23 expr.needed "some" is text; write a list or a mapping, or an expression that gives one`,
		`a.yaml:7:110 expr.undefined steps.a.outputs[…] has no reprot; there is report; did you mean "report"?`,
		`a.yaml:8:54 expr.undefined inputs has no on; there is bill, names, one; did you mean "one"?`,
		`a.yaml:8:137 expr.undefined each.value has no cod; there is code; did you mean "code"?`,
		`a.yaml:9:23 value.type for_each must be a list, a mapping, or an expression that gives one`,
		`a.yaml:10:13 step.missing "for_each" is missing; it goes with "max_parallel"`,
		`a.yaml:10:92 expr.undefined each is known only in with and if of a step that has for_each`,
		`a.yaml:11:28 expr.undefined each is known only in with and if of a step that has for_each`,
		`a.yaml:12:17 expr.undefined each is known only in with and if of a step that has for_each`,
		`a.yaml:13:51 expr.type money meets a float, which is not exact; write the amount as dec("…")`,
		`a.yaml:15:28 expr.syntax the expression ends too early; a # behind a blank begins a comment in YAML: put quotes around the whole text`,
		`a.yaml:18:104 expr.type an integer is joined with a text`,
	)
}

func TestCheck_SaysWhichFailuresCanBeNamed(t *testing.T) {
	t.Parallel()
	finds(t, map[string]string{"a.yaml": `name: a
defaults: {retry: {retry_on: [permanent]}}
steps:
  - {id: a, retry: {retry_on: [transient, http.503, poison], no_retry_on: [infrastructure, timeuot, X.y]}, ` + note + `x}}
`},
		`a.yaml:2:31 retry.class a permanent failure is tried again only where its code is named, such as http.409`,
		`a.yaml:4:53 retry.class a task that has killed its worker three times is not tried again`,
		`a.yaml:4:76 retry.class a failure of the machine is tried again in any case`,
		`a.yaml:4:92 value.enum there is no class of failures "timeuot"; write permanent, transient, infrastructure, poison or timeout, or a code such as http.503; did you mean "timeout"?`,
		`a.yaml:4:101 value.form no_retry_on[2] must be permanent, transient, infrastructure, poison, timeout, or a code such as http.503`,
	)
}

func TestCheck_ChecksWhatAJobLeaves(t *testing.T) {
	t.Parallel()
	finds(t, map[string]string{"a.yaml": `name: a
inputs: {x: {type: array, items: {type: integer, minimum: 1}, default: [1, 0]}, y: {type: object, properties: {n: {type: strnig}}}}
timeout: 400d
overlap: que
concurrency: {key: "${{ run.id }}", limit: 0}
steps: [{id: a, ` + note + `x}}]
outputs:
  Bad: x
  a: "${{ steps.a.outputs.repot }}"
  b: "${{ needs.a.result }}"
`},
		`a.yaml:2:76 value.range default[1] must be 1 or more`,
		`a.yaml:2:122 value.enum type must be`,
		`a.yaml:3:10 value.duration "400d" is out of range`,
		`a.yaml:4:10 value.enum overlap must be queue, skip or allow; did you mean "queue"?`,
		`a.yaml:5:25 expr.undefined run cannot be used here: this is evaluated before there is any`,
		`a.yaml:5:44 value.range limit must be from 1 to 10000`,
		`a.yaml:8:3 id.charset`,
		`a.yaml:9:27 expr.undefined steps.a.outputs has no repot`,
		`a.yaml:10:11 expr.undefined needs cannot be used here; it is known in with, if and for_each of a step`,
	)
}

func TestCheck_AnElementThatDecidesAboutFailuresIsAskedInAnyCase(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string][2]string{
		"each.index > 0":             {"", "each.index > 0"},
		"always() && each.index > 0": {"always()", "always() && each.index > 0"},
		"always()":                   {"always()", ""},
	} {
		j := one(t, map[string]string{"a.yaml": "name: a\nsteps: [{id: a, for_each: [1], if: " + condition + ", " + note + "x}}]\n"})
		if got := [2]string{j.Steps[0].If, j.Steps[0].EachIf}; got != want {
			t.Errorf("if %s: If and EachIf are %q, want %q", condition, got, want)
		}
	}
}

func TestCheck_WhatMayBeNullDoesNotBecomeText(t *testing.T) {
	t.Parallel()
	finds(t, map[string]string{"a.yaml": `name: a
period: {every: day}
inputs: {limits: {type: object, properties: {rows: {type: integer}}, additionalProperties: false}}
steps:
  - {id: a, ` + note + `"since ${{ run.previous_success.period.label }} ${{ inputs.limits.rwos }}"}}
  - {id: b, if: run.previous_success != null, ` + note + `"since ${{ run.previous_success.period.label }}"}}
on_failure:
  - {id: c, ` + note + `"of ${{ failure.step }}"}}
finally:
  - {id: d, ` + note + `"of ${{ failure.step }}"}}
  - {id: e, ` + note + `"of ${{ failure.step ?? 'nothing' }}"}}
  - {id: f, if: failure(), ` + note + `"of ${{ failure.step }}"}}
`},
		`a.yaml:5:81 expr.type run.previous_success.period.label may be null here, which cannot become part of a text; write run.previous_success.period.label ?? "…"`,
		`a.yaml:5:136 expr.undefined inputs.limits has no rwos; there is rows; did you mean "rows"?`,
		`a.yaml:10:78 expr.type failure.step may be null here, which cannot become part of a text; write failure.step ?? "…"`,
	)
}
