package scheduler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/scheduler"
)

// told is what is on record of a job: minute, outcome and reason of each due time.
func told(t *testing.T, db *store.DB, job string) string {
	t.Helper()
	var lines []string
	for _, o := range occurrences(t, db, job) {
		line := o.due.Format("15:04 ") + o.outcome
		if o.reason != "" {
			line += ": " + o.reason
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// sound checks the invariants of the database.
func sound(t *testing.T, db *store.DB) {
	t.Helper()
	broken, err := db.Check(context.Background())
	if err != nil || len(broken) > 0 {
		t.Errorf("the database is not sound: %v, %s", err, strings.Join(broken, "\n"))
	}
}

// A notion is a schedule that a test makes up.
type notion func(t time.Time) (calendar.Due, error)

func (n notion) Next(t time.Time) (calendar.Due, error) { return n(t) }

func minutely(t time.Time) time.Time { return t.Truncate(time.Minute).Add(time.Minute) }

func TestRun_SkipsWhatIsDueInAPauseAlsoWhereNobodyLooked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		job := ticking(t, "minutely", "* * * * *", jobs.CatchupAll)
		ctx := context.Background()
		act := func(do func(context.Context, task.Action) (bool, error)) {
			t.Helper()
			if ok, err := do(ctx, task.Action{Actor: "ann", Action: "pause", Subject: "job:minutely", Reason: "the bank is closed"}); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		time.Sleep(time.Second)
		s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}})
		during(t, func() {
			time.Sleep(90 * time.Second)
			act(db.Pause) // at 00:01:31
			time.Sleep(time.Minute)
		}, s)
		time.Sleep(2 * time.Minute)
		act(db.Resume) // at 00:04:31, and nobody has looked since 00:02:31
		time.Sleep(time.Minute)
		s = scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}})
		during(t, func() { time.Sleep(time.Minute) }, s)
		const paused = "skipped: paused by ann since 2000-01-01T00:01:31Z: the bank is closed"
		want := "00:01 ran\n00:02 " + paused + "\n00:03 " + paused + "\n00:04 " + paused + "\n00:05 caught_up: came due while no scheduler ran\n00:06 ran"
		if got := told(t, db, "minutely"); got != want {
			t.Errorf("on record is\n%s\nwant\n%s", got, want)
		}
		sound(t, db)
	})
}

func TestRun_RecordsHolidaysAndWhatMovedARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		job := ticking(t, "monthly", "* * * * *", jobs.CatchupLatest)
		job.Schedule[0].Schedule = notion(func(t time.Time) (calendar.Due, error) {
			switch due := (calendar.Due{At: minutely(t)}); due.At.Minute() % 3 {
			case 0:
				due.Skipped = "it is a holiday"
				return due, nil
			case 1:
				due.Note = "moved from Saturday"
				return due, nil
			default:
				return due, nil
			}
		})
		time.Sleep(time.Second)
		during(t, func() { time.Sleep(3 * time.Minute) }, scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}}))
		time.Sleep(3*time.Minute + 30*time.Second) // 4 and 5 have runs to be made, 6 is a holiday: 5 is the latest
		during(t, func() { time.Sleep(time.Second) }, scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}}))
		const late = "came due while no scheduler ran"
		want := "00:01 ran: moved from Saturday\n00:02 ran\n00:03 skipped: it is a holiday\n" +
			"00:04 missed: " + late + ", and catchup is latest: a later one came due as well\n00:05 caught_up: " + late + "\n00:06 skipped: it is a holiday"
		if got := told(t, db, "monthly"); got != want {
			t.Errorf("on record is\n%s\nwant\n%s", got, want)
		}
	})
}

func TestRun_PutsARunOffByAJitterThatIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		job := ticking(t, "hourly", "0 * * * *", jobs.CatchupAll)
		job.Schedule[0].Jitter = 10 * time.Minute
		offset := scheduler.Offset(job.Name, job.Schedule[0])
		if offset <= 0 || offset >= 10*time.Minute || offset != scheduler.Offset("hourly", job.Schedule[0]) || offset == scheduler.Offset("other", job.Schedule[0]) {
			t.Fatalf("the offset is %s", offset)
		}
		time.Sleep(time.Second)
		during(t, func() { time.Sleep(time.Hour) }, scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}}))
		due := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)
		if got, want := told(t, db, "hourly"), "01:00 waiting: it is put off until "+due.Add(offset).Format(time.RFC3339); got != want {
			t.Errorf("on record is %q, want %q", got, want)
		}
		if n := count(t, db, "SELECT count(*) FROM run WHERE due_at = ? AND not_before = ? AND upstream_key = 'hourly/2000-01-01T01:00:00Z'", due.UnixMicro(), due.Add(offset).UnixMicro()); n != 1 {
			t.Errorf("%d runs are for one o'clock and begin %s later, want 1", n, offset)
		}
		sound(t, db)
		time.Sleep(10 * time.Minute)
		if _, err := db.TakeTurns(context.Background(), 10); err != nil {
			t.Fatal(err)
		}
		if got := told(t, db, "hourly"); got != "01:00 ran" {
			t.Errorf("on record is %q when the run has begun, want that it ran", got)
		}
		sound(t, db)
	})
}

