package jobs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestMarshal_WritesWhatTheEncoderWrites: digests of jobs are made of it.
func TestMarshal_WritesWhatTheEncoderWrites(t *testing.T) {
	t.Parallel()
	values := []any{nil, true, "", "a", "ä\u2028\x7f<&>\"\\\n", json.Number("1.50"), []any{}, map[string]any{}, []any{nil, "x", []any{map[string]any{"b": "1", "a": json.Number("2"), "A": false}}}, []string{"a"}}
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) < 100 {
		t.Fatalf("Glob = %d files, %v, want many", len(files), err)
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
	for _, v := range values {
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		if got := marshal(v); string(got)+"\n" != want.String() {
			t.Errorf("marshal gives %s, want %s", got, want.String())
		}
	}
}
