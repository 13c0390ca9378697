package scheduler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/scheduler"
)

// manyJobs is how many jobs a team that has grown for years may have.
const manyJobs = 10_000

// from is due first at an instant, and then every so often.
type from struct {
	first time.Time
	every time.Duration
}

func (f from) Next(t time.Time) (calendar.Due, error) {
	if t.Before(f.first) {
		return calendar.Due{At: f.first}, nil
	}
	return calendar.Due{At: f.first.Add(t.Sub(f.first).Truncate(f.every) + f.every)}, nil
}

// many returns jobs of one step that are due when schedule says.
func many(schedule func(i int) jobs.Schedule) []*jobs.Job {
	list := make([]*jobs.Job, manyJobs)
	for i := range list {
		name := fmt.Sprintf("job-%05d", i)
		list[i] = &jobs.Job{
			Name: name, Path: name + ".yaml", Digest: "sha256:" + name, Source: []byte("name: " + name), Priority: 100,
			Key: name + "/${{ schedule.due_at }}", Overlap: jobs.OverlapQueue,
			Schedule: []jobs.Entry{{Name: "0 6 * * * UTC", Schedule: schedule(i), Catchup: jobs.CatchupLatest}},
			Steps:    []jobs.Step{{ID: "only", Uses: "query", Source: true, With: json.RawMessage(`{}`)}},
		}
	}
	return list
}

// save notes the jobs, as serve does when it follows a folder.
func save(b *testing.B, db *store.DB, list []*jobs.Job) []*jobs.Job {
	b.Helper()
	versions := make([]task.JobVersion, len(list))
	for i, j := range list {
		versions[i] = task.JobVersion{Name: j.Name, Digest: j.Digest, Path: j.Path, Source: j.Source}
	}
	if err := db.SaveSource(b.Context(), store.Source{Name: "jobs"}, versions, nil); err != nil {
		b.Fatal(err)
	}
	return list
}

// eachDatabase runs a benchmark on a fresh database of each kind.
func eachDatabase(b *testing.B, fn func(b *testing.B, db *store.DB)) {
	b.Helper()
	urls := map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return "sqlite://" + t.TempDir() + "/state.db" },
		"postgres": storetest.Postgres,
	}
	for _, name := range []string{"sqlite", "postgres"} {
		b.Run(name, func(b *testing.B) {
			db, err := store.Open(b.Context(), urls[name](b), store.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if _, err := db.Migrate(b.Context()); err != nil {
				b.Fatal(err)
			}
			fn(b, db)
		})
	}
}

