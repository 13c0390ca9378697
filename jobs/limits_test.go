package jobs_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"madeira/jobs"
	"madeira/jobs/calendar"
)

// check checks one file made of a text.
func check(t *testing.T, text string) ([]*jobs.Job, []jobs.Problem) {
	t.Helper()
	e := env(".")
	e.FS = fstest.MapFS{"job.yaml": {Data: []byte(text)}}
	return jobs.Check([]string{"job.yaml"}, e)
}

const oneStep = "steps: [{id: a, uses: fetch, with: {url: \"https://bank.example/a.csv\"}}]\n"

func TestCheck_RefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	steps := func(n int) string {
		var b strings.Builder
		b.WriteString("name: a\nsteps:\n")
		for i := range n {
			fmt.Fprintf(&b, "- {id: s%d, uses: x}\n", i)
		}
		return b.String()
	}
	needs := func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("s%d", i)
		}
		return "name: a\nsteps: [{id: a, uses: fetch, with: {url: \"https://bank.example/a.csv\"}, needs: [" + strings.Join(names, ", ") + "]}]\n"
	}
	tests := []struct {
		id, name, text, want string
	}{
		{"B02", "100,000 brackets", "name: a\nlabels: " + strings.Repeat("[", 100_000), "2:41 yaml.depth_limit"},
		{"B02", "9,000 brackets", "name: a\nlabels: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "\n" + oneStep, "2:40 yaml.depth_limit"},
		{"B02", "100,000 lists in one line", "name: a\nlabels:\n  " + strings.Repeat("- ", 100_000), ":1 yaml.depth_limit"},
		{"B03", "a scalar of 50 MB", "name: a\ndescription: " + strings.Repeat("x", 50<<20), "1:1 yaml.too_large"},
		{"B08", "no bytes", "", "1:1 yaml.root_not_mapping"},
		{"B10", "an alias of nothing", "name: a\nlabels: {team: *none}\n" + oneStep, "2:16 yaml.alias_limit"},
		{"B23", "a control character after old line ends", "name: a\rlabels: {}\r\ndescription: 金额\x01\n", "3:16 yaml.control_char"},
		{"B19", "10,001 steps", steps(10_001), "2:1 dag.too_large"},
		{"B19", "1,001 needs", needs(1_001), "2:80 dag.too_large"},
	}
	for _, tt := range tests {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, problems := check(t, tt.text)
			if took := time.Since(start); took > time.Minute {
				t.Errorf("Check took %s, want a moment even on a busy machine", took)
			}
			if len(problems) != 1 || !strings.Contains(problems[0].String(), tt.want) {
				t.Errorf("Check gives %d problems, the first %.200v, want one: %s", len(problems), problems[:min(1, len(problems))], tt.want)
			}
		})
	}
}

func TestCheck_AcceptsAByteOrderMarkAndEveryLineEnd(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"byte order mark":  "\ufeffname: a\n" + oneStep,
		"CRLF":             strings.ReplaceAll("name: a\ndescription: text\n"+oneStep, "\n", "\r\n"),
		"no final newline": "name: a\n" + strings.TrimSpace(oneStep),
	} {
		if checked, problems := check(t, text); len(checked) != 1 {
			t.Errorf("%s: Check gives %v, want a job", name, problems)
		}
	}
}

func TestCheck_NamesTheUnreadableFileAndTheTakenName(t *testing.T) {
	t.Parallel()
	e := env(".")
	e.FS = fstest.MapFS{
		"a.yaml": {Data: []byte("name: same\n" + oneStep)},
		"b.yaml": {Data: []byte("# comment\nname: same\n" + oneStep)},
		"d.yaml": {Data: []byte("name: other\n" + oneStep)},
	}
	checked, problems := jobs.Check([]string{"a.yaml", "b.yaml", "c.yaml", "d.yaml"}, e)
	if len(checked) != 2 || checked[0].Path != "a.yaml" || checked[1].Path != "d.yaml" {
		t.Errorf("Check gives %d jobs, want those of a.yaml and d.yaml", len(checked))
	}
	want := []string{
		`b.yaml:2:7 job.duplicate_name job "same" is declared in a.yaml too; give one of them another name`,
		`c.yaml:0:0 file.unreadable cannot be read: open c.yaml: ` + fs.ErrNotExist.Error(),
	}
	if len(problems) != 2 || problems[0].String() != want[0] || problems[1].String() != want[1] {
		t.Errorf("problems = %v, want %q", problems, want)
	}
}

// A chain as long as a job may be, and a circle of the same length.
func TestCheck_HandlesLongChainsAndCircles(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	const n = 4_000
	fmt.Fprintf(&b, "name: a\nsteps:\n- {id: s0, uses: x, needs: [s%d]}\n", n-1)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "- {id: s%d, uses: x, needs: [s%d]}\n", i, i-1)
	}
	_, problems := check(t, b.String())
	for _, p := range problems {
		if p.Code == "dag.cycle" {
			if !strings.Contains(p.Message, "s0 → s3999 → s3998") || len(p.Message) > 300 {
				t.Errorf("message = %q, want the first steps of the circle", p.Message)
			}
			return
		}
	}
	t.Error("no dag.cycle among the problems, want one")
}

func TestCheck_TakesAnotherCron(t *testing.T) {
	t.Parallel()
	e := env(".")
	e.FS = fstest.MapFS{"job.yaml": {Data: []byte("name: a\ntimezone: UTC\nschedule: [{cron: every second}]\n" + oneStep)}}
	e.Cron = func(spec string, loc *time.Location) (jobs.Schedule, error) {
		if spec != "every second" || loc != time.UTC {
			t.Errorf("Cron(%q, %s) called, want every second in UTC", spec, loc)
		}
		return everySecond{}, nil
	}
	checked, problems := jobs.Check([]string{"job.yaml"}, e)
	if len(checked) != 1 || len(checked[0].Schedule) != 1 || checked[0].Schedule[0].Catchup != jobs.CatchupLatest {
		t.Errorf("Check gives %v, want a schedule that catches up the latest", problems)
	}
}

type everySecond struct{}

func (everySecond) Next(t time.Time) (calendar.Due, error) {
	return calendar.Due{At: t.Add(time.Second).Truncate(time.Second)}, nil
}

func TestCheck_LeavesUndeclaredConnectionsAloneWithoutConfiguration(t *testing.T) {
	t.Parallel()
	e := env("testdata/bad")
	e.Connections, e.Channels = nil, nil
	_, problems := jobs.Check([]string{"connections.yaml"}, e)
	for _, p := range problems {
		if p.Code != "connection.undeclared" && p.Value != "state" {
			t.Errorf("got %s, want nothing about madeira.yaml", p)
		}
	}
	if len(problems) != 3 {
		t.Errorf("Check gives %d problems, want 2 undeclared connections and the wrong use of state", len(problems))
	}
}
