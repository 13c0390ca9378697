package jobs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"madeira/jobs"
	"madeira/schemas"
)

const (
	page   = "../docs/job-file.md"
	marker = "do not edit below. -->\n"
)

// The list of keys at the end of the page is that of the schemas.
func TestPage_ListsEveryKeyInTheWordsOfTheSchemas(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	prose, _, ok := strings.Cut(string(text), marker)
	if !ok {
		t.Fatalf("%s has no line that ends in %q", page, marker)
	}
	golden(t, page, prose+marker+keyList(t))
}

// What the page shows as a job is one, and the codes it lists are all that the
// bad files bring out.
func TestPage_ShowsWhatHolds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	e := env(".")
	e.Channels, e.Secrets = nil, nil
	page := fstest.MapFS{}
	var names []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n((?:# (presets/[a-z]+.yaml)|name: ([a-z-]+))\n.*?)```").FindAllSubmatch(text, -1) {
		name := string(block[2])
		if name == "" {
			name = string(block[3]) + ".yaml"
			names = append(names, name)
		}
		page[name] = &fstest.MapFile{Data: block[1]}
	}
	e.FS = page
	if checked, problems := jobs.Check(names, e); len(problems) > 0 || len(checked) < 6 {
		t.Errorf("of the page, %d jobs are good, and there are problems: %v", len(checked), problems)
	}
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, want := range wantLine.FindAllStringSubmatch(readText(t, file), -1) {
			if !strings.Contains(string(text), "`"+want[3]+"`") {
				t.Errorf("code %s of %s is not on the page", want[3], file)
			}
		}
	}
}

// keyList writes a table for each schema.
func keyList(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, file := range []struct{ name, title string }{
		{"job", "The job"}, {"steps/fetch", "`with` of `fetch`"}, {"steps/parse", "`with` of `parse`"}, {"steps/query", "`with` of `query`"},
		{"steps/reconcile", "`with` of `reconcile`"}, {"steps/load", "`with` of `load`"}, {"steps/notify", "`with` of `notify`"}, {"steps/command", "`with` of `command`"},
		{"steps/job", "`with` of `job`"},
	} {
		text, err := schemas.Files.ReadFile(file.name + ".schema.json")
		if err != nil {
			t.Fatal(err)
		}
		l := lister{root: object(t, text), t: t, seen: map[string]string{}}
		l.keys("", l.root)
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| key | takes | meaning |\n|---|---|---|\n%s", file.title, l.root.text("description"), strings.Join(l.rows, ""))
	}
	return b.String()
}

// fields are those of a JSON object in the order of the file.
type fields []field

type field struct {
	name  string
	value json.RawMessage
}

func object(t *testing.T, text json.RawMessage) fields {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	var out fields
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, field{name.(string), value})
	}
	return out
}

func (f fields) raw(name string) json.RawMessage {
	for _, e := range f {
		if e.name == name {
			return e.value
		}
	}
	return nil
}

func (f fields) text(name string) string {
	var s string
	_ = json.Unmarshal(f.raw(name), &s)
	return s
}

func (f fields) list(name string) []string {
	var many []string
	if json.Unmarshal(f.raw(name), &many) != nil {
		if one := f.text(name); one != "" {
			return []string{one}
		}
	}
	return many
}

// A lister walks one schema and collects a row for each key.
type lister struct {
	t    *testing.T
	root fields
	rows []string
	seen map[string]string // path of the first use of a definition
}

// resolve returns a schema with what it refers to in the same file. What it says
// itself comes first.
func (l *lister) resolve(s fields) fields {
	if name, ok := strings.CutPrefix(s.text("$ref"), "#/$defs/"); ok {
		return append(slices.Clip(s), l.resolve(object(l.t, object(l.t, l.root.raw("$defs")).raw(name)))...)
	}
	return s
}

