package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
)

const monthEndJob = `name: month-end
timezone: Asia/Shanghai
period: {every: month, of: current}
upstream_key: ledger/${{ period.label }}
overlap: skip
schedule: [{cron: "0 6 L * *"}]
inputs:
  bill: {type: string, default: none}
steps:
  - {id: q, uses: query, with: {connection: state, sql: SELECT 1 AS n, columns: {n: integer}}}
`

// checkedJob checks a job file and returns its job.
func checkedJob(t *testing.T, text string) *jobs.Job {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.yaml")
	write(t, path, text)
	p := &program{schedule: withSeconds}
	checked, problems, err := p.check([]string{path}, nil)
	if err != nil || len(checked) != 1 {
		t.Fatalf("the job is broken: %v %v", problems, err)
	}
	return checked[0]
}

func date(day string) time.Time {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		panic(err)
	}
	return at
}

// moves lists what changes, as what and the local dates of both sides.
func moves(d jobDiff) (list []string) {
	day := func(v *dueDiff) string {
		if v == nil {
			return "-"
		}
		return v.Local[4:14]
	}
	for _, m := range d.Due {
		list = append(list, m.What+" "+day(m.Was)+" "+day(m.Now))
	}
	return list
}

func TestPlanDiff_FromLTo30LosesFebruariesAndMovesMonthsOf31Days(t *testing.T) {
	t.Parallel()
	was, now := checkedJob(t, monthEndJob), checkedJob(t, strings.Replace(monthEndJob, "L * *", "30 * *", 1))
	d := compareJob(was, now, span{from: date("2026-11-15"), until: date("2028-03-15")})
	want := []string{
		"moved 2026-12-31 2026-12-30", "moved 2027-01-31 2027-01-30", "lost 2027-02-28 -", "moved 2027-03-31 2027-03-30",
		"moved 2027-05-31 2027-05-30", "moved 2027-07-31 2027-07-30", "moved 2027-08-31 2027-08-30", "moved 2027-10-31 2027-10-30",
		"moved 2027-12-31 2027-12-30", "moved 2028-01-31 2028-01-30", "lost 2028-02-29 -",
	}
	if got := moves(d); !slices.Equal(got, want) {
		t.Errorf("what changes is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if d.What != "" || len(d.Steps) > 0 || len(d.Entries) != 1 {
		t.Errorf("the job is %q with steps %v and entries %v, want the same meaning and another line of the schedule", d.What, d.Steps, d.Entries)
	}
}

func TestPlanDiff_TellsWhatElseChanges(t *testing.T) {
	t.Parallel()
	s := span{from: date("2026-11-15"), until: date("2027-02-15"), sameCalendars: true}
	compare := func(from, to string) jobDiff {
		t.Helper()
		return compareJob(checkedJob(t, monthEndJob), checkedJob(t, strings.Replace(monthEndJob, from, to, 1)), s)
	}
	if d := compare("nothing", "nothing"); d.differs() {
		t.Errorf("the same job differs: %+v", d)
	}
	if d := compare("name:", "# why\nname:"); d.differs() {
		t.Errorf("a comment makes a difference: %+v", d)
	}
	if d := compare("SELECT 1", "SELECT 2"); d.What != "changed" || !slices.Equal(d.Steps, []stepDiff{{"q", "changed"}}) || len(d.Due) > 0 {
		t.Errorf("another query: %+v, want step q changed and the same due times", d)
	}
	if d := compare(`"0 6 L`, `"0 7 L`); !slices.Equal(moves(d), []string{"moved 2026-11-30 2026-11-30", "moved 2026-12-31 2026-12-31", "moved 2027-01-31 2027-01-31"}) {
		t.Errorf("an hour later: %v", moves(d))
	}
	if d := compare("current", "previous"); len(d.Due) != 3 || d.Due[0].What != "changed" || d.Due[0].Was.Key != "ledger/2026-11" || d.Due[0].Now.Key != "ledger/2026-10" || !slices.Contains(d.Settings, "period") {
		t.Errorf("another period: %+v, want three due times for other keys", d)
	}
	if d := compare("timezone: Asia/Shanghai", "timezone: America/New_York"); len(d.Due) != 3 || d.Due[0].What != "moved" || d.Due[0].Now.Local != "Mon 2026-11-30 06:00 -05:00" {
		t.Errorf("another zone: %v", moves(d))
	}
	if d := compare(`schedule: [{cron: "0 6 L * *"}]`, `schedule: [{cron: "0 6 L * *"}, {cron: "0 6 20 1 *"}]`); !slices.Equal(moves(d), []string{"new - 2027-01-20"}) {
		t.Errorf("one more line: %v", moves(d))
	}
	gone := compareJob(checkedJob(t, monthEndJob), nil, s)
	if gone.What != "gone" || len(gone.Due) != 3 || gone.Due[0].What != "lost" {
		t.Errorf("a job that is gone: %+v, want its due times lost", gone)
	}
}

func TestPlanDiff_ComparesWithGit(t *testing.T) {
	w := newGitWork(t)
	w.put(map[string]string{"jobs/month-end.yaml": monthEndJob, "jobs/old.yaml": strings.Replace(monthEndJob, "name: month-end", "name: old", 1)})
	t.Chdir(w.dir)
	if r := call(t, "plan", "--diff", "HEAD"); r.code != exitOK || !strings.Contains(r.stdout, "no job and no due time changes") {
		t.Errorf("nothing changed: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	edit(t, w.dir, "jobs/month-end.yaml", "0 6 L", "0 6 30")
	if err := os.Rename("jobs/old.yaml", "jobs/renamed.yaml"); err != nil { // the same job in another file
		t.Fatal(err)
	}
	r := call(t, "plan", "--diff", "main", "--until", time.Now().AddDate(2, 0, 0).Format(time.DateOnly), "jobs")
	lines := strings.Split(r.stdout, "\n")
	lost, moved := lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  lost:") })], ""
	for _, l := range lines {
		if strings.HasPrefix(l, "  moved:") {
			moved = l
		}
	}
	for at := time.Now().AddDate(0, 1, 0); at.Before(time.Now().AddDate(1, 11, 0)); at = at.AddDate(0, 0, 25) {
		month := at.Format("January 2006")
		switch days := time.Date(at.Year(), at.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day(); {
		case days < 30 && !strings.Contains(lost, month):
			t.Errorf("%s is lost and not named in %q", month, lost)
		case days == 31 && !strings.Contains(moved, month):
			t.Errorf("%s moves and is not named in %q", month, moved)
		case days == 30 && strings.Contains(r.stdout, month):
			t.Errorf("%s is named, and has 30 days", month)
		}
	}
	if r.code != exitFailed || strings.Contains(r.stdout, "renamed.yaml") {
		t.Errorf("exit %d\n%s%s\nwant 1, and nothing of a file that was renamed", r.code, r.stdout, r.stderr)
	}
	write(t, "jobs/month-end.yaml", "name: month-end\nsteps: [")
	if r := call(t, "plan", "--diff", "HEAD"); r.code != exitUsage || !strings.Contains(r.stderr, "jobs/month-end.yaml:2") || !strings.Contains(r.stdout, "cannot be read now") {
		t.Errorf("a broken job: exit %d\n%s%s\nwant 2 and the place", r.code, r.stdout, r.stderr)
	}
	if r := call(t, "plan", "--diff", "nowhere"); r.code != exitUsage || !strings.Contains(r.stderr, "nowhere") {
		t.Errorf("no such ref: exit %d %s", r.code, r.stderr)
	}
	if status := w.run("status", "--porcelain"); strings.Contains(status, ".madeira") {
		t.Errorf("it has written into the work tree: %s", status)
	}
}

func TestPlan_TouchesNothingAndSaysWhatItCannotTell(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "job.yaml", strings.Replace(monthEndJob, "{type: string, default: none}", "{type: file}", 1))
	write(t, "bill.csv", "a\n")
	out := ok(t, "plan", "month-end", "--input", "bill=@bill.csv", "--period", "2026-10", "--next", "3")
	for _, want := range []string{"period        2026-10, from 2026-10-01 to before 2026-11-01", "upstream_key  ledger/2026-10", "bill.csv", "state database was not asked (there is none"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if without := ok(t, "plan", "job.yaml"); !strings.Contains(without, "cannot be told") || !strings.Contains(without, "required") {
		t.Errorf("without a required input it says\n%s\nwant that the key cannot be told", without)
	}
	for _, bad := range [][]string{{"plan", "job.yaml", "--period", "2026"}, {"plan", "nothing"}, {"plan", "job.yaml", "--input", "x=1"}, {"plan"}} {
		if r := call(t, bad...); r.code != exitUsage {
			t.Errorf("%v: exit %d, want 2", bad, r.code)
		}
	}
	entries, err := os.ReadDir(".")
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v, %v; want what was there", entries, err)
	}
}

func TestPlan_ShowsYearsThatACalendarLacksAtTheirPlace(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("calendars", 0o755); err != nil {
		t.Fatal(err)
	}
	year := time.Now().Year()
	write(t, "calendars/ours.yaml", fmt.Sprintf("name: ours\nsource: ours\nyears:\n  %d: {holidays: {}}\n  %d: {holidays: {}}\n", year, year+1))
	write(t, "job.yaml", strings.Replace(monthEndJob, `schedule: [{cron: "0 6 L * *"}]`, "calendar: ours\nschedule: [{business_day: 5, at: \"10:30\"}]", 1))
	var plan struct{ Next []duePlan }
	if err := json.Unmarshal([]byte(ok(t, "plan", "job.yaml", "--next", "100", "-o", "json")), &plan); err != nil {
		t.Fatal(err)
	}
	last := plan.Next[len(plan.Next)-1]
	if len(plan.Next) < 12 || last.Outcome != "error" || !strings.Contains(last.Reason, fmt.Sprint(year+2)) || last.DueAt.Year() != year+1 {
		t.Errorf("the last of %d due times is %+v, want the year %d missing behind %d", len(plan.Next), last, year+2, year+1)
	}
	if first := plan.Next[0]; first.Outcome != "run" || first.Key == "" || first.Period == "" {
		t.Errorf("the first due time is %+v, want a run with its key", first)
	}
}

func TestPlan_AsksTheStateDatabaseWhatIsLiveAndWasMissed(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "job.yaml", strings.Replace(monthEndJob, "upstream_key: ledger/${{ period.label }}\n", "", 1))
	url := "sqlite://" + filepath.Join(dir, "state.db")
	ok(t, "migrate", "--database", url)
	db, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := db.CreateRun(t.Context(), task.NewRun{
		Run:   task.Run{Job: "month-end", JobDigest: "sha256:1", Trigger: "manual"},
		Tasks: []task.NewTask{{Step: "q", Type: "query"}}, Job: task.JobVersion{Name: "month-end", Digest: "sha256:1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	job := checkedJob(t, monthEndJob)
	mark := task.Occurrence{Job: "month-end", Entry: job.Schedule[0].Name, DueAt: time.Now().AddDate(0, -3, 0), Outcome: task.DueMissed}
	if err := db.RecordOccurrence(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var plan jobPlan
	if err := json.Unmarshal([]byte(ok(t, "plan", "job.yaml", "--database", url, "-o", "json")), &plan); err != nil {
		t.Fatal(err)
	}
	if plan.State != "" || len(plan.Past) < 2 || plan.Past[0].Outcome != "catch_up" {
		t.Errorf("past due is %+v (%s), want what would be caught up", plan.Past, plan.State)
	}
	if first := plan.Next[0]; first.Outcome != "skip" || !strings.Contains(first.Reason, made.Run.ID) || plan.Next[1].Outcome != "run" {
		t.Errorf("the next due times are %+v, want the first skipped for run %s", plan.Next[:2], made.Run.ID)
	}
}

func TestPlan_CatchesUpNothingOfAPause(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "job.yaml", strings.Replace(monthEndJob, "upstream_key: ledger/${{ period.label }}\n", "", 1))
	db := stateIn(t, dir)
	url := "sqlite://" + filepath.Join(dir, "state.db")
	job := checkedJob(t, monthEndJob)
	mark := task.Occurrence{Job: "month-end", Entry: job.Schedule[0].Name, DueAt: time.Now().AddDate(0, -3, 0), Outcome: task.DueMissed}
	if err := db.RecordOccurrence(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	past := func() []duePlan {
		t.Helper()
		var plan jobPlan
		if err := json.Unmarshal([]byte(ok(t, "plan", "job.yaml", "--database", url, "-o", "json")), &plan); err != nil {
			t.Fatal(err)
		}
		if plan.State != "" || len(plan.Past) < 2 {
			t.Fatalf("past due is %+v (%s), want what came due in three months", plan.Past, plan.State)
		}
		return plan.Past
	}
	ok(t, "pause", "job:month-end", "--reason", "the ledger is closed", "--database", url)
	if _, err := database(t, url).Exec("UPDATE hold SET since = (SELECT due_at FROM occurrence)"); err != nil {
		t.Fatal(err)
	}
	skipped := func(when string) {
		t.Helper()
		for _, v := range past() {
			if v.Outcome != "skip" || !strings.Contains(v.Reason, "the ledger is closed") {
				t.Errorf("%s: %+v, want it skipped for the pause", when, v)
			}
		}
	}
	skipped("in the pause")
	ok(t, "resume", "job:month-end", "--reason", "it is open", "--database", url)
	skipped("after the pause")
}

func TestPlan_ReadsTheClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stateIn(t, dir)
	p := &program{database: "sqlite://" + filepath.Join(dir, "state.db"), environ: cleanEnviron()}
	begun := time.Now()
	state, done := p.peek(t.Context(), dir, checkedJob(t, monthEndJob))
	defer done()
	if state.unasked != "" || state.now.Sub(begun).Abs() > time.Minute {
		t.Errorf("the time is %s (%s), want that of the database", state.now, state.unasked)
	}
}
