package calendar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A dayModel says of a date, at midnight UTC, whether it is a business day.
type dayModel func(time.Time) bool

// randomCalendar returns a calendar of the years around the walk, and a model that
// looks every day up in plain sets.
func randomCalendar(r *rand.Rand, name string) (*Calendar, dayModel) {
	weekend := [][]time.Weekday{{time.Saturday, time.Sunday}, {time.Friday, time.Saturday}, {time.Sunday}, nil}[r.IntN(4)]
	off, worked := map[string]bool{}, map[string]bool{}
	years := map[int]YearData{}
	for year := 2023; year <= 2031; year++ {
		y := YearData{Holidays: map[Date]string{}, ExtraWorkdays: map[Date]string{}}
		for day := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() == year; day = day.AddDate(0, 0, 1) {
			date := Date{year, day.Month(), day.Day()}
			switch {
			case r.IntN(40) == 0:
				for range 1 + r.IntN(9) { // a holiday of some days
					if day.Year() == year {
						y.Holidays[Date{year, day.Month(), day.Day()}] = "Feast"
						off[day.Format(time.DateOnly)] = true
					}
					day = day.AddDate(0, 0, 1)
				}
			case slices.Contains(weekend, day.Weekday()) && r.IntN(8) == 0:
				y.ExtraWorkdays[date] = "worked"
				worked[day.Format(time.DateOnly)] = true
			}
		}
		years[year] = y
	}
	c := New(Data{Name: name, Weekend: weekend, Years: years})
	return c, func(day time.Time) bool {
		key := day.Format(time.DateOnly)
		return !off[key] && (worked[key] || !slices.Contains(weekend, day.Weekday()))
	}
}

// randomCombination returns one calendar, two combined, or one that includes another.
func randomCombination(r *rand.Rand) (*Calendar, dayModel) {
	a, isA := randomCalendar(r, "a")
	b, isB := randomCalendar(r, "b")
	both := func(day time.Time) bool { return isA(day) && isB(day) }
	switch r.IntN(3) {
	case 0:
		return Combine(b, a), both
	case 1:
		d := a.Data()
		d.Include = []*Calendar{b}
		return New(d), both
	}
	return a, isA
}

// modelRoll walks day by day to a business day.
func modelRoll(day time.Time, step int, business dayModel) time.Time {
	for !business(day) {
		day = day.AddDate(0, 0, step)
	}
	return day
}

// rolledModel returns the days to which those of a cron model move.
func rolledModel(m model, step int, business dayModel) dayModel {
	to := map[string]bool{}
	for day := walkStart.AddDate(0, -2, 0); day.Before(walkEnd.AddDate(0, 2, 0)); day = day.AddDate(0, 0, 1) {
		if m.day(day) {
			to[modelRoll(day, step, business).Format(time.DateOnly)] = true
		}
	}
	return func(day time.Time) bool { return to[day.Format(time.DateOnly)] }
}

// nthModel counts business days from an end of the month; a month with too few has
// its last day.
func nthModel(n int, business dayModel) dayModel {
	return func(day time.Time) bool {
		var list []int
		last := 0
		for d := day.AddDate(0, 0, 1-day.Day()); d.Month() == day.Month(); d = d.AddDate(0, 0, 1) {
			last = d.Day()
			if business(d) {
				list = append(list, d.Day())
			}
		}
		if n < 0 {
			slices.Reverse(list)
		}
		if count := max(n, -n); count <= len(list) {
			return day.Day() == list[count-1]
		}
		return day.Day() == last
	}
}

func TestTimetable_RollsAndCountsBusinessDaysLikeAModelThatWalksDayByDay(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"America/New_York", "Africa/Cairo", "Asia/Shanghai"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(23, uint64(i)))
			loc := zone(t, name)
			w := newWalk(loc)
			for range 20 {
				cal, business := randomCombination(r)
				spec := randomSpec(r)
				m := newModel(spec)
				if _, err := NewTimetable(spec, loc); err != nil {
					continue
				}
				instants := randomInstants(r, loc, 100)
				for roll, step := range map[Roll]int{RollNext: 1, RollPrevious: -1} {
					s := mustRoll(t, spec, loc, cal, roll)
					checkAgainst(t, s, fmt.Sprintf("%q roll %s", spec, roll), w.due(m, remembered(rolledModel(m, step, business))), instants)
				}
				s := mustRoll(t, spec, loc, cal, RollSkip)
				checkAgainst(t, s, spec+" roll skip", w.due(m, remembered(m.day)), instants)
				checkSkips(t, s, instants, business)

				n := []int{1, 2, 5, 20, 23, -1, -2, -5, -21, -23}[r.IntN(10)]
				s, err := NewBusinessDay(n, []string{"23:30", "00:30", "02:30"}, loc, cal)
				if err != nil {
					t.Fatal(err)
				}
				at := newModel("30 0,2,23 * * *")
				checkAgainst(t, s, fmt.Sprintf("business day %d", n), w.due(at, remembered(nthModel(n, business))), instants)
			}
		})
	}
}

