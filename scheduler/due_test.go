package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
)

func at(t *testing.T, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func cronEntry(t *testing.T, spec, zone string, catchup jobs.Catchup) jobs.Entry {
	t.Helper()
	loc, err := calendar.LoadZone(zone)
	if err != nil {
		t.Fatal(err)
	}
	s, err := calendar.NewTimetable(spec, loc)
	if err != nil {
		t.Fatal(err)
	}
	return jobs.Entry{Name: spec + " " + zone, Schedule: s, Catchup: catchup}
}

// told writes decisions as one line: minutes and outcomes.
func told(due []Decision) string {
	var b strings.Builder
	for _, d := range due {
		fmt.Fprintf(&b, "%s %s, ", d.DueAt.Format("15:04"), d.Outcome)
	}
	return strings.TrimSuffix(b.String(), ", ")
}

func TestDue_DecidesWhatBecomesOfEachDueTime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		catchup        jobs.Catchup
		window         time.Duration
		watermark, now string
		want           string
	}{
		{"nothing is due", jobs.CatchupAll, 0, "2026-10-31T06:00:00Z", "2026-10-31T06:14:59Z", ""},
		{"the watermark itself is done", jobs.CatchupAll, 0, "2026-10-31T06:15:00Z", "2026-10-31T06:15:30Z", ""},
		{"due at this instant", jobs.CatchupNone, 0, "2026-10-31T06:00:00Z", "2026-10-31T06:15:00Z", "06:15 ran"},
		{"a minute old is on time", jobs.CatchupNone, 0, "2026-10-31T06:00:00Z", "2026-10-31T06:16:00Z", "06:15 ran"},
		{"older is late: all", jobs.CatchupAll, 0, "2026-10-31T06:00:00Z", "2026-10-31T06:16:01Z", "06:15 caught_up"},
		{"older is late: latest", jobs.CatchupLatest, 0, "2026-10-31T06:00:00Z", "2026-10-31T06:16:01Z", "06:15 caught_up"},
		{"older is late: none", jobs.CatchupNone, 0, "2026-10-31T06:00:00Z", "2026-10-31T06:16:01Z", "06:15 missed"},
		{"several, all", jobs.CatchupAll, 0, "2026-10-31T06:00:00Z", "2026-10-31T06:45:00Z", "06:15 caught_up, 06:30 caught_up, 06:45 caught_up"},
		{"several, latest", jobs.CatchupLatest, 0, "2026-10-31T06:00:00Z", "2026-10-31T06:50:00Z", "06:15 missed, 06:30 missed, 06:45 caught_up"},
		{"several, none", jobs.CatchupNone, 0, "2026-10-31T06:00:00Z", "2026-10-31T06:45:00Z", "06:15 missed, 06:30 missed, 06:45 missed"},
		{"all within a window", jobs.CatchupAll, 20 * time.Minute, "2026-10-31T06:00:00Z", "2026-10-31T06:50:00Z", "06:15 missed, 06:30 caught_up, 06:45 caught_up"},
		{"latest outside of the window", jobs.CatchupLatest, 2 * time.Minute, "2026-10-31T06:00:00Z", "2026-10-31T06:50:00Z", "06:15 missed, 06:30 missed, 06:45 missed"},
		{"the clock was put back", jobs.CatchupAll, 0, "2026-10-31T06:00:00Z", "2026-10-31T05:00:00Z", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := cronEntry(t, "*/15 * * * *", "Asia/Shanghai", tt.catchup)
			e.Window = tt.window
			due, more, err := Due(e, Span{After: at(t, tt.watermark), UpTo: at(t, tt.now)}, 100)
			if got := told(due); got != tt.want || more || err != nil {
				t.Errorf("Due = %s, more %t, %v; want %s", got, more, err, tt.want)
			}
			for _, d := range due {
				if (d.Reason == "") != (d.Outcome == task.DueRan) {
					t.Errorf("%s is %s for the reason %q", d.DueAt, d.Outcome, d.Reason)
				}
			}
		})
	}
}

