//go:build soak

package store_test

import (
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
)

// TestSoak_F65 needs a machine to itself, so it is not parallel to others.
func TestSoak_F65_ClaimsBeforeAMillionAreQuickAtTheirSlowest(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		took := claimsBeforeAMillion(t, db)
		if p99 := took[len(took)*99/100]; p99 > 50*time.Millisecond {
			t.Errorf("one exchange in a hundred took %s or more, want 50ms", p99)
		}
	})
}
