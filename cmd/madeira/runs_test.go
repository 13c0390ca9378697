package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"madeira/engine/store/storetest"
)

func TestRuns_PrintJSON(t *testing.T) {
	t.Parallel()
	dir, url := initFolder(t), storetest.SQLite(t)
	ok(t, "migrate", "--database", url)
	run := []string{"run", filepath.Join(dir, "job.yaml"), "--database", url, "--output", "json"}
	first := decodeRun(t, ok(t, run...))
	again := decodeRun(t, ok(t, run...))

	var list []map[string]json.RawMessage
	text := ok(t, "runs", "--database", url, "--output", "json")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if len(list) != 2 {
		t.Fatalf("runs lists %d runs, want 2", len(list))
	}
	for i, want := range []runJSON{again, first} { // the newest is first
		wantKeys(t, "listed run", list[i], "id", "job", "upstream_key", "version", "status", "job_digest", "job_commit", "repeated", "trigger", "created_at", "finished_at")
		for key, value := range want.Run {
			if got := string(list[i][key]); got != string(value) {
				t.Errorf("run %d in the list has %s %s, run printed %s", i, key, got, value)
			}
		}
	}

	id := strings.Trim(string(first.Run["id"]), `"`)
	shown := ok(t, "runs", "show", id, "--database", url, "--output", "json")
	if got := decodeRun(t, shown); len(got.Steps) != len(first.Steps) || string(got.Run["id"]) != string(first.Run["id"]) {
		t.Errorf("runs show prints\n%s\nwant what run has printed", shown)
	}
}

func TestRuns_ShowTellsEveryMoveAndWhatIsKept(t *testing.T) {
	t.Parallel()
	dir, url := initFolder(t), storetest.SQLite(t)
	ok(t, "migrate", "--database", url)
	first := decodeRun(t, ok(t, "run", filepath.Join(dir, "job.yaml"), "--database", url, "--output", "json"))
	text := spaced(ok(t, "runs", "show", strings.Trim(string(first.Run["id"]), `"`)[:30], "--database", url))
	for _, want := range []string{
		"harbour-pay-month-end harbour-pay/2026-10 version 1 warning",
		"recon reconcile success 1",
		"recon blocked → pending 0",
		"recon pending → success 1",
		"bill file bill.csv 1932 0 sha256:49846b6c6236500d415586788f54528673373d590f896d199ded196b03429f79",
	} {
		if !strings.Contains(text, " "+want+" ") {
			t.Errorf("runs show does not say %q", want)
		}
	}
}
