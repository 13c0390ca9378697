package main

import (
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/engine/telemetry"
	"madeira/jobs"
	"madeira/jobs/calendar"
)

// hourly is due at each full hour.
type hourly struct{}

func (hourly) Next(after time.Time) (calendar.Due, error) {
	return calendar.Due{At: after.Truncate(time.Hour).Add(time.Hour)}, nil
}

func TestLateness_IsTheAgeOfTheFirstDueTimeNobodyLookedAt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 9, 10, 0, 0, time.UTC)
	line := entryView{Entry: "hourly", line: jobs.Entry{Name: "hourly", Schedule: hourly{}}, zone: time.UTC}
	o := overview{now: now, jobs: []jobView{{Name: "late", Entries: []entryView{line}}, {Name: "in time", Entries: []entryView{line}}, {Name: "new", Entries: []entryView{line}}}}
	got := o.lateness(map[string]map[string]time.Time{
		"late":    {"hourly": now.Add(-130 * time.Minute)}, // 07:00: 08:00 was not looked at
		"in time": {"hourly": now.Add(-10 * time.Minute)},  // 09:00
	})
	want := map[string]float64{"late": 4200, "in time": 0}
	if len(got.Samples) != len(want) {
		t.Fatalf("samples %v, want those of %v", got.Samples, want)
	}
	for _, s := range got.Samples {
		if w, ok := want[s.Labels["job"]]; !ok || s.Value != w {
			t.Errorf("%s is late by %v s, want %v", s.Labels["job"], s.Value, w)
		}
	}
}

func TestWorkerMetrics_CountOnlyWhoWasSeenLately(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	got := workerMetrics([]task.Worker{{SeenAt: now.Add(-time.Second)}, {SeenAt: now.Add(-time.Hour)}}, now)
	if live := got[0].Samples[0].Value; live != 1 {
		t.Errorf("%v workers, want 1", live)
	}
	if seen := got[1].Samples[0].Value; seen != unixSeconds(now)-1 {
		t.Errorf("seen last at %v, want %v", seen, unixSeconds(now)-1)
	}
	if none := workerMetrics(nil, now); none[0].Samples[0].Value != 0 || len(none[1].Samples) != 0 {
		t.Errorf("without workers: %v", none)
	}
}

func TestHoldMetrics_CountByKind(t *testing.T) {
	t.Parallel()
	o := overview{holds: []store.Hold{{Gate: "type:fetch", Held: 2}, {Gate: "circuit:fetch/bank", Held: 3}, {Gate: "type:load", Held: 1}}}
	want := map[string][2]float64{"type": {2, 3}, "job": {0, 0}, "circuit": {1, 3}}
	gauges := o.holdMetrics()
	for i, g := range gauges {
		at := func(s telemetry.Sample) float64 { return want[s.Labels["kind"]][i] }
		if len(g.Samples) != len(want) {
			t.Errorf("%s has %v", g.Name, g.Samples)
		}
		for _, s := range g.Samples {
			if s.Value != at(s) {
				t.Errorf("%s of %s is %v, want %v", g.Name, s.Labels["kind"], s.Value, at(s))
			}
		}
	}
}
