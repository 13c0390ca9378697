package jobs_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"madeira/jobs"
)

// fixed checks and renames until there is nothing left to rename.
func fixed(t *testing.T, text string) (string, []jobs.Rename) {
	t.Helper()
	var all []jobs.Rename
	for range 10 {
		e := env(".")
		e.FS = fstest.MapFS{"job.yaml": {Data: []byte(text)}}
		_, problems := jobs.Check([]string{"job.yaml"}, e)
		out, renamed := jobs.Fix([]byte(text), problems)
		if len(renamed) == 0 {
			if string(out) != text {
				t.Errorf("Fix changes the text and says nothing:\n%s", out)
			}
			return text, all
		}
		all, text = append(all, renamed...), string(out)
	}
	t.Fatal("Fix does not come to an end")
	return "", nil
}

// TestFix_RenamesInPlace leaves everything but the keys as it is.
func TestFix_RenamesInPlace(t *testing.T) {
	t.Parallel()
	before := "\ufeff# Comes from another tool.\r\n" + `id:   moved   # depends_on: here it is a comment
tz: Europe/Berlin
"tags": {team: finance}
tasks:
    -   id: bill     # ü before
        type: fetch
        settings: {  'uri' : "https://bank.example/when.csv"  }   # keep
        retrys: {maxAttempts: 3, max_delay: 5m}
    - {task_id: lines, depends_on: [bill], when: always(), uses: parse, with: {file: "${{ steps.bill.outputs.file }}", header: none, coluns: {a: {from: 1, type: text}}}}
    - id: ü
      ? runIf
      : always()
      dependsOn: [lines]
      uses: notify
      with: {channel: ops, template: text, text: "depends_on: [x]"}
`
	after := "\ufeff# Comes from another tool.\r\n" + `name:   moved   # depends_on: here it is a comment
timezone: Europe/Berlin
"labels": {team: finance}
steps:
    -   id: bill     # ü before
        uses: fetch
        with: {  'url' : "https://bank.example/when.csv"  }   # keep
        retry: {max_attempts: 3, max_delay: 5m}
    - {id: lines, needs: [bill], if: always(), uses: parse, with: {file: "${{ steps.bill.outputs.file }}", header: none, columns: {a: {from: 1, type: text}}}}
    - id: ü
      ? if
      : always()
      needs: [lines]
      uses: notify
      with: {channel: ops, template: text, text: "depends_on: [x]"}
`
	got, renamed := fixed(t, before)
	if got != after {
		t.Errorf("Fix gives\n%s\nwant\n%s", got, after)
	}
	if len(renamed) != 15 {
		t.Errorf("Fix renames %d keys, want 15: %v", len(renamed), renamed)
	}
	again, more := fixed(t, got)
	if again != got || len(more) > 0 {
		t.Errorf("a second Fix renames %v", more)
	}
}

// TestFix_RefusesWhatIsNotClear and leaves the file alone.
func TestFix_RefusesWhatIsNotClear(t *testing.T) {
	t.Parallel()
	const start = "name: a\nsteps:\n  - id: a\n    uses: fetch\n    with: {url: \"https://bank.example/a\"}\n"
	for name, text := range map[string]string{
		"the new key is there":          start + "    needs: []\n    depends_on: []\n",
		"two would become one":          start + "    depends_on: []\n    dependsOn: []\n",
		"it means something else":       start + "    unless: always()\n",
		"it has another unit":           start + "    timeout-minutes: 5\n",
		"it looks like a secret":        start + "    password: geheim\n",
		"nothing is near":               start + "    weather: fine\n",
		"the key is written as escapes": start + "    \"dep\\u0065nds_on\": []\n",
		"a value is wrong":              strings.Replace(start, "fetch", "fetsch", 1),
	} {
		got, renamed := fixed(t, text)
		if got != text || len(renamed) > 0 {
			t.Errorf("%s: Fix renames %v", name, renamed)
		}
	}
}

// TestFix_LeavesWhatIsRightAlone whatever its line ends are.
func TestFix_LeavesWhatIsRightAlone(t *testing.T) {
	t.Parallel()
	const text = "name: a\ntz: UTC\nsteps:\n  - id: a\n    type: fetch\n    with: {url: \"https://bank.example/a\"}\n"
	for _, end := range []string{"\n", "\r\n", "\r"} {
		got, renamed := fixed(t, strings.ReplaceAll(text, "\n", end))
		want := strings.ReplaceAll(strings.NewReplacer("tz:", "timezone:", "type:", "uses:").Replace(text), "\n", end)
		if got != want || len(renamed) != 2 {
			t.Errorf("with line ends %q Fix gives %q, want %q", end, got, want)
		}
	}
	if out, renamed := jobs.Fix([]byte(text), nil); !bytes.Equal(out, []byte(text)) || !slices.Equal(renamed, nil) {
		t.Errorf("Fix without problems gives %q and %v", out, renamed)
	}
}
