package store_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// runTables are all tables in which a new run has rows.
var runTables = []string{
	"job", "job_version", "schedule_entry", "occurrence", "run", "run_key", "run_turn", "run_slot", "task_queue", "task_dependency",
	"task_ready", "task_later", "task_held", "task_undecided", "task_log",
}

// allRowsOf returns all rows of those tables, with what the ids of runs and tasks stand for.
func allRowsOf(t *testing.T, db *store.DB) []string {
	t.Helper()
	read, _ := db.SQL()
	var names []string // old, new, old, new …
	name := func(query string) {
		rows, err := read.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id, of string
			if err := rows.Scan(&id, &of); err != nil {
				t.Fatal(err)
			}
			names = append(names, id, "<"+of+">")
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"run", "run_archive"} {
		name("SELECT CAST(id AS text), job || ' ' || CAST(due_at AS text) FROM " + table)
	}
	ids := strings.NewReplacer(names...)
	names = nil
	name("SELECT CAST(id AS text), CAST(run_id AS text) || ' ' || step FROM task_queue")
	tasks := map[string]string{}
	for pair := range slices.Chunk(names, 2) {
		tasks[pair[0]] = ids.Replace(pair[1])
	}
	var all []string
	for _, table := range runTables {
		all = append(all, dump(t, read, table, ids, tasks)...)
	}
	return all
}

