package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestEnqueue_TasksAreMadeWhetherOrNotTheBellBehindThemRings(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Postgres(t), store.Options{})
	db.BreakBell()
	first := mustEnqueue(t, db, task.Lone{Type: "noop", Key: "a"})
	again := mustEnqueue(t, db, task.Lone{Type: "noop", Key: "a"}, task.Lone{Type: "noop", Key: "b"})
	if first[0].Known || !again[0].Known || again[0].ID != first[0].ID || again[1].Known {
		t.Errorf("made %+v, then %+v", first, again)
	}
	if _, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop"}}); err != nil {
		t.Error(err)
	}
	claim(t, db, 3)
	sound(t, db)
}

func TestEnqueue_ThatIsRefusedBeforeTheBellLeavesTheConnectionUsable(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Postgres(t), store.Options{MaxConns: 4})
	write(t, db, "ALTER TABLE task_queue ADD CHECK (priority <> 13)")
	for range 3 {
		if _, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop", Priority: 13}}); err == nil {
			t.Error("no error")
		}
	}
	mustEnqueue(t, db, task.Lone{Type: "noop"})
	claim(t, db, 1)
	sound(t, db)
}

// What is answered is on disk, although others may have seen it before: a server that
// dies behind the answer, and writes its log for others alone as rarely as it can, has it.
func TestEnqueue_WhatIsAnsweredOutlivesTheServer(t *testing.T) {
	t.Parallel()
	c := storetest.Private(t, storetest.Options{Settings: []string{"wal_writer_delay=10s", "autovacuum=off"}})
	url, err := c.Database(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	open := func() *store.DB {
		db, err := store.Open(t.Context(), url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var made []int64
		for range 3 {
			time.Sleep(10 * time.Millisecond) // so that the bell rings behind each
			made = append(made, mustEnqueue(t, db, task.Lone{Type: "noop"})[0].ID)
		}
		if err := c.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = db.Close() // its connections are gone
		if err := c.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		db = open()
		if n := count(t, db, fmt.Sprintf("SELECT count(*) FROM task_queue WHERE id IN (%d, %d, %d)", made[0], made[1], made[2])); n != len(made) {
			t.Errorf("%d of %d tasks that were answered for are there", n, len(made))
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// Who is told that a key is known is told what is on disk, although whoever made the task
// did not wait for that.
func TestEnqueue_AKnownKeyOutlivesTheServer(t *testing.T) {
	t.Parallel()
	c := storetest.Private(t, storetest.Options{Settings: []string{"wal_writer_delay=10s", "autovacuum=off"}})
	url, err := c.Database(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.SetOpenTypes(t.Context(), []string{"noop"}); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SET synchronous_commit = off; INSERT INTO task_queue (type, upstream_key) VALUES ('noop', 'k')"); err != nil {
		t.Fatal(err)
	}
	if known := mustEnqueue(t, db, task.Lone{Type: "noop", Key: "k"}); !known[0].Known {
		t.Errorf("answered %+v, want a key that is known", known)
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Close(t.Context()), db.Close() // both are gone
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err = store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, "SELECT count(*) FROM task_key WHERE upstream_key = 'k'"); n != 1 {
		t.Error("the task that was told of is gone")
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
