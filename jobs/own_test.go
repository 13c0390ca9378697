package jobs_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"madeira/jobs"
	"madeira/jobs/expr"
	"madeira/schemas"
)

// A step type that is not built in is checked against its own schema; without
// one anything goes.
func TestCheck_ChecksOtherStepTypesAgainstTheirOwnSchema(t *testing.T) {
	t.Parallel()
	schema, err := schemas.Compile("ftp.schema.json", []byte(`{"type": "object", "additionalProperties": false,
		"required": ["host"], "properties": {"host": {"type": "string", "x-expression": "text"}, "wait": {"type": "string", "x-duration": ["1s", "1h"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	types := builtin()
	types["ftp"] = jobs.StepType{Name: "ftp", Schema: schema, Outputs: map[string]expr.Type{"file": expr.TypeFile}}
	types["free"] = jobs.StepType{Name: "free"}
	e := env(".")
	e.Catalog = types
	e.FS = fstest.MapFS{"job.yaml": {Data: []byte(`name: a
inputs: {host: {type: string}}
steps:
  - {id: a, uses: ftp, with: {host: "${{ inputs.host }}", wait: 5m}}
  - {id: b, uses: ftp, with: {hosts: x, wait: 2h}}
  - {id: c, uses: free, with: {deep: [{any: "${{ steps.a.outputs.file }}", no: "${{ steps.x.outputs.y }}"}]}}
`)}}
	_, problems := jobs.Check([]string{"job.yaml"}, e)
	want := []string{
		`job.yaml:5:30 step.missing "host" is missing`,
		`job.yaml:5:31 yaml.unknown_field unknown key "hosts"; did you mean "host"?`,
		`job.yaml:5:47 value.duration "2h" is out of range: from 1s to 1h is allowed`,
		`job.yaml:6:91 expr.undefined there is no step x`,
	}
	for i := range max(len(problems), len(want)) {
		if i >= len(problems) || i >= len(want) || !strings.HasPrefix(problems[i].String(), want[i]) {
			t.Errorf("problems = %v\nwant %q", problems, want)
			break
		}
	}
}

// A step type that is not built in takes presets as soon as its schema has the
// setting.
func TestCheck_OtherStepTypesTakePresets(t *testing.T) {
	t.Parallel()
	e := env(".")
	e.Catalog = withFTP(t)
	e.FS = fstest.MapFS{
		"job.yaml":          {Data: []byte("name: a\nsteps: [{id: a, uses: ftp, with: {preset: bank, port: 22}}]\n")},
		"presets/bank.yaml": {Data: []byte("host: bank.example\nport: 21\n")},
	}
	checked, problems := jobs.Check([]string{"job.yaml"}, e)
	if len(checked) != 1 || len(problems) > 0 {
		t.Fatalf("Check gives %v, want a job", problems)
	}
	if got, want := string(checked[0].Steps[0].With), `{"host":"bank.example","port":22}`; got != want {
		t.Errorf("settings = %s, want %s", got, want)
	}
}

// withFTP is the built-in types and one that takes presets, ftp.
func withFTP(t *testing.T) jobs.Catalog {
	t.Helper()
	schema, err := schemas.Compile("ftp.schema.json", []byte(`{"type": "object", "additionalProperties": false,
		"required": ["host"], "properties": {"host": {"type": "string"}, "port": {"type": "integer"}, "preset": {"type": "string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	types := builtin()
	types["ftp"] = jobs.StepType{Name: "ftp", Schema: schema}
	return withNames{types}
}

// withNames lists all of its types.
type withNames struct{ catalog }

func (c withNames) Names() []string { return slices.Sorted(maps.Keys(c.catalog)) }
