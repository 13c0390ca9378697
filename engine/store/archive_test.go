package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
)

func archive(t *testing.T, db *store.DB) task.Archived {
	t.Helper()
	got, err := db.Archive(t.Context(), time.Hour, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestArchive_MovesWhatIsOverAndKeepsItReadable(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		old := create(t, db, newRun("k", steps(noop("a"), noop("b", "a"))))
		a := claim(t, db, 1)[0]
		o := ok(a)
		o.Artifacts = []task.Artifact{{Kind: "file", Name: "bill.csv", Digest: "sha256:9", Size: 1}}
		exchange(t, db, 0, o)
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		lone, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop", Key: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		before := picture(t, db, old.ID)
		c.move(2 * time.Hour)
		young := create(t, db, newRun("other", steps(noop("a"))))
		work(t, db)
		if got := archive(t, db); got.Runs != 1 || got.Lone != 1 || got.Rows == 0 {
			t.Errorf("archived %+v, want one run and one lone task", got)
		}
		if n := count(t, db, "SELECT (SELECT count(*) FROM task_queue) + (SELECT count(*) FROM task_dependency) + (SELECT count(*) FROM dead_letter)"); n != 1 {
			t.Errorf("%d rows are left, want the one task of the young run", n)
		}
		if after := picture(t, db, old.ID); after != before {
			t.Errorf("after it was archived the run reads\n%s\nbefore\n%s", after, before)
		}
		page, err := db.Runs(t.Context(), store.RunFilter{Limit: 1})
		if err != nil || len(page) != 1 || page[0].ID != young.ID {
			t.Fatalf("first page = %v, %v", page, err)
		}
		page, err = db.Runs(t.Context(), store.RunFilter{Limit: 1, Before: young.ID})
		if err != nil || len(page) != 1 || page[0].ID != old.ID {
			t.Errorf("second page = %v, %v; want the archived run", page, err)
		}
		if got, err := db.Task(t.Context(), lone[0].ID); err != nil || !got.Archived || got.State != task.Success {
			t.Errorf("the lone task = %+v, %v", got, err)
		}
		again, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop", Key: "x"}})
		if err != nil || !again[0].Known {
			t.Errorf("the key of an archived task is not known any more: %+v, %v", again, err)
		}
		_, err = db.Redrive(t.Context(), store.DeadFilter{IDs: []int64{a.TaskID + 1}}, 0, person)
		if err == nil || !strings.Contains(err.Error(), "is archived") {
			t.Errorf("redrive of an archived task: %v", err)
		}
		sound(t, db)
	})
}

// picture is all that can be read of a run.
func picture(t *testing.T, db *store.DB, id string) string {
	t.Helper()
	run, err := db.FindRun(t.Context(), id[:20])
	tasks, err2 := db.Tasks(t.Context(), id)
	moves, err3 := db.Log(t.Context(), id)
	kept, err4 := db.Artifacts(t.Context(), id)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	for i := range tasks {
		tasks[i].Archived, tasks[i].Failure = false, nil
	}
	text := fmt.Sprintf("%+v\n%+v\n", run, tasks)
	for _, m := range moves {
		text += fmt.Sprintf("%d %d %s %s→%s %s %v\n", m.TaskID, m.Seq, m.Step, m.From, m.To, m.At, m.Failure != nil)
	}
	return text + fmt.Sprintf("%+v", kept)
}

func TestArchive_TheKeyOfAnArchivedRunStillHolds(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		job := steps(source("a"), noop("b", "a"))
		first := create(t, db, newRun("k", job))
		work(t, db)
		c.move(2 * time.Hour)
		archive(t, db)
		second := create(t, db, newRun("k", job))
		work(t, db)
		run, err := db.Run(t.Context(), second.ID)
		if err != nil || run.Status != task.RunRepeated || run.RepeatedOf != first.ID {
			t.Errorf("the same again = %s of %s, %v; want repeated of %s", run.Status, run.RepeatedOf, err, first.ID)
		}
		sound(t, db)
	})
}

// TestFault_F28_FinishedRowsLeaveInSmallBatches does with few rows what the soak
// does with many.
func TestFault_F28_FinishedRowsLeaveInSmallBatches(t *testing.T) {
	notRaced(t)
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		wide := make([]task.NewTask, 0, 3001)
		var all []string
		for i := range 3000 {
			all = append(all, fmt.Sprintf("s%d", i))
			wide = append(wide, noop(all[i]))
		}
		big := create(t, db, newRun("wide", append(wide, noop("join", all...))))
		for i := range 200 {
			create(t, db, newRun(fmt.Sprint("k", i), steps(noop("a"), noop("b", "a"))))
		}
		drain(t, db)
		c.move(2 * time.Hour)
		most := 0
		for {
			got, err := db.Archive(t.Context(), time.Hour, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got.Rows == 0 {
				break
			}
			most = max(most, got.Rows)
			sound(t, db)
			claimInTime(t, db)
		}
		if most > 5000 {
			t.Errorf("one transaction moved %d rows, want at most 5000", most)
		}
		if tasks, err := db.Tasks(t.Context(), big.ID); err != nil || len(tasks) != 3001 || len(tasks[3000].Needs) != 3000 {
			t.Errorf("of the archived run %d tasks are there, %v; want 3001", len(tasks), err)
		}
		dropped, err := db.Drop(t.Context(), 3*time.Hour, 1_000_000)
		if err != nil || dropped.Rows != 0 {
			t.Errorf("dropped too early: %+v, %v", dropped, err)
		}
		c.move(2 * time.Hour)
		if dropped, err = db.Drop(t.Context(), 3*time.Hour, 1_000_000); err != nil || dropped.Runs != 201 {
			t.Errorf("dropped %+v, %v; want 201 runs", dropped, err)
		}
		if n := count(t, db, "SELECT (SELECT count(*) FROM run_archive) + (SELECT count(*) FROM task_archive WHERE run_id IS NOT NULL) + (SELECT count(*) FROM task_dependency_archive)"); n != 0 {
			t.Errorf("%d rows are left in the archive", n)
		}
		if n := count(t, db, "SELECT count(*) FROM run_key"); n != 201 {
			t.Errorf("%d keys are left, want all 201", n)
		}
		sound(t, db)
	})
}

// drain works in large batches until nothing is left.
func drain(t *testing.T, db *store.DB) {
	t.Helper()
	for x := exchange(t, db, 500); len(x.Claimed) > 0; {
		var done []task.Outcome
		for _, claimed := range x.Claimed {
			done = append(done, ok(claimed))
		}
		x = exchange(t, db, 500, done...)
	}
}

// claimInTime enqueues, claims and finishes a task beside the archiver.
func claimInTime(t *testing.T, db *store.DB) {
	t.Helper()
	if _, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop"}}); err != nil {
		t.Fatal(err)
	}
	exchange(t, db, 0, ok(claim(t, db, 1)[0]))
}
