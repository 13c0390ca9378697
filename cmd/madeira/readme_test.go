package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestReadme_ShowsWhatTheExamplePrints holds the excerpt on the first screen
// against the golden file: each line is there, or begins one where it is cut.
func TestReadme_ShowsWhatTheExamplePrints(t *testing.T) {
	t.Parallel()
	printed := strings.Split(readFile(t, filepath.Join("testdata", "month-end.golden")), "\n")
	_, rest, found := strings.Cut(readFile(t, "../../README.md"), "derived by hand")
	excerpt, _, ends := strings.Cut(rest, "Run the same command again")
	if !found || !ends {
		t.Fatal("README.md has no excerpt of the report")
	}
	shown := 0
	for line := range strings.Lines(excerpt) {
		text, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !indented || strings.TrimSpace(text) == "…" {
			continue
		}
		shown++
		start, cut := strings.CutSuffix(text, "  …")
		if !contains(printed, start, cut) {
			t.Errorf("README.md shows %q, which the example does not print", text)
		}
	}
	if shown < 10 {
		t.Errorf("README.md shows %d lines of the report", shown)
	}
}

func contains(lines []string, text string, begins bool) bool {
	for _, line := range lines {
		if line == text || begins && strings.HasPrefix(line, text) {
			return true
		}
	}
	return false
}

// TestExample_ReportAgreesWithItsReadme compares the table of the README, order by
// order, with the breaks of the golden file: the same categories and deltas.
func TestExample_ReportAgreesWithItsReadme(t *testing.T) {
	t.Parallel()
	order, category := regexp.MustCompile(`SO-\d{4}`), regexp.MustCompile("`([a-z_]+)`")
	amount := regexp.MustCompile(`-?[\d,]+\.\d\d`)

	derived := map[string]int{} // "category order delta" -> how often
	for line := range strings.Lines(strings.ReplaceAll(readFile(t, "../../examples/month-end/README.md"), "−", "-")) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || category.FindString(cells[4]) == "" {
			continue
		}
		for _, delta := range amount.FindAllString(cells[5], -1) {
			derived[category.FindStringSubmatch(cells[4])[1]+" "+order.FindString(cells[1])+" "+delta]++
		}
	}
	printed := map[string]int{}
	for line := range strings.Lines(readFile(t, filepath.Join("testdata", "month-end.golden"))) {
		words := strings.Fields(line)
		if order.FindString(line) == "" || len(words) < 3 {
			continue
		}
		numbers := amount.FindAllString(line[:order.FindStringIndex(line)[0]], -1)
		printed[words[0]+" "+order.FindString(line)+" "+numbers[len(numbers)-1]]++
	}
	if len(derived) < 10 {
		t.Fatalf("the README derives %d breaks", len(derived))
	}
	for what, n := range derived {
		if printed[what] != n {
			t.Errorf("the README derives %q %d times, the report has it %d times", what, n, printed[what])
		}
	}
	for what, n := range printed {
		if derived[what] != n {
			t.Errorf("the report has %q %d times, the README derives it %d times", what, n, derived[what])
		}
	}
}
