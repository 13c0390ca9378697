package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// dueRun is a due time of a job whose run has two steps.
func dueRun(job, key string, at time.Time, overlap task.Overlap) task.Accounted {
	return task.Accounted{
		Occurrence: task.Occurrence{Job: job, Entry: "0 6 * * * UTC", DueAt: at, Outcome: task.DueRan},
		Run: &task.NewRun{
			Run:     task.Run{Job: job, JobDigest: "sha256:" + job, Key: key, Trigger: "schedule", DueAt: at},
			Job:     task.JobVersion{Name: job, Digest: "sha256:" + job, Path: job + ".yaml", Source: []byte("name: " + job)},
			Overlap: overlap,
			Tasks: []task.NewTask{
				{Step: "first", Type: "query", Source: true, Settings: json.RawMessage(`{}`)},
				{Step: "then", Type: "query", Needs: []string{"first"}, Settings: json.RawMessage(`{}`)},
			},
		},
	}
}

// recorded is what is on record, oldest first.
func recorded(t *testing.T, db *store.DB) []string {
	t.Helper()
	list, err := db.Occurrences(t.Context(), store.OccurrenceFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, o := range list {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", o.Job, o.DueAt.Format("02"), o.Outcome, o.RunStatus)))
	}
	slices.Sort(lines)
	return lines
}

func TestAccount_MakesTheRunsOfManyDueTimesAsOneByOne(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		day := func(n int) time.Time { return time.Date(2026, 10, n, 6, 0, 0, 0, time.UTC) }
		now, err := db.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		put := dueRun("put-off", "put-off/1", day(1), task.OverlapQueue)
		put.Run.NotBefore = now.Add(time.Hour)
		limited := dueRun("limited", "limited/1", day(1), task.OverlapAllow)
		limited.Run.Concurrency = &task.Limit{Key: "ledger", Slots: 1}
		due := []task.Accounted{
			dueRun("plain", "plain/2", day(2), task.OverlapAllow),
			dueRun("plain", "plain/1", day(1), task.OverlapAllow),
			dueRun("loose", "", day(1), ""), dueRun("loose", "", day(2), ""),
			dueRun("same", "same", day(1), task.OverlapAllow), dueRun("same", "same", day(2), task.OverlapAllow),
			dueRun("queue", "queue/1", day(1), task.OverlapQueue), dueRun("queue", "queue/2", day(2), task.OverlapQueue),
			dueRun("skip", "skip/1", day(1), task.OverlapSkip), dueRun("skip", "skip/2", day(2), task.OverlapSkip),
			{Occurrence: task.Occurrence{Job: "holiday", Entry: "0 6 * * * UTC", DueAt: day(1), Outcome: task.DueSkipped, Reason: "National Day"}},
			put, limited,
		}
		want := []string{
			"holiday 01 skipped", "limited 01 ran pending", "loose 01 ran pending", "loose 02 ran pending", "plain 01 ran pending", "plain 02 ran pending",
			"put-off 01 waiting pending", "queue 01 ran pending", "queue 02 waiting pending", "same 01 ran pending", "same 02 repeated pending",
			"skip 01 ran pending", "skip 02 skipped",
		}
		made, err := db.Account(t.Context(), due)
		if err != nil {
			t.Fatal(err)
		}
		if got := recorded(t, db); !slices.Equal(got, want) {
			t.Errorf("on record is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for i, d := range due {
			if d.Run != nil && made[i].Outcome == "" || d.Run != nil && made[i].Outcome != task.DueSkipped && made[i].Run.ID == "" {
				t.Errorf("%s %s is answered with %+v", d.Occurrence.Job, d.Occurrence.DueAt, made[i])
			}
			mark, err := db.Watermark(t.Context(), d.Occurrence.Job, d.Occurrence.Entry)
			if err != nil || mark.Before(d.Occurrence.DueAt) {
				t.Errorf("the watermark of %s is %s, %v", d.Occurrence.Job, mark, err)
			}
		}
		again, err := db.Account(t.Context(), due)
		if err != nil {
			t.Fatal(err)
		}
		for i := range due {
			if due[i].Run != nil && (!again[i].Existing || again[i].Run.ID != made[i].Run.ID && made[i].Outcome != task.DueSkipped) {
				t.Errorf("asked again, %s %s is answered with run %s, want %s", due[i].Occurrence.Job, due[i].Occurrence.DueAt, again[i].Run.ID, made[i].Run.ID)
			}
		}
		if got := recorded(t, db); !slices.Equal(got, want) {
			t.Errorf("asked again, on record is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		runs, err := db.Runs(t.Context(), store.RunFilter{Limit: 100})
		if err != nil || len(runs) != 10 {
			t.Errorf("there are %d runs, %v; want 10", len(runs), err)
		}
		for _, r := range runs {
			if tasks, err := db.Tasks(t.Context(), r.ID); err != nil || len(tasks) != 2 || r.Version != 1 {
				t.Errorf("run %s of %s has version %d and %d tasks, %v; want 1 and 2", r.ID, r.Job, r.Version, len(tasks), err)
			}
		}
		sound(t, db)
	})
}

func TestAccount_WritesNothingWhereOneCannotBeMade(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		at := time.Date(2026, 10, 1, 6, 0, 0, 0, time.UTC)
		empty := dueRun("empty", "", at, "")
		empty.Run.Tasks = nil
		if _, err := db.Account(t.Context(), []task.Accounted{dueRun("plain", "plain/1", at, ""), empty}); err == nil || !strings.Contains(err.Error(), "at least one step") {
			t.Errorf("Account = %v, want that a run needs a step", err)
		}
		if got := recorded(t, db); len(got) != 0 {
			t.Errorf("on record is %v, want nothing", got)
		}
	})
}

