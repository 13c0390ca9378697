package calendar

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func timetable(t *testing.T, spec, zoneName string) Timetable {
	t.Helper()
	s, err := NewTimetable(spec, zone(t, zoneName))
	if err != nil {
		t.Fatalf("NewTimetable(%q): %v", spec, err)
	}
	return s
}

// next returns the due time after an instant, which there has to be.
func next(t *testing.T, s Timetable, after time.Time) Due {
	t.Helper()
	due, err := s.Next(after)
	if err != nil {
		t.Fatalf("Next(%s): %v", after, err)
	}
	return due
}

// checkDue compares the due times after an instant with those written by hand,
// in the zone of the schedule.
func checkDue(t *testing.T, spec, zoneName, after string, want []string) {
	t.Helper()
	s := timetable(t, spec, zoneName)
	at := instant(t, after).In(zone(t, zoneName))
	var got []string
	for range want {
		at = next(t, s, at).At
		got = append(got, at.Format(time.RFC3339))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%q in %s after %s:\n got %s\nwant %s", spec, zoneName, after, strings.Join(got, " "), strings.Join(want, " "))
	}
}

func TestFault_F37_ATimeInTheGapIsDueAtItsEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		spec, zone, after string
		want              []string
	}{
		{"30 2 * * *", "America/New_York", "2026-03-07T12:00:00-05:00", []string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"0 2 * * *", "America/New_York", "2026-03-07T12:00:00-05:00", []string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"}},
		{"0,30 2-3 * * *", "America/New_York", "2026-03-07T12:00:00-05:00", []string{"2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00", "2026-03-09T02:00:00-04:00"}},
		{"59 1 * * *", "America/New_York", "2026-03-07T12:00:00-05:00", []string{"2026-03-08T01:59:00-05:00", "2026-03-09T01:59:00-04:00"}},
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", []string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"45 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", []string{"2026-10-04T02:45:00+11:00", "2026-10-05T02:45:00+11:00"}},
		{"0 0 * * *", "Asia/Beirut", "2026-03-28T12:00:00+02:00", []string{"2026-03-29T01:00:00+03:00", "2026-03-30T00:00:00+03:00"}},
		{"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00-04:00", []string{"2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"}},
		{"0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00+02:00", []string{"2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"}},
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", []string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
		{"0 0 1 * *", "Asia/Shanghai", "2026-10-31T12:00:00+08:00", []string{"2026-11-01T00:00:00+08:00", "2026-12-01T00:00:00+08:00"}},
		{"30 2 * * *", "UTC", "2026-03-08T00:00:00Z", []string{"2026-03-08T02:30:00Z", "2026-03-09T02:30:00Z"}},
		// Hours that are not named: what the clock does not show is not due.
		{"15 * * * *", "America/New_York", "2026-03-08T01:15:00-05:00", []string{"2026-03-08T03:15:00-04:00"}},
		{"15 */2 * * *", "America/New_York", "2026-03-08T00:15:00-05:00", []string{"2026-03-08T04:15:00-04:00"}},
		{"15 * * * *", "Australia/Lord_Howe", "2026-10-04T01:15:00+10:30", []string{"2026-10-04T03:15:00+11:00"}},
	}
	for _, tt := range tests {
		t.Run(tt.spec+" "+tt.zone, func(t *testing.T) {
			t.Parallel()
			checkDue(t, tt.spec, tt.zone, tt.after, tt.want)
		})
	}
}

func TestFault_F38_ATimeThatComesTwiceIsDueOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		spec, zone, after string
		want              []string
	}{
		{"30 1 * * *", "America/New_York", "2026-10-31T12:00:00-04:00", []string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"30 1 * * *", "America/New_York", "2026-11-01T01:10:00-05:00", []string{"2026-11-02T01:30:00-05:00"}}, // asked in the second pass
		{"30 1-2 * * *", "America/New_York", "2026-10-31T12:00:00-04:00", []string{"2026-11-01T01:30:00-04:00", "2026-11-01T02:30:00-05:00"}},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00+11:00", []string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		{"15 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00+11:00", []string{"2026-04-05T01:15:00+11:00", "2026-04-06T01:15:00+10:30"}},
		{"30 23 * * *", "Asia/Beirut", "2026-10-24T12:00:00+03:00", []string{"2026-10-24T23:30:00+03:00", "2026-10-25T23:30:00+02:00"}},
		{"30 23 * * *", "America/Santiago", "2026-04-04T12:00:00-03:00", []string{"2026-04-04T23:30:00-03:00", "2026-04-05T23:30:00-04:00"}},
		{"30 23 * * *", "Africa/Cairo", "2026-10-29T12:00:00+03:00", []string{"2026-10-29T23:30:00+03:00", "2026-10-30T23:30:00+02:00"}},
		{"0 0 * * *", "America/Havana", "2026-10-31T12:00:00-04:00", []string{"2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"}},
		// Hours that are not named: every real half hour.
		{"*/30 * * * *", "America/New_York", "2026-11-01T00:30:00-04:00", []string{"2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T01:30:00-05:00", "2026-11-01T02:00:00-05:00"}},
		{"45 * * * *", "Australia/Lord_Howe", "2026-04-05T00:45:00+11:00", []string{"2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30", "2026-04-05T02:45:00+10:30"}},
	}
	for _, tt := range tests {
		t.Run(tt.spec+" "+tt.zone, func(t *testing.T) {
			t.Parallel()
			checkDue(t, tt.spec, tt.zone, tt.after, tt.want)
		})
	}
}