func mustRoll(t *testing.T, spec string, loc *time.Location, cal *Calendar, roll Roll) Timetable {
	t.Helper()
	s, err := NewRolled(spec, loc, cal, roll)
	if err != nil {
		t.Fatalf("NewRolled(%q, %s): %v", spec, roll, err)
	}
	return s
}

// checkSkips compares which due times are skipped.
func checkSkips(t *testing.T, s Timetable, instants []time.Time, business dayModel) {
	t.Helper()
	for _, at := range instants {
		due := next(t, s, at)
		if due.IsZero() {
			continue
		}
		date := DateOf(due.At, s.loc).Time()
		if (due.Skipped == "") != business(date) {
			t.Fatalf("%s is skipped %q, and is a business day: %t", due.At, due.Skipped, business(date))
		}
	}
}

// cn2026 has the days of October 2026 in China, and hk those of Hong Kong.
func cn2026() *Calendar {
	holidays := map[Date]string{}
	for day := 1; day <= 7; day++ {
		holidays[Date{2026, time.October, day}] = "National Day"
	}
	return New(Data{Name: "cn", Weekend: weekendDays, Years: map[int]YearData{2026: {
		Holidays:      holidays,
		ExtraWorkdays: map[Date]string{{2026, time.September, 20}: "worked for National Day", {2026, time.October, 10}: "worked for National Day"},
	}}})
}

func hk2026() *Calendar {
	return New(Data{Name: "hk", Weekend: weekendDays, File: "calendars/hk.yaml", Years: map[int]YearData{2026: {
		Holidays: map[Date]string{{2026, time.October, 1}: "Chinese National Day", {2026, time.October, 19}: "Chung Yeung"},
	}, 2028: {}}})
}

var weekendDays = []time.Weekday{time.Saturday, time.Sunday}

func weekdaysOnly() *Calendar { return New(Data{Name: "weekdays", Weekend: weekendDays}) }

