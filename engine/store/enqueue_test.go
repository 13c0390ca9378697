package store_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// A doorway is one of the two ways to make a task that belongs to no run. It
// returns how many tasks it made.
type doorway func(ctx context.Context, db *store.DB, kind, key string, runAt time.Time, limits string) (int, error)

// byEnqueue goes in by the method, byInsert as business code does.
func byEnqueue(ctx context.Context, db *store.DB, kind, key string, runAt time.Time, limits string) (int, error) {
	l := task.Lone{Type: kind, Payload: json.RawMessage(`{"a":1}`), Key: key, RunAt: runAt, Priority: 7}
	if limits != "" {
		if err := json.Unmarshal([]byte(limits), &l.Limits); err != nil {
			return 0, err
		}
	}
	made, err := db.Enqueue(ctx, []task.Lone{l})
	if err != nil || made[0].Known {
		return 0, err
	}
	return 1, nil
}

func byInsert(ctx context.Context, db *store.DB, kind, key string, runAt time.Time, limits string) (int, error) {
	columns, values := "type, payload, priority", fmt.Sprintf(`'%s', '{"a":1}', 7`, kind)
	if key != "" {
		columns, values = columns+", upstream_key", values+", '"+key+"'"
	}
	if !runAt.IsZero() {
		columns, values = columns+", run_at", values+", "+literal(db, runAt)
	}
	if limits != "" {
		columns, values = columns+", limits", values+", '"+limits+"'"
	}
	_, pool := db.SQL()
	res, err := pool.ExecContext(ctx, "INSERT INTO task_queue ("+columns+") VALUES ("+values+")")
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

func literal(db *store.DB, at time.Time) string {
	if lite(db) {
		return fmt.Sprint(at.UnixMicro())
	}
	return "'" + at.Format(time.RFC3339Nano) + "'"
}

// lite reports whether the database is SQLite.
func lite(db *store.DB) bool {
	read, write := db.SQL()
	return read != write
}

// openTypes opens types for inserts by anybody.
func openTypes(t *testing.T, db *store.DB, types ...string) {
	t.Helper()
	if err := db.SetOpenTypes(t.Context(), types); err != nil {
		t.Fatal(err)
	}
}

// eachDoorway runs the test for both ways on every database.
func eachDoorway(t *testing.T, test func(t *testing.T, db *store.DB, in doorway)) {
	t.Helper()
	for name, in := range map[string]doorway{"Enqueue": byEnqueue, "INSERT": byInsert} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				openTypes(t, db, "noop", "src")
				test(t, db, in)
			})
		})
	}
}

// enter makes one task and wants to hear that it made n.
func enter(t *testing.T, db *store.DB, in doorway, n int, kind, key string, runAt time.Time, limits string) {
	t.Helper()
	got, err := in(t.Context(), db, kind, key, runAt, limits)
	if err != nil {
		t.Fatal(err)
	}
	if got != n {
		t.Fatalf("made %d tasks of type %s and key %q, want %d", got, kind, key, n)
	}
}

func TestDoor_ATaskThatIsDueIsClaimedAndWorked(t *testing.T) {
	t.Parallel()
	eachDoorway(t, func(t *testing.T, db *store.DB, in doorway) {
		enter(t, db, in, 1, "noop", "k", time.Time{}, "")
		c := claim(t, db, 1)[0]
		if c.Type != "noop" || c.Key != "k" || string(c.Settings) != `{"a":1}` || c.Priority != 7 || c.RunID != "" || c.Attempt != 1 {
			t.Errorf("claimed %+v", c)
		}
		exchange(t, db, 0, ok(c))
		sound(t, db)
	})
}

func TestDoor_AKnownKeyOfTheTypeMakesNoTask(t *testing.T) {
	t.Parallel()
	eachDoorway(t, func(t *testing.T, db *store.DB, in doorway) {
		enter(t, db, in, 1, "noop", "k", time.Time{}, "")
		enter(t, db, in, 0, "noop", "k", time.Time{}, "")
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		enter(t, db, in, 0, "noop", "k", time.Time{}, "") // done is known too
		enter(t, db, in, 1, "src", "k", time.Time{}, "")
		for range 2 {
			enter(t, db, in, 1, "noop", "", time.Time{}, "")
		}
		claim(t, db, 3)
		sound(t, db)
	})
}

