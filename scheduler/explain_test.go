package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
)

// weekly is due every day at six UTC; Sundays are holidays, and the first of a month
// was moved.
type weekly struct{}

func (weekly) Next(t time.Time) (calendar.Due, error) {
	at := time.Date(t.Year(), t.Month(), t.Day(), 6, 0, 0, 0, time.UTC)
	if !at.After(t) {
		at = at.AddDate(0, 0, 1)
	}
	due := calendar.Due{At: at}
	if at.Weekday() == time.Sunday {
		due.Skipped = "it is a Sunday"
	}
	if at.Day() == 1 {
		due.Note = "the calendar moved it from Saturday"
	}
	return due, nil
}

func sixOClock() *jobs.Job {
	return &jobs.Job{
		Name: "daily", Path: "daily.yaml", Location: time.UTC, Key: "daily/${{ schedule.due_at }}",
		Schedule: []jobs.Entry{{Name: "six", Schedule: weekly{}, Catchup: jobs.CatchupAll}},
		Steps:    []jobs.Step{{ID: "only", Uses: "query"}},
	}
}

func TestExplain_HasAnAnswerForEveryDueTime(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-10-28T12:00:00Z") // a Wednesday
	followed := map[string]Followed{"six": {Watermark: at(t, "2026-10-27T06:00:00Z"), KnownSince: at(t, "2026-10-20T10:00:00Z")}}
	pause := []task.Pause{{Job: "daily", Since: at(t, "2026-10-28T11:00:00Z"), Actor: "ann"}}
	record := func(due string, outcome task.DueOutcome, reason, run string, status task.RunStatus) []Record {
		return []Record{{Occurrence: task.Occurrence{Job: "daily", Entry: "six", DueAt: at(t, due), Outcome: outcome, Reason: reason, RunID: run}, RecordedAt: now, RunStatus: status}}
	}
	for _, tt := range []struct {
		name string
		day  string
		past Past
		want string
	}{
		{"to come", "2026-10-30", Past{Entries: followed}, "due in 42h0m"},
		{"to come and moved", "2026-11-01T06:00", Past{Entries: followed}, "due in 3d18h, and will be skipped: it is a Sunday"},
		{"moved", "2026-12-01", Past{Entries: followed}, "due in 33d18h; the calendar moved it from Saturday"},
		{"to come in a pause", "2026-10-29", Past{Entries: followed, Pauses: pause}, "due in 18h0m; it will be skipped unless somebody resumes the job before: paused by ann since 2026-10-28T11:00:00Z"},
		{"never followed", "2026-10-26", Past{}, "no scheduler has followed this line of the schedule so far: start madeira serve, or madeira backfill daily --from 2026-10-26T06:00:00Z --to 2026-10-26T06:00:00Z --yes makes it"},
		{"before it was known", "2026-10-20", Past{Entries: followed}, "came due before this line of the schedule was followed, which began at 2026-10-20T10:00:00Z; madeira backfill"},
		{"a holiday before it was known", "2026-10-18", Past{Entries: followed}, "would have been skipped: it is a Sunday"},
		{"nobody looks", "2026-10-28", Past{Entries: followed}, "came due 6h0m ago and is not on record: no scheduler has come to it since 2026-10-27T06:00:00Z; the next one decides by catchup: all"},
		{"cannot be followed", "2026-10-28", Past{Entries: map[string]Followed{"six": {Watermark: followed["six"].Watermark, Problem: "no data for 2027"}}}, "the schedule cannot be followed: no data for 2027"},
		{"ran", "2026-10-26", Past{Records: record("2026-10-26T06:00:00Z", task.DueRan, "", "r1", task.RunSuccess)}, "ran at its time; run r1 is success"},
		{"missed", "2026-10-26", Past{Records: record("2026-10-26T06:00:00Z", task.DueMissed, "came due while no scheduler ran, and catchup is none", "", "")}, "was missed: it came due while no scheduler ran, and catchup is none"},
		{"dropped", "2026-10-26", Past{Records: record("2026-10-26T06:00:00Z", task.DueRepeated, "its key is live", "r1", "")}, "made no run of its own (its key is live); retention has dropped run r1"},
		{"skipped", "2026-10-25", Past{Records: record("2026-10-25T06:00:00Z", task.DueSkipped, "it is a Sunday", "", "")}, "was skipped: it is a Sunday"},
		{"no due time", "2026-10-26T07:00", Past{Entries: followed}, "daily has no due time then; the one before is Mon 2026-10-26 06:00 +00:00; the next is Tue 2026-10-27 06:00 +00:00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			from, err := time.Parse("2006-01-02T15:04", tt.day)
			to := from
			if err != nil {
				from = at(t, tt.day+"T00:00:00Z")
				to = from.AddDate(0, 0, 1).Add(-time.Microsecond)
			}
			tt.past.Now = now
			got := Explain(sixOClock(), "daily", from, to, tt.past)
			if len(got) != 1 || !strings.HasPrefix(got[0].Why, tt.want) {
				t.Errorf("Explain = %+v, want %q", got, tt.want)
			}
		})
	}
}

// ledger is what a test says of the past.
type ledger struct{ keys map[string]task.KeyState }

func (l ledger) KeyStates(context.Context, string, []string) (map[string]task.KeyState, error) {
	return l.keys, nil
}

func (l ledger) DueRuns(context.Context, string, time.Time, time.Time) (map[task.DueTime]task.KeyState, error) {
	return nil, nil
}

func TestPlanBackfill_FillsGapsOnly(t *testing.T) {
	t.Parallel()
	l := ledger{map[string]task.KeyState{
		"daily/2026-10-22T06:00:00Z": {RunID: "r22", Status: task.RunSuccess},
		"daily/2026-10-23T06:00:00Z": {RunID: "r23", Status: task.RunError},
		"daily/2026-10-24T06:00:00Z": {RunID: "r24", Status: task.RunWaiting},
		"daily/2026-10-26T06:00:00Z": {RunID: "r26"},
	}}
	plan := func(b Backfill) string {
		t.Helper()
		fills, err := PlanBackfill(t.Context(), l, sixOClock(), b)
		if err != nil {
			t.Fatal(err)
		}
		var s []string
		for _, f := range fills {
			s = append(s, strings.TrimSpace(f.DueAt.Format("02 ")+f.Action+" "+f.RunID))
		}
		return strings.Join(s, ", ")
	}
	b := Backfill{From: at(t, "2026-10-21T06:00:00Z"), To: at(t, "2026-10-27T06:00:00Z")}
	if got, want := plan(b), "21 run, 22 good r22, 23 run r23, 24 live r24, 25 skipped, 26 good r26, 27 run"; got != want {
		t.Errorf("the plan is %s, want %s", got, want)
	}
	b.Again = "the rates were wrong"
	if got, want := plan(b), "21 run, 22 run r22, 23 run r23, 24 live r24, 25 skipped, 26 run r26, 27 run"; got != want {
		t.Errorf("again, the plan is %s, want %s", got, want)
	}
}
