package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// schemaFile writes what madeira schema prints beside the files of a folder and
// returns it decoded.
func schemaFile(t *testing.T, dir string, args ...string) map[string]any {
	t.Helper()
	text := ok(t, append([]string{"schema"}, args...)...)
	write(t, filepath.Join(dir, args[len(args)-1]+".schema.json"), text)
	var schema map[string]any
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// in goes down a schema by keys.
func in(schema any, keys ...string) any {
	for _, key := range keys {
		m, _ := schema.(map[string]any)
		schema = m[key]
	}
	return schema
}

// described returns the keys of an object with their descriptions, which may stand
// at what they refer to.
func described(root, object map[string]any) map[string]string {
	out := map[string]string{}
	for name, p := range in(object, "properties").(map[string]any) {
		text, _ := in(p, "description").(string)
		if ref, ok := in(p, "$ref").(string); ok && text == "" {
			text, _ = in(root, append(strings.Split(strings.TrimPrefix(ref, "#/"), "/"), "description")...).(string)
		}
		out[name] = text
	}
	return out
}

// offers checks that an editor offers every key of an object, with its description.
func offers(t *testing.T, where string, offered, want map[string]string) {
	t.Helper()
	if len(want) == 0 {
		t.Fatalf("%s has no keys", where)
	}
	for key, text := range want {
		got, ok := offered[key]
		switch {
		case !ok:
			t.Errorf("%s: %s is not offered", where, key)
		case text == "" || !strings.Contains(unmarked(got), unmarked(text)):
			t.Errorf("%s: %s is explained as %q, want %q", where, key, got, text)
		}
	}
}

// unmarked takes out what Markdown escapes, and line ends.
func unmarked(s string) string {
	return strings.Join(strings.Fields(strings.NewReplacer(`\`, "", "&nbsp;", " ").Replace(s)), " ")
}

const modeline = "# yaml-language-server: $schema=job.schema.json\n"

// TestEditor loads the schemas into the YAML language server, by the first line of
// a file as the page says.
func TestEditor(t *testing.T) {
	t.Parallel()
	e := openEditor(t)
	for name, test := range map[string]func(*testing.T, *editor){
		"completes every key": completesEveryKey, "explains a key": explainsAKey,
		"diagnoses a wrong key": diagnosesAWrongKey, "accepts what is right": acceptsWhatIsRight,
	} {
		t.Run(name, func(t *testing.T) {
			e.t = t
			test(t, e)
		})
	}
}

func completesEveryKey(t *testing.T, e *editor) {
	dir := t.TempDir()
	schema := schemaFile(t, dir, "job")
	d, _ := e.open(filepath.Join(dir, "root.yaml"), modeline+"|")
	offers(t, "the job", d.completions(), described(schema, schema))

	d, _ = e.open(filepath.Join(dir, "step.yaml"), modeline+"name: a\nsteps:\n  - |")
	want := described(schema, in(schema, "$defs", "step").(map[string]any))
	offered := d.completions()
	if offered["with"] == "" { // its text is that of some type as long as there is none
		t.Error("a step: with is not offered, or not explained")
	}
	delete(want, "with")
	offers(t, "a step", offered, want)

	for text, at := range map[string][]string{
		"period:\n  |": {"properties", "period"}, "schedule:\n  - |": {"properties", "schedule", "items"}, "defaults:\n  |": {"properties", "defaults"},
		"inputs:\n  a:\n    |": {"$defs", "input"}, "steps:\n  - id: a\n    retry:\n      |": {"$defs", "retry"},
	} {
		d, _ := e.open(filepath.Join(dir, at[len(at)-1]+".yaml"), modeline+"name: a\n"+text)
		offers(t, text, d.completions(), described(schema, in(schema, at...).(map[string]any)))
	}
	for _, typ := range stepSchemas() {
		d, _ = e.open(filepath.Join(dir, typ+".yaml"), modeline+"name: a\nsteps:\n  - id: a\n    uses: "+typ+"\n    with:\n      |")
		offers(t, typ, d.completions(), described(schema, in(schema, "$defs", "with-"+typ).(map[string]any)))
	}
}

func explainsAKey(t *testing.T, e *editor) {
	dir := t.TempDir()
	schema := schemaFile(t, dir, "job")
	fetch := in(schema, "$defs", "with-fetch").(map[string]any)
	const start = modeline + "name: a\nsteps:\n  - id: a\n    uses: fetch\n"
	for name, tt := range map[string]struct{ text, want string }{
		"top":  {modeline + "name: a\nupstre|am_key: a\nsteps: []\n", described(schema, schema)["upstream_key"]},
		"step": {start + "    tim|eout: 3m\n", described(schema, in(schema, "$defs", "step").(map[string]any))["timeout"]},
		"pick": {start + "    with:\n      pi|ck: newest\n", described(schema, fetch)["pick"]},
	} {
		d, _ := e.open(filepath.Join(dir, name+".yaml"), tt.text)
		if got := d.hover(); tt.want == "" || !strings.Contains(unmarked(got), unmarked(tt.want)) {
			t.Errorf("%s is explained as %q, want %q", name, got, tt.want)
		}
	}
}

func diagnosesAWrongKey(t *testing.T, e *editor) {
	dir := t.TempDir()
	schemaFile(t, dir, "job")
	schemaFile(t, dir, "config")
	text := modeline + "name: a\nsteps:\n  - id: a\n    uses: fetch\n    when: always()\n    with: {from: files, path: x, pathh: x}\n"
	_, wrong := e.open(filepath.Join(dir, "wrong.yaml"), text)
	var got []string
	for _, w := range wrong {
		key, _, _ := strings.Cut(strings.Split(text, "\n")[w.Range.Start.Line][w.Range.Start.Character:], ":")
		got = append(got, key)
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"pathh", "when"}) {
		t.Errorf("the language server says %+v, want problems with pathh and when", wrong)
	}
	_, wrong = e.open(filepath.Join(dir, "wrong-config.yaml"), strings.Replace(modeline, "job", "config", 1)+"limits: {worker: 3}\n")
	if len(wrong) != 1 || !strings.Contains(wrong[0].Message, "worker") {
		t.Errorf("the language server finds in a wrong madeira.yaml: %+v, want worker", wrong)
	}
}

// acceptsWhatIsRight whatever our own keywords say.
func acceptsWhatIsRight(t *testing.T, e *editor) {
	dir := t.TempDir()
	schemaFile(t, dir, "job")
	schemaFile(t, dir, "config")
	good, err := filepath.Glob("../../jobs/testdata/good/*.yaml")
	if err != nil || len(good) == 0 {
		t.Fatalf("there are no good jobs: %v", err)
	}
	examples, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(examples) < 2 {
		t.Fatalf("there are no examples: %v", err)
	}
	for i, file := range append(good, examples...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		line := modeline
		if filepath.Base(file) == configName {
			line = strings.Replace(modeline, "job", "config", 1)
		}
		if _, wrong := e.open(filepath.Join(dir, strconv.Itoa(i)+".yaml"), line+string(text)); len(wrong) > 0 {
			t.Errorf("the language server finds in %s: %+v", file, wrong)
		}
	}
}
