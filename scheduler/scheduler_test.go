package scheduler_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"madeira/engine/store"
	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/scheduler"
)

// A clock is the database's, and can be set. Inside of a synctest bubble it goes
// by virtual time.
type clock struct{ ahead atomic.Int64 }

func (c *clock) Now() time.Time        { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) jump(by time.Duration) { c.ahead.Add(int64(by)) }

// open returns a fresh SQLite database that goes by the clock.
func open(t *testing.T, c *clock) *store.DB {
	t.Helper()
	ctx := context.Background()
	db, err := store.Open(ctx, "sqlite://"+filepath.Join(t.TempDir(), "state.db"), store.Options{Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	return db
}

// ticking is a job of one step with a schedule, whose key holds the instant.
func ticking(t *testing.T, name, cron string, catchup jobs.Catchup) *jobs.Job {
	t.Helper()
	s, err := calendar.NewTimetable(cron, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return &jobs.Job{
		Name: name, Path: name + ".yaml", Digest: "sha256:" + name, Source: []byte("name: " + name), Priority: 100,
		Key:      name + "/${{ schedule.due_at }}",
		Schedule: []jobs.Entry{{Name: cron + " UTC", Schedule: s, Catchup: catchup}},
		Steps:    []jobs.Step{{ID: "only", Uses: "query", Source: true, With: json.RawMessage(`{}`)}},
	}
}

// An occurrence is a row of the table.
type occurrence struct {
	due                  time.Time
	outcome, reason, run string
}

func occurrences(t *testing.T, db *store.DB, job string) []occurrence {
	t.Helper()
	read, _ := db.SQL()
	rows, err := read.Query("SELECT due_at, outcome, coalesce(reason, ''), coalesce(run_id, '') FROM occurrence WHERE job = ? ORDER BY due_at", job)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []occurrence
	for rows.Next() {
		var micros int64
		var o occurrence
		if err := rows.Scan(&micros, &o.outcome, &o.reason, &o.run); err != nil {
			t.Fatal(err)
		}
		o.due = time.UnixMicro(micros).UTC()
		list = append(list, o)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// count returns the one number that a query gives.
func count(t *testing.T, db *store.DB, query string, args ...any) int {
	t.Helper()
	read, _ := db.SQL()
	var n int
	if err := read.QueryRow(query, args...).Scan(&n); err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
	return n
}

// checkMinutes checks that every whole minute after from, up to to, has exactly
// one occurrence, and each that ran exactly one run of its own.
func checkMinutes(t *testing.T, db *store.DB, job string, from, to time.Time) {
	t.Helper()
	got := occurrences(t, db, job)
	i := 0
	for want := from.Truncate(time.Minute).Add(time.Minute); !want.After(to); want = want.Add(time.Minute) {
		if i >= len(got) || !got[i].due.Equal(want) {
			t.Fatalf("%s: occurrence %d is not %s; there are %d", job, i, want, len(got))
		}
		i++
	}
	if i != len(got) {
		t.Fatalf("%s: there are %d occurrences, want %d up to %s", job, len(got), i, to)
	}
	ran := count(t, db, "SELECT count(*) FROM occurrence WHERE job = ? AND outcome IN ('ran', 'caught_up')", job)
	runs := count(t, db, "SELECT count(*) FROM run WHERE job = ?", job)
	matched := count(t, db, "SELECT count(DISTINCT r.id) FROM run r JOIN occurrence o ON o.run_id = r.id AND o.due_at = r.due_at AND o.job = r.job WHERE r.job = ?", job)
	if ran != runs || runs != matched {
		t.Fatalf("%s: %d due times ran, there are %d runs, and %d of them belong to their due time", job, ran, runs, matched)
	}
}

// during runs schedulers until fn returns, and waits for them.
func during(t *testing.T, fn func(), schedulers ...*scheduler.Scheduler) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, s := range schedulers {
		wg.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	fn()
	cancel()
	wg.Wait()
}

func TestRun_MakesOneRunForEachDueTimeAtItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		job := ticking(t, "minutely", "* * * * *", jobs.CatchupAll)
		var woken atomic.Int64
		s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}, Wake: func() { woken.Add(1) }})
		time.Sleep(100 * time.Millisecond) // virtual: the first look is not at a whole minute
		start := time.Now()
		during(t, func() { time.Sleep(10*time.Minute + 30*time.Second) }, s)
		checkMinutes(t, db, "minutely", start, time.Now())
		for _, o := range occurrences(t, db, "minutely") {
			if o.outcome != "ran" || o.reason != "" {
				t.Errorf("%s is %s, %q; want ran", o.due, o.outcome, o.reason)
			}
		}
		late := count(t, db, "SELECT count(*) FROM occurrence WHERE recorded_at - due_at > 1000000")
		if late != 0 || woken.Load() != 10 {
			t.Errorf("%d due times were recorded more than a second late, and workers were woken %d times, want 10", late, woken.Load())
		}
		if keys := count(t, db, "SELECT count(*) FROM run WHERE upstream_key = 'minutely/2000-01-01T00:03:00Z'"); keys != 1 {
			t.Errorf("%d runs hold the key of the third minute", keys)
		}
	})
}

