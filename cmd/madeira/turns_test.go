package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestRuns_SayWhyOneWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	url := storetest.SQLite(t)
	ok(t, "migrate", "--database", url)
	db, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var ids []string
	for i := range 3 {
		n := task.NewRun{
			Run:         task.Run{Job: "settle", JobDigest: "sha256:1", Trigger: "manual", DueAt: time.Now()},
			Job:         task.JobVersion{Name: "settle", Digest: "sha256:1", Path: "settle.yaml", Source: []byte("name: settle\n")},
			Tasks:       []task.NewTask{{Step: "a", Type: "notify", Priority: 100}},
			Concurrency: &task.Limit{Key: "ledger", Slots: 1},
		}
		if i == 2 {
			n.NotBefore = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		made, err := db.CreateRun(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.Run.ID)
	}
	why := "key ledger has no turn left: 1 of 1 taken, by run " + ids[0]
	for command, want := range map[string]string{
		"runs":                  ids[1] + " settle 1 pending",
		"runs show " + ids[1]:   "waits for its turn: " + why,
		"runs show " + ids[2]:   "waits for its turn: it is put off until 2099-01-01T00:00:00Z",
		"tasks list":            "pending 0 waits for its turn: " + why,
		"runs show  " + ids[1]:  "a notify pending 0 0s waits for its turn: " + why,
		"runs --status pending": "- waits for its turn: " + why,
	} {
		text := spaced(ok(t, append(strings.Fields(command), "--database", url)...))
		if !strings.Contains(text, want) {
			t.Errorf("madeira %s does not say %q:\n%s", command, want, text)
		}
	}
	var list []runListView
	if err := json.Unmarshal([]byte(ok(t, "runs", "--database", url, "--output", "json")), &list); err != nil || len(list) != 3 {
		t.Fatalf("%d runs, %v", len(list), err)
	}
	if v := list[1].Turn; v == nil || v.Reason != why || v.Run != ids[0] || v.Key != "ledger" || v.Limit != 1 || v.Taken != 1 || list[2].Turn != nil {
		t.Errorf("as JSON the second waits for %+v, the first for %+v", v, list[2].Turn)
	}
}
