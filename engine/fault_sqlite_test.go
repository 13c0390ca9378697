package engine_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
)

// TestFault_F30 has another process write for longer than a heartbeat may take.
func TestFault_F30_AnotherWriterIsWaitedFor(t *testing.T) {
	t.Parallel()
	otherWriter(t, 6*time.Second, 4*time.Second)
}

// otherWriter holds the write lock of a file for d, while a worker with such a
// lease works on it.
func otherWriter(t *testing.T, lease, d time.Duration) {
	r := newRig(t, storetest.SQLite(t))
	worker := r.open(r.url, store.Options{})
	cfg := r.worker("one", worker, steady(worker))
	cfg.Lease = lease
	r.start(cfg)
	r.mustCreate("k", mixed(0, 4)...)
	r.untilOver()
	other := r.open(r.url, store.Options{})
	_, pool := other.SQL()
	tx, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "UPDATE target SET task_id = task_id"); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() {
		_, err := r.create(t.Context(), "k2", mixed(1, 6)...)
		made <- err
	}()
	time.Sleep(d) // the fault itself
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Errorf("a run could not be made beside another writer: %v", err)
	}
	r.untilOver()
	if text := r.logs.String(); strings.Contains(text, "BUSY") || strings.Contains(text, "locked") {
		t.Errorf("the log mentions the other writer\n%s", text)
	}
	r.wantAll()
	r.wantSound()
}

// TestFault_F32 keeps a reader open while 20,000 rows are written one by one.
func TestFault_F32_AReaderThatStaysDoesNotLeaveALargeLog(t *testing.T) {
	t.Parallel()
	url := storetest.SQLite(t)
	r := newRig(t, url)
	r.exec("PRAGMA synchronous = OFF") // of the writer here, to be quick about it
	reader := r.open(url, store.Options{})
	read, _ := reader.SQL()
	tx, err := read.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM task_queue").Scan(&n); err != nil {
		t.Fatal(err)
	}
	_, pool := r.db.SQL()
	for i := range 20_000 {
		if _, err := pool.ExecContext(t.Context(), "INSERT INTO target (task_id) VALUES (?)", i); err != nil {
			t.Fatal(err)
		}
	}
	log := strings.TrimPrefix(url, "sqlite://") + "-wal"
	if size := sizeOf(t, log); size < 64<<20 {
		t.Logf("the log had only %d bytes while the reader was there", size)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	cfg := r.worker("one", r.db, steady(r.db))
	r.start(cfg)
	r.exec("DELETE FROM target")
	r.mustCreate("k", mixed(0, 3)...)
	r.untilOver()
	const most = 65 << 20
	r.eventually(fmt.Sprintf("a log of %d bytes at most", most), func(context.Context) (bool, error) {
		return sizeOf(t, log) <= most, nil
	})
	r.wantAll()
	r.wantSound()
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
