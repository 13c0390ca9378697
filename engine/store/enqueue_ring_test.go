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

// A mortal is a server of its own that dies without having written more of its log than
// somebody waited for.
type mortal struct {
	*testing.T
	cluster *storetest.Cluster
	url     string
	db      *store.DB
}

func newMortal(t *testing.T) *mortal {
	t.Helper()
	c := storetest.Private(t, storetest.Options{Settings: []string{"wal_writer_delay=10s", "autovacuum=off"}})
	url, err := c.Database(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{T: t, cluster: c, url: url}
	m.open()
	t.Cleanup(func() {
		if err := m.db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := m.db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *mortal) open() {
	m.Helper()
	var err error
	if m.db, err = store.Open(m.Context(), m.url, store.Options{}); err != nil {
		m.Fatal(err)
	}
}

// die kills the server and starts it again.
func (m *mortal) die() {
	m.Helper()
	if err := m.cluster.Kill(); err != nil {
		m.Fatal(err)
	}
	_ = m.db.Close() // its connections are gone
	if err := m.cluster.Restart(m.Context()); err != nil {
		m.Fatal(err)
	}
	m.open()
}

// What is answered is on disk, although others may have seen it before.
func TestEnqueue_WhatIsAnsweredOutlivesTheServer(t *testing.T) {
	t.Parallel()
	m := newMortal(t)
	for range 3 {
		var made []int64
		for range 3 {
			time.Sleep(10 * time.Millisecond) // so that the bell rings behind each
			made = append(made, mustEnqueue(t, m.db, task.Lone{Type: "noop"})[0].ID)
		}
		m.die()
		if n := count(t, m.db, fmt.Sprintf("SELECT count(*) FROM task_queue WHERE id IN (%d, %d, %d)", made[0], made[1], made[2])); n != len(made) {
			t.Errorf("%d of %d tasks that were answered for are there", n, len(made))
		}
	}
}

// Who is told that a key is known is told what is on disk, although whoever made the task
// did not wait for that.
func TestEnqueue_AKnownKeyOutlivesTheServer(t *testing.T) {
	t.Parallel()
	m := newMortal(t)
	if err := m.db.SetOpenTypes(t.Context(), []string{"noop"}); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), m.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // the server is gone
	if _, err := conn.Exec(t.Context(), "SET synchronous_commit = off; INSERT INTO task_queue (type, upstream_key) VALUES ('noop', 'k')"); err != nil {
		t.Fatal(err)
	}
	if known := mustEnqueue(t, m.db, task.Lone{Type: "noop", Key: "k"}); !known[0].Known {
		t.Errorf("answered %+v, want a key that is known", known)
	}
	m.die()
	if n := count(t, m.db, "SELECT count(*) FROM task_key WHERE upstream_key = 'k'"); n != 1 {
		t.Error("the task that was told of is gone")
	}
}
