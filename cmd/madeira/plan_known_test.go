package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const rolledJob = `name: recon
timezone: Asia/Shanghai
calendar: own
period: {every: month, of: current}
connections: [inbox]
upstream_key: recon/${{ period.label }}
schedule: [{cron: "0 18 L 12 *", roll: previous}]
steps:
  - {id: a, needs: [], uses: fetch, with: {from: inbox, path: x.csv}}
  - {id: b, needs: [a], uses: parse, with: {preset: bank, file: "${{ steps.a.outputs.file }}"}}
`

// ownCalendar is a calendar that knows years up to one, each without a holiday
// at its end.
func ownCalendar(last int) string {
	text := "name: own\nsource: us\nweekend: []\nyears:\n"
	for year := last - 3; year <= last; year++ {
		text += fmt.Sprintf("  %d: {holidays: {%d-01-01: New Year}}\n", year, year)
	}
	return text
}

// The data of the calendar end with the year, and the two lines of the schedule know
// their last due time before that at different instants.
func TestPlanDiff_NamesWhatMovesBeforeTheCalendarEnds(t *testing.T) {
	w := newGitWork(t)
	last := time.Now().UTC().AddDate(0, 0, 3).Year()
	const preset = "columns:\n  ref: {from: Ref, type: text}\n"
	w.put(map[string]string{"jobs/recon.yaml": rolledJob, "jobs/calendars/own.yaml": ownCalendar(last), "jobs/presets/bank.yaml": preset, "jobs/madeira.yaml": "connections:\n  inbox: {type: folder, path: inbox}\n"})
	t.Chdir(w.dir)
	edit(t, w.dir, "jobs/recon.yaml", "0 18 L", "0 18 30")
	until := fmt.Sprintf("--until=%d-12-31", last)
	for _, args := range [][]string{{"plan", "--diff", "HEAD"}, {"plan", "--diff", "HEAD", until}} {
		r := call(t, args...)
		was, now := fmt.Sprintf("%d-12-31 18:00 +08:00", last), fmt.Sprintf("%d-12-30 18:00 +08:00", last)
		line := slices.DeleteFunc(strings.Split(r.stdout, "\n"), func(l string) bool { return !strings.Contains(l, "→") || strings.Contains(l, "schedule:") })
		if r.code != exitFailed || strings.Contains(r.stdout, "are the same") || len(line) != 1 ||
			!strings.Contains(line[0], was+"  →") || !strings.Contains(line[0], now) || !strings.Contains(r.stdout, "cannot be told") {
			t.Errorf("%v: exit %d\n%s%s\nwant 1, the move, and up to where it is known", args, r.code, r.stdout, r.stderr)
		}
	}

	edit(t, w.dir, "jobs/recon.yaml", "0 18 30", "0 18 31")
	r := call(t, "plan", "--diff", "HEAD")
	if r.code != exitUsage || strings.Contains(r.stdout, "times are the same") ||
		!strings.Contains(r.stderr, "cannot be told") || !strings.Contains(r.stderr, fmt.Sprintf("none of %d", last+1)) {
		t.Errorf("nothing moves as far as it is known: exit %d\n%s%s\nwant 2, and the year", r.code, r.stdout, r.stderr)
	}

	edit(t, w.dir, "jobs/presets/bank.yaml", "columns:", "colums:")
	r = call(t, "plan", "--diff", "HEAD")
	if r.code != exitUsage || strings.Contains(r.stdout, "gone") || !strings.Contains(r.stdout, "recon  jobs/recon.yaml  cannot be read now") {
		t.Errorf("a broken preset: exit %d\n%s%s\nwant 2, and a job that cannot be read", r.code, r.stdout, r.stderr)
	}
}

// A year that is appended takes nothing away, and changes nothing that was known. Where
// something else in the calendar changes as well, that is said; where the new data end
// early too, what comes after them cannot be told.
func TestPlanDiff_AYearThatIsAppendedLosesNothing(t *testing.T) {
	w := newGitWork(t)
	year := time.Now().UTC().AddDate(0, 0, 3).Year()
	monthly := strings.Replace(rolledJob, "0 18 L 12 *", "0 18 L * *", 1)
	w.put(map[string]string{"jobs/recon.yaml": monthly, "jobs/calendars/own.yaml": ownCalendar(year), "jobs/presets/bank.yaml": "columns:\n  ref: {from: Ref, type: text}\n",
		"jobs/madeira.yaml": "connections:\n  inbox: {type: folder, path: inbox}\n"})
	t.Chdir(w.dir)
	until := fmt.Sprintf("--until=%d-06-15", year+1)
	edit(t, w.dir, "jobs/calendars/own.yaml", "years:\n", fmt.Sprintf("years:\n  %d: {holidays: {%d-01-01: New Year}}\n", year+1, year+1))
	r := call(t, "plan", "--diff", "HEAD", until)
	if r.code != exitOK || strings.Contains(r.stdout, "times are the same") || !strings.Contains(r.stdout, "no due time that could be told before changes, and more can be told now") ||
		!strings.Contains(r.stdout, "nothing could be told before") {
		t.Errorf("a year is appended: exit %d\n%s%s\nwant 0, and what is told now", r.code, r.stdout, r.stderr)
	}
	r = call(t, "plan", "--diff", "HEAD", fmt.Sprintf("--until=%d-06-15", year+2))
	if r.code != exitUsage || !strings.Contains(r.stdout, "nothing could be told before") || !strings.Contains(r.stderr, fmt.Sprintf("none of %d", year+2)) {
		t.Errorf("the new year ends before --until: exit %d\n%s%s\nwant 2, and the year after it", r.code, r.stdout, r.stderr)
	}

	edit(t, w.dir, "jobs/calendars/own.yaml", fmt.Sprintf("%d-01-01: New Year}}\n", year), fmt.Sprintf("%d-01-01: New Year, %d-12-31: Closed}}\n", year, year))
	r = call(t, "plan", "--diff", "HEAD", until)
	if r.code != exitFailed || !strings.Contains(r.stdout, fmt.Sprintf("%d-12-30 18:00", year)) {
		t.Errorf("a day is closed as well: exit %d\n%s%s\nwant 1, and the move", r.code, r.stdout, r.stderr)
	}
}
