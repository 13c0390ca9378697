package parse

import (
	"encoding/json"
	"slices"
	"testing"

	"madeira/jobs/step"
	"madeira/schemas"
)

// TestSettings_OfTheCorpusMeetTheSchema holds the settings that the step reads
// against the schema that validate checks.
func TestSettings_OfTheCorpusMeetTheSchema(t *testing.T) {
	t.Parallel()
	schema, ok := schemas.Step("parse")
	if !ok {
		t.Fatal("there is no schema of parse")
	}
	for _, s := range slices.Concat(syntheticSamples, devSamples, []sample{{file: "bench", settings: billSettings}}) {
		var value any
		if err := json.Unmarshal([]byte(withRef(t, step.File{Digest: "sha256:0", Name: s.file}, s.settings)), &value); err != nil {
			t.Fatalf("%s: %v", s.file, err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", s.file, err)
		}
	}
}
