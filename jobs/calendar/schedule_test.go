package calendar

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func schedule(t *testing.T, spec, zoneName string) Schedule {
	t.Helper()
	s, err := NewSchedule(spec, zone(t, zoneName))
	if err != nil {
		t.Fatalf("NewSchedule(%q): %v", spec, err)
	}
	return s
}

// checkDue compares the due times after an instant with those written by hand,
// in the zone of the schedule.
func checkDue(t *testing.T, spec, zoneName, after string, want []string) {
	t.Helper()
	s := schedule(t, spec, zoneName)
	at := instant(t, after).In(zone(t, zoneName))
	var got []string
	for range want {
		at = s.Next(at)
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
	for _, spec := range []string{"0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30-31 2 *", "* * 31 apr *"} {
		_, err := NewSchedule(spec, time.UTC)
		var bad *SpecError
		if !errors.As(err, &bad) || bad.Code != CodeNeverFires || bad.Field != "day of month" {
			t.Errorf("NewSchedule(%q) gives %v, want %s", spec, err, CodeNeverFires)
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
		{"0 0 L * *", "day of month", `"L" is not a number`},
		{"0 0 * 13 *", "month", "1 to 12"},
		{"0 0 * * 7", "day of week", "0 (Sunday) to 6"},
		{"0 0 * * fri#2", "day of week", "not a number"},
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
			_, err := NewSchedule(tt.spec, time.UTC)
			var bad *SpecError
			if !errors.As(err, &bad) {
				t.Fatalf("NewSchedule(%q) gives %v, want a SpecError", tt.spec, err)
			}
			if bad.Code != CodeCron || bad.Field != tt.field || !strings.Contains(bad.Message, tt.message) {
				t.Errorf("NewSchedule(%q) = %s, field %q, %q; want %s, field %q and %q", tt.spec, bad.Code, bad.Field, bad.Message, CodeCron, tt.field, tt.message)
			}
		})
	}
}

func TestSchedule_AnswersInTheLocationItWasAsked(t *testing.T) {
	t.Parallel()
	s := schedule(t, "30 10 * * *", "Asia/Shanghai")
	got := s.Next(instant(t, "2026-10-31T00:00:00Z").UTC())
	if want := "2026-10-31T02:30:00Z"; got.Format(time.RFC3339) != want {
		t.Errorf("Next = %s, want %s", got.Format(time.RFC3339), want)
	}
	if got := (Schedule{}).Next(time.Now()); !got.IsZero() {
		t.Errorf("the zero Schedule is due at %s", got)
	}
}

func FuzzNewSchedule(f *testing.F) {
	for _, spec := range []string{"30 2 * * *", "*/15 8-18 1,15 jan-mar mon", "TZ=UTC", "0/15 * * * *", "@every 1s", "0 0 30 2 *"} {
		f.Add(spec)
	}
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := NewSchedule(spec, loc)
		if err != nil {
			var bad *SpecError
			if !errors.As(err, &bad) || bad.Message == "" {
				t.Fatalf("NewSchedule(%q) gives %v, want a SpecError that says something", spec, err)
			}
			return
		}
		at := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
		for range 5 {
			next := s.Next(at)
			if !next.After(at) {
				t.Fatalf("%q: after %s comes %s", spec, at, next)
			}
			at = next
		}
	})
}

func BenchmarkNext(b *testing.B) {
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		b.Fatal(err)
	}
	for _, spec := range []string{"* * * * *", "30 2 * * *", "0 0 29 2 *"} {
		s, err := NewSchedule(spec, loc)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(spec, func(b *testing.B) {
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for b.Loop() {
				s.Next(at)
			}
		})
	}
}
