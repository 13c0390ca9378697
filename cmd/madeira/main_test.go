package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/rogpeppe/go-internal/testscript"

	"madeira/engine/store/storetest"
	"madeira/jobs"
	"madeira/jobs/calendar"
)

// childVariable makes the test binary act as madeira: that is how tests get a
// process to signal and to kill, with the race detector in it where there is one.
const childVariable = "MADEIRA_TEST_CHILD"

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(childMain())
	}
	testscript.Main(suite{m}, map[string]func(){"madeira": func() { os.Exit(childMain()) }})
}

// A suite is the tests with the PostgreSQL that they share.
type suite struct{ m *testing.M }

func (s suite) Run() int { return storetest.Run(s.m) }

// childMain is main for schedules that may fire every second.
func childMain() int {
	p := newProgram()
	p.schedule = withSeconds
	return p.main()
}

// withSeconds reads six fields, the first being seconds, in UTC, and five as
// madeira does.
func withSeconds(spec string, loc *time.Location) (jobs.Schedule, error) {
	if len(strings.Fields(spec)) != 6 {
		return calendar.NewTimetable(spec, loc)
	}
	s, err := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(spec)
	return seconds{s}, err
}

// seconds is a schedule of the parser's own.
type seconds struct{ cron.Schedule }

func (s seconds) Next(t time.Time) (calendar.Due, error) {
	return calendar.Due{At: s.Schedule.Next(t)}, nil
}

// A result is how a call of madeira ended.
type result struct {
	stdout, stderr string
	code           int
}

// call runs madeira inside this process.
func call(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := &program{stdout: &stdout, stderr: &stderr, environ: cleanEnviron(), schedule: withSeconds}
	code := p.run(t.Context(), args)
	return result{stdout.String(), stderr.String(), code}
}

// ok is call for what has to end with 0. It returns standard output.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	r := call(t, args...)
	if r.code != exitOK {
		t.Fatalf("madeira %s exits with %d, want 0\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// cleanEnviron is the environment without what the person who runs the tests has
// set for madeira. What only tests read stays.
func cleanEnviron() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "MADEIRA_") || strings.HasPrefix(pair, "MADEIRA_TEST_") {
			env = append(env, pair)
		}
	}
	return env
}

// eventually polls until a condition holds that another process brings about.
// There is nothing to wait on but the rows it writes, hence the short sleeps.
func eventually(t *testing.T, within time.Duration, what string, holds func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := holds(ctx)
		if done {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s (last error: %v)", what, within, err)
		}
	}
}