func TestBackfill_TakesThePlaceOfWhatLeftNoRunAndLeavesTheWatermark(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		at := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
		missed := task.Occurrence{Job: "j", Entry: "0 6 * * * UTC", DueAt: at, Outcome: task.DueMissed, Reason: "came due while no scheduler ran"}
		if err := db.RecordOccurrence(t.Context(), missed); err != nil {
			t.Fatal(err)
		}
		fill := func(at time.Time, seen string) task.Created {
			t.Helper()
			d := dueRun("j", "", at, task.OverlapAllow)
			d.Run.Occurrence = &task.Occurrence{Job: "j", Entry: missed.Entry, DueAt: at, Outcome: task.DueCaughtUp, Reason: "backfill by ann", Trigger: "backfill", Replaces: seen}
			made, err := db.CreateRun(t.Context(), *d.Run)
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
		first := fill(at, "")
		if again := fill(at, ""); first.Existing || !again.Existing || again.Run.ID != first.Run.ID {
			t.Errorf("filled twice: runs %s and %s, existing %t and %t", first.Run.ID, again.Run.ID, first.Existing, again.Existing)
		}
		if _, err := db.CancelRun(t.Context(), first.Run.ID, task.Action{Actor: "ann", Action: "cancel", Subject: "run:" + first.Run.ID, Reason: "wrong"}); err != nil {
			t.Fatal(err)
		}
		if again := fill(at, ""); !again.Existing || again.Run.ID != first.Run.ID {
			t.Errorf("a fill that has seen no run made run %s beside %s, which is over meanwhile", again.Run.ID, first.Run.ID)
		}
		second := fill(at, first.Run.ID)
		if second.Existing || second.Run.ID == first.Run.ID {
			t.Errorf("a fill that has seen the run %s made none", first.Run.ID)
		}
		if again := fill(at, first.Run.ID); !again.Existing || again.Run.ID != second.Run.ID {
			t.Errorf("a fill that has seen an earlier run made run %s beside %s", again.Run.ID, second.Run.ID)
		}
		first = second
		later := fill(at.Add(time.Minute), "")
		if mark, err := db.Watermark(t.Context(), "j", missed.Entry); err != nil || !mark.Equal(at) {
			t.Errorf("the watermark is %s, %v; want %s", mark, err, at)
		}
		list, err := db.Occurrences(t.Context(), store.OccurrenceFilter{Job: "j", Outcome: []task.DueOutcome{task.DueCaughtUp}})
		if err != nil || len(list) != 2 || list[0].RunID != later.Run.ID || list[1].RunID != first.Run.ID || list[1].Trigger != "backfill" || list[1].Reason != "backfill by ann" {
			t.Errorf("on record is %+v, %v", list, err)
		}
		if next, err := db.Occurrences(t.Context(), store.OccurrenceFilter{After: list[0].Place()}); err != nil || len(next) != 1 || next[0].RunID != first.Run.ID {
			t.Errorf("behind the first is %+v, %v", next, err)
		}
		if _, err := db.Occurrences(t.Context(), store.OccurrenceFilter{After: "nowhere"}); !errors.Is(err, store.ErrPlace) {
			t.Errorf("behind nowhere: %v, want ErrPlace", err)
		}
		states, err := db.DueRuns(t.Context(), "j", at, at)
		if err != nil || len(states) != 1 || states[task.DueTime{Entry: missed.Entry, DueAt: at}] != (task.KeyState{RunID: first.Run.ID, Status: task.RunPending}) {
			t.Errorf("DueRuns = %v, %v", states, err)
		}
		sound(t, db)
	})
}

// TestAccount_LocksDueTimesInOneOrder has a transaction hold the first of two due
// times. While Account waits for it, the second has to be free, also where its run needs
// no second look and that of the first does: else two schedulers wait for each other.
func TestAccount_LocksDueTimesInOneOrder(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := storetest.Open(t, storetest.Postgres(t), store.Options{})
	at := time.Date(2026, 10, 1, 6, 0, 0, 0, time.UTC)
	first, second := dueRun("a", "a/1", at, task.OverlapAllow), dueRun("b", "b/1", at, task.OverlapAllow)
	first.Run.Concurrency = &task.Limit{Key: "ledger", Slots: 1}
	_, w := db.SQL()
	tx, err := w.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	note := func(job string) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO occurrence (job, entry, due_at, outcome, recorded_at) VALUES ($1, $2, $3, 'missed', now())", job, first.Occurrence.Entry, at)
		return err
	}
	if err := note("a"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := db.Account(ctx, []task.Accounted{second, first})
		done <- err
	}()
	for n, tries := 0, 0; n == 0; tries++ {
		if tries == 1000 {
			t.Fatal("Account does not wait for the due time that somebody else is writing")
		}
		time.Sleep(10 * time.Millisecond)
		n = count(t, db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	}
	if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '200ms'"); err != nil {
		t.Fatal(err)
	}
	if err := note("b"); err != nil {
		t.Errorf("while Account waits for the first due time it holds the second: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got, want := recorded(t, db), []string{"a 01 ran pending", "b 01 ran pending"}; !slices.Equal(got, want) {
		t.Errorf("on record is %v, want %v", got, want)
	}
	sound(t, db)
}
