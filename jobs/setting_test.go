package jobs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"madeira/jobs"
)

func TestCheckSetting_RefusesWhatTheStepWouldTripOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ uses, name, value, want string }{
		{"load", "on_conflict", `"update"`, ""},
		{"load", "on_conflict", `"updat"`, `did you mean "update"?`},
		{"parse", "rejects", `{"max": 3}`, ""},
		{"parse", "rejects", `{"max": "x"}`, "max must be a whole number, not text"},
		{"parse", "rejects", `{"maxx": 3}`, `unknown key "maxx"; did you mean "max"?`},
		{"parse", "file", `{"file": "sha256:00", "name": "a.csv", "size_bytes": 1}`, ""},
		{"parse", "file", `"corrected.csv"`, "file is a file: write @ and its path"},
		{"load", "rows", `"x"`, "rows is rows that a step left"},
		{"fetch", "path", `"bill.csv"`, ""},
		{"fetch", "path", `7`, "path must be text"},
		{"nobody knows it", "path", `7`, ""},
	} {
		err := jobs.CheckSetting(tt.uses, tt.name, json.RawMessage(tt.value))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s.%s = %s gives %v, want %q", tt.uses, tt.name, tt.value, err, tt.want)
		}
	}
}