func dump(t *testing.T, read *sql.DB, table string, runs *strings.Replacer, tasks map[string]string) []string {
	t.Helper()
	rows, err := read.QueryContext(t.Context(), "SELECT * FROM "+table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		line := table
		for i, v := range values {
			switch column := columns[i]; {
			case !v.Valid:
				continue
			case column == "task_id" || column == "needs_id" || table == "task_queue" && column == "id":
				v.String = tasks[v.String]
			}
			line += fmt.Sprintf(" %s=%q", columns[i], runs.Replace(v.String))
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

// situations are due times and, before them, runs that are in their way.
func situations(now time.Time) (before, due []task.Accounted) {
	day := func(n int) time.Time { return time.Date(2026, 10, n, 6, 0, 0, 0, time.UTC) }
	add := func(to *[]task.Accounted, job, key string, n int, overlap task.Overlap, change ...func(*task.NewRun)) {
		d := dueRun(job, key, day(n), overlap)
		for _, c := range change {
			c(d.Run)
		}
		*to = append(*to, d)
	}
	slots := func(key string, n int) func(*task.NewRun) {
		return func(r *task.NewRun) { r.Concurrency = &task.Limit{Key: key, Slots: n} }
	}
	later := func(r *task.NewRun) { r.NotBefore = now.Add(time.Hour) }
	period := func(label string) func(*task.NewRun) {
		return func(r *task.NewRun) { r.Run.Period = json.RawMessage(`{"label": "` + label + `"}`) }
	}
	for _, job := range []string{"queue", "skip", "allow"} {
		add(&before, job, job+"/1", 1, task.Overlap(job))
		add(&due, job, job+"/2", 2, task.Overlap(job))
		add(&due, job, job+"/3", 3, task.Overlap(job))
	}
	add(&before, "off-queue", "1", 1, task.OverlapQueue, later)
	add(&before, "off-skip", "1", 1, task.OverlapSkip, later)
	add(&due, "off-queue", "2", 2, task.OverlapQueue)
	add(&due, "off-skip", "2", 2, task.OverlapSkip)
	add(&before, "holder", "", 1, "", slots("ledger", 3))
	add(&before, "full", "", 1, "", slots("one", 1))
	add(&due, "full", "", 2, "", slots("one", 1))
	add(&due, "slots-a", "", 2, task.OverlapQueue, slots("ledger", 3))
	add(&due, "slots-b", "", 2, task.OverlapAllow, slots("ledger", 3))
	add(&due, "slots-c", "", 2, task.OverlapSkip, slots("ledger", 3))
	add(&before, "both", "1", 1, task.OverlapQueue)
	add(&due, "both", "2", 2, task.OverlapQueue, slots("ledger", 3))
	add(&before, "paused", "1", 1, task.OverlapQueue)
	add(&due, "paused", "2", 2, task.OverlapQueue)
	add(&before, "monthly", "2026-08", 1, task.OverlapAllow, period("2026-08"))
	add(&before, "monthly", "2026-09", 2, task.OverlapAllow, period("2026-09"))
	add(&before, "yearly", "2025", 1, task.OverlapQueue, period("2025"))
	add(&due, "monthly", "2026-10", 3, task.OverlapQueue, period("2026-10"))
	add(&due, "yearly", "2026", 3, task.OverlapQueue, period("2026"))
	add(&due, "first", "2026", 3, task.OverlapQueue, period("2026"))
	add(&before, "again", "k", 1, task.OverlapQueue)
	add(&due, "again", "k", 2, task.OverlapQueue)
	add(&before, "live", "k", 1, task.OverlapAllow)
	add(&due, "live", "k", 2, task.OverlapAllow)
	add(&due, "twice", "k", 2, task.OverlapAllow)
	add(&due, "twice", "k", 3, task.OverlapAllow)
	add(&due, "off", "k", 2, task.OverlapQueue, later)
	add(&due, "off", "l", 3, task.OverlapQueue, later)
	add(&due, "loose", "", 2, "")
	add(&due, "loose", "", 3, "")
	odd := `it's "{so}", \N NULL ? ?1 $1 €𝄞` + "\n\t\xff"
	add(&due, "odd", "odd/1", 2, task.OverlapQueue, oddly(odd))
	add(&due, "odd-too", "", 2, task.OverlapQueue, oddly(odd+odd))
	due = append(due, task.Accounted{Occurrence: task.Occurrence{Job: odd, Entry: odd, DueAt: day(2), Outcome: task.DueSkipped, Reason: odd}})
	return before, due
}

// oddly gives a run steps of every sort, and text that has to be quoted.
func oddly(text string) func(*task.NewRun) {
	return func(r *task.NewRun) {
		doc, _ := json.Marshal(map[string]any{"of": text, "list": []any{1.5, nil, true, text}})
		r.Run.Inputs, r.Run.BaseDir, r.Run.Connections, r.Run.Timeout = doc, text, []string{text, "b"}, time.Hour
		r.Run.JobCommit, r.Job.Commit = "abc", "abc"
		r.Tasks = []task.NewTask{
			{Step: "plain", Type: "query", Source: true, Settings: doc, Priority: 5, Timeout: time.Minute, Retry: task.Retry{MaxAttempts: 2, RetryOn: []string{text}}},
			{Step: "limited", Type: "query", Settings: doc, Limits: []task.Limit{{Key: "api", Slots: 2}, {Key: "rate", Rate: 1.5, Burst: 3}}, Circuit: "query/" + text, Priority: 7},
			{Step: "decided", Type: "query", Condition: "inputs.list != null", Priority: 9},
			{Step: "each", Type: "query", ForEach: doc, MaxParallel: 3, Limits: []task.Limit{{Key: "api", Slots: 2}}, EachCondition: "each.index > 0"},
			{Step: "then", Type: "query", Needs: []string{"plain", "limited"}, Refs: []string{"plain"}, ContinueOnError: true},
			{Step: "mend", Type: "query", Phase: task.PhaseOnFailure},
			{Step: "tidy", Type: "query", Phase: task.PhaseFinally, Condition: "true"},
		}
	}
}

// prepare makes what is there before the due times, the same in every database.
func prepare(t *testing.T, db *store.DB, before []task.Accounted) {
	t.Helper()
	for _, d := range before {
		oneByOne(t, db, d)
	}
	const over = "SELECT id FROM run WHERE job IN ('monthly', 'yearly', 'again')"
	_, write := db.SQL()
	for _, stmt := range []string{
		"DELETE FROM task_ready WHERE run_id IN (" + over + ")",
		"DELETE FROM task_dependency WHERE task_id IN (SELECT id FROM task_queue WHERE run_id IN (" + over + "))",
		"DELETE FROM task_queue WHERE run_id IN (" + over + ")",
		"UPDATE run SET status = 'success', started_at = due_at, finished_at = due_at, open_steps = 0 WHERE id IN (" + over + ")",
		"INSERT INTO run_archive SELECT * FROM run WHERE job = 'yearly'",
		"DELETE FROM run WHERE job = 'yearly'",
		"INSERT INTO hold (gate, since) SELECT 'job:paused', max(recorded_at) FROM occurrence",
	} {
		if _, err := write.ExecContext(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
}

func oneByOne(t *testing.T, db *store.DB, d task.Accounted) task.Created {
	t.Helper()
	if d.Run == nil {
		if err := db.RecordOccurrence(t.Context(), d.Occurrence); err != nil {
			t.Fatal(err)
		}
		return task.Created{}
	}
	n := *d.Run
	n.Occurrence = &d.Occurrence
	made, err := db.CreateRun(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestAccount_WritesTheSameRowsAsOneByOne(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 10, 20, 12, 0, 0, 123456000, time.UTC)
	o := store.Options{Now: func() time.Time { return now }}
	for name, fresh := range map[string]func(testing.TB) string{"sqlite": storetest.SQLite, "postgres": storetest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, due := situations(now)
			single, many := storetest.Open(t, fresh(t), o), storetest.Open(t, fresh(t), o)
			prepare(t, single, before)
			prepare(t, many, before)
			made, err := many.Account(t.Context(), due)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range due {
				want := oneByOne(t, single, d)
				if got := made[i]; got.Outcome != want.Outcome || got.Existing != want.Existing || got.Run.Version != want.Run.Version || got.Run.Job != want.Run.Job {
					t.Errorf("%s %s is answered with %+v, want %+v", d.Occurrence.Job, d.Occurrence.DueAt, got, want)
				}
			}
			got, want := allRowsOf(t, many), allRowsOf(t, single)
			if len(want) < 100 {
				t.Errorf("there are only %d rows to compare", len(want))
			}
			lines := func(list []string) map[string]bool {
				set := map[string]bool{}
				for _, line := range list {
					set[line] = true
				}
				return set
			}
			more, less := lines(got), lines(want)
			for _, line := range slices.Sorted(maps.Keys(more)) {
				if !less[line] {
					t.Errorf("all at once there is\n  %s", line)
				}
			}
			for _, line := range slices.Sorted(maps.Keys(less)) {
				if !more[line] {
					t.Errorf("one by one there is\n  %s", line)
				}
			}
			if len(got) != len(want) {
				t.Errorf("all at once there are %d rows, one by one %d", len(got), len(want))
			}
			sound(t, many)
		})
	}
}
