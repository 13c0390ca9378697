package main

import (
	"testing"
	"time"

	"madeira/jobs"
	"madeira/jobs/calendar"
)

func TestInstantIn_ReadsTheZoneOfTheJobOrTheOneGiven(t *testing.T) {
	t.Parallel()
	berlin, err := calendar.LoadZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"2026-12-01T06:00":          "2026-12-01T05:00:00Z",
		"2026-12-01T06:00:30":       "2026-12-01T05:00:30Z",
		"2026-12-01T06:00+08:00":    "2026-11-30T22:00:00Z",
		"2026-12-01T06:00:00Z":      "2026-12-01T06:00:00Z",
		"2026-03-29T02:30":          "2026-03-29T01:00:00Z", // clocks skip it
		"2026-10-25T02:30":          "2026-10-25T00:30:00Z", // comes twice
		"2026-12-01T06:00:00+08:00": "2026-11-30T22:00:00Z",
	} {
		got, err := instantIn(&jobs.Job{Location: berlin}, text)
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("instantIn(%q) = %s, %v; want %s", text, got.UTC().Format(time.RFC3339), err, want)
		}
	}
	for _, text := range []string{"", "2026-12-01", "06:00", "2026-13-01T06:00"} {
		if got, err := instantIn(&jobs.Job{}, text); err == nil {
			t.Errorf("instantIn(%q) = %s, want an error", text, got)
		}
	}
}