func TestFault_F43_OverlapDecidesWhileTheRunBeforeIsStillAtWork(t *testing.T) {
	t.Parallel()
	for overlap, want := range map[jobs.Overlap]string{
		jobs.OverlapAllow: "ran ran ran", jobs.OverlapQueue: "ran waiting waiting", jobs.OverlapSkip: "ran skipped skipped",
	} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c clock
				db := open(t, &c)
				job := ticking(t, "minutely", "* * * * *", jobs.CatchupAll)
				job.Overlap = overlap
				time.Sleep(time.Second)
				s := scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}})
				during(t, func() { time.Sleep(3 * time.Minute) }, s)
				var got []string
				list := occurrences(t, db, "minutely")
				for _, o := range list {
					got = append(got, o.outcome)
					if o.outcome != "ran" && !strings.Contains(o.reason, list[0].run) && !strings.Contains(o.reason, list[1].run) {
						t.Errorf("%s is %s because %q, which names no live run", o.due, o.outcome, o.reason)
					}
				}
				if strings.Join(got, " ") != want {
					t.Errorf("the due times are %v, want %s", got, want)
				}
				sound(t, db)
			})
		})
	}
}

func TestFault_F36_CatchUpHasAnEndAndKeepsTheLastOldestFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		job := ticking(t, "minutely", "* * * * *", jobs.CatchupAll)
		if _, err := db.Watermark(context.Background(), job.Name, job.Schedule[0].Name); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.Sleep(1500*time.Minute + 30*time.Second)
		during(t, func() {
			time.Sleep(2*time.Second + 500*time.Millisecond)
			synctest.Wait()
			if n := count(t, db, "SELECT count(*) FROM run"); n != 300 {
				t.Errorf("after two and a half seconds there are %d runs, want 300", n)
			}
			time.Sleep(20 * time.Second)
		}, scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}}))
		checkMinutes(t, db, "minutely", start, time.Now())
		if n := count(t, db, "SELECT count(*) FROM occurrence WHERE outcome = 'caught_up'"); n != 1000 {
			t.Errorf("%d due times are caught up, want 1000", n)
		}
		if n := count(t, db, "SELECT count(*) FROM occurrence a JOIN occurrence b ON a.due_at > b.due_at AND a.outcome = 'missed' AND b.outcome = 'caught_up'"); n != 0 {
			t.Errorf("%d due times are missed that come after one that is caught up", n)
		}
		if n := count(t, db, "SELECT count(*) FROM occurrence WHERE outcome = 'missed' AND reason LIKE '%more than 1000%madeira backfill%'"); n != 500 {
			t.Errorf("%d due times are missed for their number, want 500", n)
		}
	})
}

func TestRun_SaysOnceWhatIsWrongWithAScheduleAndGoesOnWithOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		good := ticking(t, "good", "* * * * *", jobs.CatchupAll)
		bad := ticking(t, "bad", "* * * * *", jobs.CatchupAll)
		start := time.Now()
		bad.Schedule[0].Schedule = notion(func(at time.Time) (calendar.Due, error) {
			switch since := time.Since(start); {
			case since < 5*time.Minute:
				return calendar.Due{}, errors.New("calendar cn has no data for 2027")
			case since < 10*time.Minute:
				return calendar.Due{}, errors.New("calendar cn has no data for 2028")
			default:
				return calendar.Due{At: minutely(at)}, nil
			}
		})
		var log lines
		problem := func(want string) {
			t.Helper()
			synctest.Wait()
			entries, err := db.Entries(context.Background(), "bad")
			if err != nil || len(entries) != 1 || (want == "") != (entries[0].Problem == "") || !strings.Contains(entries[0].Problem, want) {
				t.Errorf("on record of the schedule is %+v, %v; want the problem %q", entries, err, want)
			}
		}
		time.Sleep(time.Second)
		during(t, func() {
			time.Sleep(4 * time.Minute)
			problem("2027")
			time.Sleep(5 * time.Minute)
			problem("2028")
			time.Sleep(3 * time.Minute)
			problem("")
		}, scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{bad, good}, Log: log.logger()}))
		for _, year := range []string{"2027", "2028"} {
			if n := strings.Count(log.text(), "no data for "+year); n != 1 {
				t.Errorf("the log says %d times that there is no data for %s, want once", n, year)
			}
		}
		checkMinutes(t, db, "good", start, time.Now())
		checkMinutes(t, db, "bad", start, time.Now())
	})
}

func TestFault_F39_AClockPutForwardDoesNotMakeABurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		db := open(t, &c)
		job := ticking(t, "minutely", "* * * * *", jobs.CatchupAll)
		job.Schedule[0].Window = 10 * time.Minute
		start := c.Now()
		during(t, func() {
			time.Sleep(150 * time.Second)
			c.jump(time.Hour)
			time.Sleep(2 * time.Minute)
			c.jump(-time.Hour)
			time.Sleep(90 * time.Minute)
		}, scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}}))
		checkMinutes(t, db, "minutely", start, c.Now())
		if n := count(t, db, "SELECT count(*) FROM occurrence WHERE outcome = 'caught_up'"); n < 9 || n > 11 {
			t.Errorf("%d due times are caught up within a window of ten minutes", n)
		}
		if n := count(t, db, "SELECT count(*) FROM occurrence WHERE outcome = 'missed' AND reason LIKE '%catchup_window of 10m0s is over%'"); n < 48 {
			t.Errorf("%d due times are outside of the window", n)
		}
	})
}
