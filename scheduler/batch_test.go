package scheduler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
	"madeira/scheduler"
)

// A heard database tells what is asked of it, before it does it.
type heard struct {
	*store.DB
	account func(due []task.Accounted) error
	follow  func(entries []task.EntryID)
	mu      sync.Mutex
}

func (h *heard) Account(ctx context.Context, due []task.Accounted) ([]task.Created, error) {
	if h.account != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		if err := h.account(due); err != nil {
			return nil, err
		}
	}
	return h.DB.Account(ctx, due)
}

func (h *heard) FollowEntries(ctx context.Context, entries []task.EntryID) ([]time.Time, error) {
	if h.follow != nil {
		h.follow(entries)
	}
	return h.DB.FollowEntries(ctx, entries)
}

// crowd is so many jobs that are due every minute.
func crowd(t *testing.T, n int) []*jobs.Job {
	t.Helper()
	list := make([]*jobs.Job, n)
	for i := range list {
		list[i] = ticking(t, fmt.Sprintf("crowd-%05d", i), "* * * * *", jobs.CatchupAll)
	}
	return list
}

func TestRun_MakesOneRunOfEachWhereABatchOfManyFails(t *testing.T) {
	t.Parallel()
	const many = 2100 // three batches
	for what, fail := range map[string]func() error{
		"never": func() error { return nil },
		"error": func() error { return errGone },
		"panic": func() error { panic("index out of range") },
	} {
		batches := 3
		if what == "never" {
			batches = 1 // it is the same whichever does not fail
		}
		for batch := range batches {
			t.Run(fmt.Sprintf("%s %d", what, batch), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var c clock
					calls := 0
					h := &heard{DB: open(t, &c), account: func([]task.Accounted) error {
						if calls++; calls == batch+1 {
							return fail()
						}
						return nil
					}}
					time.Sleep(time.Second)
					var log lines
					s := scheduler.New(scheduler.Options{Store: h, Jobs: crowd(t, many), Log: log.logger()})
					during(t, func() { time.Sleep(90 * time.Second) }, s)
					runs := count(t, h.DB, "SELECT count(DISTINCT job) FROM run")
					all := count(t, h.DB, "SELECT count(*) FROM run r JOIN occurrence o ON o.run_id = r.id AND o.due_at = r.due_at AND o.outcome = 'ran'")
					if runs != many || all != many {
						t.Errorf("there are runs of %d jobs, and %d runs at their due times, want %d of each", runs, all, many)
					}
					if what == "panic" && !log.has("index out of range") {
						t.Errorf("the log does not tell the panic\n%s", log.text())
					}
				})
			})
		}
	}
}

func TestRun_BoundsWhatABatchHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		var sizes []int
		h := &heard{DB: open(t, &c), account: func(due []task.Accounted) error {
			size := 0
			for _, d := range due {
				size += len(d.Run.Tasks[0].Settings)
			}
			sizes = append(sizes, size)
			return nil
		}}
		list := crowd(t, 120)
		settings, err := json.Marshal(string(bytes.Repeat([]byte("x"), 400<<10)))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range list {
			j.Steps[0].With = settings
		}
		time.Sleep(time.Second)
		during(t, func() { time.Sleep(time.Minute) }, scheduler.New(scheduler.Options{Store: h, Jobs: list}))
		if most := slices.Max(sizes); most > 17<<20 || len(sizes) != 3 {
			t.Errorf("%d batches hold up to %d MiB, want 3 of up to 17", len(sizes), most>>20)
		}
		if runs := count(t, h.DB, "SELECT count(*) FROM run"); runs != len(list) {
			t.Errorf("there are %d runs, want %d", runs, len(list))
		}
	})
}

// TestRun_LooksAtTheClockAfterWhatTookLong has a database that takes three seconds. What
// is due after five must not wait three more.
func TestRun_LooksAtTheClockAfterWhatTookLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		start := time.Now()
		late := map[string]time.Duration{}
		h := &heard{DB: open(t, &c), account: func(due []task.Accounted) error {
			for _, d := range due {
				late[d.Occurrence.Job] = time.Since(d.Occurrence.DueAt)
			}
			time.Sleep(3 * time.Second)
			return nil
		}}
		first, second := ticking(t, "first", "* * * * *", jobs.CatchupAll), ticking(t, "second", "* * * * *", jobs.CatchupAll)
		first.Schedule[0].Schedule, second.Schedule[0].Schedule = from{start.Add(10 * time.Second), time.Hour}, from{start.Add(15 * time.Second), time.Hour}
		during(t, func() { time.Sleep(time.Minute) }, scheduler.New(scheduler.Options{Store: h, Jobs: []*jobs.Job{first, second}}))
		if len(late) != 2 || late["first"] > 10*time.Millisecond || late["second"] > 10*time.Millisecond {
			t.Errorf("they are late by %v, want both on time", late)
		}
	})
}

// TestRun_ReadsNoWatermarksRightBeforeADueTime has the minute after which all are read
// anew end half a second before one is due.
func TestRun_ReadsNoWatermarksRightBeforeADueTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		start := time.Now()
		due := start.Add(60*time.Second + 500*time.Millisecond)
		var reads []time.Duration
		h := &heard{DB: open(t, &c), follow: func(entries []task.EntryID) {
			if len(entries) == 2 {
				reads = append(reads, time.Since(due))
			}
		}}
		first, second := ticking(t, "first", "* * * * *", jobs.CatchupAll), ticking(t, "second", "* * * * *", jobs.CatchupAll)
		first.Schedule[0].Schedule, second.Schedule[0].Schedule = from{due, time.Hour}, from{due.Add(time.Hour), time.Hour}
		during(t, func() { time.Sleep(90 * time.Second) }, scheduler.New(scheduler.Options{Store: h, Jobs: []*jobs.Job{first, second}}))
		if len(reads) != 2 || reads[1] < 0 || reads[1] > time.Second {
			t.Errorf("all watermarks are read %v after the due time, want at first and soon after it", reads)
		}
	})
}