func TestDoor_ATaskWaitsForItsTimeAndForItsLimits(t *testing.T) {
	t.Parallel()
	eachDoorway(t, func(t *testing.T, db *store.DB, in doorway) {
		const limits = `[{"key":"ledger","slots":1}]`
		enter(t, db, in, 1, "noop", "later", time.Now().Add(time.Hour), "")
		enter(t, db, in, 1, "noop", "later-limited", time.Now().Add(time.Hour), limits)
		enter(t, db, in, 1, "noop", "limited", time.Time{}, limits)
		enter(t, db, in, 1, "noop", "past", time.Now().Add(-time.Hour), "")
		if c := claim(t, db, 1)[0]; c.Key != "past" {
			t.Errorf("claimed %s", c.Key)
		}
		if n := count(t, db, "SELECT count(*) FROM task_later"); n != 2 {
			t.Errorf("%d tasks in task_later, want 2", n)
		}
		if n := count(t, db, "SELECT count(*) FROM task_held WHERE gate = 'limit:ledger' AND priority = 7"); n != 1 {
			t.Errorf("%d tasks held, want 1", n)
		}
		sound(t, db)
	})
}

func TestDoor_ManyThatAskAtOnceMakeOneTaskOfAKey(t *testing.T) {
	t.Parallel()
	eachDoorway(t, func(t *testing.T, db *store.DB, in doorway) {
		const callers, keys = 8, 20
		var wg sync.WaitGroup
		var mu sync.Mutex
		made := 0
		for c := range callers {
			wg.Go(func() {
				for i := range keys {
					n, err := in(t.Context(), db, "noop", fmt.Sprint("k", (i+c)%keys), time.Time{}, "")
					mu.Lock()
					if made += n; err != nil {
						t.Error(err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if made != keys {
			t.Errorf("made %d tasks of %d keys", made, keys)
		}
		claim(t, db, keys)
		sound(t, db)
	})
}

func TestDoor_ATransactionThatIsRolledBackLeavesNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		openTypes(t, db, "noop")
		write(t, db, "CREATE TABLE sale (id integer)")
		_, pool := db.SQL()
		insert := func(end func(*sql.Tx) error) {
			tx, err := pool.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, query := range []string{"INSERT INTO sale VALUES (1)", "INSERT INTO task_queue (type, upstream_key) VALUES ('noop', 'sale-1')"} {
				if _, err := tx.ExecContext(t.Context(), query); err != nil {
					t.Fatal(err)
				}
			}
			if err := end(tx); err != nil {
				t.Fatal(err)
			}
		}
		insert((*sql.Tx).Rollback)
		for _, table := range []string{"sale", "task_queue", "task_key", "task_ready"} {
			if n := count(t, db, "SELECT count(*) FROM "+table); n != 0 {
				t.Errorf("%d rows in %s after the rollback", n, table)
			}
		}
		insert((*sql.Tx).Commit)
		if c := claim(t, db, 1)[0]; c.Key != "sale-1" || c.Priority != 100 {
			t.Errorf("claimed %+v", c)
		}
		sound(t, db)
	})
}

func TestDoor_TypesThatAreNotOpenAreRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		openTypes(t, db, "noop")
		openTypes(t, db, "src") // and noop no more
		for _, kind := range []string{"noop", "command", task.TypeDeliver, "nonsense"} {
			_, err := byInsert(t.Context(), db, kind, "", time.Time{}, "")
			if err == nil || !strings.Contains(err.Error(), "may not be inserted into task_queue") {
				t.Errorf("insert of type %s: %v", kind, err)
			}
		}
		for _, kind := range []string{"command", task.TypeCompare, task.TypeDeliver, task.TypeJob} {
			if err := db.SetOpenTypes(t.Context(), []string{kind}); err == nil {
				t.Errorf("type %s was opened", kind)
			}
			_, pool := db.SQL()
			if _, err := pool.ExecContext(t.Context(), "INSERT INTO open_type (type) VALUES ('"+kind+"')"); err == nil {
				t.Errorf("type %s was opened by hand", kind)
			}
		}
		enter(t, db, byInsert, 1, "src", "", time.Time{}, "")
		if n := count(t, db, "SELECT count(*) FROM task_queue"); n != 1 {
			t.Errorf("%d tasks", n)
		}
		sound(t, db)
	})
}

func TestDoor_OneInsertOfManyRowsSkipsTheKnownOnes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		openTypes(t, db, "noop")
		write(t, db, `INSERT INTO task_queue (type, upstream_key) VALUES ('noop', 'b')`)
		write(t, db, `INSERT INTO task_queue (type, upstream_key, payload) VALUES
			('noop', 'a', '{}'), ('noop', 'b', '{}'), ('noop', 'c', '{}'), ('noop', 'c', '{}'), ('noop', '', '{}'), ('noop', '', '{}')`)
		claim(t, db, 5)
		sound(t, db)
	})
}

func TestDoor_WhatAStrangerSaysOfTheStateDoesNotCount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		openTypes(t, db, "noop")
		write(t, db, `INSERT INTO task_queue (type, state, attempt, fence, moves, worker, condition, step) VALUES ('noop', 'success', 3, 9, 2, 'x', 'no', 'a')`)
		c := claim(t, db, 1)[0]
		if c.Fence != 1 || c.Attempt != 1 || c.Step != "" {
			t.Errorf("claimed %+v", c)
		}
		exchange(t, db, 0, ok(c))
		sound(t, db)
	})
}

