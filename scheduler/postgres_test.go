package scheduler_test

import (
	"context"
	"os"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/scheduler"
)

// TestMain is also the scheduler that a test kills, where it is told to be.
func TestMain(m *testing.M) {
	if url := os.Getenv(childVariable); url != "" {
		os.Exit(childMain(url))
	}
	storetest.Main(m)
}

// rapid is due forty times a second, so that a test need not wait for minutes.
type rapid struct{}

const beat = 25 * time.Millisecond

func (rapid) Next(t time.Time) (calendar.Due, error) {
	return calendar.Due{At: t.Truncate(beat).Add(beat)}, nil
}

func TestFault_F34_ThreeSchedulersOnPostgreSQLMakeOneRunForEachDueTime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db, err := store.Open(ctx, storetest.Postgres(t), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := db.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	job := ticking(t, "rapid", "* * * * *", jobs.CatchupAll)
	job.Schedule[0].Schedule = rapid{}
	start, err := db.Watermark(ctx, job.Name, job.Schedule[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	var three []*scheduler.Scheduler
	for range 3 {
		three = append(three, scheduler.New(scheduler.Options{Store: db, Jobs: []*jobs.Job{job}}))
	}
	read, _ := db.SQL()
	during(t, func() {
		deadline := time.After(30 * time.Second)
		for n := 0; n < 60; {
			select {
			case <-deadline:
				t.Errorf("after 30 s there are %d occurrences, want 60", n)
				return
			case <-time.After(beat):
			}
			if err := read.QueryRow("SELECT count(*) FROM occurrence").Scan(&n); err != nil {
				t.Error(err)
				return
			}
		}
	}, three...)
	var occurrences, runs, matched int
	var last time.Time
	err = read.QueryRow(`SELECT (SELECT count(*) FROM occurrence), (SELECT max(due_at) FROM occurrence), (SELECT count(*) FROM run),
		(SELECT count(DISTINCT r.id) FROM run r JOIN occurrence o ON o.run_id = r.id AND o.due_at = r.due_at)`).Scan(&occurrences, &last, &runs, &matched)
	if err != nil {
		t.Fatal(err)
	}
	want := int(last.Sub(start.Truncate(beat)) / beat)
	if occurrences != want || runs != want || matched != want {
		t.Errorf("there are %d occurrences, %d runs, %d runs at their due time; want %d of each", occurrences, runs, matched, want)
	}
}
