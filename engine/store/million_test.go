package store_test

import (
	"slices"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// TestFault_F65 claims and finishes in front of a million tasks that are ready.
// Here half of the exchanges have to be quick, because the tests share their
// machine; the soak test asks it of 99 in 100.
func TestFault_F65_AMillionPendingTasksDoNotSlowAClaimDown(t *testing.T) {
	notRaced(t)
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		took := claimsBeforeAMillion(t, db)
		if p50 := median(took); p50 > 50*time.Millisecond {
			t.Errorf("half of the exchanges took more than %s, want 50ms", p50)
		}
	})
}

// claimsBeforeAMillion returns how long exchanges took, the shortest first.
func claimsBeforeAMillion(t *testing.T, db *store.DB) []time.Duration {
	t.Helper()
	enqueue(t, db, 1_000_000)
	took := churn(t, db, 300, 10)
	t.Logf("exchanges of 10 tasks before a million: p50 %s, p99 %s", median(took), took[len(took)*99/100])
	return took
}

// churn claims n tasks and finishes those before as often as it is told, and
// returns how long that took, the shortest first.
func churn(t *testing.T, db *store.DB, times, n int) []time.Duration {
	t.Helper()
	var done []task.Outcome
	var took []time.Duration
	for range times {
		began := time.Now()
		claimed := exchange(t, db, n, done...).Claimed
		took = append(took, time.Since(began))
		if len(claimed) != n {
			t.Fatalf("claimed %d tasks, want %d", len(claimed), n)
		}
		done = done[:0]
		for _, c := range claimed {
			done = append(done, ok(c))
		}
	}
	exchange(t, db, 0, done...)
	slices.Sort(took)
	return took
}
