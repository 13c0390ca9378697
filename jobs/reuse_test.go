package jobs_test

import (
	"strings"
	"testing"

	"madeira/jobs"
)

// calls is a job of a name that runs others.
func calls(name string, others ...string) string {
	var b strings.Builder
	b.WriteString("name: " + name + "\nsteps:\n")
	for _, other := range others {
		b.WriteString("  - {id: " + other + ", uses: job, with: {job: " + other + "}}\n")
	}
	if len(others) == 0 {
		b.WriteString("  - {id: x, " + note + "x}}\n")
	}
	return b.String()
}

func TestCheck_ChecksWhatAStepHandsToAnotherJob(t *testing.T) {
	t.Parallel()
	const called = `name: entity
inputs:
  code: {type: string, pattern: '^[a-z]{2}$'}
  day: {type: string, format: date, default: "2026-01-01"}
  rows: {type: integer, default: 1}
  bill: {type: file, default: x}
  list: {type: array, items: {type: string}}
steps: [{id: q, uses: query, with: {connection: state, sql: SELECT 1 AS a, columns: {a: integer}}}]
outputs: {total: "${{ steps.q.outputs.total }}"}
`
	good := strings.Replace(called, ", default: x", "", 1)
	const caller = `name: caller
period: {every: month}
steps:
  - {id: a, uses: job, with: {job: entity, inputs: {code: USA, day: "${{ period.label }}", rows: "${{ steps.q.outputs.total }}", bil: x, list: [1]}}}
  - {id: b, uses: job, with: {job: entity}}
  - {id: c, uses: job, with: {job: entity, inputs: {code: de, bill: x, list: "${{ steps.a.outputs.totl }}", rows: "${{ steps.a.outputs.total }}"}}}
  - {id: d, uses: job, with: {job: entity, input: {}, inputs: {code: de, bill: "${{ steps.a.outputs.total }}", list: ["${{ nope }}"]}}}
  - {id: e, uses: job}
  - {id: f, uses: job, with: {job: "${{ steps.a.outputs.total }}"}}
  - {id: g, uses: job, with: {job: entitty}}
  - {id: h, if: steps.a.outputs.total > 0.5, uses: jobb}
`
	finds(t, map[string]string{"b.yaml": caller, "a.yaml": good},
		`b.yaml:4:44 input.missing job "entity" needs input "bill"; give a file`,
		`b.yaml:4:59 value.form code must match ^[a-z]{2}$`,
		`b.yaml:4:69 expr.type this is of type text; date is needed: write date(…) around it, or give the input format: date`,
		`b.yaml:4:109 expr.undefined there is no step q`,
		`b.yaml:4:130 input.unknown job "entity" takes no input "bil"; did you mean "bill"?`,
		`b.yaml:4:145 value.type list[0] must be text; put it in quotes: "1"`,
		`b.yaml:5:24 input.missing job "entity" needs input "bill"`,
		`b.yaml:5:24 input.missing job "entity" needs input "code"`,
		`b.yaml:5:24 input.missing job "entity" needs input "list"; give a list`,
		`b.yaml:6:69 expr.needed job needs a file here; name one that a step left`,
		`b.yaml:6:99 expr.undefined steps.a.outputs has no totl; there is report, total; did you mean "total"?`,
		`b.yaml:6:115 expr.type this is of type money; integer is needed`,
		`b.yaml:7:44 yaml.unknown_field unknown key "input"; did you mean "inputs"?`,
		`b.yaml:7:80 expr.type this is of type money; file is needed`,
		`b.yaml:7:124 expr.undefined unknown name nope`,
		`b.yaml:8:5 step.missing "with" is missing`,
		`b.yaml:9:36 expr.not_allowed`,
		`b.yaml:10:36 job.unknown there is no job "entitty": not among the files that are checked, and no entitty.yaml; did you mean "entity"?`,
		`b.yaml:11:41 expr.type money meets a float`,
		`b.yaml:11:52 step.unknown_type there is no step type "jobb"; did you mean "job"?`,
	)
	finds(t, map[string]string{"a.yaml": calls("caller", "entity"), "beside:entity.yaml": called},
		`a.yaml:3:41 job.broken job "entity" in entity.yaml has problems of its own; mend them there`,
		`entity.yaml:6:22 input.default a file has no default`)
}