func TestTimetable_SaysWhatItSkipsAndWhatItMoves(t *testing.T) {
	t.Parallel()
	newYork, shanghai := zone(t, "America/New_York"), zone(t, "Asia/Shanghai")
	both := Combine(hk2026(), cn2026())
	rolled := func(spec string, loc *time.Location, cal *Calendar, roll Roll) Timetable {
		return mustRoll(t, spec, loc, cal, roll)
	}
	byDay := func(n int, at string, loc *time.Location, cal *Calendar) Timetable {
		s, err := NewBusinessDay(n, strings.Split(at, ","), loc, cal)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	tests := []struct {
		name, after string
		s           Timetable
		want        []string
	}{
		{"skip", "2026-09-30T07:00:00+08:00", rolled("0 6 * * *", shanghai, cn2026(), RollSkip), []string{
			"2026-10-01T06:00:00+08:00 skipped: 2026-10-01 is no business day in cn: National Day"}},
		{"skip, a weekend", "2026-10-10T07:00:00+08:00", rolled("0 6 * * *", shanghai, cn2026(), RollSkip), []string{
			"2026-10-11T06:00:00+08:00 skipped: 2026-10-11 is no business day in cn: Sunday",
			"2026-10-12T06:00:00+08:00"}},
		{"a swapped workday", "2026-10-09T07:00:00+08:00", rolled("0 6 * * *", shanghai, cn2026(), RollSkip), []string{"2026-10-10T06:00:00+08:00"}},
		{"a swapped workday that is off elsewhere", "2026-10-09T07:00:00+08:00", rolled("0 6 * * *", shanghai, both, RollSkip), []string{
			"2026-10-10T06:00:00+08:00 skipped: 2026-10-10 is no business day in hk: Saturday"}},
		{"off in both", "2026-09-30T07:00:00+08:00", rolled("0 6 1 * *", shanghai, both, RollSkip), []string{
			"2026-10-01T06:00:00+08:00 skipped: 2026-10-01 is no business day in cn and hk: National Day"}},
		{"next, all of a holiday at once", "2026-09-30T07:00:00+08:00", rolled("0 6 * * *", shanghai, cn2026(), RollNext), []string{
			"2026-10-08T06:00:00+08:00 note: due for itself and rolled, since 2026-10-01 is no business day in cn: National Day (and 6 more)",
			"2026-10-09T06:00:00+08:00"}},
		{"next, of one day", "2026-09-02T07:00:00+08:00", rolled("0 6 1 * *", shanghai, cn2026(), RollNext), []string{
			"2026-10-08T06:00:00+08:00 note: rolled, since 2026-10-01 is no business day in cn: National Day"}},
		{"previous", "2026-09-02T07:00:00+08:00", rolled("0 6 1,15 * *", shanghai, cn2026(), RollPrevious), []string{
			"2026-09-15T06:00:00+08:00",
			"2026-09-30T06:00:00+08:00 note: rolled, since 2026-10-01 is no business day in cn: National Day",
			"2026-10-15T06:00:00+08:00"}},
		{"month-end before the weekend", "2026-10-01T07:00:00+08:00", rolled("0 6 L * *", shanghai, weekdaysOnly(), RollPrevious), []string{
			"2026-10-30T06:00:00+08:00 note: rolled, since 2026-10-31 is no business day in weekdays: Saturday",
			"2026-11-30T06:00:00+08:00"}},
		{"fifth business day", "2026-09-30T07:00:00+08:00", byDay(5, "10:30,18:00", shanghai, cn2026()), []string{
			"2026-10-13T10:30:00+08:00", "2026-10-13T18:00:00+08:00", "2026-11-06T10:30:00+08:00"}},
		{"last business day", "2026-10-01T07:00:00+08:00", byDay(-1, "10:30", shanghai, cn2026()), []string{"2026-10-30T10:30:00+08:00", "2026-11-30T10:30:00+08:00"}},
		{"a month with too few", "2026-10-01T07:00:00+08:00", byDay(19, "10:30", shanghai, cn2026()), []string{
			"2026-10-31T10:30:00+08:00 skipped: 2026-10 has 18 business days in cn, and the schedule asks for business day 19",
			"2026-11-26T10:30:00+08:00"}},
		{"into the gap", "2026-03-07T12:00:00-05:00", rolled("30 2 * * *", newYork, New(Data{Name: "week", Weekend: []time.Weekday{time.Saturday}}), RollNext), []string{
			"2026-03-08T03:00:00-04:00 note: due for itself and rolled, since 2026-03-07 is no business day in week: Saturday; 02:30 is not there on 2026-03-08 in America/New_York; due at 03:00"}},
		{"twice", "2026-10-31T12:00:00-04:00", timetable(t, "30 1 * * *", "America/New_York"), []string{
			"2026-11-01T01:30:00-04:00 note: 01:30 comes twice on 2026-11-01 in America/New_York; due the first time",
			"2026-11-02T01:30:00-05:00"}},
		{"both times", "2026-11-01T01:10:00-04:00", timetable(t, "30 * * * *", "America/New_York"), []string{
			"2026-11-01T01:30:00-04:00 note: 01:30 comes twice on 2026-11-01 in America/New_York; due both times",
			"2026-11-01T01:30:00-05:00 note: 01:30 comes twice on 2026-11-01 in America/New_York; due both times",
			"2026-11-01T02:30:00-05:00"}},
		// The gap moves a time of the day that was left out to the instant of one that is due.
		{"skipped and due at one instant", "2011-12-29T12:00:00-10:00", rolled("0 0 * * *", zone(t, "Pacific/Apia"), New(Data{Name: "week", Weekend: []time.Weekday{time.Friday}}), RollSkip), []string{
			"2011-12-31T00:00:00+14:00"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			at := instant(t, tt.after).In(tt.s.loc)
			for _, want := range tt.want {
				due := next(t, tt.s, at)
				got := due.At.Format(time.RFC3339)
				if due.Skipped != "" {
					got += " skipped: " + due.Skipped
				}
				if due.Note != "" {
					got += " note: " + due.Note
				}
				if got != want {
					t.Errorf("after %s:\n got %s\nwant %s", at.Format(time.RFC3339), got, want)
				}
				at = due.At
			}
		})
	}
}

func TestTimetable_AsksForAYearOnlyWhereADueTimeDependsOnIt(t *testing.T) {
	t.Parallel()
	loc := zone(t, "Asia/Shanghai")
	cal := cn2026()
	byDay := func(n int) Timetable {
		s, err := NewBusinessDay(n, []string{"10:30"}, loc, cal)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	tests := []struct {
		name, after, want string // want: a due time, or the year that is missing
		s                 Timetable
	}{
		{"last day of the data", "2026-12-30T12:00:00+08:00", "2026-12-31T10:30:00+08:00", byDay(-1)},
		{"after it", "2026-12-31T10:30:00+08:00", "2027", byDay(-1)},
		{"before the data", "2025-12-31T10:29:00+08:00", "2025", byDay(-1)},
		{"skip", "2026-12-30T12:00:00+08:00", "2026-12-31T06:00:00+08:00", mustRoll(t, "0 6 L * *", loc, cal, RollSkip)},
		{"skip, not on a day without data", "2026-12-31T12:00:00+08:00", "2027", mustRoll(t, "0 6 L * *", loc, cal, RollSkip)},
		{"previous, of the last day itself", "2026-12-30T12:00:00+08:00", "2026-12-31T06:00:00+08:00", mustRoll(t, "0 6 L * *", loc, cal, RollPrevious)},
		{"previous, may come from the next year", "2026-12-02T12:00:00+08:00", "2027", mustRoll(t, "0 6 1 1,12 *", loc, cal, RollPrevious)},
		{"next, of the year before", "2025-12-31T05:59:00+08:00", "2025", mustRoll(t, "0 6 * * *", loc, cal, RollNext)},
		{"next, days of the first year alone", "2026-01-01T00:00:00+08:00", "2026-01-01T06:00:00+08:00", mustRoll(t, "0 6 * * *", loc, cal, RollNext)},
		{"next, nothing before the first year", "2026-01-01T00:00:00+08:00", "2026-02-02T06:00:00+08:00", mustRoll(t, "0 6 2 2-11 *", loc, cal, RollNext)},
		{"included", "2026-10-01T00:00:00+08:00", "2026-10-02T06:00:00+08:00", mustRoll(t, "0 6 2 * *", loc, New(Data{Name: "own", Include: []*Calendar{hk2026()}}), RollSkip)},
		{"included, without the year", "2026-12-03T00:00:00+08:00", "2027", mustRoll(t, "0 6 2 * *", loc, New(Data{Name: "own", Include: []*Calendar{hk2026()}}), RollSkip)},
		{"needs no data", "2126-12-30T12:00:00+08:00", "2126-12-31T06:00:00+08:00", mustRoll(t, "0 6 L * *", loc, weekdaysOnly(), RollSkip)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			due, err := tt.s.Next(instant(t, tt.after).In(loc))
			got := due.At.Format(time.RFC3339)
			var missing *YearError
			if errors.As(err, &missing) {
				got = strconv.Itoa(missing.Year)
			} else if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("after %s: got %s (%v), want %s", tt.after, got, err, tt.want)
			}
		})
	}
}