func TestFault_F34_ThreeSchedulersMakeOneRunForEachDueTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		job := ticking(t, "minutely", "* * * * *", jobs.CatchupAll)
		var three []*scheduler.Scheduler
		for range 3 {
			three = append(three, scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}}))
		}
		time.Sleep(time.Second)
		start := time.Now()
		during(t, func() { time.Sleep(100 * time.Minute) }, three...)
		checkMinutes(t, db, "minutely", start, time.Now())
	})
}

func TestFault_F34_SchedulersThatComeAndGoMakeOneRunForEachDueTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		job := ticking(t, "minutely", "* * * * *", jobs.CatchupAll)
		if _, err := db.Watermark(context.Background(), job.Name, job.Schedule[0].Name); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for seed := range uint64(3) {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, 34))
				for time.Since(start) < 400*time.Minute {
					time.Sleep(time.Duration(r.Int64N(int64(20 * time.Minute)))) // down
					s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}})
					during(t, func() { time.Sleep(time.Duration(r.Int64N(int64(20 * time.Minute)))) }, s)
				}
			})
		}
		wg.Wait()
		last := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}})
		during(t, func() { time.Sleep(10 * time.Second) }, last)
		checkMinutes(t, db, "minutely", start, time.Now())
	})
}

func TestRun_AccountsForEveryDueTimeOverRestarts(t *testing.T) {
	t.Parallel()
	for seed, catchup := range []jobs.Catchup{jobs.CatchupAll, jobs.CatchupLatest, jobs.CatchupNone} {
		t.Run(string(catchup), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				var c clock
				db := open(t, &c)
				job := ticking(t, "minutely", "* * * * *", catchup)
				time.Sleep(time.Second)
				start := time.Now()
				for range 20 {
					s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}})
					during(t, func() { time.Sleep(time.Duration(r.Int64N(int64(5 * time.Minute)))) }, s)
					time.Sleep(time.Duration(r.Int64N(int64(10 * time.Minute)))) // down
				}
				last := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}})
				during(t, func() { time.Sleep(10 * time.Second) }, last)
				checkMinutes(t, db, "minutely", start, time.Now())
				missed := count(t, db, "SELECT count(*) FROM occurrence WHERE outcome = 'missed' AND reason <> '' AND run_id IS NULL")
				caught := count(t, db, "SELECT count(*) FROM occurrence WHERE outcome = 'caught_up'")
				if (missed > 0) != (catchup != jobs.CatchupAll) || (caught > 0) != (catchup != jobs.CatchupNone) {
					t.Errorf("%s: %d missed and %d caught up", catchup, missed, caught)
				}
			})
		})
	}
}

func TestRun_CatchesUpOldestFirstAndNotAllAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		job := ticking(t, "minutely", "* * * * *", jobs.CatchupAll)
		other := ticking(t, "other", "* * * * *", jobs.CatchupAll)
		if _, err := db.Watermark(context.Background(), job.Name, job.Schedule[0].Name); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.Sleep(250*time.Minute + 30*time.Second)
		s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job, other}})
		during(t, func() {
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			if n := count(t, db, "SELECT count(*) FROM run"); n != 100 {
				t.Errorf("half a second after the start there are %d runs, want 100", n)
			}
			time.Sleep(5 * time.Second)
		}, s)
		checkMinutes(t, db, "minutely", start, time.Now())
		if n := count(t, db, "SELECT count(*) FROM run a JOIN run b ON a.due_at < b.due_at AND a.created_at > b.created_at"); n != 0 {
			t.Errorf("%d pairs of runs were made in the wrong order", n)
		}
	})
}

