package store_test

import (
	"strings"
	"testing"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
)

func TestDoor_InstantsThatNeverComeAreRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		openTypes(t, db, "noop")
		read, pool := db.SQL()
		instants := []string{"'infinity'", "'-infinity'", "'9999-01-01'"}
		if read != pool { // SQLite
			instants = []string{"'tomorrow'", "9e18", "-1", "1.5"}
		}
		for _, at := range instants {
			_, err := pool.ExecContext(t.Context(), "INSERT INTO task_queue (type, run_at) VALUES ('noop', "+at+")")
			if err == nil || !strings.Contains(err.Error(), "no instant to wait for") {
				t.Errorf("run_at %s: %v, want it refused", at, err)
			}
		}
		if _, _, err := db.Promote(t.Context(), 10); err != nil {
			t.Error(err)
		}
		sound(t, db)
	})
}
