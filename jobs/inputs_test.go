package jobs_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"madeira/jobs"
)

const withInputs = `name: sample
inputs:
  tolerance: {type: string, pattern: '^\d+\.\d{2}$', default: "0.00"}
  days: {type: integer, minimum: 1, maximum: 31, description: How many days back.}
  rate: {type: number, default: 1.50}
  dry: {type: boolean, default: false}
  bill: {type: file}
` + oneStep

func inputJob(t *testing.T) *jobs.Job {
	t.Helper()
	checked, problems := check(t, withInputs)
	if len(checked) != 1 {
		t.Fatalf("Check gives %v, want a job", problems)
	}
	return checked[0]
}

const someFile = `{"file": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "name": "b.csv", "size_bytes": 3}`

func TestCheckInputs_FillsInDefaults(t *testing.T) {
	t.Parallel()
	got, err := inputJob(t).CheckInputs(map[string]json.RawMessage{"days": json.RawMessage("3"), "bill": json.RawMessage(someFile)})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"tolerance": `"0.00"`, "days": "3", "rate": "1.50", "dry": "false", "bill": someFile}
	for name, w := range want {
		if string(got[name]) != w {
			t.Errorf("input %s = %s, want %s", name, got[name], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("CheckInputs gives %d inputs, want %d", len(got), len(want))
	}
}

func TestCheckInputs_SaysWhichInputWhatIsWrongAndWhatToGive(t *testing.T) {
	t.Parallel()
	_, err := inputJob(t).CheckInputs(map[string]json.RawMessage{
		"tolerance": json.RawMessage(`"0.5"`), "days": json.RawMessage("45"), "rate": json.RawMessage(`"x"`),
		"dry": json.RawMessage("{"), "bill": json.RawMessage(`{"file": "../etc/passwd"}`), "dais": json.RawMessage("1"),
	})
	want := strings.Join([]string{
		`input "tolerance" is "0.5" and must match ^\d+\.\d{2}$; give a text`,
		`input "days" is "45" and must be from 1 to 31; give a whole number (How many days back)`,
		`input "rate" is "x" and must be a number, not text; give a number`,
		`input "dry" is not JSON: unexpected EOF; give true or false`,
		`input "bill" is "../etc/passwd" and file must be sha256: and 64 hexadecimal digits; give a file`,
		`input "dais" is not one of job sample; did you mean "days"?`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("CheckInputs error:\n%v\nwant\n%s", err, want)
	}
	_, err = inputJob(t).CheckInputs(nil)
	var missing *jobs.InputError
	if !errors.As(err, &missing) || missing.Code != "input.missing" || missing.Input != "days" {
		t.Errorf("CheckInputs(nil) = %v, want days missing first", err)
	}
}

func TestInputDecl_ParsesWhatAPersonTypes(t *testing.T) {
	t.Parallel()
	tests := []struct{ typ, text, want string }{
		{"string", `a "b" <c>`, `"a \"b\" <c>"`}, {"string", "", `""`}, {"string", "007", `"007"`},
		{"integer", "12", "12"}, {"integer", "-1", "-1"}, {"integer", "007", ""}, {"integer", "", ""}, {"integer", "1e3", ""},
		{"number", "1.50", "1.50"}, {"number", ".5", ""}, {"number", "NaN", ""},
		{"boolean", "true", "true"}, {"boolean", "yes", ""}, {"file", "bill.csv", ""},
	}
	for _, tt := range tests {
		got, err := jobs.InputDecl{Name: "x", Type: tt.typ}.ParseText(tt.text)
		if string(got) != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("ParseText of %s %q = %s, %v, want %s", tt.typ, tt.text, got, err, tt.want)
		}
	}
}
