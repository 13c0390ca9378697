package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// impatient is a database whose sessions wait no longer for a row than that.
func impatient(t *testing.T) (url string) {
	t.Helper()
	url = storetest.Postgres(t)
	sign := "?"
	if strings.Contains(url, "?") {
		sign = "&"
	}
	return url + sign + "lock_timeout=300ms"
}

// hold keeps what a statement locks until release is called.
func hold(t *testing.T, url, statement string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	if _, err := conn.Exec(t.Context(), "BEGIN; "+statement); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
	}
}

func TestExchange_ARowThatSomebodyHoldsKeepsNoOtherOutcomeFromBeingWritten(t *testing.T) {
	t.Parallel()
	url := impatient(t)
	db := storetest.Open(t, url, store.Options{})
	mustEnqueue(t, db, task.Lone{Type: "noop"}, task.Lone{Type: "noop"}, task.Lone{Type: "noop"})
	got := claim(t, db, 3)
	done := []task.Outcome{ok(got[0]), ok(got[1]), ok(got[2])}
	release := hold(t, url, fmt.Sprintf("SELECT FROM task_queue WHERE id = %d FOR UPDATE", got[1].TaskID))
	_, err := db.Exchange(t.Context(), worker, done, task.Want{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("finish task %d", got[1].TaskID)) {
		t.Errorf("error %v, want one that names task %d", err, got[1].TaskID)
	}
	if n := count(t, db, "SELECT count(*) FROM task_queue WHERE state = 'success'"); n != 2 {
		t.Errorf("%d outcomes are written while a row is held, want the other 2", n)
	}
	release()
	if x := exchange(t, db, 0, done...); len(x.Lost) > 0 {
		t.Errorf("handed in again: lost %v", x.Lost)
	}
	sound(t, db)
}

func TestEnqueue_AKeyThatSomebodyHoldsFailsNobodyElse(t *testing.T) {
	t.Parallel()
	url := impatient(t)
	db := storetest.Open(t, url, store.Options{})
	release := hold(t, url, "INSERT INTO task_key (type, upstream_key, task_id) VALUES ('noop', 'k', 1)")
	defer release()
	const callers = 8
	errs := make(chan error, callers)
	go func() {
		_, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop", Key: "k"}})
		errs <- err
	}()
	for i := range callers - 1 {
		go func() {
			_, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop", Key: fmt.Sprint("other", i)}})
			errs <- err
		}()
	}
	failed := 0
	for range callers {
		if err := <-errs; err != nil {
			failed++
			if !strings.Contains(err.Error(), "55P03") {
				t.Error(err)
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d calls failed, want the one whose key is held", failed)
	}
}
