package scheduler

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
)

// monthEnd is a job with everything that freezing looks at.
func monthEnd(t *testing.T) *jobs.Job {
	t.Helper()
	loc, err := calendar.LoadZone("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	return &jobs.Job{
		Name: "month-end", Path: "/srv/jobs/month-end/job.yaml", Digest: "sha256:aa", Source: []byte("name: month-end"),
		Location: loc, Period: &calendar.Rule{Every: calendar.Month, Of: calendar.Previous},
		Key: "alipay/${{ period.label }}", Priority: 10, Connections: []string{"ledger"},
		Inputs: []jobs.InputDecl{
			{Name: "tolerance", Type: "string", Schema: json.RawMessage(`{"type":"string","pattern":"^[0-9]+\\.[0-9]{2}$"}`), Default: json.RawMessage(`"0.00"`)},
			{Name: "limit", Type: "integer", Schema: json.RawMessage(`{"type":"integer"}`), Default: json.RawMessage(`9007199254740993`)},
		},
		Steps: []jobs.Step{
			{ID: "bill", Uses: "fetch", Source: true, With: json.RawMessage(`{"path":"/bills/${{ period.label }}.csv"}`),
				Retry: jobs.Retry{MaxAttempts: 3, Delay: time.Second, Factor: 2, MaxDelay: time.Minute}, Timeout: time.Hour},
			{ID: "lines", Uses: "parse", With: json.RawMessage(`{"file":"${{ steps.bill.outputs.file }}"}`), Refs: []string{"bill"}, Needs: []string{"bill"}, If: "always()"},
		},
	}
}

func TestFreeze_TurnsAJobIntoRows(t *testing.T) {
	t.Parallel()
	job := monthEnd(t)
	got, err := Freeze(job, Request{Trigger: TriggerSchedule, DueAt: at(t, "2026-11-05T10:30:00+08:00")})
	if err != nil {
		t.Fatal(err)
	}
	want := task.NewRun{
		Run: task.Run{
			Job: "month-end", JobDigest: "sha256:aa", Key: "alipay/2026-10", Trigger: "schedule",
			DueAt:   time.Date(2026, 11, 5, 2, 30, 0, 0, time.UTC),
			Inputs:  json.RawMessage(`{"limit":9007199254740993,"tolerance":"0.00"}`),
			Period:  json.RawMessage(`{"label":"2026-10","start":"2026-10-01","end":"2026-11-01","start_at":"2026-10-01T00:00:00+08:00","end_at":"2026-11-01T00:00:00+08:00"}`),
			BaseDir: "/srv/jobs/month-end", Connections: []string{"ledger"},
		},
		Tasks: []task.NewTask{
			{Step: "bill", Type: "fetch", Source: true, Settings: job.Steps[0].With,
				Retry: task.Retry{MaxAttempts: 3, Delay: time.Second, Factor: 2, MaxDelay: time.Minute}, Timeout: time.Hour, Priority: 10},
			{Step: "lines", Type: "parse", Settings: job.Steps[1].With, Refs: []string{"bill"}, Needs: []string{"bill"}, Condition: "always()", Priority: 10},
		},
		Job: task.JobVersion{Name: "month-end", Digest: "sha256:aa", Path: "/srv/jobs/month-end/job.yaml", Source: []byte("name: month-end")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Freeze =\n%+v\nwant\n%+v", got, want)
	}
	again, err := Freeze(job, Request{Trigger: TriggerSchedule, DueAt: at(t, "2026-11-05T02:30:00Z")})
	if err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("asked in another zone: %+v, %v", again, err)
	}
}

