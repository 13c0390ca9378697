package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// TestAccount_LooksRowsUpHoweverManyThereAre has a thousand jobs with thirty runs each
// that are over, of which some have a live run, come due together. The server counts what
// it reads for them: nothing of whole tables, and a few rows for each; also where it has
// not learned yet how large the tables are.
func TestAccount_LooksRowsUpHoweverManyThereAre(t *testing.T) {
	notRaced(t)
	t.Parallel()
	const many = 1000
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("sizes known %t", known), func(t *testing.T) {
			t.Parallel()
			url := storetest.Postgres(t)
			filled := storetest.Open(t, url, store.Options{})
			now := time.Date(2026, 10, 20, 12, 0, 0, 0, time.UTC)
			if known {
				past(t, filled, many)
				write(t, filled, "ANALYZE")
			}
			var before, due []task.Accounted
			for i := range many {
				job := fmt.Sprintf("job-%04d", i)
				d := dueRun(job, job+"/today", now, []task.Overlap{task.OverlapQueue, task.OverlapSkip, task.OverlapAllow}[i%3])
				d.Run.Run.Period = []byte(`{"label": "today"}`)
				due = append(due, d)
				if i%4 == 0 {
					before = append(before, dueRun(job, job+"/before", now.Add(-time.Hour), d.Run.Overlap))
				}
			}
			if _, err := filled.Account(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			if !known {
				past(t, filled, many)
			}
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(t.Context()) }()
			whole, rows := reads(t, conn)
			busy, err := store.Open(t.Context(), url, store.Options{Application: "counted"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := busy.Account(t.Context(), due); err != nil {
				t.Fatal(err)
			}
			if err := busy.Close(); err != nil {
				t.Fatal(err)
			}
			wholeAfter, rowsAfter := reads(t, conn)
			if n := wholeAfter - whole; n != 0 {
				t.Errorf("whole tables were read, %d rows", n)
			}
			if n := rowsAfter - rows; n < many || n > 10*many {
				t.Errorf("%d rows of indexes were read for %d due times, want a few for each", n, many)
			}
			t.Logf("%d rows of indexes were read for %d due times", rowsAfter-rows, many)
		})
	}
}

// TestAccount_LooksOnlyAtLiveRunsInSQLite has due times of jobs of which runs are live
// and many are over, and asks for the plan of each statement.
func TestAccount_LooksOnlyAtLiveRunsInSQLite(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t), store.Options{})
	before, due := situations(time.Now())
	prepare(t, db, before)
	heard := db.HearStatements()
	if _, err := db.Account(t.Context(), due); err != nil {
		t.Fatal(err)
	}
	grows := []string{"run", "run_key", "run_archive", "occurrence", "schedule_entry", "job", "job_version", "task_queue", "task_ready", "r", "k", "e", "v", "j"}
	looked := 0
	for _, text := range heard() {
		if !strings.HasPrefix(text, "SELECT") && !strings.HasPrefix(text, "UPDATE") {
			continue
		}
		looked++
		plan := litePlan(t, db, text)
		for _, line := range plan {
			walks := slices.Contains(grows, scanned(line)) && !slices.Contains(plan, "CO-ROUTINE "+scanned(line)) // the latter is what a part of it gave
			if walks || strings.Contains(line, "USING INDEX run_by_job") {
				t.Errorf("this reads more than live runs:\n%s\n%s", text, strings.Join(plan, "\n"))
			}
		}
	}
	if looked < 10 {
		t.Errorf("there were only %d statements to look at", looked)
	}
}

// past makes thirty runs of each job that are over.
func past(t *testing.T, db *store.DB, jobs int) {
	t.Helper()
	for _, query := range []string{
		fmt.Sprintf(`INSERT INTO run (id, job, job_digest, upstream_key, version, status, trigger, due_at, created_at, started_at, finished_at, period)
			SELECT gen_random_uuid(), 'job-' || lpad(j::text, 4, '0'), 'sha256:1', 'day-' || d, 1, 'success', 'schedule', at, at, at, at, '{}'
			FROM generate_series(0, %d) AS j, generate_series(1, 30) AS d, LATERAL (SELECT timestamptz '2026-10-19 12:00Z' - d * interval '1 day' AS at) AS x`, jobs-1),
		"INSERT INTO run_key (job, upstream_key, version, run_id) SELECT job, upstream_key, version, id FROM run WHERE status = 'success'",
		"INSERT INTO occurrence (job, entry, due_at, outcome, run_id) SELECT job, 'e', due_at, 'ran', id FROM run WHERE status = 'success'",
	} {
		write(t, db, query)
	}
}

// reads returns how many rows of whole tables that grow, and of their indexes, the server
// has read for connections that are over.
func reads(t *testing.T, conn *pgx.Conn) (whole, indexed int64) {
	t.Helper()
	for tries := 0; ; tries++ {
		var open int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'counted'").Scan(&open); err != nil {
			t.Fatal(err)
		}
		if open == 0 {
			break
		}
		if tries == 1000 {
			t.Fatal("connections do not end")
		}
		time.Sleep(10 * time.Millisecond)
	}
	const tables = "('run', 'run_key', 'run_archive', 'occurrence', 'schedule_entry', 'job', 'job_version', 'task_queue', 'task_ready', 'run_turn')"
	err := conn.QueryRow(t.Context(), `SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN `+tables+`)::bigint,
		(SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname IN `+tables+`)::bigint`).Scan(&whole, &indexed)
	if err != nil {
		t.Fatal(err)
	}
	return whole, indexed
}
