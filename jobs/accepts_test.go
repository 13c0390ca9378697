package jobs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/schemas"
)

// TestAccepts_AnswersAsValidate compares the two on every value of every good and
// bad file, each against a twelfth of the parts of the schemas, wherever it stands.
func TestAccepts_AnswersAsValidate(t *testing.T) {
	t.Parallel()
	parts := map[string]*jsonschema.Schema{}
	collect(schemas.Job(), parts)
	collect(schemas.Configuration(), parts)
	var values []any
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml", "../examples/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("Glob(%s) = %v, %v, want files", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if doc, _ := readYAML(file, text); doc != nil {
				values = append(values, doc.Value)
			}
		}
	}
	for _, n := range []json.Number{"0", "-1", "1.0", "1.50", "1e3", "1e-3", "1000", "100", "3", "101", "10000000000000000000000"} {
		values = append(values, n)
	}
	values = append(values, nil, true, false, "", "a", "ä", "A b", []any{"a", "a"}, []any{json.Number("1"), json.Number("1.0")}, []any{nil, nil},
		[]any{map[string]any{"a": "b"}, map[string]any{"a": "b"}}, map[string]any{})
	compared, refused, turn := 0, 0, 0
	names, seen := keys(parts), map[string]bool{}
	for _, v := range values {
		everyValue(v, func(v any) {
			text := string(marshal(v))
			if seen[text] {
				return
			}
			seen[text] = true
			turn++
			for i := turn % 12; i < len(names); i += 12 {
				at, s := names[i], parts[names[i]]
				want := s.Validate(v) == nil
				if got := accepts(s, v); got != want {
					t.Fatalf("accepts(%s, %s) = %v, want %v", at, marshal(v), got, want)
				}
				compared++
				if !want {
					refused++
				}
			}
		})
	}
	if compared < 50_000 || refused < 5_000 || refused > compared-5_000 {
		t.Errorf("%d answers were compared, %d of them refusals: too few to tell", compared, refused)
	}
}

// TestAccepts_KnowsAllKeywords of our schemas, so that none of them is slow.
func TestAccepts_KnowsAllKeywords(t *testing.T) {
	t.Parallel()
	parts := map[string]*jsonschema.Schema{}
	collect(schemas.Job(), parts)
	for at, s := range parts {
		if unusual(s) {
			t.Errorf("%s uses a keyword that accepts leaves to Validate", at)
		}
	}
}

// everyValue visits a value and all that it is made of.
func everyValue(v any, visit func(any)) {
	visit(v)
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			everyValue(inner, visit)
		}
	case []any:
		for _, inner := range v {
			everyValue(inner, visit)
		}
	}
}
