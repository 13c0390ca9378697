//go:build soak

package store_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

const (
	retiredRows = 5_000_000
	retiredRun  = 1 + 10 + 9 + 19 + 10*2 // rows of a run of ten steps in a row, and of ten lone tasks of the same time

	// What the engine does: so many rows, and then a pause.
	retiredBatch = 5000
	retiredPause = 500 * time.Millisecond

	workPace = 20 * time.Millisecond // between exchanges
	workSize = 10                    // tasks of each
	calmTime = 2 * time.Second       // after each workTime, the archiver rests
	workTime = 8 * time.Second
)

// TestSoak_F28 has retention archive five million rows, and then drop them, while
// tasks are claimed at a steady pace. It needs a machine to itself.
func TestSoak_F28_FiveMillionRowsLeaveWhileWorkGoesOn(t *testing.T) {
	for name, fresh := range map[string]func(testing.TB) string{"sqlite": storetest.SQLite, "postgres": storetest.Postgres} {
		t.Run(name, func(t *testing.T) {
			rows := retiredRows
			if text := os.Getenv("MADEIRA_TEST_ROWS"); text != "" { // to try it
				var err error
				if rows, err = strconv.Atoi(text); err != nil {
					t.Fatal(err)
				}
			}
			url := fresh(t)
			db, archiver := storetest.Open(t, url, store.Options{}), storetest.Open(t, url, store.Options{})
			seedRetired(t, db, rows/retiredRun)
			w := beginWork(t, db)
			w.rest(5 * calmTime)
			for _, part := range []struct {
				name string
				once func(context.Context, time.Duration, int) (task.Archived, error)
			}{{"archived", archiver.Archive}, {"dropped", archiver.Drop}} {
				moved, most, took := retire(t, w, part.once)
				t.Logf("%s %+v in %s of batches, the longest %s", part.name, moved, total(took), took[len(took)-1])
				if moved.Rows < rows/retiredRun*retiredRun || most > 2*retiredBatch {
					t.Errorf("%s %d rows, at most %d at once; want %d, at most 5,000 in each of two transactions", part.name, moved.Rows, most, rows)
				}
			}
			w.end()
			if n := count(t, db, "SELECT (SELECT count(*) FROM run_archive) + (SELECT count(*) FROM task_archive) + (SELECT count(*) FROM task_log_archive) + (SELECT count(*) FROM task_dependency_archive)"); n != 0 {
				t.Errorf("%d rows are left in the archive", n)
			}
			sound(t, db)
			calm, beside := quantile(w.calm, 99), quantile(w.beside, 99)
			t.Logf("claims: p50 %s and p99 %s of %d without retention, p50 %s and p99 %s of %d beside it", quantile(w.calm, 50), calm, len(w.calm), quantile(w.beside, 50), beside, len(w.beside))
			if beside > 2*calm {
				t.Errorf("one claim in a hundred took %s or more beside retention, %s without: want twice as long at most", beside, calm)
			}
		})
	}
}

// retire calls for the next batch until there is none, and returns how many rows
// went, how many in the largest call, and how long the calls took, the shortest first.
func retire(t *testing.T, w *steadyWork, once func(context.Context, time.Duration, int) (task.Archived, error)) (moved task.Archived, most int, took []time.Duration) {
	t.Helper()
	w.turn(true)
	defer w.turn(false)
	next := time.Now().Add(workTime)
	for {
		began := time.Now()
		got, err := once(t.Context(), time.Hour, retiredBatch)
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
		moved.Add(got)
		most = max(most, got.Rows)
		if got.Rows == 0 {
			slices.Sort(took)
			return moved, most, took
		}
		time.Sleep(retiredPause)
		if time.Now().After(next) {
			w.rest(calmTime)
			next = time.Now().Add(workTime)
		}
	}
}

