package jobs_test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"madeira/jobs"
	"madeira/jobs/calendar"
)

// The lists are those that others publish, written down by tools/calendars/check.mjs.
func TestFindCalendar_ShippedOnesAgreeWithPublishedListsOnEveryDay(t *testing.T) {
	t.Parallel()
	for name, years := range map[string][2]int{"cn": {2024, 2026}, "hk": {2024, 2027}, "us-federal": {2020, 2035}, "uk": {2020, 2035}, "eu-target": {2020, 2035}} {
		cal, problems := jobs.FindCalendar(name, ".", jobs.Env{FS: fstest.MapFS{}})
		if cal == nil || len(problems) > 0 {
			t.Fatalf("FindCalendar(%s) gives %v", name, problems)
		}
		marks := published(t, name)
		days := 0
		for day := time.Date(years[0], 1, 1, 0, 0, 0, 0, time.UTC); day.Year() <= years[1]; day = day.AddDate(0, 0, 1) {
			mark := marks[day.Format(time.DateOnly)]
			weekend := day.Weekday() == time.Saturday || day.Weekday() == time.Sunday
			want := mark == "worked" || mark == "" && !weekend
			got, err := cal.Day(calendar.DateOf(day, time.UTC))
			if err != nil || got.Business != want {
				t.Errorf("%s: %s is a business day: %t (%q), %v; want %t", name, day.Format(time.DateOnly), got.Business, got.Reason, err, want)
			}
			days++
		}
		if have := slices.Sorted(maps.Keys(cal.Data().Years)); have[0] != years[0] || have[len(have)-1] != years[1] || len(have) != years[1]-years[0]+1 || days < 1000 {
			t.Errorf("%s has data of %v, want %v", name, have, years)
		}
		if cal.Data().Source == "" {
			t.Errorf("%s does not say where it is from", name)
		}
	}
}

func published(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open("calendar/testdata/published/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	marks := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if day, mark, ok := strings.Cut(lines.Text(), " "); ok && day != "#" {
			marks[day] = mark
		}
	}
	if len(marks) < 30 {
		t.Fatalf("%s lists %d days", name, len(marks))
	}
	return marks
}

const scheduled = "name: a\ntimezone: Asia/Shanghai\n%s\nsteps:\n  - {id: x, uses: fetch, with: {url: \"https://bank.example/x\"}}\n"