func TestFault_F41_RareDaysAreFoundAndImpossibleOnesRefused(t *testing.T) {
	t.Parallel()
	checkDue(t, "0 0 31 * *", "UTC", "2026-01-01T00:00:00Z", []string{
		"2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z", "2026-07-31T00:00:00Z",
		"2026-08-31T00:00:00Z", "2026-10-31T00:00:00Z", "2026-12-31T00:00:00Z", "2027-01-31T00:00:00Z"})
	checkDue(t, "0 0 29 2 *", "Asia/Shanghai", "2095-01-01T00:00:00+08:00", []string{"2096-02-29T00:00:00+08:00", "2104-02-29T00:00:00+08:00"})
	checkDue(t, "0 9 13 * fri", "UTC", "2026-10-31T00:00:00Z", []string{"2026-11-06T09:00:00Z", "2026-11-13T09:00:00Z", "2026-11-20T09:00:00Z"}) // either kind of day
	checkDue(t, "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"})
	checkDue(t, "0 0 * 2 5#5", "UTC", "2096-01-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"})
	checkDue(t, "0 6 L * *", "Asia/Shanghai", "2026-01-31T06:00:00+08:00", []string{
		"2026-02-28T06:00:00+08:00", "2026-03-31T06:00:00+08:00", "2026-04-30T06:00:00+08:00"})
	checkDue(t, "0 6 L 2 *", "UTC", "2027-03-01T00:00:00Z", []string{"2028-02-29T06:00:00Z", "2029-02-28T06:00:00Z"})
	checkDue(t, "0 6 l-2,lw * *", "UTC", "2026-05-01T00:00:00Z", []string{"2026-05-29T06:00:00Z", "2026-06-28T06:00:00Z", "2026-06-30T06:00:00Z"})
	checkDue(t, "0 6 L-30 * *", "UTC", "2026-01-31T06:00:00Z", []string{"2026-03-01T06:00:00Z", "2026-05-01T06:00:00Z", "2026-07-01T06:00:00Z"})
	checkDue(t, "0 6 1,15,L * *", "UTC", "2026-02-01T06:00:00Z", []string{"2026-02-15T06:00:00Z", "2026-02-28T06:00:00Z", "2026-03-01T06:00:00Z"})
	checkDue(t, "0 6 * * 5#3", "UTC", "2026-10-01T00:00:00Z", []string{"2026-10-16T06:00:00Z", "2026-11-20T06:00:00Z"})
	checkDue(t, "0 6 * * FRI#5", "UTC", "2026-10-01T00:00:00Z", []string{"2026-10-30T06:00:00Z", "2027-01-29T06:00:00Z"})
	checkDue(t, "0 6 * * 5L,sunL", "UTC", "2026-10-01T00:00:00Z", []string{"2026-10-25T06:00:00Z", "2026-10-30T06:00:00Z", "2026-11-27T06:00:00Z", "2026-11-29T06:00:00Z"})
	checkDue(t, "0 6 * * fri-7", "UTC", "2026-10-01T12:00:00Z", []string{"2026-10-02T06:00:00Z", "2026-10-03T06:00:00Z", "2026-10-04T06:00:00Z", "2026-10-09T06:00:00Z"})
	checkDue(t, "0 6 * * 7", "UTC", "2026-10-01T12:00:00Z", []string{"2026-10-04T06:00:00Z", "2026-10-11T06:00:00Z"})
	for _, spec := range []string{"0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30-31 2 *", "* * 31 apr *", "0 0 L-29 2 *", "0 0 L-30 4,6 *"} {
		_, err := NewTimetable(spec, time.UTC)
		var bad *SpecError
		if !errors.As(err, &bad) || bad.Code != CodeNeverFires || bad.Field != "day of month" {
			t.Errorf("NewTimetable(%q) gives %v, want %s", spec, err, CodeNeverFires)
		}
	}
}