// cpu returns what this process has used of its processors so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRun_IdlesOverManyJobs tells the share of one core that ten thousand
// schedules take while nothing is due, over two minutes after the first look.
func BenchmarkRun_IdlesOverManyJobs(b *testing.B) {
	eachDatabase(b, func(b *testing.B, db *store.DB) {
		daily, err := calendar.NewTimetable("0 6 1 1 *", time.UTC)
		if err != nil {
			b.Fatal(err)
		}
		s := scheduler.New(scheduler.Options{Store: db, Jobs: save(b, db, many(func(int) jobs.Schedule { return daily }))})
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error)
		began := time.Now()
		go func() { done <- s.Run(ctx) }()
		for n := 0; n < manyJobs; time.Sleep(10 * time.Millisecond) {
			read, _ := db.SQL()
			if err := read.QueryRow("SELECT count(*) FROM schedule_entry").Scan(&n); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(time.Since(began).Seconds(), "s_to_know_all")
		used, at := cpu(b), time.Now()
		time.Sleep(2 * time.Minute)
		b.ReportMetric(100*float64(cpu(b)-used)/float64(time.Since(at)), "cpu_%")
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkRun_TicksManyJobs tells how late ten thousand due times are: how long after
// its instant the run of each is committed with all that belongs to it, as the scheduler
// learns it. All of one instant: with nothing before, with a period, while the runs before
// are live, after a run a day for a month, and followed by three schedulers; then a hundred
// of them a second later, in the midst of the others; and all spread over a minute.
func BenchmarkRun_TicksManyJobs(b *testing.B) {
	atOnce := func(int) time.Duration { return 0 }
	b.Run("at once", func(b *testing.B) { ticks(b, 1, atOnce, past{}) })
	b.Run("with a period", func(b *testing.B) {
		ticks(b, 1, atOnce, past{period: &calendar.Rule{Every: calendar.Day, Of: calendar.Previous}})
	})
	b.Run("still at work", func(b *testing.B) { ticks(b, 1, atOnce, past{busy: true}) })
	b.Run("after a month", func(b *testing.B) { ticks(b, 1, atOnce, past{runs: 30}) })
	b.Run("by three", func(b *testing.B) { ticks(b, 3, atOnce, past{}) })
	b.Run("some later", func(b *testing.B) {
		ticks(b, 1, func(i int) time.Duration { return time.Duration(i/(manyJobs-100)) * time.Second }, past{})
	})
	b.Run("over a minute", func(b *testing.B) {
		ticks(b, 1, func(i int) time.Duration { return time.Minute / manyJobs * time.Duration(i) }, past{})
	})
}

// A past is what there is of the jobs before they are due together.
type past struct {
	period *calendar.Rule
	busy   bool // a run of each is live
	runs   int  // of each that are over
}

func ticks(b *testing.B, schedulers int, after func(i int) time.Duration, p past) {
	b.Helper()
	eachDatabase(b, func(b *testing.B, db *store.DB) {
		save(b, db, many(func(int) jobs.Schedule { return nil }))
		p.prepare(b, db)
		first := time.Now().Add(5 * time.Second).Truncate(time.Second)
		list := many(func(i int) jobs.Schedule { return from{first.Add(after(i)), time.Hour} })
		for _, j := range list {
			j.Period = p.period
		}
		watched := &clocked{DB: db, late: map[task.DueTime]time.Duration{}, all: make(chan struct{})}
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error)
		for range schedulers {
			s := scheduler.New(scheduler.Options{Store: watched, Jobs: list})
			go func() { done <- s.Run(ctx) }()
		}
		time.Sleep(time.Until(first.Add(-100 * time.Millisecond)))
		used, served := cpu(b), serverCPU(b, db)
		<-watched.all
		b.ReportMetric((cpu(b) - used).Seconds(), "cpu_s")
		b.ReportMetric((serverCPU(b, db) - served).Seconds(), "server_cpu_s")
		cancel()
		for range schedulers {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
		watched.report(b, first)
	})
}

// prepare makes runs of all jobs for the days before.
func (p past) prepare(b *testing.B, db *store.DB) {
	b.Helper()
	read, write := db.SQL()
	due := time.Now().Add(-time.Hour)
	if p.busy {
		var all []task.Accounted
		for _, j := range many(func(int) jobs.Schedule { return nil }) {
			run, err := scheduler.Freeze(j, scheduler.Request{Trigger: scheduler.TriggerSchedule, DueAt: due})
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, task.Accounted{Occurrence: task.Occurrence{Job: j.Name, Entry: j.Schedule[0].Name, DueAt: due, Outcome: task.DueRan}, Run: &run})
		}
		for part := range slices.Chunk(all, 1000) {
			if _, err := db.Account(b.Context(), part); err != nil {
				b.Fatal(err)
			}
		}
	}
	number, id, at := "lpad(j::text, 5, '0')", "gen_random_uuid()", "now() - d * interval '1 day'"
	if _, err := read.Exec("SELECT gen_random_uuid()"); err != nil {
		number, id, at = "printf('%05d', j)", "lower(hex(randomblob(16)))", "(unixepoch() - d * 86400) * 1000000"
	}
	for _, stmt := range []string{
		`INSERT INTO run (id, job, job_digest, upstream_key, version, status, trigger, due_at, created_at, started_at, finished_at)
			WITH RECURSIVE jobs (j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM jobs WHERE j < ` + fmt.Sprint(manyJobs-1) + `),
			days (d) AS (SELECT 1 UNION ALL SELECT d + 1 FROM days WHERE d < ` + fmt.Sprint(p.runs) + `)
			SELECT ` + id + `, 'job-' || ` + number + `, 'sha256:job-' || ` + number + `, 'day-' || d, 1, 'success', 'schedule', ` + at + ", " + at + ", " + at + ", " + at + ` FROM days, jobs WHERE d <= ` + fmt.Sprint(p.runs),
		"INSERT INTO run_key (job, upstream_key, version, run_id) SELECT job, upstream_key, version, id FROM run WHERE status = 'success'",
		"INSERT INTO occurrence (job, entry, due_at, outcome, run_id) SELECT job, '0 6 * * * UTC', due_at, 'ran', id FROM run WHERE status = 'success'",
	} {
		if _, err := write.ExecContext(b.Context(), stmt); err != nil {
			b.Fatal(err)
		}
	}
}

// A clocked database notes how late due times are on record.
type clocked struct {
	*store.DB
	mu   sync.Mutex
	late map[task.DueTime]time.Duration // by job
	all  chan struct{}
}

func (c *clocked) Account(ctx context.Context, due []task.Accounted) ([]task.Created, error) {
	made, err := c.DB.Account(ctx, due)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range made {
		o := due[i].Occurrence
		id := task.DueTime{Entry: o.Job, DueAt: o.DueAt}
		if _, there := c.late[id]; there {
			continue
		}
		if c.late[id] = now.Sub(o.DueAt); len(c.late) == manyJobs {
			close(c.all)
		}
	}
	return made, err
}

// report tells of all, and of those that were not due first where that is a small crowd.
func (c *clocked) report(b *testing.B, first time.Time) {
	b.Helper()
	var all, others []time.Duration
	for id, late := range c.late {
		all = append(all, late)
		if id.DueAt.After(first) {
			others = append(others, late)
		}
	}
	if len(others) == 100 {
		b.ReportMetric(float64(slices.Max(others).Milliseconds()), "others_max_ms")
	}
	slices.Sort(all)
	for name, part := range map[string]int{"p50_ms": 50, "p99_ms": 99, "max_ms": 100} {
		b.ReportMetric(float64(all[(len(all)-1)*part/100].Milliseconds()), name)
	}
}

// serverCPU returns what the processes of the server have used so far, where it is on
// this machine and tells; SQLite has none.
func serverCPU(b *testing.B, db *store.DB) time.Duration {
	b.Helper()
	read, _ := db.SQL()
	var file []byte
	if err := read.QueryRow("SELECT pg_read_binary_file('postmaster.pid')").Scan(&file); err != nil {
		return 0
	}
	postmaster, _, _ := strings.Cut(string(file), "\n")
	var ticks int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it ended meanwhile
		}
		// pid (name) state parent … user and system time 11 and 12 fields behind the state, and those of ended children.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		own := filepath.Base(filepath.Dir(name)) == postmaster
		if fields[1] == postmaster || own {
			for _, field := range fields[11:13] {
				n, _ := strconv.Atoi(field)
				ticks += n
			}
		}
		if own {
			for _, field := range fields[13:15] {
				n, _ := strconv.Atoi(field)
				ticks += n
			}
		}
	}
	return time.Duration(ticks) * time.Second / 100 // USER_HZ
}