// A process that ran all the time, while the database was away, is not late for what
// came a moment ago, also where nothing is caught up.
func TestDue_AnOutageOfTheDatabaseLosesNothingThatIsOnTimeAgain(t *testing.T) {
	t.Parallel()
	e := cronEntry(t, "0 * * * *", "UTC", jobs.CatchupNone)
	span := Span{After: at(t, "2026-10-31T09:00:00Z"), UpTo: at(t, "2026-10-31T11:00:05Z")}
	for since, want := range map[string]string{
		"2026-10-31T08:00:00Z": "10:00 missed, 11:00 ran",
		"2026-10-31T11:00:00Z": "10:00 missed, 11:00 ran",
		"2026-10-31T11:00:01Z": "10:00 missed, 11:00 missed", // it came up after that
		"":                     "10:00 missed, 11:00 missed",
	} {
		span.Since = time.Time{}
		if since != "" {
			span.Since = at(t, since)
		}
		due, _, err := Due(e, span, 100)
		if got := told(due); got != want || err != nil {
			t.Errorf("of a process that runs since %q: %s, %v; want %s", since, got, err, want)
		}
	}
}

func TestFault_F36_AfterThreeHoursDownCatchupDecidesHowManyRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		catchup      jobs.Catchup
		runs, missed int
	}{{jobs.CatchupNone, 0, 180}, {jobs.CatchupLatest, 1, 179}, {jobs.CatchupAll, 180, 0}} {
		for _, seconds := range []int{0, 1, 30, 59} {
			e := cronEntry(t, "* * * * *", "UTC", tt.catchup)
			watermark := at(t, "2026-10-31T06:00:00Z")
			now := watermark.Add(3*time.Hour + time.Duration(seconds)*time.Second)
			due, more, err := Due(e, Span{After: watermark, UpTo: now}, 1000)
			if err != nil {
				t.Fatal(err)
			}
			runs := 0
			for i, d := range due {
				if want := watermark.Add(time.Duration(i+1) * time.Minute); !d.DueAt.Equal(want) {
					t.Fatalf("%s: due time %d is %s, want %s", tt.catchup, i, d.DueAt, want)
				}
				if d.makesRun() {
					runs++
				}
			}
			if runs != tt.runs || len(due)-runs != tt.missed || more {
				t.Errorf("%s, %d s after: %d runs and %d missed, want %d and %d", tt.catchup, seconds, runs, len(due)-runs, tt.runs, tt.missed)
			}
		}
	}
}

func TestDue_StopsAtItsLimitAndGoesOnFromThere(t *testing.T) {
	t.Parallel()
	watermark := at(t, "2026-10-31T06:00:00Z")
	now := watermark.Add(100 * time.Minute)
	for _, tt := range []struct {
		catchup jobs.Catchup
		passes  []int
	}{{jobs.CatchupAll, []int{4, 4, 4}}, {jobs.CatchupNone, []int{40, 40, 20}}, {jobs.CatchupLatest, []int{40, 40, 20}}} {
		e := cronEntry(t, "* * * * *", "UTC", tt.catchup)
		mark := watermark
		for i, want := range tt.passes {
			due, more, err := Due(e, Span{After: mark, UpTo: now}, 4)
			if len(due) != want || more != (want != 20) || err != nil {
				t.Fatalf("%s, pass %d: %d due times, more %t; want %d", tt.catchup, i, len(due), more, want)
			}
			if first := mark.Add(time.Minute); !due[0].DueAt.Equal(first) {
				t.Fatalf("%s, pass %d begins at %s, want %s", tt.catchup, i, due[0].DueAt, first)
			}
			mark = due[len(due)-1].DueAt
		}
	}
}

func TestFault_F44_TheZoneOfTheMachineDecidesNothing(t *testing.T) {
	t.Parallel()
	e := cronEntry(t, "30 2 * * *", "America/New_York", jobs.CatchupAll)
	watermark, now := at(t, "2026-03-07T00:00:00Z"), at(t, "2026-03-10T00:00:00Z")
	want := "2026-03-07T07:30:00Z 2026-03-08T07:00:00Z 2026-03-09T06:30:00Z"
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("east", 8*3600), time.FixedZone("west", -5*3600)} {
		due, _, err := Due(e, Span{After: watermark.In(zone), UpTo: now.In(zone)}, 100)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range due {
			got = append(got, d.DueAt.Format(time.RFC3339))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("asked in %s: %v, want %s", zone, got, want)
		}
	}
}

// stuck is a schedule that does not move on.
type stuck struct{}

func (stuck) Next(t time.Time) (calendar.Due, error) { return calendar.Due{At: t}, nil }

func TestDue_EndsWhenAScheduleDoesNotMoveOn(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-10-31T06:00:00Z")
	if due, more, err := Due(jobs.Entry{Schedule: stuck{}}, Span{After: now.Add(-time.Hour), UpTo: now}, 10); len(due) != 0 || more || err != nil {
		t.Errorf("Due = %v, %t, %v; want nothing", due, more, err)
	}
}
