//go:build soak

package engine_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

const (
	snapshotRate  = 2000 // tasks a second that are offered
	snapshotBatch = 20   // tasks that are enqueued together
)

// snapshot offers tasks at a steady rate, first without and then with a snapshot
// that somebody keeps open, and compares what was worked in the end of each. The
// rate of the second has to be 80 % of that of the first.
func snapshot(t *testing.T, clean, held time.Duration) {
	t.Helper()
	url := storetest.Postgres(t)
	r := newRig(t, url)
	var worked atomic.Int64
	cfg := r.worker("one", r.db, map[string]runner{"work": func(context.Context, step.Input) (step.Output, error) {
		worked.Add(1)
		return step.Output{}, nil
	}})
	cfg.Slots, cfg.Lease = 100, 20*time.Second
	r.start(cfg)

	offer := func(during time.Duration) {
		tasks := make([]task.Lone, snapshotBatch)
		for i := range tasks {
			tasks[i] = task.Lone{Type: "work", Payload: json.RawMessage(`{}`)}
		}
		next := time.Now()
		for until := next.Add(during); next.Before(until); next = next.Add(time.Second * snapshotBatch / snapshotRate) {
			if err := idle(t.Context(), time.Until(next)); err != nil {
				t.Fatal(err)
			}
			if _, err := r.db.Enqueue(t.Context(), tasks); err != nil {
				t.Fatal(err)
			}
		}
	}
	// rate is what is worked a second while tasks are offered for a time.
	rate := func(during time.Duration) float64 {
		began, before := time.Now(), worked.Load()
		offer(during)
		return float64(worked.Load()-before) / time.Since(began).Seconds()
	}

	before := rate(clean)
	// A connection of its own: those of the store end transactions that are idle.
	other, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.WithoutCancel(t.Context())) }()
	tx, err := other.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	sees := func() (n int) {
		if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM task_queue").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	seen := sees()
	offer(held - clean)
	after := rate(clean)
	if again := sees(); again != seen {
		t.Fatalf("the snapshot sees %d tasks and then %d: it was not held", seen, again)
	}
	t.Logf("offered %d/s; worked %.0f/s without a snapshot, %.0f/s in the last %s of %s with one (%.2f)", snapshotRate, before, after, clean, held, after/before)
	if after < 0.8*before {
		t.Errorf("worked %.2f of the rate without a snapshot, want 0.8", after/before)
	}
	r.untilOver()
}