func TestCalendar_KnowsWhyADayIsWhatItIs(t *testing.T) {
	t.Parallel()
	both := Combine(hk2026(), cn2026(), cn2026())
	if both.Name() != "cn+cn+hk" && both.Name() != "cn+hk" {
		t.Errorf("Name() = %q", both.Name())
	}
	for date, want := range map[string]DateInfo{
		"2026-10-01": {Reason: "National Day"},
		"2026-10-03": {Reason: "National Day"},
		"2026-10-10": {Reason: "Saturday"},
		"2026-10-11": {Reason: "Sunday"},
		"2026-10-12": {Business: true},
		"2026-10-19": {Reason: "Chung Yeung"},
	} {
		day, _ := ParseDate(date)
		if got, err := both.Day(day); err != nil || got != want {
			t.Errorf("%s = %+v, %v; want %+v", date, got, err, want)
		}
	}
	if got, err := cn2026().Day(Date{2026, time.October, 10}); err != nil || got != (DateInfo{Business: true, Reason: "worked for National Day"}) {
		t.Errorf("a swapped workday = %+v, %v", got, err)
	}
	if n, err := cn2026().BusinessDays(2026, time.October); err != nil || n != 18 {
		t.Errorf("October 2026 has %d business days, %v; want 18", n, err)
	}
}

func BenchmarkNext_Business(b *testing.B) {
	loc, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		b.Fatal(err)
	}
	both := Combine(cn2026(), hk2026())
	skip, errSkip := NewRolled("0 6 L * *", loc, both, RollSkip)
	roll, errRoll := NewRolled("0 6 L * *", loc, both, RollPrevious)
	day, errDay := NewBusinessDay(5, []string{"10:30"}, loc, both)
	if err := errors.Join(errSkip, errRoll, errDay); err != nil {
		b.Fatal(err)
	}
	at := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for name, s := range map[string]Timetable{"skip": skip, "roll": roll, "business_day": day} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Next(at); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
