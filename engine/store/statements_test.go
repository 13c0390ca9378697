package store_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// What a plan does with one of the large tables. The partial indexes of runs that
// are live, and of those that others have started, hold few of them.
var walks = regexp.MustCompile(`(Seq Scan|Index Scan using \w+|Index Only Scan using \w+) on (task_queue|task_log|task_dependency|run|run_key|occurrence)\b`)

// walksThrough reports whether a plan reads a large table without an index
// condition and without a limit close by that ends it.
func walksThrough(plan []string) bool {
	for i, line := range plan {
		found := walks.FindStringSubmatch(line)
		if found == nil || strings.Contains(line, " run_live ") || strings.Contains(line, " run_child ") || i+1 < len(plan) && strings.Contains(plan[i+1], "Index Cond:") {
			continue
		}
		if found[1] == "Seq Scan" || !slices.ContainsFunc(plan[max(0, i-3):i], func(above string) bool { return strings.Contains(above, "Limit") }) {
			return true
		}
	}
	return false
}

// TestStatements_LookRowsUpInTablesThatGrow has a database with 100,000
// finished tasks do what workers and people ask of it, and asks for the plan of
// each statement. The narrow tables were never full, so the planner knows nothing
// of them and takes them for larger than they are.
func TestStatements_LookRowsUpInTablesThatGrow(t *testing.T) {
	notRaced(t)
	t.Parallel()
	url := storetest.Postgres(t)
	db := storetest.Open(t, url, store.Options{})
	aged(t, db)
	heard := db.HearStatements()
	w := newWalk(t, db)
	w.untilOver(func(context.Context) {})
	byHand(t, db)

	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	statements := heard()
	if len(statements) < 50 {
		t.Fatalf("there were %d statements: the test shows less than it says", len(statements))
	}
	if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	for i, text := range store.HotTexts() {
		prepared, err := conn.Prepare(t.Context(), fmt.Sprint("s", i), text)
		if err != nil {
			t.Fatal(err)
		}
		nulls := strings.TrimSuffix(strings.Repeat("NULL, ", len(prepared.ParamOIDs)), ", ")
		if nulls != "" {
			nulls = "(" + nulls + ")"
		}
		statements = append(statements, fmt.Sprintf("EXECUTE s%d%s", i, nulls))
	}
	for _, text := range statements {
		rows, err := conn.Query(t.Context(), "EXPLAIN "+text)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if walksThrough(plan) {
			t.Errorf("this walks through a table that grows:\n%s\n%s", text, strings.Join(plan, "\n"))
		}
	}
	t.Logf("%d statements", len(statements))
}

// aged fills a database with 20,000 finished runs of five steps each.
func aged(t *testing.T, db *store.DB) {
	t.Helper()
	for _, query := range []string{
		`INSERT INTO run (id, job, job_digest, upstream_key, version, status, trigger, due_at, created_at, started_at, finished_at)
			SELECT gen_random_uuid(), 'job' || i % 100, 'sha256:1', 'k' || i, 1, 'success', 'schedule', at, at, at, at
			FROM generate_series(1, 20000) AS i, LATERAL (SELECT now() - i * interval '1 minute' AS at) AS x`,
		"INSERT INTO run_key (job, upstream_key, version, run_id) SELECT job, upstream_key, version, id FROM run",
		`INSERT INTO task_queue (run_id, step, type, state, fence, attempt, moves, created_at, claimed_at, finished_at, placed)
			SELECT id, 's' || i, 'noop', 'success', 1, 1, 2, created_at, created_at, created_at, true FROM run, generate_series(1, 5) AS i`,
		`INSERT INTO task_log (task_id, seq, from_state, to_state, attempt, fence, claimed_at, at)
			SELECT id, 2, 'processing', 'success', 1, 1, claimed_at, finished_at FROM task_queue`,
		"INSERT INTO task_dependency (task_id, needs_id) SELECT a.id, b.id FROM task_queue a JOIN task_queue b ON b.run_id = a.run_id AND b.step < a.step",
		"INSERT INTO occurrence (job, entry, due_at, outcome, run_id) SELECT job, 'e', due_at, 'ran', id FROM run",
	} {
		write(t, db, query)
	}
	for _, table := range []string{"run", "run_key", "task_queue", "task_log", "task_dependency", "occurrence"} {
		write(t, db, "ANALYZE "+table)
	}
}

