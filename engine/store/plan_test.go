package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// enqueue puts n tasks into the queue that belong to no run, as the public door does.
func enqueue(t testing.TB, db *store.DB, n int) {
	t.Helper()
	numbers := fmt.Sprintf("generate_series(1, %d)", n)
	read, w := db.SQL()
	if read != w {
		numbers = fmt.Sprintf("(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n)", n)
	}
	for _, query := range []string{
		"INSERT INTO task_queue (type, state, fence, placed) SELECT 'noop', 'pending', 0, true FROM " + numbers + " AS x",
		`INSERT INTO task_ready (task_id, type, priority) SELECT id, type, priority FROM task_queue t
			WHERE state = 'pending' AND NOT EXISTS (SELECT 1 FROM task_ready r WHERE r.task_id = t.id)`,
	} {
		if _, err := w.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClaim_ReadsOnlyWhatItTakes holds the plans against 200,000 ready tasks.
func TestClaim_ReadsOnlyWhatItTakes(t *testing.T) {
	notRaced(t)
	t.Parallel()
	const ready = 200_000
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := storetest.Postgres(t)
		db := storetest.Open(t, url, store.Options{})
		enqueue(t, db, ready)
		write(t, db, "ANALYZE task_ready")
		write(t, db, "ANALYZE task_queue")
		args := []any{nil, worker, allTypes, 100, int64(1e6), int64(1)}
		for _, plan := range []string{explain(t, url, store.ClaimText, args...), explain(t, url, store.ClaimAloneText, append(args, 12)...)} {
			if !strings.Contains(plan, "Index Scan using task_ready_pkey") || strings.Contains(plan, "Seq Scan on task") {
				t.Errorf("the claim does not follow task_ready_pkey:\n%s", plan)
			}
		}
		var done []task.Outcome
		for _, c := range claim(t, db, 100) {
			done = append(done, ok(c))
		}
		text, args := store.FinishStatement(done)
		plan := explain(t, url, text, args...)
		for _, table := range []string{"task_queue", "task_ready", "task_log"} {
			if strings.Contains(plan, "Seq Scan on "+table+" ") {
				t.Errorf("writing outcomes walks through %s:\n%s", table, plan)
			}
		}
	})
}

// explain runs a statement under its generic plan, which is the one that prepared
// statements settle for, and undoes it.
func explain(t *testing.T, url, text string, args ...any) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS) "+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// BenchmarkExchange works no-op tasks to the end, each exchange finishing the last
// batch and claiming the next in one commit. Seen beside other work on 2 cores,
// relative to nothing: only the order of magnitude counts.
func BenchmarkExchange(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": storetest.SQLite, "postgres": storetest.Postgres} {
		for _, batch := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, batch), func(b *testing.B) { benchExchange(b, url(b), batch) })
		}
	}
}

func benchExchange(b *testing.B, url string, batch int) {
	db := storetest.Open(b, url, store.Options{})
	enqueue(b, db, b.N*batch)
	want := task.Want{N: batch, Types: []string{"noop"}, Lease: time.Minute}
	var done []task.Outcome
	b.ResetTimer()
	for range b.N {
		x, err := db.Exchange(b.Context(), worker, done, want)
		if err != nil || len(x.Claimed) != batch {
			b.Fatalf("claimed %d, %v", len(x.Claimed), err)
		}
		done = done[:0]
		for _, c := range x.Claimed {
			o := ok(c)
			o.Alone, o.Ungated = true, true // as the engine says of such tasks
			done = append(done, o)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "tasks/s")
}
