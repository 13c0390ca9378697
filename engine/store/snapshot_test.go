package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
)

// TestFault_F21 works tasks off while somebody keeps a snapshot from before them:
// nothing that was deleted can be cleared away, and a claim from the start of the
// index walks past all of it. Here that must not make half of the exchanges slow;
// the soak test holds a snapshot open for minutes and counts what is worked.
func TestFault_F21_AnOldSnapshotDoesNotSlowClaimsDown(t *testing.T) {
	notRaced(t)
	t.Parallel()
	url := storetest.Postgres(t)
	db := storetest.Open(t, url, store.Options{})
	enqueue(t, db, 205_000)
	before := median(churn(t, db, 100, 10))

	// A connection of its own: those of the store end transactions that are idle.
	other, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close(context.WithoutCancel(t.Context())) })
	snapshot, err := other.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	ready := "SELECT count(*) FROM task_ready"
	var seen, again int
	if err := snapshot.QueryRow(t.Context(), ready).Scan(&seen); err != nil {
		t.Fatal(err)
	}
	churn(t, db, 200, 1000)
	after := median(churn(t, db, 100, 10))
	if err := snapshot.QueryRow(t.Context(), ready).Scan(&again); err != nil || again != seen {
		t.Fatalf("the snapshot sees %d ready tasks and then %d (%v): it was not held", seen, again, err)
	}
	t.Logf("exchanges of 10 tasks: half within %s, and within %s past 200,000 rows that the snapshot sees", before, after)
	if most := max(30*time.Millisecond, 3*before); after > most {
		t.Errorf("half of the exchanges took %s and more, want at most %s", after, most)
	}
	sound(t, db)
}

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }
