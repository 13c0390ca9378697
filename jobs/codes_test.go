package jobs_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"madeira/jobs"
)

const (
	codesHeading = "| code | what it means |\n|---|---|\n"
	codesMarker  = "<!-- The table is written by \"go test ./jobs -run Page -update\" from jobs/codes.go. -->\n\n"
)

// The table of codes on the page is that of the program. It does not run beside
// the other tests because it rewrites the page that they read.
func TestPage_ListsEveryCode(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), codesMarker)
	_, after, ends := strings.Cut(rest, "\n\n")
	if !found || !ends {
		t.Fatalf("%s has no table behind %q", page, codesMarker)
	}
	var table strings.Builder
	for _, c := range jobs.Codes() {
		fmt.Fprintf(&table, "| `%s` | %s |\n", c.Name, strings.ReplaceAll(c.Meaning, "|", `\|`))
	}
	golden(t, page, before+codesMarker+codesHeading+table.String()+"\n"+after)
}

// Every code that the sources hold is in the table, and every code of the table
// in the sources.
func TestCodes_AreThoseOfTheSources(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	families := map[string]bool{}
	for _, c := range jobs.Codes() {
		if known[c.Name] {
			t.Errorf("code %s is in the table twice", c.Name)
		}
		if !strings.HasSuffix(c.Meaning, ".") {
			t.Errorf("code %s: %q is no sentence", c.Name, c.Meaning)
		}
		known[c.Name] = false
		family, _, _ := strings.Cut(c.Name, ".")
		families[family] = true
	}
	literal := regexp.MustCompile(`"((?:` + strings.Join(slices.Sorted(maps.Keys(families)), "|") + `)\.[a-z_]+)"`)
	for _, root := range []string{".", "../schemas"} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if d != nil && d.IsDir() && slices.Contains([]string{"testdata", "step", "dataset"}, d.Name()) {
					return fs.SkipDir
				}
				return err
			}
			if ext := filepath.Ext(name); strings.HasSuffix(name, "_test.go") || name == "codes.go" || ext != ".go" && ext != ".json" {
				return nil
			}
			text, err := os.ReadFile(name)
			for _, m := range literal.FindAllSubmatch(text, -1) {
				code := string(m[1])
				if _, ok := known[code]; !ok {
					t.Errorf("%s: code %s is not in the table of codes.go", name, code)
				}
				known[code] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for code, used := range known {
		if !used {
			t.Errorf("code %s is in the table and nowhere else", code)
		}
	}
}