// keys lists what a schema holds below a path.
func (l *lister) keys(path string, s fields) {
	required := s.list("required")
	for _, p := range object(l.t, s.raw("properties")) {
		l.key(strings.TrimPrefix(path+"."+p.name, "."), l.resolve(object(l.t, p.value)), slices.Contains(required, p.name))
	}
	if extra := object(l.t, s.raw("additionalProperties")); extra != nil {
		l.inside(path+".NAME", l.resolve(extra))
	}
	if items := object(l.t, s.raw("items")); items != nil {
		l.inside(path+"[]", l.resolve(items))
	}
	for _, branch := range []string{"then", "else"} {
		if b := l.resolve(object(l.t, s.raw(branch))); b.raw("properties") != nil || b.raw("items") != nil {
			l.keys(path, b)
		}
	}
}

// inside lists the elements of a list or mapping: by their keys, or else in a row
// of their own where there is something to say.
func (l *lister) inside(path string, s fields) {
	ref := s.text("$ref")
	if first, again := l.seen[ref]; again && ref != "" && object(l.t, s.raw("properties")) != nil {
		l.rows = append(l.rows, fmt.Sprintf("| `%s` | mapping with the keys of `%s` | %s |\n", path, first, s.text("description")))
		return
	}
	if ref != "" {
		l.seen[ref] = path
	}
	before := len(l.rows)
	l.keys(path, s)
	if len(l.rows) == before && s.text("description") != "" {
		l.key(path, s, false)
	}
}

func (l *lister) key(path string, s fields, required bool) {
	takes, ref := l.takes(s), s.text("$ref")
	first, again := l.seen[ref]
	again = again && (object(l.t, s.raw("properties")) != nil || object(l.t, s.raw("additionalProperties")) != nil)
	if again {
		takes += " with the keys of `" + first + "`"
	}
	if required {
		takes += "; required"
	}
	if d := s.raw("default"); d != nil {
		value := string(d)
		_ = json.Unmarshal(d, &value)
		takes += "; default `" + strings.ReplaceAll(value, "|", `\|`) + "`"
	}
	l.rows = append(l.rows, fmt.Sprintf("| `%s` | %s | %s |\n", path, takes, strings.ReplaceAll(s.text("description"), "|", `\|`)))
	if again || path == "steps[].with" || path == "steps[].for_each" {
		return
	}
	if ref != "" {
		l.seen[ref] = path
	}
	l.keys(path, s)
}

// takes says what may stand at a key.
func (l *lister) takes(s fields) string {
	words := map[string]string{"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "array": "list", "object": "mapping", "null": "null"}
	var out []string
	var bounds []string
	_ = json.Unmarshal(s.raw("x-duration"), &bounds)
	switch yields := s.text("x-expression"); {
	case len(bounds) == 2:
		out = append(out, fmt.Sprintf("duration, %s to %s", bounds[0], bounds[1]))
	case yields == "file", yields == "dataset", yields == "file|dataset", yields == "object":
		out = append(out, "`${{ }}` of type "+strings.ReplaceAll(yields, "|", " or "))
	case yields == "bare":
		out = append(out, "expression, without `${{ }}`")
	case s.raw("enum") != nil:
		var values []any
		_ = json.Unmarshal(s.raw("enum"), &values)
		for _, v := range values {
			out = append(out, fmt.Sprintf("`%v`", v))
		}
	default:
		for _, t := range s.list("type") {
			word := words[t]
			if low, high := s.raw("minimum"), s.raw("maximum"); t != "string" && low != nil && high != nil {
				word += fmt.Sprintf(" from %s to %s", low, high)
			}
			out = append(out, word)
		}
		for _, branch := range []string{"then", "else"} {
			if b := object(l.t, s.raw(branch)); b != nil {
				out = append(out, l.takes(l.resolve(b)))
			}
		}
		if yields != "" && yields != "never_sql" {
			out = append(out, "`${{ }}`")
		}
	}
	return strings.Join(slices.DeleteFunc(out, func(s string) bool { return s == "" }), ", ")
}