func TestBadInput_B20_AnExpressionThatCannotBeReadNamesItsField(t *testing.T) {
	t.Parallel()
	tests := []struct{ spec, field, message string }{
		{"60 * * * *", "minute", "0 to 59"},
		{"*/0 * * * *", "minute", "step"},
		{"* 24 * * *", "hour", "0 to 23"},
		{"0 22-2 * * *", "hour", "beyond"},
		{"0 0 0 * *", "day of month", "1 to 31"},
		{"0 0 32 * *", "day of month", "1 to 31"},
		{"0 0 X * *", "day of month", `"X" is not a number`},
		{"0 0 L-31 * *", "day of month", "31 days before the last one"},
		{"0 0 L-0 * *", "day of month", "0 days before the last one"},
		{"0 0 L-99999999999999999999 * *", "day of month", "days before the last one"},
		{"0 0 L-1-2 * *", "day of month", "not a number"},
		{"0 0 1,,L * *", "day of month", "empty"},
		{"0 0 L, * *", "day of month", "empty"},
		{"0 0 15W * *", "day of month", "LW only"},
		{"0 0 W * *", "day of month", "LW only"},
		{"0 0 L/2 * *", "day of month", "not a number"},
		{"0 0 * 13 *", "month", "1 to 12"},
		{"0 0 * * 8", "day of week", "0 (Sunday) to 6"},
		{"0 0 * * fri#6", "day of week", "1 to 5"},
		{"0 0 * * fri#0", "day of week", "1 to 5"},
		{"0 0 * * fri#", "day of week", "not a number"},
		{"0 0 * * 8#1", "day of week", "not a number"},
		{"0 0 * * #3", "day of week", "not a number"},
		{"0 0 * * L", "day of week", "5L for the last Friday"},
		{"0 0 * * L5", "day of week", "not a number"},
		{"0 0 * * 5-7/0", "day of week", "step"},
		{"0 0 * * mon-friday", "day of week", "not a number"},
		{"1,,2 * * * *", "minute", "empty"},
		{"1,2, * * * *", "minute", "empty"},
		{"? * * * *", "minute", "write * for any"},
		{"1-2-3 * * * *", "minute", "hyphens"},
		{"-5 * * * *", "minute", "not a number"},
		{"99999999999999999999 * * * *", "minute", "not a number"},
		{"", "", "five fields"},
		{"* * * *", "", "five fields"},
		{"* * * * * *", "", "six fields"},
		{"0 * * * * * *", "", "five fields"},
		{"@every -1s", "", "five fields"},
		{"@every 1h", "", "no fixed instants"},
		{"@daily", "", "five fields"},
		{"@reboot", "", "five fields"},
		{"TZ=UTC", "", "timezone"},
		{"CRON_TZ=UTC", "", "timezone"},
		{"TZ=UTC * * * * *", "", "timezone"},
		{"CRON_TZ=Asia/Shanghai 0 0 * * *", "", "timezone"},
	}
	for _, tt := range tests {
		t.Run(tt.spec, func(t *testing.T) {
			t.Parallel()
			_, err := NewTimetable(tt.spec, time.UTC)
			var bad *SpecError
			if !errors.As(err, &bad) {
				t.Fatalf("NewTimetable(%q) gives %v, want a SpecError", tt.spec, err)
			}
			if bad.Code != CodeCron || bad.Field != tt.field || !strings.Contains(bad.Message, tt.message) {
				t.Errorf("NewTimetable(%q) = %s, field %q, %q; want %s, field %q and %q", tt.spec, bad.Code, bad.Field, bad.Message, CodeCron, tt.field, tt.message)
			}
		})
	}
}

func TestTimetable_AnswersInTheLocationItWasAsked(t *testing.T) {
	t.Parallel()
	s := timetable(t, "30 10 * * *", "Asia/Shanghai")
	got := next(t, s, instant(t, "2026-10-31T00:00:00Z").UTC()).At
	if want := "2026-10-31T02:30:00Z"; got.Format(time.RFC3339) != want {
		t.Errorf("Next = %s, want %s", got.Format(time.RFC3339), want)
	}
	if got := next(t, Timetable{}, time.Unix(0, 0)); !got.IsZero() {
		t.Errorf("the zero Timetable is due at %s", got.At)
	}
}

func FuzzNewTimetable(f *testing.F) {
	for _, spec := range []string{"30 2 * * *", "*/15 8-18 1,15 jan-mar mon", "TZ=UTC", "0/15 * * * *", "@every 1s", "0 0 30 2 *", "0 0 1,15,L,LW,L-2 * 5#3,5L,5-7"} {
		f.Add(spec)
	}
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := NewTimetable(spec, loc)
		if err != nil {
			var bad *SpecError
			if !errors.As(err, &bad) || bad.Message == "" {
				t.Fatalf("NewTimetable(%q) gives %v, want a SpecError that says something", spec, err)
			}
			return
		}
		at := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
		for range 5 {
			due, err := s.Next(at)
			if err != nil || !due.IsZero() && !due.At.After(at) {
				t.Fatalf("%q: after %s comes %s, %v", spec, at, due.At, err)
			}
			if due.IsZero() {
				return
			}
			at = due.At
		}
	})
}

func BenchmarkNext(b *testing.B) {
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		b.Fatal(err)
	}
	for _, spec := range []string{"* * * * *", "30 2 * * *", "0 0 29 2 *", "0 6 L * *", "0 6 * * 5#3"} {
		s, err := NewTimetable(spec, loc)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(spec, func(b *testing.B) {
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for b.Loop() {
				if _, err := s.Next(at); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
