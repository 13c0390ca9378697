package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"madeira/engine/store/storetest"
)

// TestMonthEnd_ReportsTheSameOnBothDatabases prints versions 1 and 2 and a repeated
// run and compares each with the same golden file, byte by byte.
func TestMonthEnd_ReportsTheSameOnBothDatabases(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := exampleFolder(t)
		ok(t, "migrate", "--database", url)
		run := []string{"run", filepath.Join(dir, "job.yaml"), "--database", url}

		golden(t, "month-end.golden", ok(t, run...))
		db := database(t, url)
		before := targets(t, db)
		golden(t, "month-end-repeated.golden", withoutRun(ok(t, run...)))
		wantTargets(t, "after the same command again", targets(t, db), before)

		correct(t, dir)
		golden(t, "month-end-corrected.golden", ok(t, run...))
		wantTargets(t, "after version 2", targets(t, db), before)
	})
}

// withoutRun blanks what the text about a repeated run says of the first one.
func withoutRun(text string) string {
	text = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllString(text, "<run>")
	return regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`).ReplaceAllString(text, "<time>")
}

// correct puts a bill into the folder of the example in which one line differs.
func correct(t *testing.T, dir string) {
	t.Helper()
	bill, err := readableBill()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "bill.csv.gz")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "bill.csv"), string(bill))
	edit(t, dir, "bill.csv", `"1,200.00"`, `"1,201.00"`)
}

// TestMonthEnd_ReportIsTheOneDerivedByHand holds the golden file against numbers
// that were worked out from the two files with pen and paper; the README of the
// example shows how.
func TestMonthEnd_ReportIsTheOneDerivedByHand(t *testing.T) {
	t.Parallel()
	report, err := os.ReadFile(filepath.Join("testdata", "month-end.golden"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"16 left and 17 right lines: 9 pairs match, 11 breaks",
		"control count: declared 17, computed 17: agrees",
		"control refunds_cny: declared -349.90, computed -349.90: agrees",
		"control payments_cny: declared 3,515.95, computed 3643.95: they differ",
		"proof CNY left 3,105.50 - right 3,294.05 = -188.55 = breaks -188.55 ok",
		"proof HKD left 0.00 - right 75.00 = -75.00 = breaks -75.00 ok",
		"proof JPY left 8,800 - right 8,800 = 0 = breaks 0 ok",
		"proof USD left 94.99 - right 19.99 = 75.00 = breaks 75.00 ok",
		// Category, currency, left, right, delta, lines of either file, key.
		"missing_left CNY 15.55 -15.55 22 SO-1099 / pay",
		"missing_right CNY 59.00 59.00 4 SO-1004 / pay",
		"amount_mismatch CNY 640.00 604.00 36.00 5 10 SO-1005 / pay",
		"currency_mismatch USD 75.00 75.00 7 12 SO-1006 / pay",
		"currency_mismatch HKD 75.00 -75.00 7 12 SO-1006 / pay",
		"status_mismatch CNY 128.00 128.00 0.00 11 16 SO-1009 / pay",
		"timing CNY 96.00 96.00 0.00 16 23 SO-1011 / pay",
		"duplicate_left CNY 42.00 42.00 9 SO-1007 / pay",
		"duplicate_right CNY 310.00 -310.00 15 SO-1008 / pay",
		"ambiguous CNY 500.00 500.00 12 SO-1010 / pay",
		"ambiguous CNY 200.00 -200.00 17 SO-1010 / pay",
		"ambiguous CNY 300.00 -300.00 18 SO-1010 / pay",
		// The same by category.
		"missing_left CNY 1 0.00 15.55 -15.55",
		"missing_right CNY 1 59.00 0.00 59.00",
		"amount_mismatch CNY 1 640.00 604.00 36.00",
		"currency_mismatch HKD 1 0.00 75.00 -75.00",
		"currency_mismatch USD 1 75.00 0.00 75.00",
		"status_mismatch CNY 1 128.00 128.00 0.00",
		"timing CNY 1 96.00 96.00 0.00",
		"duplicate_left CNY 1 42.00 0.00 42.00",
		"duplicate_right CNY 1 0.00 310.00 -310.00",
		"ambiguous CNY 3 500.00 500.00 0.00",
		"CNY -188.55 1,462.55",
	} {
		if !strings.Contains(spaced(string(report)), " "+want+" ") {
			t.Errorf("the report does not say %q", want)
		}
	}
}

// spaced returns a text with every stretch of blanks as one space.
func spaced(text string) string {
	return " " + strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", " . ")), " ") + " "
}

// TestMonthEnd_PrintsJSON holds the keys that other programs rely on.
func TestMonthEnd_PrintsJSON(t *testing.T) {
	t.Parallel()
	dir := exampleFolder(t)
	run := []string{"run", filepath.Join(dir, "job.yaml"), "--output", "json"}
	first := decodeRun(t, ok(t, run...))
	wantKeys(t, "run", first.Run, "id", "job", "upstream_key", "version", "status", "job_digest", "job_commit", "repeated")
	for name, want := range map[string]string{
		"job": `"harbour-pay-month-end"`, "upstream_key": `"harbour-pay/2026-10"`,
		"version": "1", "status": `"warning"`, "repeated": "null",
	} {
		if got := string(first.Run[name]); got != want {
			t.Errorf("run.%s = %s, want %s", name, got, want)
		}
	}
	var ids []string
	for _, s := range first.Steps {
		wantKeys(t, "step", s, "id", "status", "attempts", "duration_ms", "outputs")
		ids = append(ids, strings.Trim(string(s["id"]), `"`))
		if got := string(s["attempts"]); got != "1" {
			t.Errorf("step %s made %s attempts, want 1", s["id"], got)
		}
	}
	if got, want := strings.Join(ids, " "), "ledger_file ledger_lines ledger_table bill lines ledger recon settle tell"; got != want {
		t.Errorf("steps are %s, want %s", got, want)
	}

	again := decodeRun(t, ok(t, run...))
	wantKeys(t, "repeated run", again.Run, "id", "job", "upstream_key", "version", "status", "job_digest", "job_commit", "repeated")
	for name, want := range map[string]string{"version": "1", "status": `"repeated"`, "repeated": string(first.Run["id"])} {
		if got := string(again.Run[name]); got != want {
			t.Errorf("repeated run.%s = %s, want %s", name, got, want)
		}
	}
}

type runJSON struct {
	Run   map[string]json.RawMessage
	Steps []map[string]json.RawMessage
}

func decodeRun(t *testing.T, text string) runJSON {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	wantKeys(t, "output", all, "run", "steps")
	var r runJSON
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

func wantKeys(t *testing.T, what string, got map[string]json.RawMessage, want ...string) {
	t.Helper()
	for _, key := range want {
		if _, has := got[key]; !has {
			t.Errorf("%s has no key %q", what, key)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s has %d keys, want %d: %v", what, len(got), len(want), want)
	}
}
