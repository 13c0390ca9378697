package calendar

import (
	"testing"
	"time"
)

func TestLocal_TakesTheFirstPassAndRefusesWhatWasSkipped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone, wall, want string
		ok               bool
	}{
		{"UTC", "2026-03-29T02:30:00Z", "2026-03-29T02:30:00Z", true},
		{"Asia/Shanghai", "2026-11-01T00:30:00.123456789Z", "2026-10-31T16:30:00.123456789Z", true},
		{"Europe/Berlin", "2026-03-29T01:59:59.999999Z", "2026-03-29T00:59:59.999999Z", true},
		{"Europe/Berlin", "2026-03-29T02:00:00Z", "2026-03-29T01:00:00Z", false},
		{"Europe/Berlin", "2026-03-29T02:30:00Z", "2026-03-29T01:00:00Z", false},
		{"Europe/Berlin", "2026-03-29T03:00:00Z", "2026-03-29T01:00:00Z", true},
		{"Europe/Berlin", "2026-10-25T01:59:59Z", "2026-10-24T23:59:59Z", true},
		{"Europe/Berlin", "2026-10-25T02:30:00Z", "2026-10-25T00:30:00Z", true}, // twice: the first
		{"Europe/Berlin", "2026-10-25T03:00:00Z", "2026-10-25T02:00:00Z", true},
		{"America/New_York", "2026-03-08T02:30:00Z", "2026-03-08T07:00:00Z", false},
		{"America/New_York", "2026-11-01T01:30:00Z", "2026-11-01T05:30:00Z", true}, // twice: the first
		{"Australia/Lord_Howe", "2026-10-04T02:15:00Z", "2026-10-03T15:30:00Z", false},
		{"Australia/Lord_Howe", "2026-04-05T01:45:00Z", "2026-04-04T14:45:00Z", true}, // twice: the first
		{"Pacific/Apia", "2011-12-30T12:00:00Z", "2011-12-30T10:00:00Z", false},
		{"Africa/Cairo", "2026-04-24T00:30:00Z", "2026-04-23T22:00:00Z", false},
	} {
		wall, want := instant(t, c.wall), instant(t, c.want)
		if at, ok := Local(wall, zone(t, c.zone)); !at.Equal(want) || ok != c.ok {
			t.Errorf("Local(%s, %s) = %s, %t; want %s, %t", c.wall, c.zone, at.UTC().Format(time.RFC3339Nano), ok, c.want, c.ok)
		}
	}
}

func TestLocal_AgreesWithWhatClocksShow(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Shanghai"} {
		loc := zone(t, name)
		seen := map[time.Time]time.Time{} // by wall, its first instant
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		end := start.AddDate(1, 0, 0)
		for at := start; at.Before(end); at = at.Add(15 * time.Minute) {
			if wall := wallOf(at, loc); seen[wall].IsZero() {
				seen[wall] = at
			}
		}
		for wall := start.Add(maxOffset); wall.Before(end.Add(-maxOffset)); wall = wall.Add(15 * time.Minute) {
			want, shown := seen[wall]
			if at, ok := Local(wall, loc); ok != shown || ok && !at.Equal(want) {
				t.Errorf("%s %s: got %s, %t; want %s, %t", name, wall, at.UTC(), ok, want, shown)
			}
		}
	}
}

func BenchmarkLocal(b *testing.B) {
	loc, err := LoadZone("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	wall := time.Date(2026, 10, 31, 23, 59, 59, 0, time.UTC)
	for b.Loop() {
		Local(wall, loc)
	}
}