// checkSchedule checks one job beside calendars.
func checkSchedule(t *testing.T, lines string, today string, calendars map[string]string) ([]*jobs.Job, []jobs.Problem) {
	t.Helper()
	e := env(".")
	files := fstest.MapFS{"team/job.yaml": {Data: fmt.Appendf(nil, scheduled, lines)}}
	for name, text := range calendars {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	at, err := time.Parse(time.DateOnly, today)
	if err != nil {
		t.Fatal(err)
	}
	e.FS, e.Root, e.Today, e.Strict = files, ".", at, true
	return jobs.Check([]string{"team/job.yaml"}, e)
}

// A job whose calendar has no data of the year that comes is refused on its way into
// git, and can be run by hand where it is there already.
func TestCheck_LetsAJobRunWhoseCalendarEnds(t *testing.T) {
	t.Parallel()
	e := env(".")
	e.FS = fstest.MapFS{"job.yaml": {Data: fmt.Appendf(nil, scheduled, "calendar: cn\nschedule: [{business_day: 5, at: \"10:30\"}]")}}
	e.Today = time.Date(2026, 12, 9, 0, 0, 0, 0, time.UTC)
	for _, strict := range []bool{true, false} {
		e.Strict = strict
		checked, problems := jobs.Check([]string{"job.yaml"}, e)
		if len(problems) != 1 || problems[0].Code != "calendar.year" || problems[0].IsError() != strict || (len(checked) == 0) != strict {
			t.Errorf("strict %t: %d jobs and %v; want calendar.year, an error and no job only where it is strict", strict, len(checked), problems)
		}
	}
}

func TestCheck_ReadsEntriesAndNamesThemByWhatMakesTheirInstants(t *testing.T) {
	t.Parallel()
	found, problems := checkSchedule(t, `calendar: [hk, cn]
schedule:
  - {cron: "30  6 3 * *"}
  - {cron: "0 6 L * *", roll: previous, jitter: 10m}
  - {cron: "0 6 L * *", roll: skip, calendar: weekdays}
  - {business_day: 5, at: "10:30"}
  - {business_day: -1, at: ["18:00", "09:30"], calendar: cn, catchup: none}`, "2026-06-01", nil)
	if len(problems) > 0 {
		t.Fatalf("got %v", problems)
	}
	want := []string{
		"30 6 3 * * Asia/Shanghai: 2026-06-03 06:30",
		"0 6 L * * Asia/Shanghai roll=previous cn+hk: 2026-06-30 06:00",
		"0 6 L * * Asia/Shanghai roll=skip weekdays: 2026-06-30 06:00",
		"business_day 5 10:30 Asia/Shanghai cn+hk: 2026-06-05 10:30",
		"business_day -1 09:30,18:00 Asia/Shanghai cn: 2026-06-30 09:30",
	}
	var got []string
	for _, e := range found[0].Schedule {
		due, err := e.Schedule.Next(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Name+": "+due.At.In(found[0].Location).Format("2006-01-02 15:04"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s := found[0].Schedule; s[1].Jitter != 10*time.Minute || s[0].Jitter != 0 || s[4].Catchup != jobs.CatchupNone {
		t.Errorf("jitter and catchup = %+v", s)
	}
}

func TestCheck_FindsCalendarsBesideTheJobThenAtTheRootThenShipped(t *testing.T) {
	t.Parallel()
	file := func(name, holiday string) string {
		return "name: " + name + "\nsource: us\nyears: {2026: {holidays: {2026-06-" + holiday + ": Feast}}, 2027: {}}\n"
	}
	const entry = "schedule: [{business_day: 1, at: \"10:30\"}]\ncalendar: "
	for _, tt := range []struct{ name, lines, want string }{
		{"beside", entry + "own", "2026-06-02"},
		{"root", entry + "shared", "2026-06-03"},
		{"shipped", entry + "weekdays", "2026-06-01"},
		{"one instead of a shipped one", entry + "uk", "2026-06-04"},
		{"one that includes others", entry + "sum", "2026-06-05"},
	} {
		found, problems := checkSchedule(t, tt.lines, "2026-05-31", map[string]string{
			"team/calendars/own.yaml": file("own", "01"),
			"calendars/own.yaml":      file("own", "05"),
			"calendars/shared.yaml":   "name: shared\nsource: us\nyears: {2026: {holidays: {2026-06-01: Feast, 2026-06-02: Feast}}}\n",
			"team/calendars/uk.yaml":  "name: uk\nsource: us\nyears: {2026: {holidays: {2026-06-01: Feast, 2026-06-02: Feast, 2026-06-03: Feast}}}\n",
			"team/calendars/sum.yaml": "name: sum\nsource: us\ninclude: [shared, own, eu-target]\nyears: {2026: {holidays: {2026-06-03: Feast, 2026-06-04: Feast}}}\n",
		})
		if len(problems) > 0 || len(found) != 1 {
			t.Fatalf("%s: %v", tt.name, problems)
		}
		due, err := found[0].Schedule[0].Schedule.Next(time.Date(2026, 5, 31, 0, 0, 0, 0, time.UTC))
		if got := due.At.Format(time.DateOnly); got != tt.want || err != nil {
			t.Errorf("%s: due on %s, %v; want %s", tt.name, got, err, tt.want)
		}
	}
}

// A problem is written file:line:column code, and a part of its message.
func TestCheck_SaysWhatIsWrongWithSchedulesAndCalendars(t *testing.T) {
	t.Parallel()
	const own = "team/calendars/own.yaml"
	tests := []struct {
		name, lines, calendar, today string
		want                         []string
	}{
		{"no calendar", `schedule: [{business_day: 5, at: "10:30"}]`, "", "", []string{"team/job.yaml:3:13 schedule.calendar weekdays knows Monday to Friday"}},
		{"roll without calendar", `schedule: [{cron: "0 6 L * *", roll: next}]`, "", "", []string{"team/job.yaml:3:32 schedule.calendar roll needs a calendar"}},
		{"unknown calendar", "calendar: cm", "", "", []string{`team/job.yaml:3:11 calendar.unknown no team/calendars/cm.yaml or calendars/cm.yaml, and Madeira ships cn, eu-target, hk, uk, us-federal and weekdays; did you mean "cn"?`}},
		{"unknown in a list", "calendar: [cn, ../x, ownn]", "name: own\nsource: us\n", "", []string{
			"team/job.yaml:3:16 id.charset calendar[1] must be", `team/job.yaml:3:22 calendar.unknown did you mean "own"?`}},
		{"neither", "calendar: cn\nschedule: [{roll: next}]", "", "", []string{
			"team/job.yaml:4:12 yaml.missing_field one of cron, business_day is needed", `team/job.yaml:4:13 yaml.missing_field "cron" is missing; it goes with "roll"`}},
		{"both", "calendar: cn\nschedule: [{cron: \"0 6 * * *\", business_day: 5, at: \"10:30\"}]", "", "", []string{"team/job.yaml:4:32 yaml.exclusive exclude each other"}},
		{"no time", "calendar: cn\nschedule: [{business_day: 5}]", "", "", []string{`team/job.yaml:4:13 yaml.missing_field "at" is missing`}},
		{"values", "calendar: cn\nschedule: [{business_day: 0, at: \"25:00\"}, {business_day: 24, at: [\"10:30\", \"9:30\"]}, {cron: \"0 6 * * *\", roll: nxt}]", "", "", []string{
			"team/job.yaml:4:27 schedule.business_day 1 to 23", "team/job.yaml:4:34 schedule.at hours and minutes", "team/job.yaml:4:59 schedule.business_day 1 to 23", "team/job.yaml:4:77 schedule.at hours and minutes", `team/job.yaml:4:113 value.enum did you mean "next"?`}},
		{"twice", "calendar: cn\nschedule: [{business_day: 5, at: [\"10:30\", \"09:00\"]}, {business_day: 5, at: [\"09:00\", \"10:30\"], calendar: [cn]}]", "", "", []string{"team/job.yaml:4:70 schedule.duplicate business_day 5"}},
		{"next year", "calendar: cn\nschedule: [{business_day: 5, at: \"10:30\"}]", "", "2026-12-09", []string{`team/job.yaml:4:27 calendar.year calendar "cn", which Madeira ships, has data of 2024 to 2026 and none of 2027`}},
		{"next year, not needed yet", "calendar: cn\nschedule: [{business_day: 5, at: \"10:30\"}]", "", "2026-12-01", []string{`team/job.yaml:3:11 calendar.ends warning: no data after 2026`}},
		{"sixty-one days before", "calendar: cn\nschedule: [{business_day: 5, at: \"10:30\"}]", "", "2026-10-31", nil},
		{"no calendar asked", "calendar: cn\nschedule: [{cron: \"0 6 L * *\"}]", "", "2026-12-30", nil},
		{"own data ends", "calendar: own\nschedule: [{business_day: 5, at: \"10:30\"}, {business_day: 6, at: \"10:30\"}]", "name: own\nsource: us\nyears:\n  2026: {}\n", "2026-12-01", []string{own + ":3:1 calendar.ends warning: add 2027"}},
		{"strays", "calendar: weekdays\nperiod: {every: month, of: current}\nschedule: [{cron: \"0 6 L * *\", roll: next}]", "", "2026-10-01", []string{"team/job.yaml:5:19 schedule.strays warning: due on 2026-11-02 stands for 2026-10-31, and its run would be about 2026-11 instead of 2026-10"}},
		{"strays back", "calendar: weekdays\nperiod: {every: month}\nschedule: [{cron: \"0 6 1 * *\", roll: previous}]", "", "2026-10-02", []string{"team/job.yaml:5:19 schedule.strays warning: due on 2026-10-30 stands for 2026-11-01, and its run would be about 2026-09 instead of 2026-10"}},
		{"does not stray", "calendar: weekdays\nperiod: {every: month, of: current}\nschedule: [{cron: \"0 6 L * *\", roll: previous}]", "", "2026-10-01", nil},
		{"bad calendar", "calendar: own\nschedule: [{business_day: 5, at: \"10:30\"}]", `name: owm
source: us
weekend: [saturday, sundey]
include: [own, nix]
years:
  2026:
    holidays:
      2026-02-30: x
      2027-01-01: New Year
      2026-10-01: National Day
    extra_workdays: {2026-10-01: z, 2026-10-06: w}
    holiday: {}
  26: {}
`, "", []string{
			"team/job.yaml:3:11 calendar.invalid has problems",
			own + `:1:7 calendar.name called "owm"`,
			own + `:3:21 value.enum did you mean "sunday"?`,
			own + `:4:11 calendar.cycle includes itself; to add days to one that Madeira ships, give this file another name`,
			own + `:4:16 calendar.unknown "nix"`,
			own + `:8:7 calendar.date "2026-02-30" is no date`,
			own + `:9:7 calendar.date 2027-01-01 stands under 2026; put it under 2027`,
			own + `:11:22 calendar.contradiction 2026-10-01 is a holiday, too`,
			own + `:11:37 calendar.no_effect 2026-10-06 is a Tuesday`,
			own + `:12:5 yaml.unknown_field did you mean "holidays"?`,
			own + `:13:3 calendar.date must be a year such as 2026`,
		}},
		{"calendar that is no YAML", "calendar: own", "name: [", "", []string{"team/job.yaml:3:11 calendar.invalid has problems", own + ":1:7 yaml.syntax "}},
		{"in a circle", "calendar: own", "name: own\nsource: us\ninclude: [other]\n", "", []string{
			"team/job.yaml:3:11 calendar.invalid", own + ":3:11 calendar.invalid", `team/calendars/other.yaml:3:11 calendar.cycle "own" includes this one in turn`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			calendars := map[string]string{"team/calendars/other.yaml": "name: other\nsource: us\ninclude: [own]\n"}
			if tt.calendar != "" {
				calendars[own] = tt.calendar
			}
			today := tt.today
			if today == "" {
				today = "2026-06-01"
			}
			_, problems := checkSchedule(t, tt.lines, today, calendars)
			ok := len(problems) == len(tt.want)
			for _, want := range tt.want {
				place, rest, _ := strings.Cut(want, " ")
				code, message, _ := strings.Cut(rest, " ")
				severity := jobs.SeverityError
				if after, warns := strings.CutPrefix(message, "warning: "); warns {
					severity, message = jobs.SeverityWarning, after
				}
				ok = ok && slices.ContainsFunc(problems, func(p jobs.Problem) bool {
					return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) == place && p.Code == code && strings.Contains(p.Message, message) && p.Severity == severity
				})
			}
			if !ok {
				var got []string
				for _, p := range problems {
					got = append(got, p.String())
				}
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestCheckCalendars_ReadsFilesOnTheirOwn(t *testing.T) {
	t.Parallel()
	e := jobs.Env{Today: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), FS: fstest.MapFS{
		"c/bank.yaml":  {Data: []byte("name: bank\nsource: us\ninclude: [cn, house]\n")},
		"c/house.yaml": {Data: []byte("name: house\nsource: us\nweekend: []\nyears: {2026: {holidays: {2026-11-30: Founders' Day}}}\n")},
		"c/bad.yaml":   {Data: []byte("name: bad\n")},
	}}
	good, problems := jobs.CheckCalendars([]string{"c/bank.yaml", "c/house.yaml", "c/bad.yaml", "c/none.yaml"}, e)
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%s:%d:%d %s %s", p.File, p.Line, p.Column, p.Code, p.Severity))
	}
	want := []string{"c/bad.yaml:1:1 yaml.missing_field error", "c/house.yaml:4:1 calendar.ends warning", "c/none.yaml:0:0 file.unreadable error"}
	if !slices.Equal(got, want) || len(good) != 2 {
		t.Fatalf("got %d calendars and %v, want 2 and %v", len(good), got, want)
	}
	for date, business := range map[string]bool{"2026-11-30": false, "2026-12-01": true, "2026-10-10": true, "2026-10-11": false, "2026-10-02": false} {
		day, _ := calendar.ParseDate(date)
		if got, err := good[0].Day(day); err != nil || got.Business != business {
			t.Errorf("%s = %+v, %v; want a business day: %t", date, got, err, business)
		}
	}
}

// A thousand jobs read their calendar once.
func TestCheck_ReadsACalendarOnce(t *testing.T) {
	t.Parallel()
	e := env(".")
	files := fstest.MapFS{"calendars/own.yaml": {Data: []byte("name: own\nsource: us\nyears: {2026: {}, 2027: {}}\n")}}
	var paths []string
	for i := range 200 {
		path := fmt.Sprintf("job%d.yaml", i)
		text := fmt.Sprintf(scheduled, "calendar: own\nschedule: [{business_day: 5, at: \"10:30\"}]")
		files[path] = &fstest.MapFile{Data: []byte(strings.Replace(text, "name: a", fmt.Sprintf("name: a%d", i), 1))}
		paths = append(paths, path)
	}
	counting := &countingFS{MapFS: files}
	e.FS = counting
	if found, problems := jobs.Check(paths, e); len(found) != 200 || len(problems) > 0 {
		t.Fatalf("%d jobs, %v", len(found), problems)
	}
	if n := counting.opened("calendars/own.yaml"); n < 1 || n > 2 {
		t.Errorf("the calendar was opened %d times for 200 jobs, want once or twice (whether it is there, and to read it)", n)
	}
}
