package storetest

import (
	"path/filepath"
	"testing"

	"madeira/engine/store"
)

// SQLite returns the URL of a fresh SQLite file of this test's own.
func SQLite(t testing.TB) string {
	t.Helper()
	return "sqlite://" + filepath.Join(t.TempDir(), "madeira.db")
}

// Open opens the database of that URL, migrated, and closes it when the test ends.
func Open(t testing.TB, url string, o store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// Each runs the test once on every kind of database, each time a fresh one.
func Each(t *testing.T, test func(t *testing.T, db *store.DB)) {
	t.Helper()
	EachWith(t, store.Options{}, test)
}

// EachWith is Each for databases opened with the given options.
func EachWith(t *testing.T, o store.Options, test func(t *testing.T, db *store.DB)) {
	t.Helper()
	EachURL(t, func(t *testing.T, url string) { test(t, Open(t, url, o)) })
}

// EachURL runs the test once on every kind of database, each time with the URL
// of a fresh, empty one.
func EachURL(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	for name, fresh := range map[string]func(testing.TB) string{"sqlite": SQLite, "postgres": Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}
