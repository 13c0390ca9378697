package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
)

func open(t *testing.T, url string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestBadInput_B82_TwoMigratorsAtOnceAndASecondTime(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		var mu sync.Mutex
		applied := 0
		var wg sync.WaitGroup
		for range 3 {
			db := open(t, url)
			wg.Go(func() {
				versions, err := db.Migrate(t.Context())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				applied += len(versions)
			})
		}
		wg.Wait()
		db := open(t, url)
		have, want, err := db.Version(t.Context())
		if err != nil || have != want || applied != int(want) {
			t.Errorf("version %d of %d, %d migrations applied, %v; want each once", have, want, applied, err)
		}
		if versions, err := db.Migrate(t.Context()); err != nil || len(versions) != 0 {
			t.Errorf("a second time applied %v, %v; want nothing", versions, err)
		}
		if err := db.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestBadInput_B82_OtherSchemasAreRefusedWithBothVersions(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		db := open(t, url)
		var bad *store.SchemaError
		if err := db.CheckSchema(t.Context()); !errors.As(err, &bad) || bad.Have != 0 || !strings.Contains(err.Error(), "madeira migrate") {
			t.Errorf("an empty database: %v; want to be told to migrate", err)
		}
		if _, err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		write(t, db, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)")
		if err := db.CheckSchema(t.Context()); !errors.As(err, &bad) || bad.Have != 99 || bad.Want >= 99 || !strings.Contains(err.Error(), "newer") {
			t.Errorf("a newer schema: %v; want it refused", err)
		}
		if _, err := db.Migrate(t.Context()); !errors.As(err, &bad) {
			t.Errorf("migrating a newer schema: %v; want it refused", err)
		}
	})
}

func TestBadInput_B75_URLsThatNameNoDatabase(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("this is no database, and long enough to be seen as none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"":                                      "no URL",
		"madeira.db":                            "no URL",
		"mysql://x/y":                           `scheme "mysql"`,
		"sqlite://":                             "names no file",
		"sqlite://:memory:":                     "names no file",
		"sqlite://" + file:                      "not a database",
		"sqlite://" + file + "/x.db":            "folder",
		"postgres://u:hunter2@h:x/d":            "check the form",
		"postgres://u:hunter2@/d?host=/nowhere": "open the state database",
	} {
		_, err := store.Open(t.Context(), url, store.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open(%q) = %v, want %q in it and no password", url, err, want)
		}
	}
}

func TestOpen_ThroughATransactionPoolerEverythingWorks(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Postgres(t), store.Options{TransactionPooler: true, MaxConns: 1})
	run := create(t, db, newRun("k", steps(noop("a"), noop("b", "a"))))
	work(t, db)
	if s := status(t, db, run.ID); s != "success" {
		t.Errorf("run = %s, want success", s)
	}
	sound(t, db)
}

func TestOpen_TakesAPathOfAnyKind(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b?c#d%41", "new", "madeira.db")
	db := storetest.Open(t, "sqlite://"+path, store.Options{})
	create(t, db, newRun("k", steps(noop("a"))))
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file is not where the URL says: %v", err)
	}
}
