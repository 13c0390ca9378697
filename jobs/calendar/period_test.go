package calendar

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := LoadZone(name)
	if err != nil {
		t.Fatalf("LoadZone(%q): %v", name, err)
	}
	return loc
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestRule_FindsThePeriodOfAnInstantInTheZoneOfTheJob(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		rule       Rule
		zone, at   string
		label      string
		start, end string
	}{
		{"month before", Rule{Month, Previous}, "Asia/Shanghai", "2026-11-05T10:30:00+08:00", "2026-10", "2026-10-01", "2026-11-01"},
		{"month before, over the year", Rule{Month, Previous}, "Asia/Shanghai", "2027-01-01T00:00:00+08:00", "2026-12", "2026-12-01", "2027-01-01"},
		{"month, still the old one in UTC", Rule{Month, Current}, "Asia/Shanghai", "2026-10-31T16:00:00Z", "2026-11", "2026-11-01", "2026-12-01"},
		{"month, last instant", Rule{Month, Current}, "Asia/Shanghai", "2026-10-31T23:59:59+08:00", "2026-10", "2026-10-01", "2026-11-01"},
		{"February of a leap year", Rule{Month, Current}, "UTC", "2028-02-29T12:00:00Z", "2028-02", "2028-02-01", "2028-03-01"},
		{"February of 2100, no leap year", Rule{Month, Previous}, "UTC", "2100-03-31T12:00:00Z", "2100-02", "2100-02-01", "2100-03-01"},
		{"31st, month before has 30 days", Rule{Month, Previous}, "UTC", "2026-10-31T12:00:00Z", "2026-09", "2026-09-01", "2026-10-01"},
		{"day before a leap day's successor", Rule{Day, Previous}, "UTC", "2028-03-01T00:00:00Z", "2028-02-29", "2028-02-29", "2028-03-01"},
		{"day before new year", Rule{Day, Previous}, "America/New_York", "2027-01-01T04:59:59Z", "2026-12-30", "2026-12-30", "2026-12-31"},
		{"day, 23 hours long", Rule{Day, Current}, "America/New_York", "2026-03-08T12:00:00-04:00", "2026-03-08", "2026-03-08", "2026-03-09"},
		{"week, Sunday is its last day", Rule{Week, Current}, "UTC", "2026-11-01T23:00:00Z", "2026-W44", "2026-10-26", "2026-11-02"},
		{"week, Monday is its first day", Rule{Week, Current}, "UTC", "2026-11-02T00:00:00Z", "2026-W45", "2026-11-02", "2026-11-09"},
		{"week 53 reaches into January", Rule{Week, Current}, "UTC", "2027-01-03T12:00:00Z", "2026-W53", "2026-12-28", "2027-01-04"},
		{"week 1 begins in December", Rule{Week, Current}, "UTC", "2025-12-29T12:00:00Z", "2026-W01", "2025-12-29", "2026-01-05"},
		{"week before week 1", Rule{Week, Previous}, "UTC", "2027-01-04T00:00:00Z", "2026-W53", "2026-12-28", "2027-01-04"},
		{"quarter, last day", Rule{Quarter, Current}, "UTC", "2026-03-31T23:59:59Z", "2026-Q1", "2026-01-01", "2026-04-01"},
		{"quarter, first day", Rule{Quarter, Current}, "UTC", "2026-04-01T00:00:00Z", "2026-Q2", "2026-04-01", "2026-07-01"},
		{"quarter before the first", Rule{Quarter, Previous}, "UTC", "2026-02-14T00:00:00Z", "2025-Q4", "2025-10-01", "2026-01-01"},
		{"year", Rule{Year, Current}, "UTC", "2026-12-31T23:59:59Z", "2026", "2026-01-01", "2027-01-01"},
		{"year before", Rule{Year, Previous}, "Asia/Shanghai", "2025-12-31T16:00:00Z", "2025", "2025-01-01", "2026-01-01"},
		{"of left out is previous", Rule{Every: Year}, "UTC", "2026-06-01T00:00:00Z", "2025", "2025-01-01", "2026-01-01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			loc := zone(t, tt.zone)
			got, err := tt.rule.At(instant(t, tt.at), loc)
			if err != nil {
				t.Fatal(err)
			}
			if got.Label != tt.label || got.Start != tt.start || got.End != tt.end {
				t.Errorf("At(%s) = %s [%s, %s), want %s [%s, %s)", tt.at, got.Label, got.Start, got.End, tt.label, tt.start, tt.end)
			}
			again, err := tt.rule.Parse(got.Label, loc)
			if err != nil || again != got {
				t.Errorf("Parse(%q) = %+v, %v; want %+v", got.Label, again, err, got)
			}
		})
	}
}

