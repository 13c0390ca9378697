package storetest

import (
	"context"

	"madeira/engine/store"
)

// Check returns the invariants that the database breaks: see store.DB.Check.
func Check(ctx context.Context, db *store.DB) ([]string, error) { return db.Check(ctx) }
