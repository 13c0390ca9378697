package jobs_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"madeira/jobs"
)

func TestCheck_TellsCalendarsAndPresetsFromJobs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ file, text, want string }{
		{"calendars/a.yaml", "nam: a\n", "file.calendar"},
		{"x/calendars/a.yaml", "columns: {}\n", "file.calendar"},
		{"presets/a.yaml", "years: {}\n", "file.preset"},
		{"a.yaml", "name: a\nyeers: {}\nyears: {}\n", "file.calendar"},
		{"a.yaml", "name: a\ninclude: [cn]\n", "file.calendar"},
		{"a.yaml", "colums: {}\nrejects: {max: 0}\n", "file.preset"},
		{"a.yaml", "name: a\nweekend: [friday]\ncolumns: {}\n", "yaml.missing_field"},
		{"a.yaml", "name: a\ncolumns: {}\n", "yaml.missing_field"},
		{"calendars/a.yaml", "name: a\nsteps: []\n", "value.size"},
		{"presets/a.yaml", "name: a\nfinally: []\n", "yaml.missing_field"},
		{"presets/a.yaml", "a: [\n", "yaml.syntax"},
	} {
		e := env(".")
		e.FS = fstest.MapFS{test.file: {Data: []byte(test.text)}}
		_, problems := jobs.Check([]string{test.file}, e)
		if len(problems) == 0 || problems[0].Code != test.want || strings.HasPrefix(test.want, "file.") && len(problems) > 1 {
			t.Errorf("Check of %s with %q gives\n%swant %s", test.file, test.text, lines(problems), test.want)
		}
	}
}

func TestCheckPresets_ChecksWhatHoldsWithoutAJob(t *testing.T) {
	t.Parallel()
	e := env(".")
	e.FS = fstest.MapFS{
		"presets/good.yaml": {Data: []byte("entry: \"${{ inputs.month }}.csv\"\ncolumns:\n  net: {type: money, value: amount - fee}\n")},
		"elsewhere/b.yaml":  {Data: []byte("separator: x\ncolumns:\n  a: {from: A, type: money, from: B}\n  b: {type: mony, from: B}\ncsv: {quote: \"${{ inputs.quote }}\", separator: yes}\n")},
		"presets/deep.yaml": {Data: []byte("preset: good\n")},
	}
	problems := jobs.CheckPresets([]string{"presets/good.yaml", "elsewhere/b.yaml", "presets/deep.yaml", "presets/gone.yaml"}, e)
	want := []string{
		`elsewhere/b.yaml:1:1 yaml.unknown_field unknown key "separator"`,
		`elsewhere/b.yaml:3:29 yaml.duplicate_key key "from" is here twice`,
		`elsewhere/b.yaml:4:13 value.enum type must be text`,
		`elsewhere/b.yaml:5:14 expr.not_allowed ${{ }} is not allowed here`,
		`elsewhere/b.yaml:5:48 yaml.implicit_boolean`,
		`presets/deep.yaml:1:1 preset.nested`,
		`presets/gone.yaml:0:0 file.unreadable`,
	}
	for i := range max(len(problems), len(want)) {
		if i >= len(problems) || i >= len(want) || !strings.HasPrefix(problems[i].String(), want[i]) {
			t.Fatalf("problems:\n%swant:\n%s", lines(problems), strings.Join(want, "\n"))
		}
	}
}

// A type of one's own that takes presets is considered, too.
func TestCheckPresets_TakesTheTypeThatFits(t *testing.T) {
	t.Parallel()
	e := env(".")
	e.Catalog = withFTP(t)
	e.FS = fstest.MapFS{"a.yaml": {Data: []byte("host: bank.example\nprot: 21\n")}, "b.yaml": {Data: []byte("rejects: {max: a}\n")}}
	want := "a.yaml:2:1 yaml.unknown_field unknown key \"prot\"; did you mean \"port\"?\nb.yaml:1:16 value.type max must be a whole number, not text\n"
	if got := lines(jobs.CheckPresets([]string{"a.yaml", "b.yaml"}, e)); got != want {
		t.Errorf("problems:\n%swant:\n%s", got, want)
	}
	if _, problems := jobs.Check([]string{"a.yaml"}, e); len(problems) != 1 || problems[0].Code != "file.preset" {
		t.Errorf("Check gives\n%swant file.preset", lines(problems))
	}
}