// seedRetired makes runs of ten steps in a row, and as many lone tasks, which have
// been over for hours.
func seedRetired(t *testing.T, db *store.DB, runs int) {
	t.Helper()
	read, w := db.SQL()
	form := strings.NewReplacer(
		"NUMBERS", "generate_series(1, "+strconv.Itoa(runs)+") AS n(i)", "STEPS", "generate_series(1, 10) AS s(j)",
		"RUN_ID", "CAST('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0') AS uuid)",
		"AT", "now() - interval '9 hours' + i * interval '10 ms'")
	if read != w {
		form = strings.NewReplacer(
			"NUMBERS", "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "+strconv.Itoa(runs)+") SELECT i FROM n) AS n",
			"STEPS", "(WITH RECURSIVE s(j) AS (SELECT 1 UNION ALL SELECT j + 1 FROM s WHERE j < 10) SELECT j FROM s) AS s",
			"RUN_ID", "printf('00000000-0000-7000-8000-%012x', i)",
			"AT", "CAST(unixepoch('subsec') * 1000000 AS integer) - 32400000000 + i * 10000")
	}
	for _, query := range []string{
		`INSERT INTO run (id, job, job_digest, version, status, trigger, due_at, created_at, started_at, finished_at)
			SELECT RUN_ID, 'month-end', 'sha256:1', 1, 'success', 'manual', AT, AT, AT, AT FROM NUMBERS`,
		`INSERT INTO task_queue (id, run_id, step, type, state, fence, attempt, moves, worker, claimed_at, created_at, run_at, finished_at, placed)
			SELECT i * 20 + j, RUN_ID, 's' || j, 'noop', 'success', 1, 1, CASE j WHEN 1 THEN 1 ELSE 2 END, 'w0', AT, AT, AT, AT, true FROM NUMBERS CROSS JOIN STEPS`,
		`INSERT INTO task_queue (id, type, state, fence, attempt, moves, worker, claimed_at, created_at, run_at, finished_at, placed)
			SELECT i * 20 + 10 + j, 'noop', 'success', 1, 1, 1, 'w0', AT, AT, AT, AT, true FROM NUMBERS CROSS JOIN STEPS`,
		`INSERT INTO task_dependency (task_id, needs_id) SELECT i * 20 + j, i * 20 + j - 1 FROM NUMBERS CROSS JOIN STEPS WHERE j > 1`,
		`INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, at)
			SELECT i * 20 + j, 1, 'blocked', 'pending', 0, 0, AT FROM NUMBERS CROSS JOIN STEPS WHERE j > 1`,
		`INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, worker, claimed_at, at)
			SELECT id, moves, 'pending', 'success', 1, 1, 'w0', claimed_at, finished_at FROM task_queue`,
	} {
		query = form.Replace(query)
		if _, err := w.ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	after := strconv.Itoa((runs + 2) * 20)
	if read != w {
		write(t, db, "UPDATE sqlite_sequence SET seq = "+after+" WHERE name = 'task_queue'")
		return
	}
	write(t, db, "SELECT setval(pg_get_serial_sequence('task_queue', 'id'), "+after+")")
	write(t, db, "ANALYZE")
}

// steadyWork claims and finishes tasks at a steady pace, of which as many come in,
// and keeps how long that took.
type steadyWork struct {
	turned chan bool // whether retention goes on from now; closed at the end
	ended  chan struct{}

	calm, beside []time.Duration // to be read at the end
}

func beginWork(t *testing.T, db *store.DB) *steadyWork {
	t.Helper()
	w := &steadyWork{turned: make(chan bool), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		w.work(t, db)
	}()
	go w.arrive(t, db)
	t.Cleanup(func() { w.end() })
	return w
}

// arrive enqueues tasks until the end.
func (w *steadyWork) arrive(t *testing.T, db *store.DB) {
	list := make([]task.Lone, workSize)
	for i := range list {
		list[i] = task.Lone{Type: "noop", Payload: json.RawMessage(`{}`)}
	}
	tick := time.NewTicker(workPace)
	defer tick.Stop()
	for {
		select {
		case <-w.ended:
			return
		case <-tick.C:
		}
		if _, err := db.Enqueue(context.WithoutCancel(t.Context()), list); err != nil {
			t.Errorf("enqueue: %v", err)
			return
		}
	}
}

func (w *steadyWork) work(t *testing.T, db *store.DB) {
	into := &w.calm
	tick := time.NewTicker(workPace)
	defer tick.Stop()
	var done []task.Outcome
	ctx := context.WithoutCancel(t.Context())
	for {
		select {
		case beside, goesOn := <-w.turned:
			if into = &w.calm; beside {
				into = &w.beside
			}
			if !goesOn {
				if _, err := db.Exchange(ctx, worker, done, task.Want{}); err != nil {
					t.Errorf("finish the last tasks: %v", err)
				}
				return
			}
			continue
		case <-tick.C:
		}
		began := time.Now()
		x, err := db.Exchange(ctx, worker, done, task.Want{N: workSize, Types: allTypes, Lease: time.Minute})
		if err != nil {
			t.Errorf("claim: %v", err)
			return
		}
		*into = append(*into, time.Since(began))
		done = done[:0]
		for _, c := range x.Claimed {
			done = append(done, ok(c))
		}
	}
}

func (w *steadyWork) turn(beside bool) {
	select {
	case w.turned <- beside:
	case <-w.ended:
	}
}

// rest lets work go on without retention for a while.
func (w *steadyWork) rest(d time.Duration) {
	w.turn(false)
	time.Sleep(d)
	w.turn(true)
}

func (w *steadyWork) end() {
	select {
	case <-w.ended:
	default:
		close(w.turned)
		<-w.ended
	}
}

func quantile(took []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*percent/100]
}

func total(took []time.Duration) (sum time.Duration) {
	for _, d := range took {
		sum += d
	}
	return sum
}