func TestFault_F39_AClockPutForwardGivesOneDecisionForEachDueTime(t *testing.T) {
	t.Parallel()
	for catchup, want := range map[jobs.Catchup]string{jobs.CatchupLatest: "caught_up", jobs.CatchupNone: "missed"} {
		t.Run(string(catchup), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c clock
				db := open(t, &c)
				job := ticking(t, "minutely", "* * * * *", catchup)
				start := c.Now()
				s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}})
				during(t, func() {
					time.Sleep(150 * time.Second)
					c.jump(time.Hour)
					time.Sleep(2 * time.Minute)
				}, s)
				checkMinutes(t, db, "minutely", start, c.Now())
				if n := count(t, db, "SELECT count(*) FROM run"); n > 6 {
					t.Errorf("there are %d runs after the clock was put forward", n)
				}
				if n := count(t, db, "SELECT count(*) FROM occurrence WHERE outcome = ?", want); n == 0 {
					t.Errorf("no due time is %s", want)
				}
			})
		})
	}
}

func TestRun_RecordsWhyADueTimeHasNoRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		incomplete := ticking(t, "incomplete", "* * * * *", jobs.CatchupAll)
		incomplete.Inputs = []jobs.InputDecl{{Name: "amount", Type: "string", Schema: json.RawMessage(`{"type":"string"}`)}}
		broken := ticking(t, "broken", "* * * * *", jobs.CatchupAll)
		broken.Key = "${{ inputs.nothing }}"
		panics := ticking(t, "panics", "* * * * *", jobs.CatchupAll)
		panics.Schedule[0].Schedule = panicking{}
		good := ticking(t, "good", "* * * * *", jobs.CatchupAll)
		var log lines
		s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{incomplete, panics, broken, good}, Log: log.logger()})
		time.Sleep(time.Second)
		start := time.Now()
		during(t, func() { time.Sleep(3 * time.Minute) }, s)
		checkMinutes(t, db, "good", start, time.Now())
		for job, reason := range map[string]string{"incomplete": `"amount" is missing`, "broken": "expr.undefined"} {
			got := occurrences(t, db, job)
			if len(got) != 3 {
				t.Errorf("%s has %d occurrences, want 3", job, len(got))
			}
			for _, o := range got {
				if o.outcome != "skipped" || !strings.Contains(o.reason, reason) || o.run != "" {
					t.Errorf("%s at %s: %s, %q, run %q; want skipped because %s", job, o.due, o.outcome, o.reason, o.run, reason)
				}
			}
		}
		if !log.has("out of dates") || !log.has("amount") {
			t.Errorf("the log does not tell what failed: %s", log.text())
		}
		if n := strings.Count(log.text(), "out of dates"); n > 10 {
			t.Errorf("a schedule that always fails was tried %d times in three minutes", n)
		}
	})
}

type panicking struct{}

func (panicking) Next(time.Time) (calendar.Due, error) { panic("out of dates") }

func TestRun_NotesADueTimeWhoseKeyIsLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		job := ticking(t, "monthly", "* * * * *", jobs.CatchupAll)
		job.Key = "the same"
		s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}})
		during(t, func() { time.Sleep(150 * time.Second) }, s)
		got := occurrences(t, db, "monthly")
		if len(got) != 2 || got[0].outcome != "ran" || got[1].outcome != "repeated" || got[0].run != got[1].run {
			t.Errorf("occurrences %+v, want one that ran and one that is repeated, of one run", got)
		}
	})
}

func TestStart_MakesOneRunOfAKeyHoweverOftenItIsAsked(t *testing.T) {
	t.Parallel()
	var c clock
	db := open(t, &c)
	job := ticking(t, "monthly", "* * * * *", jobs.CatchupAll)
	job.Key = "the same"
	s := scheduler.New(scheduler.Options{Store: db})
	var made atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			created, err := s.Start(context.Background(), job, scheduler.Request{})
			if err != nil {
				t.Errorf("Start: %v", err)
				return
			}
			if !created.Existing {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	if n := count(t, db, "SELECT count(*) FROM run"); n != 1 || made.Load() != 1 {
		t.Errorf("there are %d runs, and %d calls made one; want 1", n, made.Load())
	}
	if n := count(t, db, "SELECT count(*) FROM job WHERE name = 'monthly' AND digest = 'sha256:monthly'"); n != 1 {
		t.Errorf("the job is noted %d times, want once", n)
	}
	_, err := s.Start(context.Background(), job, scheduler.Request{PeriodLabel: "2026-10"})
	var bad *scheduler.RequestError
	if !errors.As(err, &bad) || bad.Field != "period" {
		t.Errorf("Start with a period gives %v, want a RequestError", err)
	}
}
