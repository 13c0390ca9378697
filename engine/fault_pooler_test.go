package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// TestFault_F25 does everything behind a pooler: migrations, claims, retries,
// effects of steps, conditions.
func TestFault_F25_EverythingWorksBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	direct := storetest.Postgres(t)
	p := newPooler(t, direct, 5)
	for i := range 2 {
		name := fmt.Sprint("w", i)
		db := storetest.Open(t, p.URL, store.Options{TransactionPooler: true}) // which migrates, the second time for nothing
		if i == 0 {
			makeWitness(t, db)
		}
		if err := db.RegisterWorker(t.Context(), task.Worker{ID: name, Host: "h", PID: i, Version: "1"}); err != nil {
			t.Fatal(err)
		}
		r := &rig{T: t, url: p.URL, db: db}
		r.start(r.worker(name, db, map[string]runner{"work": func(ctx context.Context, in step.Input) (step.Output, error) {
			if in.Task.Step == "s1" && in.Task.Attempt == 1 {
				return step.Output{}, errors.New("503")
			}
			return step.Output{}, commit(ctx, db, in.Task, nop, nop)
		}}))
	}
	r := &rig{T: t, url: direct, db: storetest.Open(t, p.URL, store.Options{TransactionPooler: true})}
	for i := range 9 {
		steps := mixed(i, 8)
		steps[7].Condition = "always()"
		r.mustCreate(fmt.Sprint("k", i), steps...)
	}
	r.untilOver()
	if n := r.count("SELECT count(*) FROM task_queue WHERE state <> 'success' OR attempt <> CASE step WHEN 's1' THEN 2 ELSE 1 END"); n != 0 {
		t.Errorf("%d tasks have not ended as they must", n)
	}
	r.wantSound()
}

// TestPooler_ForgetsWhatASessionWasTold shows that the pooler is worth something.
func TestPooler_ForgetsWhatASessionWasTold(t *testing.T) {
	t.Parallel()
	p := newPooler(t, storetest.Postgres(t), 2)
	cfg, err := pgx.ParseConfig(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, query := range []string{"SET lock_timeout = '3s'", "CREATE TEMP TABLE short (n int)", "PREPARE p AS SELECT 1"} {
		if _, err := conn.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	var timeout string
	if err := conn.QueryRow(t.Context(), "SHOW lock_timeout").Scan(&timeout); err != nil || timeout != "0" {
		t.Errorf("lock_timeout = %q, %v; want it forgotten", timeout, err)
	}
	for _, query := range []string{"SELECT * FROM short", "EXECUTE p"} {
		if _, err := conn.Exec(t.Context(), query); err == nil {
			t.Errorf("%s works, want it forgotten", query)
		}
	}
}
