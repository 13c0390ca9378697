package jobs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"madeira/jobs"
	"madeira/jobs/expr"
)

// catalog declares the built-in step types as far as checking looks at them.
type catalog map[string]jobs.StepType

func (c catalog) StepType(name string) (jobs.StepType, bool) {
	t, ok := c[name]
	return t, ok
}

func (c catalog) Names() []string {
	return []string{"fetch", "load", "notify", "parse", "query", "reconcile"}
}

func builtin() catalog {
	return catalog{
		"fetch": {Name: "fetch", Source: true, Outputs: map[string]expr.Type{"file": expr.TypeFile}},
		"parse": {Name: "parse", Outputs: map[string]expr.Type{"rows": expr.TypeDataset, "row_count": expr.TypeInteger}},
		"query": {Name: "query", Source: true, Outputs: map[string]expr.Type{"rows": expr.TypeDataset, "row_count": expr.TypeInteger, "total": expr.TypeMoney}},
		"reconcile": {Name: "reconcile", Outputs: map[string]expr.Type{
			"open_count": expr.TypeInteger, "matched_count": expr.TypeInteger, "breaks": expr.TypeDataset, "matches": expr.TypeDataset, "summary": expr.TypeObject}},
		"load":   {Name: "load", Outputs: map[string]expr.Type{"inserted": expr.TypeInteger}},
		"notify": {Name: "notify", Outputs: map[string]expr.Type{}},
		"command": {Name: "command", Outputs: map[string]expr.Type{
			"exit_code": expr.TypeInteger, "stdout": expr.TypeText, "file": expr.TypeFile}},
	}
}

func env(dir string) jobs.Env {
	return jobs.Env{
		FS:          os.DirFS(dir),
		Today:       time.Date(2026, 11, 5, 0, 0, 0, 0, time.UTC),
		Catalog:     builtin(),
		Connections: map[string]string{"inbox": "folder", "ledger": "postgres"},
		Channels:    map[string]string{"ops": "webhook"},
	}
}

// wantLine is a comment in a bad file: where a problem is, its code, and a part
// of its message.
var wantLine = regexp.MustCompile(`(?m)^# want: (\d+):(\d+) (\S+) ?(.*)$`)

func TestCheck_FindsEveryProblemOfEveryBadFile(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob(testdata/bad) = %v, %v, want files", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			wants := wantLine.FindAllStringSubmatch(readText(t, file), -1)
			checked, got := jobs.Check([]string{filepath.Base(file)}, env("testdata/bad"))
			if len(checked) > 0 {
				t.Errorf("Check accepts the file as job %q", checked[0].Name)
			}
			for i := range max(len(got), len(wants)) {
				switch {
				case i >= len(got):
					t.Errorf("missing: %s", wants[i][0])
				case i >= len(wants):
					t.Errorf("not wanted: %s", got[i])
				case !fits(got[i], wants[i]):
					t.Errorf("problem %d:\n got %s\nwant %s", i, got[i], wants[i][0])
				}
			}
		})
	}
}

func fits(got jobs.Problem, want []string) bool {
	return strconv.Itoa(got.Line) == want[1] && strconv.Itoa(got.Column) == want[2] &&
		got.Code == want[3] && strings.Contains(got.Message, want[4])
}

// readText reads a file that may be UTF-16.
func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) < 2 || text[0] != 0xff || text[1] != 0xfe {
		return string(text)
	}
	var units []uint16
	for i := 2; i+1 < len(text); i += 2 {
		units = append(units, uint16(text[i])|uint16(text[i+1])<<8)
	}
	return string(utf16.Decode(units))
}
