package jobs_test

import (
	"strings"
	"testing"
	"time"

	"madeira/jobs"
	"madeira/schemas"
)

func TestDecode_ChecksConfigurationTheSameWay(t *testing.T) {
	t.Parallel()
	doc, problems := jobs.Decode("madeira.yaml", []byte(`connections:
  ledger: {type: postgres, url: "postgres://app@db/ledger", password: {env: LEDGER_PASSWORD}}
  inbox: {type: folder, path: inbox}
limits: {workers: 4, lease: 15s}
`), schemas.Configuration())
	if len(problems) > 0 {
		t.Fatalf("Decode gives %v, want no problem", problems)
	}
	want := `{"connections":{"ledger":{"type":"postgres","url":"postgres://app@db/ledger","password":{"env":"LEDGER_PASSWORD"}},"inbox":{"type":"folder","path":"inbox"}},"limits":{"workers":4,"lease":"15s"}}`
	if got := string(doc.JSON()); got != want {
		t.Errorf("JSON() = %s, want %s", got, want)
	}
	if line, column := doc.Position("/connections/inbox/path"); line != 3 || column != 31 {
		t.Errorf("Position of the path = %d:%d, want 3:31", line, column)
	}
	if line, column := doc.Position("/connections/inbox/none/at/all"); line != 3 || column != 10 {
		t.Errorf("Position of what is not there = %d:%d, want that of inbox, 3:10", line, column)
	}
}

func TestDecode_ReportsEveryProblemOfAConfiguration(t *testing.T) {
	t.Parallel()
	_, problems := jobs.Decode("madeira.yaml", []byte(`connections:
  ledger: {type: postgres, url: "postgres://app:hunter2@db/ledger"}
  other: {type: postgres, url: "postgres://db/x", password: hunter2}
  inbox: {type: foldr, path: inbox}
  state: {type: folder, path: x}
  bank: {type: http, url: "https://bank.example", token: hunter2}
channels:
  ops: {type: webhook, url: "https://hooks.example/x"}
limits: {lease: 15, poll: 2h, wokers: 3, workers: 0}
`), schemas.Configuration())
	want := []string{
		"2:33 secret.inline url must be an address without a password",
		"3:61 secret.inline password must be a reference: {env: NAME}, {file: PATH} or {command: [PROGRAM, ARGUMENT]}",
		`4:17 value.enum type must be postgres, sqlite, folder or http; did you mean "folder"?`,
		"5:17 value.enum type must be postgres or sqlite",
		`6:51 secret.inline "token" looks like a secret`,
		`8:8 yaml.missing_field "secrets" is missing`,
		`9:17 value.duration 15 has no unit; write "15s" or the like: from 3s to 10m is allowed`,
		`9:27 value.duration "2h" is out of range: from 10ms to 60s is allowed`,
		`9:31 yaml.unknown_field unknown key "wokers"; did you mean "workers"?`,
		"9:51 value.range workers must be from 1 to 1000",
	}
	for i := range max(len(problems), len(want)) {
		switch {
		case i >= len(problems):
			t.Errorf("missing: %s", want[i])
		case i >= len(want):
			t.Errorf("not wanted: %s", problems[i])
		case !strings.HasPrefix(problems[i].String(), "madeira.yaml:"+want[i]):
			t.Errorf("problem %d:\n got %s\nwant %s", i, problems[i], want[i])
		}
	}
	for _, p := range problems {
		if strings.Contains(p.String()+p.Value, "hunter2") {
			t.Errorf("%s shows a secret (value %q)", p, p.Value)
		}
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want time.Duration // -1: refused
	}{
		{"30s", 30 * time.Second}, {"1h30m", 90 * time.Minute}, {"3d", 72 * time.Hour}, {"250ms", 250 * time.Millisecond}, {"0s", 0},
		{"", -1}, {"30", -1}, {"s", -1}, {"-5s", -1}, {"+5s", -1}, {"1.5h", -1}, {"5 s", -1}, {"5S", -1}, {"5us", -1}, {"1w", -1},
		{"106751d", 106751 * 24 * time.Hour}, {"106752d", -1}, {"999999999h", -1}, {"99999999999999999999s", -1}, {"106751d24h", -1},
	}
	for _, tt := range tests {
		got, err := jobs.ParseDuration(tt.text)
		if refused := err != nil; refused != (tt.want < 0) || !refused && got != tt.want {
			t.Errorf("ParseDuration(%q) = %s, %v, want %s", tt.text, got, err, tt.want)
		}
	}
}
