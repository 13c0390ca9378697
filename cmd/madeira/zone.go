package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"madeira/engine/store"
)

// zoneOf returns the zone of a line of a schedule, which its name tells: "0 6 * * *
// Asia/Shanghai", "0 6 1 * * Asia/Shanghai roll=next cn" and "business_day 5 10:30
// Asia/Shanghai cn". Where it tells none that is known here, it is UTC.
func zoneOf(entry string) *time.Location {
	words := strings.Fields(entry)
	at := len(words) - 1
	for i, word := range words {
		if strings.HasPrefix(word, "roll=") {
			at = i - 1
		}
	}
	if len(words) == 5 && words[0] == "business_day" {
		at = 3
	}
	if at < 0 || words[at] == "Local" {
		return time.UTC
	}
	loc, err := time.LoadLocation(words[at])
	if err != nil {
		return time.UTC
	}
	return loc
}

// zoneOnRecord returns the zone of the last due time on record of a job, else that of
// its schedule as a scheduler has seen it, else UTC.
func zoneOnRecord(ctx context.Context, db *store.DB, job string) (*time.Location, error) {
	list, err := db.Occurrences(ctx, store.OccurrenceFilter{Job: job, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		return zoneOf(list[0].Entry), nil
	}
	entries, err := db.Entries(ctx, job)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		return zoneOf(entries[0].Entry), nil
	}
	return time.UTC, nil
}

// readTime reads a date, which is a day in the zone from its first to its last
// instant, or an instant, which is in the zone where it has no offset. What is printed
// as a due time can be read.
func readTime(text string, loc *time.Location) (first, last time.Time, err error) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return startOfDay(day, loc), startOfDay(day.AddDate(0, 0, 1), loc).Add(-time.Microsecond), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02 15:04 Z07:00", "2006-01-02 15:04:05 Z07:00", dueForm, dueFormSeconds} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, at, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if at, err := time.ParseInLocation(layout, text, loc); err == nil {
			return at, at, nil
		}
	}
	return first, last, fmt.Errorf("%q is no date such as 2026-10-31 and no instant such as 2026-10-31T06:00 or 2026-10-31T06:00:00+08:00", text)
}

// startOfDay returns the first instant of a day, also where midnight is not on the
// clock.
func startOfDay(day time.Time, loc *time.Location) time.Time {
	at := time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, loc)
	for at.Day() != day.Day() {
		at = at.Add(15 * time.Minute)
	}
	return at
}

// asWritten writes a duration as job files do: 10d, 36h, 1h30m.
func asWritten(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if rest, ok := strings.CutSuffix(text, zero); ok {
			text = rest + zero[:1]
		}
	}
	return text
}

// How due times are printed.
const (
	dueForm        = "Mon 2006-01-02 15:04 -07:00"
	dueFormSeconds = "Mon 2006-01-02 15:04:05 -07:00"
)

// local writes a due time in a zone; seconds only where there are some.
func local(at time.Time, loc *time.Location) string {
	if at = at.In(loc); at.Second() != 0 {
		return at.Format(dueFormSeconds)
	}
	return at.Format(dueForm)
}