func TestPeriod_BeginsAtTheFirstInstantOfItsDayEvenWhenMidnightIsMissing(t *testing.T) {
	t.Parallel()
	tests := []struct{ zone, day, start, end string }{
		{"Asia/Beirut", "2026-03-29", "2026-03-29T01:00:00+03:00", "2026-03-30T00:00:00+03:00"},
		{"Asia/Beirut", "2026-03-28", "2026-03-28T00:00:00+02:00", "2026-03-29T01:00:00+03:00"},
		{"Asia/Beirut", "2026-10-24", "2026-10-24T00:00:00+03:00", "2026-10-25T00:00:00+02:00"}, // 23:00 comes twice
		{"Africa/Cairo", "2026-04-24", "2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"},
		{"America/Santiago", "2026-09-06", "2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"},
		{"America/Santiago", "2026-04-04", "2026-04-04T00:00:00-03:00", "2026-04-05T00:00:00-04:00"},
		{"America/Sao_Paulo", "2018-11-04", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"America/Havana", "2026-11-01", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"}, // midnight comes twice
		{"America/New_York", "2026-03-08", "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00"},
		{"Asia/Shanghai", "2026-10-31", "2026-10-31T00:00:00+08:00", "2026-11-01T00:00:00+08:00"},
		{"Pacific/Apia", "2011-12-30", "2011-12-31T00:00:00+14:00", "2011-12-31T00:00:00+14:00"}, // a day that was left out
	}
	for _, tt := range tests {
		t.Run(tt.zone+" "+tt.day, func(t *testing.T) {
			t.Parallel()
			got, err := Rule{Every: Day}.Parse(tt.day, zone(t, tt.zone))
			if err != nil {
				t.Fatal(err)
			}
			start, end := got.StartAt.Format(time.RFC3339), got.EndAt.Format(time.RFC3339)
			if start != tt.start || end != tt.end {
				t.Errorf("%s in %s = [%s, %s), want [%s, %s)", tt.day, tt.zone, start, end, tt.start, tt.end)
			}
		})
	}
}

func TestRule_RefusesALabelOfAnotherUnitAndSaysTheRightForm(t *testing.T) {
	t.Parallel()
	labels := map[Unit][]string{
		Day:     {"2026-10-31", "2028-02-29"},
		Week:    {"2026-W44", "2026-W53"},
		Month:   {"2026-10"},
		Quarter: {"2026-Q4"},
		Year:    {"2026"},
	}
	forms := map[Unit]string{Day: "2026-10-31", Week: "2026-W44", Month: "2026-10", Quarter: "2026-Q4", Year: "2026"}
	bad := []string{"", "2026-02-30", "2027-02-29", "2026-13", "2026-00", "2026-W00", "2026-W54", "2025-W53", "2026-w44", "2026-Q0", "2026-Q5", "26", "02026", "2026-1", "Oct 2026", "2026-10-31T00:00:00Z", " 2026"}
	for unit := range labels {
		wrong := append([]string{}, bad...)
		for other, list := range labels {
			if other != unit {
				wrong = append(wrong, list...)
			}
		}
		for _, label := range labels[unit] {
			if p, err := (Rule{Every: unit}).Parse(label, time.UTC); err != nil || p.Label != label {
				t.Errorf("a %s: Parse(%q) = %+v, %v", unit, label, p, err)
			}
		}
		for _, label := range wrong {
			_, err := Rule{Every: unit}.Parse(label, time.UTC)
			if err == nil || !strings.Contains(err.Error(), "is written "+forms[unit]) {
				t.Errorf("a %s: Parse(%q) gives %v, want an error that shows %s", unit, label, err, forms[unit])
			}
		}
	}
}

func TestRule_RefusesUnitsAndChoicesThatThereAreNot(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC)
	for _, r := range []Rule{{Every: "fortnight"}, {}, {Every: Day, Of: "next"}} {
		if p, err := r.At(now, time.UTC); err == nil {
			t.Errorf("%+v.At = %+v, want an error", r, p)
		}
	}
	if p, err := (Rule{Every: "fortnight"}).Parse("2026", time.UTC); err == nil {
		t.Errorf("Parse = %+v, want an error", p)
	}
	for _, year := range []string{"0000", "9999"} {
		if p, err := (Rule{Every: Year}).Parse(year, time.UTC); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", year, p)
		}
	}
}

