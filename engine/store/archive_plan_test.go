package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// TestArchive_LooksRowsUp counts the walks through whole tables, which a
// server notes when the connection that made them has ended.
func TestArchive_LooksRowsUp(t *testing.T) {
	notRaced(t)
	t.Parallel()
	url := storetest.Postgres(t)
	db := storetest.Open(t, url, store.Options{})
	aged(t, db)
	walks := func() int {
		return count(t, db, `SELECT sum(seq_scan) FROM pg_stat_user_tables
			WHERE relname IN ('task_queue', 'task_log', 'task_dependency', 'run', 'task_archive', 'task_log_archive', 'task_dependency_archive', 'run_archive')`)
	}
	archiver, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := walks()
	moved, err := archiver.Archive(t.Context(), time.Hour, 20_000)
	if err != nil || moved.Runs == 0 {
		t.Fatalf("archived %+v, %v", moved, err)
	}
	dropped, err := archiver.Drop(t.Context(), time.Hour, 10_000)
	if err != nil || dropped.Runs == 0 {
		t.Fatalf("dropped %+v, %v", dropped, err)
	}
	if err := archiver.Close(); err != nil {
		t.Fatal(err)
	}
	if n := walks() - before; n != 0 {
		t.Errorf("retention walked %d times through a whole table", n)
	}
}

// TestArchive_SQLiteIsHeldForLittleAtATime looks at each transaction, because all others
// who write wait for it.
func TestArchive_SQLiteIsHeldForLittleAtATime(t *testing.T) {
	t.Parallel()
	c := newClock()
	db := storetest.Open(t, storetest.SQLite(t), store.Options{Now: c.now})
	var wide []task.NewTask
	for i := range 600 {
		wide = append(wide, noop(fmt.Sprint("s", i)))
	}
	create(t, db, newRun("wide", wide))
	if _, err := db.Enqueue(t.Context(), slices.Repeat([]task.Lone{{Type: "noop"}}, 600)); err != nil {
		t.Fatal(err)
	}
	drain(t, db)
	c.move(2 * time.Hour)
	for name, once := range map[string]func(context.Context, time.Duration, int) (task.Archived, error){"archived": db.Archive, "dropped": db.Drop} {
		for got := (task.Archived{Rows: 1}); got.Rows > 0; {
			var err error
			if got, err = once(t.Context(), time.Hour, 1); err != nil {
				t.Fatal(err)
			}
			if got.Rows > 500 {
				t.Errorf("one transaction %s %d rows, want 500 at most", name, got.Rows)
			}
		}
	}
	sound(t, db)
}

func TestDrop_SQLiteFindsLoneTasksByTheirAge(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t), store.Options{})
	heard := db.HearStatements()
	if _, err := db.Drop(t.Context(), time.Hour, 1); err != nil {
		t.Fatal(err)
	}
	for _, text := range heard() {
		if !strings.Contains(text, "run_id IS NULL") {
			continue
		}
		if plan := strings.Join(litePlan(t, db, text), "\n"); strings.Contains(plan, "B-TREE") || !strings.Contains(plan, "finished_at<?") {
			t.Errorf("%s\n%s\nwant no sorting", text, plan)
		}
		return
	}
	t.Error("nobody has looked for lone tasks")
}
