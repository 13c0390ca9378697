package schemas_test

import (
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"testing"

	"madeira/schemas"
)

func TestSchemas_AllCompile(t *testing.T) {
	t.Parallel()
	if schemas.Job() == nil || schemas.Configuration() == nil {
		t.Fatal("Job() or Configuration() is nil, want both compiled")
	}
	for _, name := range []string{"fetch", "parse", "query", "reconcile", "load", "notify"} {
		if s, ok := schemas.Step(name); !ok || s == nil {
			t.Errorf("Step(%q) is missing", name)
		}
	}
	if _, ok := schemas.Step("shell"); ok {
		t.Error(`Step("shell") exists, want none`)
	}
}

// Every key that a person can write has a sentence that an editor shows.
func TestSchemas_DescribeEveryKey(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(schemas.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(schemas.Files, name)
		if err != nil {
			return err
		}
		var doc map[string]any
		if err := json.Unmarshal(text, &doc); err != nil {
			return err
		}
		describe(t, name, doc, doc)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func describe(t *testing.T, at string, v any, root map[string]any) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	if props, ok := m["properties"].(map[string]any); ok && m["type"] == "object" {
		for key, p := range props {
			if s, ok := p.(map[string]any); ok && !described(s, root) {
				t.Errorf("%s: key %q has no description", at, key)
			}
		}
	}
	for key, inner := range m {
		if list, ok := inner.([]any); ok {
			for _, item := range list {
				describe(t, at+"/"+key, item, root)
			}
		}
		describe(t, at+"/"+key, inner, root)
	}
}

func described(s, root map[string]any) bool {
	if d, ok := s["description"].(string); ok && strings.HasSuffix(strings.TrimSpace(d), ".") {
		return true
	}
	ref, _ := s["$ref"].(string)
	if name, ok := strings.CutPrefix(ref, "#/$defs/"); ok {
		def, _ := root["$defs"].(map[string]any)[name].(map[string]any)
		return def != nil && (described(def, root) || path.Base(name) == "limit")
	}
	return false
}

// A pattern means nothing to most people; each has its meaning beside it.
func TestSchemas_SayWhatEveryPatternMeans(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(schemas.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(schemas.Files, name)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"pattern": "`) && !strings.Contains(line, `"x-hint"`) && !strings.Contains(line, `"x-duration"`) {
				t.Errorf("%s: pattern without x-hint: %s", name, line)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCompile_RefusesRemoteReferencesAndUnknownKeywords(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"$ref": "https://example.com/x.json"}`,
		`{"$ref": "file:///etc/passwd"}`,
		`{"x-expresion": "text"}`,
		`{"x-duration": ["1s"]}`,
	} {
		if _, err := schemas.Compile("own.json", []byte(schema)); err == nil {
			t.Errorf("Compile(%s) succeeded, want an error", schema)
		}
	}
}

func TestAnnotationOf_ReadsOurKeywords(t *testing.T) {
	t.Parallel()
	s := schemas.Job().Properties["upstream_key"]
	if got := schemas.AnnotationOf(s).Expression; got != "text" {
		t.Errorf("upstream_key: x-expression = %q, want text", got)
	}
	if got := schemas.AnnotationOf(schemas.Job()); got.Expression != "" || got.Timezone {
		t.Errorf("AnnotationOf(root) = %+v, want the zero value", got)
	}
}
