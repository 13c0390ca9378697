package schemas_test

import (
	"encoding/json"
	"strings"
	"testing"

	"madeira/schemas"
)

// Every bundle compiles by itself, so that it refers to nothing outside.
func TestBundle_NeedsNoOtherFile(t *testing.T) {
	t.Parallel()
	for _, name := range schemas.Names() {
		text, err := schemas.Bundle(name)
		if err != nil {
			t.Fatal(err)
		}
		bundled, err := schemas.Compile("bundle.json", text)
		if err != nil {
			t.Errorf("the bundle of %s: %v", name, err)
			continue
		}
		if name != "job" {
			continue
		}
		for value, want := range map[string]bool{
			`{"name": "a", "steps": [{"id": "a", "uses": "fetch", "with": {"from": "x", "path": "y"}}]}`:                                           true,
			`{"name": "a", "steps": [{"id": "a", "uses": "fetch", "with": {"from": "x", "path": "y", "pathh": 1}}]}`:                               false,
			`{"name": "a", "steps": [{"id": "a", "uses": "parse", "with": {"file": "x", "columns": {"a": {"type": "money", "curency": "EUR"}}}}]}`: false,
		} {
			var v any
			if err := json.Unmarshal([]byte(value), &v); err != nil {
				t.Fatal(err)
			}
			if err := bundled.Validate(v); (err == nil) != want || (schemas.Job().Validate(v) == nil) != want {
				t.Errorf("the bundle says %v of %s, want the answer of the files, which is %v", err, value, want)
			}
		}
	}
}

func TestBundle_RefusesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	if _, err := schemas.Bundle("steps/nothing"); err == nil || !strings.Contains(err.Error(), "steps/nothing") {
		t.Errorf("Bundle(steps/nothing) = %v, want an error that names it", err)
	}
}