// byHand does what people do.
func byHand(t *testing.T, db *store.DB) {
	t.Helper()
	ctx, ann := t.Context(), task.Action{Actor: "ann", Reason: "to see"}
	try := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	failing := create(t, db, newRun("by-hand", steps(noop("a"), noop("b", "a"))))
	failFirst := func() {
		t.Helper()
		x, err := db.Exchange(ctx, worker, nil, task.Want{N: 1, Types: allTypes, Lease: time.Minute, RunID: failing.ID})
		if err != nil || len(x.Claimed) != 1 {
			t.Fatalf("claimed %d steps, %v; want one", len(x.Claimed), err)
		}
		exchange(t, db, 0, fail(x.Claimed[0]))
		for decideAll(t, db) {
		}
	}
	failFirst()
	_, err := db.Dead(ctx, store.DeadFilter{Limit: 10})
	try("list dead letters", err)
	_, err = db.Redrive(ctx, store.DeadFilter{}, 0, ann)
	try("redrive", err)
	failFirst()
	_, err = db.Rerun(ctx, task.Rerun{RunID: failing.ID, Action: ann})
	try("rerun", err)
	live := create(t, db, newRun("cancelled", steps(noop("a"), noop("b", "a"))))
	_, err = db.CancelRun(ctx, live.ID, ann)
	try("cancel", err)
	for _, f := range []store.RunFilter{{Limit: 50}, {Limit: 50, Job: "job7"}, {Limit: 50, Job: "job7", Key: "k7"}} {
		_, err = db.Runs(ctx, f)
		try("list runs", err)
	}
	_, err = db.FindRun(ctx, failing.ID[:20])
	try("find a run", err)
	for _, read := range []func() error{
		func() error { _, err := db.Tasks(ctx, failing.ID); return err },
		func() error { _, err := db.Log(ctx, failing.ID); return err },
		func() error { _, err := db.Artifacts(ctx, failing.ID); return err },
		func() error { _, err := db.ListTasks(ctx, store.TaskFilter{Limit: 50}); return err },
		func() error { _, err := db.Holds(ctx); return err },
		func() error { _, err := db.Kin(ctx, failing.ID); return err },
		func() error { _, err := db.Expire(ctx, 100); return err },
		func() error { _, err := db.NextPhase(ctx, 100); return err },
		func() error { _, err := db.TakeTurns(ctx, 100); return err },
		func() error { _, _, err := db.Admit(ctx, 100); return err },
		func() error { _, err := db.Sweep(ctx, 100); return err },
		func() error { _, _, err := db.Judge(ctx, nil); return err },
		func() error { _, err := db.Occurrences(ctx, store.OccurrenceFilter{Limit: 50}); return err },
		func() error {
			_, err := db.Occurrences(ctx, store.OccurrenceFilter{Limit: 50, Job: "job7"})
			return err
		},
		func() error { _, err := db.Entries(ctx, "job7"); return err },
		func() error { _, err := db.KeyStates(ctx, "job7", []string{"k7", "k107"}); return err },
		func() error { _, err := db.DueRuns(ctx, "job7", time.Now().Add(-time.Hour), time.Now()); return err },
		func() error { _, err := db.LastVersion(ctx, "job7", "k7"); return err },
		func() error { _, err := db.Workers(ctx); return err },
	} {
		try("read", read())
	}
	pause := task.Action{Actor: "ann", Action: "pause", Subject: "job:job7"}
	_, err = db.Pause(ctx, pause)
	try("pause", err)
	pause.Action = "resume"
	_, err = db.Resume(ctx, pause)
	try("resume", err)
}