// TestRule_AgreesWithCountingDays compares with a computation that only knows
// how to add one day and to read a date.
func TestRule_AgreesWithCountingDays(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	zones := []string{"UTC", "Asia/Shanghai", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "America/Santiago", "Africa/Cairo", "Asia/Kolkata"}
	for range 2000 {
		loc := zone(t, zones[random.IntN(len(zones))])
		unit := []Unit{Day, Week, Month, Quarter, Year}[random.IntN(5)]
		at := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(random.Int64N(20*365*24*3600)) * time.Second)
		got, err := Rule{Every: unit, Of: Current}.At(at, loc)
		if err != nil {
			t.Fatal(err)
		}
		start, end := countedPeriod(unit, at.In(loc))
		if got.Start != start || got.End != end {
			t.Fatalf("%s in %s: %s is in [%s, %s), want [%s, %s)", unit, loc, at, got.Start, got.End, start, end)
		}
		if at.Before(got.StartAt) || !at.Before(got.EndAt) {
			t.Fatalf("%s in %s: %s is outside [%s, %s)", unit, loc, at, got.StartAt, got.EndAt)
		}
		before, err := Rule{Every: unit, Of: Previous}.At(at, loc)
		if err != nil || before.End != got.Start || !before.EndAt.Equal(got.StartAt) {
			t.Fatalf("%s in %s: the period before %s is %+v, %v", unit, loc, got.Label, before, err)
		}
	}
}

// countedPeriod walks noon by noon to both ends.
func countedPeriod(unit Unit, local time.Time) (start, end string) {
	y, m, d := local.Date()
	noon := time.Date(y, m, d, 12, 0, 0, 0, time.UTC)
	first := func(day time.Time) bool {
		switch unit {
		case Week:
			return day.Weekday() == time.Monday
		case Month:
			return day.Day() == 1
		case Quarter:
			return day.Day() == 1 && (day.Month() == 1 || day.Month() == 4 || day.Month() == 7 || day.Month() == 10)
		case Year:
			return day.YearDay() == 1
		}
		return true
	}
	from, to := noon, noon.Add(24*time.Hour)
	for !first(from) {
		from = from.Add(-24 * time.Hour)
	}
	for !first(to) {
		to = to.Add(24 * time.Hour)
	}
	return from.Format(time.DateOnly), to.Format(time.DateOnly)
}

func TestPeriod_IsWrittenInTheFormThatRunsKeep(t *testing.T) {
	t.Parallel()
	p, err := Rule{Every: Month}.Parse("2026-03", zone(t, "Asia/Beirut"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(p)
	want := `{"label":"2026-03","start":"2026-03-01","end":"2026-04-01","start_at":"2026-03-01T00:00:00+02:00","end_at":"2026-04-01T00:00:00+03:00"}`
	if err != nil || string(got) != want {
		t.Errorf("JSON = %s, %v; want %s", got, err, want)
	}
}

// TestRule_PeriodsFollowOneAnother goes through every period of some years in zones
// whose clocks change: each begins where the one before ends, its label leads back to
// it and sorts behind the one before, and both of its ends belong where they should.
func TestRule_PeriodsFollowOneAnother(t *testing.T) {
	t.Parallel()
	for _, name := range modelZones {
		loc := zone(t, name)
		for _, unit := range []Unit{Day, Week, Month, Quarter, Year} {
			current, previous := Rule{unit, Current}, Rule{unit, Previous}
			before, err := current.At(time.Date(2019, 12, 1, 12, 0, 0, 0, loc), loc)
			if err != nil {
				t.Fatal(err)
			}
			for before.Start < "2031" {
				p, err := current.At(before.EndAt, loc)
				if err != nil || p.Start != before.End || !p.StartAt.Equal(before.EndAt) || p.Label <= before.Label || !p.StartAt.Before(p.EndAt) {
					t.Fatalf("%s in %s: behind %+v comes %+v, %v", unit, name, before, p, err)
				}
				last, errLast := current.At(p.EndAt.Add(-time.Nanosecond), loc)
				back, errBack := previous.At(p.EndAt.Add(-time.Nanosecond), loc)
				read, errRead := current.Parse(p.Label, loc)
				if last != p || back != before || read != p || errLast != nil || errBack != nil || errRead != nil {
					t.Fatalf("%s in %s: %+v ends in %+v, is behind %+v, and is read as %+v", unit, name, p, last, back, read)
				}
				before = p
			}
		}
	}
}