func TestCheck_FindsCalledJobsBesideTheFile(t *testing.T) {
	t.Parallel()
	checked, problems := files(t, map[string]string{
		"a.yaml": calls("a", "b", "c"), "beside:b.yaml": calls("b", "c"), "beside:c.yml": calls("c")})
	if len(problems) > 0 || len(checked) != 1 {
		t.Fatalf("Check gives %d jobs and %v, want the one that was given", len(checked), problems)
	}
	steps := checked[0].Steps
	b := steps[0].Call.Job
	if b.Path != "b.yaml" || b.Steps[0].Call.Job != steps[1].Call.Job || steps[1].Call.Job.Path != "c.yml" {
		t.Errorf("calls %s and %s, want b.yaml and the c.yml that it calls too", b.Path, steps[1].Call.Job.Path)
	}
	finds(t, map[string]string{"a.yaml": calls("a", "b"), "beside:b.yaml": calls("other")},
		`a.yaml:3:36 job.unknown b.yaml holds job "other", not "b"; name jobs as their files are`)
}

func TestCheck_RefusesCirclesOfCalls(t *testing.T) {
	t.Parallel()
	finds(t, map[string]string{"1.yaml": calls("start", "a"), "2.yaml": calls("a", "b"), "3.yaml": calls("b", "x", "a"), "4.yaml": calls("x"), "5.yaml": calls("self", "self")},
		`1.yaml:3:36 job.broken job "a" in 2.yaml`,
		`2.yaml:3:36 job.broken job "b" in 3.yaml`,
		`3.yaml:4:36 job.cycle jobs call one another in a circle: a → b → a; remove one of these calls`,
		`5.yaml:3:39 job.cycle jobs call one another in a circle: self → self`,
	)
}

func TestCheck_RefusesCallsThatAreTooDeep(t *testing.T) {
	t.Parallel()
	all := map[string]string{}
	const names = "abcdefghij"
	for i, r := range names {
		if i == len(names)-1 {
			all[string(r)+".yaml"] = calls(string(r))
			continue
		}
		all[string(r)+".yaml"] = calls(string(r), names[i+1:i+2])
	}
	finds(t, all, `a.yaml:3:36 job.depth 9 jobs call one another in a row from here on; at most 8 may`)
}

const presetJob = `name: a
steps:
  - {id: bill, uses: fetch, with: {url: "https://bank.example/a.csv"}}
  - id: lines
    uses: parse
    with: {preset: bank, file: "${{ steps.bill.outputs.file }}", columns: {b: {from: B, type: text}, c: {from: C, type: text}}}
`

