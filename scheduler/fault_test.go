package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
	"madeira/scheduler"
)

// failing is a database that fails at its n-th call, before or after the call
// has had its effect.
type failing struct {
	*store.DB
	calls, n int
	after    bool
}

var errGone = errors.New("the connection is gone")

func (f *failing) fail() bool {
	f.calls++
	return f.calls == f.n
}

func (f *failing) CreateRun(ctx context.Context, n task.NewRun) (task.Created, error) {
	bad := f.fail()
	if bad && !f.after {
		return task.Created{}, errGone
	}
	created, err := f.DB.CreateRun(ctx, n)
	if bad {
		err = errGone
	}
	return created, err
}

func (f *failing) Account(ctx context.Context, due []task.Accounted) ([]task.Created, error) {
	bad := f.fail()
	if bad && !f.after {
		return nil, errGone
	}
	made, err := f.DB.Account(ctx, due)
	if bad {
		err = errGone
	}
	return made, err
}

func (f *failing) FollowEntries(ctx context.Context, entries []task.EntryID) ([]time.Time, error) {
	bad := f.fail()
	if bad && !f.after {
		return nil, errGone
	}
	at, err := f.DB.FollowEntries(ctx, entries)
	if bad {
		err = errGone
	}
	return at, err
}

func (f *failing) Pauses(ctx context.Context, after time.Time) ([]task.Pause, error) {
	if f.fail() {
		return nil, errGone
	}
	return f.DB.Pauses(ctx, after)
}

func (f *failing) NoteProblem(ctx context.Context, e task.EntryID, problem string) error {
	if f.fail() {
		return errGone
	}
	return f.DB.NoteProblem(ctx, e, problem)
}

func (f *failing) SaveJob(ctx context.Context, v task.JobVersion) error {
	if f.fail() {
		return errGone
	}
	return f.DB.SaveJob(ctx, v)
}

func (f *failing) Now(ctx context.Context) (time.Time, error) {
	if f.fail() {
		return time.Time{}, errGone
	}
	return f.DB.Now(ctx)
}

func TestRun_SurvivesAFailureOfEveryCallToTheDatabase(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after the effect %t", after), func(t *testing.T) {
			t.Parallel()
			reached := true
			for n := 1; reached; n++ {
				synctest.Test(t, func(t *testing.T) {
					var c clock
					f := &failing{DB: open(t, &c), n: n, after: after}
					job := ticking(t, "minutely", "* * * * *", jobs.CatchupLatest)
					if _, err := f.DB.Watermark(context.Background(), job.Name, job.Schedule[0].Name); err != nil {
						t.Fatal(err)
					}
					start := time.Now()
					time.Sleep(3*time.Minute + 30*time.Second) // two are missed, one is on time
					s := scheduler.New(scheduler.Options{Store: f, Jobs: []*jobs.Job{job}})
					during(t, func() { time.Sleep(2 * time.Minute) }, s)
					checkMinutes(t, f.DB, "minutely", start, time.Now())
					if runs := count(t, f.DB, "SELECT count(*) FROM run"); runs != 3 {
						t.Errorf("call %d failed: there are %d runs, want 3", n, runs)
					}
					reached = f.calls >= f.n
				})
			}
		})
	}
}

// panicky is a database whose client panics at its n-th call.
type panicky struct {
	*store.DB
	calls, n int
}

func (p *panicky) count() {
	if p.calls++; p.calls == p.n {
		panic("index out of range")
	}
}

func (p *panicky) FollowEntries(ctx context.Context, entries []task.EntryID) ([]time.Time, error) {
	p.count()
	return p.DB.FollowEntries(ctx, entries)
}

func (p *panicky) Account(ctx context.Context, due []task.Accounted) ([]task.Created, error) {
	p.count()
	return p.DB.Account(ctx, due)
}

func TestRun_SurvivesAPanicOfItsOwn(t *testing.T) {
	t.Parallel()
	reached := true
	for n := 1; reached; n++ {
		synctest.Test(t, func(t *testing.T) {
			var c clock
			p := &panicky{DB: open(t, &c), n: n}
			job := ticking(t, "minutely", "* * * * *", jobs.CatchupAll)
			if _, err := p.DB.Watermark(context.Background(), job.Name, job.Schedule[0].Name); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			time.Sleep(time.Second)
			var log lines
			s := scheduler.New(scheduler.Options{Store: p, Jobs: []*jobs.Job{job}, Log: log.logger()})
			during(t, func() { time.Sleep(3*time.Minute + 30*time.Second) }, s)
			checkMinutes(t, p.DB, "minutely", start, time.Now())
			reached = p.calls >= p.n
			if told := log.has("index out of range") && log.has("fault_test.go"); told != reached {
				t.Errorf("call %d: the log tells the panic with its stack: %t, want %t\n%s", n, told, reached, log.text())
			}
		})
	}
}
