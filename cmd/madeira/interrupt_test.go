package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
)

// A bank hands out the bill of a folder, and stops in the middle of it until it is
// told to go on: whoever fetches is caught at work, however slow the machine.
type bank struct {
	server *httptest.Server
	goOn   func()
}

// newBank makes the job of a folder fetch its bill from a bank.
func newBank(t *testing.T, dir string) bank {
	t.Helper()
	bill, err := os.ReadFile(filepath.Join(dir, "bill.csv"))
	if err != nil {
		t.Fatal(err)
	}
	open := make(chan struct{})
	b := bank{goOn: sync.OnceFunc(func() { close(open) })}
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		half := len(bill) / 2
		_, _ = w.Write(bill[:half]) // an error here is the client's business
		_ = http.NewResponseController(w).Flush()
		select {
		case <-open:
			_, _ = w.Write(bill[half:])
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		b.goOn()
		b.server.Close()
	})
	edit(t, dir, "madeira.yaml", "channels:", "  bank: {type: http, url: "+b.server.URL+"}\nchannels:")
	edit(t, dir, "job.yaml", "connections: [files, state]", "connections: [files, state, bank]")
	edit(t, dir, "job.yaml", `{from: files, path: "bill.csv*", pick: exactly_one}`, "{from: bank, path: bill.csv}")
	return b
}

// undisturbed returns the tables that one run of a folder's job leaves behind.
func undisturbed(t *testing.T, dir, url string) map[string][]string {
	t.Helper()
	ok(t, "migrate", "--database", url)
	ok(t, "run", filepath.Join(dir, "job.yaml"), "--database", url)
	return targets(t, database(t, url))
}

// another returns a fresh database of the kind of url.
func another(t *testing.T, url string) string {
	t.Helper()
	if strings.HasPrefix(url, "sqlite:") {
		return storetest.SQLite(t)
	}
	return storetest.Postgres(t)
}

// wantSound holds a database against the invariants.
func wantSound(t *testing.T, url string) {
	t.Helper()
	broken, err := storetest.Check(t.Context(), storetest.Open(t, url, store.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range broken {
		t.Error(line)
	}
}

// TestFault_F08_InterruptedRunIsTakenUpByTheSameCall interrupts a run in the
// middle of a big bill.
func TestFault_F08_InterruptedRunIsTakenUpByTheSameCall(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := initFolder(t)
		bigBill(t, dir, 5000)
		want := undisturbed(t, dir, another(t, url))
		bank := newBank(t, dir)
		ok(t, "migrate", "--database", url)
		db := database(t, url)

		run := []string{"run", "job.yaml", "--database", url}
		first := start(t, dir, []string{"MADEIRA_GRACE=1s"}, run...)
		first.holds(t, db, "bill")
		first.signal(t, syscall.SIGINT)
		if got := first.wait(t); got != exitInterrupted {
			t.Fatalf("the interrupted run exits with %d, want %d", got, exitInterrupted)
		}
		if got, want := first.stderr.String(), "interrupted; the same call takes the run up again"; !strings.Contains(got, want) {
			t.Errorf("the interrupted run says %q, want %q in it", got, want)
		}
		wantReleased(t, url, "bill")

		bank.goOn()
		second := start(t, dir, nil, run...)
		if got := second.wait(t); got != exitOK {
			t.Fatalf("the same call exits with %d, want 0", got)
		}
		if got := second.stderr.String(); !strings.Contains(got, "taking it up") {
			t.Errorf("the same call says %q, want that it takes the run up", got)
		}
		if got := second.stdout.String(); !strings.HasPrefix(got, "harbour-pay-month-end harbour-pay/2026-10  version 1  warning\n") {
			t.Errorf("the same call reports %q, want version 1", got)
		}
		if got := mustRows(t, db, "SELECT id FROM run"); len(got) != 1 {
			t.Errorf("there are %d runs, want one", len(got))
		}
		wantTargets(t, "after the same call", targets(t, db), want)
		wantSound(t, url)
	})
}

// wantReleased checks that a step went back to the queue and has spent nothing.
func wantReleased(t *testing.T, url, step string) {
	t.Helper()
	db := database(t, url)
	query := `SELECT q.state, q.attempt, l.reason FROM task_queue q JOIN task_log l ON l.task_id = q.id AND l.seq = q.moves WHERE q.step = $1`
	got, want := mustRows(t, db, query, step), "state=pending attempt=0 reason=released "
	if len(got) == 0 {
		t.Fatalf("step %s has no row in the log", step)
	}
	for _, line := range got {
		if line != want {
			t.Errorf("step %s has %q, want %q", step, line, want)
		}
	}
	if left := mustRows(t, db, "SELECT * FROM task_lease"); len(left) != 0 {
		t.Errorf("leases are left: %v", left)
	}
}

// TestFault_F08_ServeEndsWell tells serve to stop while it fetches: with time left
// the step is finished, without it is released.
func TestFault_F08_ServeEndsWell(t *testing.T) {
	t.Parallel()
	for _, finish := range []bool{true, false} {
		t.Run(fmt.Sprintf("finish=%t", finish), func(t *testing.T) {
			t.Parallel()
			storetest.EachURL(t, func(t *testing.T, url string) {
				dir := initFolder(t)
				everySecond(t, dir)
				bank := newBank(t, dir)
				ok(t, "migrate", "--database", url)
				db := database(t, url)
				grace := "MADEIRA_GRACE=1s"
				if finish {
					grace = "MADEIRA_GRACE=1m"
				}
				c := start(t, dir, []string{grace}, "serve", "--database", url)
				c.holds(t, db, "bill")
				c.signal(t, syscall.SIGTERM)
				if finish {
					bank.goOn()
				}
				if got := c.wait(t); got != exitOK {
					t.Errorf("serve exits with %d, want 0", got)
				}
				if finish {
					wantNothingReleased(t, url)
				} else {
					wantReleased(t, url, "bill")
				}
				wantSound(t, url)
			})
		})
	}
}

func wantNothingReleased(t *testing.T, url string) {
	t.Helper()
	db := database(t, url)
	if done := mustRows(t, db, "SELECT id FROM task_queue WHERE step = 'bill' AND state = 'success'"); len(done) == 0 {
		t.Error("no bill was fetched to its end")
	}
	if lost := mustRows(t, db, "SELECT task_id, reason FROM task_log WHERE reason IN ('released', 'lease_lost')"); len(lost) != 0 {
		t.Errorf("the log says %v, want no claim given back", lost)
	}
	if left := mustRows(t, db, "SELECT * FROM task_lease"); len(left) != 0 {
		t.Errorf("leases are left: %v", left)
	}
	if spent := mustRows(t, db, "SELECT id, attempt FROM task_queue WHERE state IN ('pending', 'blocked') AND attempt > 0"); len(spent) != 0 {
		t.Errorf("attempts were spent on tasks that wait: %v", spent)
	}
}