func TestCheck_ReportsWhatIsWrongInAPresetThere(t *testing.T) {
	t.Parallel()
	bank := `csv: {separater: ";"}
columns:
  a: {from: 1, type: mony}
  b: {from: 1, type: money, curency: EUR}
  d: {from: D, type: date}
controls:
  - {name: count, declared: {value: "${{ inputs.x }}"}, computed: count()}
`
	finds(t, map[string]string{"a.yaml": presetJob, "b.yaml": strings.Replace(presetJob, "name: a", "name: b", 1), "presets/bank.yaml": bank},
		`presets/bank.yaml:1:7 yaml.unknown_field unknown key "separater"; did you mean "separator"?`,
		`presets/bank.yaml:3:22 value.enum type must be`,
		`presets/bank.yaml:5:6 step.missing "format" is missing`,
		`presets/bank.yaml:7:42 expr.undefined the job declares no inputs`,
	)
	_, problems := files(t, map[string]string{"a.yaml": presetJob, "presets/bank.yaml": bank})
	if got, want := problems[1].Path, "columns.a.type"; got != want {
		t.Errorf("path in the preset = %s, want %s", got, want)
	}
	finds(t, map[string]string{"a.yaml": presetJob, "presets/bank.yaml": "a: [\n"}, `presets/bank.yaml:1:4 yaml.syntax`)
	finds(t, map[string]string{"a.yaml": presetJob, "presets/bank.yaml": "preset: other\n"}, `presets/bank.yaml:1:1 preset.nested`)
	finds(t, map[string]string{"a.yaml": presetJob, "presets/bnak.yaml": bank, "root/presets/others.yaml": bank},
		`a.yaml:6:20 preset.unknown there is no preset "bank": no presets/bank.yaml or root/presets/bank.yaml; did you mean "bnak"?`)
	finds(t, map[string]string{"a.yaml": strings.Replace(presetJob, "preset: bank", "preset: ../x", 1)}, `a.yaml:6:20 id.charset preset must be`)
}

func TestCheck_SettingsOfTheStepWinOverThoseOfAPreset(t *testing.T) {
	t.Parallel()
	const bank = "csv: {separator: \";\"}\ncolumns:\n  a: {from: A, type: text}\n  c: {from: 3, type: money, currency: EUR}\n  d: {from: D, type: text}\n"
	const inline = `name: a
steps:
  - {id: bill, uses: fetch, with: {url: "https://bank.example/a.csv"}}
  - id: lines
    uses: parse
    with:
      csv: {separator: ";"}
      file: "${{ steps.bill.outputs.file }}"
      columns:
        a: {from: A, type: text}
        c: {from: C, type: text}
        d: {from: D, type: text}
        b: {from: B, type: text}
`
	want := one(t, map[string]string{"a.yaml": inline})
	for _, place := range []string{"presets/bank.yaml", "root/presets/bank.yaml"} {
		got := one(t, map[string]string{"a.yaml": presetJob, place: bank})
		if g, w := string(got.Steps[1].With), string(want.Steps[1].With); g != w {
			t.Errorf("settings with %s:\n got %s\nwant %s", place, g, w)
		}
		if got.Digest != want.Digest {
			t.Errorf("digest with %s is another one than that of the settings written out", place)
		}
	}
	other := one(t, map[string]string{"a.yaml": presetJob, "presets/bank.yaml": strings.Replace(bank, "from: D", "from: E", 1)})
	if other.Digest == want.Digest {
		t.Error("another preset gives the same digest, want another one")
	}
}

// one checks files of which one is a job.
func one(t *testing.T, all map[string]string) *jobs.Job {
	t.Helper()
	checked, problems := files(t, all)
	if len(checked) != 1 || len(problems) > 0 {
		t.Fatalf("Check gives %d jobs and %v, want one job", len(checked), problems)
	}
	return checked[0]
}

func TestCheck_TheDigestKnowsCalledJobsAndNoPatience(t *testing.T) {
	t.Parallel()
	digest := func(caller, called string) string {
		return one(t, map[string]string{"a.yaml": caller, "beside:b.yaml": called}).Digest
	}
	first := digest(calls("a", "b"), calls("b"))
	if again := digest("description: x\ntimeout: 3h\noverlap: skip\nconcurrency: {key: k, limit: 1}\ndefaults: {timeout: 3s, retry: {max_attempts: 2}}\n"+
		strings.Replace(calls("a", "b"), "uses: job", "uses: job, timeout: 1h, priority: 3, retry: {retry_on: [timeout]}", 1), "labels: {team: ops}\n"+calls("b")); again != first {
		t.Errorf("patience and words make digest %s of %s, want the same", again, first)
	}
	if other := digest(calls("a", "b"), strings.Replace(calls("b"), "text: x", "text: z", 1)); other == first {
		t.Error("another called job gives the same digest, want another one")
	}
}