func TestEnqueue_AnswersInOrderAndNamesTheTaskThatHasTheKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		first, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop", Key: "b"}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop", Key: "a"}, {Type: "noop", Key: "b"}, {Type: "noop", Key: "a"}, {Type: "noop"}})
		if err != nil {
			t.Fatal(err)
		}
		if got[1] != (task.Enqueued{ID: first[0].ID, Known: true}) || got[2] != (task.Enqueued{ID: got[0].ID, Known: true}) || got[0].Known || got[3].Known || got[0].ID == got[3].ID {
			t.Errorf("got %+v after %+v", got, first)
		}
		claim(t, db, 3)
		sound(t, db)
	})
}

func TestEnqueue_KeepsRetryTimeoutAndDelay(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		want := task.Lone{Type: "noop", Delay: time.Minute, Retry: task.Retry{MaxAttempts: 2, Delay: time.Second}, Timeout: time.Hour, Circuit: "noop/bank"}
		if _, err := db.Enqueue(t.Context(), []task.Lone{want}); err != nil {
			t.Fatal(err)
		}
		if x := exchange(t, db, 1); len(x.Claimed) != 0 {
			t.Fatal("claimed before its time")
		}
		c.move(time.Minute)
		if n, _, err := db.Promote(t.Context(), 10); err != nil || n != 1 {
			t.Fatalf("promoted %d, %v", n, err)
		}
		got := claim(t, db, 1)[0]
		if got.Retry.MaxAttempts != 2 || got.Retry.Delay != time.Second || got.Timeout != time.Hour || got.Circuit != want.Circuit || got.Priority != task.DefaultPriority {
			t.Errorf("claimed %+v", got)
		}
		sound(t, db)
	})
}

func TestEnqueue_RefusesWhatFitsNoRow(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for name, l := range map[string]task.Lone{
			"no type":  {},
			"priority": {Type: "noop", Priority: 1 << 40},
			"key":      {Type: "noop", Key: strings.Repeat("k", 2000)},
			"NUL":      {Type: "noop", Key: "a\x00"},
			"payload":  {Type: "noop", Payload: json.RawMessage(`{`)},
			"large":    {Type: "noop", Payload: json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)},
			"limit":    {Type: "noop", Limits: []task.Limit{{Slots: 1}}},
		} {
			if _, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop"}, l}); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		if n := count(t, db, "SELECT count(*) FROM task_queue"); n != 0 {
			t.Errorf("%d tasks were made", n)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := db.Enqueue(cancelled, []task.Lone{{Type: "noop"}}); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that is done: %v", err)
		}
	})
}

func TestEnqueue_ManyCallsAndLargeListsAreEachWhole(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := map[int64]bool{}
		for caller := range 8 {
			wg.Go(func() {
				list := make([]task.Lone, 1+caller*300)
				for i := range list {
					list[i] = task.Lone{Type: "noop", Key: fmt.Sprintf("%d/%d", caller, i)}
				}
				got, err := db.Enqueue(t.Context(), list)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, e := range got {
					if seen[e.ID] || e.Known {
						t.Errorf("task %+v twice", e)
					}
					seen[e.ID] = true
				}
			})
		}
		wg.Wait()
		if n := count(t, db, "SELECT count(*) FROM task_ready r JOIN task_key k ON k.task_id = r.task_id"); n != len(seen) || n != 8+300*28 {
			t.Errorf("%d tasks are ready, %d were answered", n, len(seen))
		}
		sound(t, db)
	})
}

func TestEnqueue_WorksThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Postgres(t), store.Options{TransactionPooler: true})
	full := task.Lone{
		Type: "noop", Key: "k", RunAt: time.Now().Add(-time.Hour), Delay: time.Second, Priority: 3, Limits: []task.Limit{{Key: "ledger", Slots: 1}},
		Circuit: "noop/bank", Retry: task.Retry{MaxAttempts: 2}, Timeout: time.Minute, Payload: json.RawMessage(`{"a":1}`),
	}
	for range 2 {
		got, err := db.Enqueue(t.Context(), []task.Lone{full, {Type: "noop"}})
		if err != nil {
			t.Fatal(err)
		}
		if got[0].ID == 0 || got[1].ID == 0 {
			t.Errorf("got %+v", got)
		}
	}
	if n := count(t, db, "SELECT count(*) FROM task_held WHERE priority = 3"); n != 1 {
		t.Errorf("%d tasks held, want 1", n)
	}
	claim(t, db, 2)
	sound(t, db)
}
