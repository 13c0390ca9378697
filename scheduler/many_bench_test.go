package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

// BenchmarkRun_TicksManyJobs tells how late ten thousand due times of one instant are
// recorded with their runs, of which the last hundred are a second later, in the
// midst of them; and how late those of every job when they are spread over a minute.
func BenchmarkRun_TicksManyJobs(b *testing.B) {
	for _, spread := range []time.Duration{0, time.Minute} {
		b.Run(fmt.Sprintf("over=%s", spread), func(b *testing.B) {
			eachDatabase(b, func(b *testing.B, db *store.DB) {
				save(b, db, many(func(int) jobs.Schedule { return nil }))
				first := time.Now().Add(5 * time.Second).Truncate(time.Second)
				s := scheduler.New(scheduler.Options{Store: db, Jobs: many(func(i int) jobs.Schedule {
					due := first.Add(spread / manyJobs * time.Duration(i))
					if spread == 0 && i >= manyJobs-100 {
						due = due.Add(time.Second)
					}
					return from{due, time.Hour}
				})})
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan error)
				go func() { done <- s.Run(ctx) }()
				time.Sleep(time.Until(first.Add(-100 * time.Millisecond)))
				used := cpu(b)
				read, _ := db.SQL()
				for n := 0; n < manyJobs; time.Sleep(50 * time.Millisecond) {
					if err := read.QueryRow("SELECT count(*) FROM occurrence").Scan(&n); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric((cpu(b) - used).Seconds(), "cpu_s")
				cancel()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
				late := lateness(b, db, first)
				if spread == 0 {
					late = lateness(b, db, first.Add(time.Second))
					b.ReportMetric(float64(late[len(late)-1].Milliseconds()), "others_p100_ms")
					late = lateness(b, db, first)
				}
				for _, q := range []int{50, 99, 100} {
					b.ReportMetric(float64(late[(len(late)-1)*q/100].Milliseconds()), fmt.Sprintf("p%d_ms", q))
				}
			})
		})
	}
}

// lateness returns how long after its instant each due time was recorded, ascending,
// of those from an instant on.
// The instant is when its transaction began: it is seen by others when that ends.
func lateness(b *testing.B, db *store.DB, since time.Time) []time.Duration {
	b.Helper()
	read, _ := db.SQL()
	micros, from := "recorded_at - due_at", fmt.Sprint(since.UnixMicro())
	if _, err := read.Exec("SELECT " + micros + " + 1 FROM occurrence"); err != nil {
		micros, from = "CAST(extract(epoch FROM recorded_at - due_at) * 1000000 AS bigint)", "'"+since.UTC().Format(time.RFC3339)+"'"
	}
	rows, err := read.Query("SELECT " + micros + " FROM occurrence WHERE due_at >= " + from)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	var late []time.Duration
	for rows.Next() {
		var us int64
		if err := rows.Scan(&us); err != nil {
			b.Fatal(err)
		}
		late = append(late, time.Duration(us)*time.Microsecond)
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	slices.Sort(late)
	return late
}