func TestFreeze_TakesWhatIsAskedForInPlaceOfWhatTheJobSays(t *testing.T) {
	t.Parallel()
	due := at(t, "2026-11-05T10:30:00+08:00").Add(time.Nanosecond)
	tests := []struct {
		name    string
		change  func(*jobs.Job)
		request Request
		check   func(task.NewRun) (got, want string)
	}{
		{"inputs", nil, Request{Inputs: map[string]json.RawMessage{"tolerance": json.RawMessage(`"1.50"`)}},
			func(n task.NewRun) (string, string) {
				return string(n.Run.Inputs), `{"limit":9007199254740993,"tolerance":"1.50"}`
			}},
		{"the period moves the key", nil, Request{PeriodLabel: "2026-02"},
			func(n task.NewRun) (string, string) { return n.Run.Key, "alipay/2026-02" }},
		{"the key", nil, Request{Key: "by hand"},
			func(n task.NewRun) (string, string) { return n.Run.Key, "by hand" }},
		{"a key for a job without one", func(j *jobs.Job) { j.Key = "" }, Request{Key: "by hand"},
			func(n task.NewRun) (string, string) { return n.Run.Key, "by hand" }},
		{"no key makes each run its own", func(j *jobs.Job) { j.Key = "" }, Request{},
			func(n task.NewRun) (string, string) { return n.Run.Key, "" }},
		{"no period", func(j *jobs.Job) { j.Period, j.Key = nil, "k" }, Request{},
			func(n task.NewRun) (string, string) { return string(n.Run.Period), "" }},
		{"a key that holds inputs and the instant", func(j *jobs.Job) { j.Key = "${{ inputs.limit }}/${{ schedule.due_at }}" }, Request{},
			func(n task.NewRun) (string, string) { return n.Run.Key, "9007199254740993/2026-11-05T02:30:00Z" }},
		{"manual when nothing is said", nil, Request{},
			func(n task.NewRun) (string, string) { return n.Run.Trigger, "manual" }},
		{"again", nil, Request{Again: "the bank sent it twice"},
			func(n task.NewRun) (string, string) { return n.Run.Reason, "the bank sent it twice" }},
		{"no location is UTC", func(j *jobs.Job) { j.Location = nil }, Request{PeriodLabel: "2026-02"},
			func(n task.NewRun) (string, string) {
				return string(n.Run.Period), `{"label":"2026-02","start":"2026-02-01","end":"2026-03-01","start_at":"2026-02-01T00:00:00Z","end_at":"2026-03-01T00:00:00Z"}`
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			job := monthEnd(t)
			if tt.change != nil {
				tt.change(job)
			}
			tt.request.DueAt = due
			run, err := Freeze(job, tt.request)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := tt.check(run); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if run.Again != (tt.request.Again != "") {
				t.Errorf("Again = %t with the reason %q", run.Again, tt.request.Again)
			}
		})
	}
}

func TestFreeze_RefusesWhatCannotBeMet(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		change         func(*jobs.Job)
		request        Request
		field, message string
	}{
		{"an input that is missing", func(j *jobs.Job) { j.Inputs[0].Default = nil }, Request{}, "inputs", `"tolerance" is missing`},
		{"an unknown input", nil, Request{Inputs: map[string]json.RawMessage{"toleranse": json.RawMessage(`"1.00"`)}}, "inputs", "tolerance"},
		{"an input of another form", nil, Request{Inputs: map[string]json.RawMessage{"tolerance": json.RawMessage(`1.5`)}}, "inputs", "tolerance"},
		{"a label of another unit", nil, Request{PeriodLabel: "2026-Q4"}, "period", "2026-10"},
		{"a label without a period", func(j *jobs.Job) { j.Period, j.Key = nil, "k" }, Request{PeriodLabel: "2026-10"}, "period", "no period"},
		{"a key that is empty", func(j *jobs.Job) { j.Key = " ${{ '' }}" }, Request{}, "upstream_key", "empty"},
		{"a key that is too long", nil, Request{Key: strings.Repeat("k", 1025)}, "upstream_key", "1024"},
		{"a key that cannot be printed", nil, Request{Key: "a\x00b"}, "upstream_key", "printed"},
		{"a key that is no text", func(j *jobs.Job) { j.Key = "a/${{ null }}" }, Request{}, "upstream_key", "null"},
		{"a key that refers to nothing", func(j *jobs.Job) { j.Key = "a/${{ run.id }}" }, Request{}, "upstream_key", "expr.undefined"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			job := monthEnd(t)
			if tt.change != nil {
				tt.change(job)
			}
			tt.request.DueAt = at(t, "2026-11-05T10:30:00+08:00")
			got, err := Freeze(job, tt.request)
			var bad *RequestError
			if !errors.As(err, &bad) {
				t.Fatalf("Freeze = %+v, %v; want a RequestError", got, err)
			}
			if bad.Field != tt.field || !strings.Contains(err.Error(), tt.message) || !strings.Contains(err.Error(), "month-end") {
				t.Errorf("Freeze: field %s, %q; want %s and %q", bad.Field, err, tt.field, tt.message)
			}
		})
	}
}
