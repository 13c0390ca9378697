package store_test

import (
	"testing"

	"madeira/engine"
	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/scheduler"
)

var (
	_ engine.Queue    = (*store.DB)(nil)
	_ engine.Comparer = (*store.DB)(nil)
	_ scheduler.Store = (*store.DB)(nil)
)

func TestMain(m *testing.M) { storetest.Main(m) }
