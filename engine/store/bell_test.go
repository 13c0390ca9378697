package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// bellWait is far longer than a ring takes, and shorter than the patience of a test.
const bellWait = 20 * time.Second

// listen listens until the test ends, and returns what was heard. It has heard
// the first time, which says that it listens, when it returns.
func listen(t *testing.T, db *store.DB) <-chan task.News {
	t.Helper()
	heard := make(chan task.News, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- db.Listen(ctx, func(n task.News) {
			select {
			case heard <- n:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Listen ended with %v", err)
		}
	})
	hears(t, heard)
	return heard
}

func hears(t *testing.T, heard <-chan task.News) {
	t.Helper()
	select {
	case <-heard:
	case <-time.After(bellWait):
		t.Fatal("nothing was heard")
	}
}

func TestBell_AnotherProcessHearsOfWhatWasMade(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		here, there := storetest.Open(t, url, store.Options{}), storetest.Open(t, url, store.Options{})
		heard := listen(t, there)
		if _, err := here.Enqueue(t.Context(), []task.Lone{{Type: "noop"}}); err != nil {
			t.Fatal(err)
		}
		hears(t, heard)
		claim(t, there, 1)
		create(t, here, newRun("k", steps(noop("a"))))
		hears(t, heard)
	})
}

func TestBell_ThisProcessHearsAtOnceAlsoBehindAPooler(t *testing.T) {
	t.Parallel()
	storetest.EachWith(t, store.Options{TransactionPooler: true}, func(t *testing.T, db *store.DB) {
		heard := make(chan struct{}, 100)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = db.Listen(ctx, func(task.News) { heard <- struct{}{} })
		}()
		defer func() { cancel(); <-ended }()
		for { // until Listen has begun
			if _, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop"}}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-heard:
				return
			default:
			}
		}
	})
}

func TestBell_RingsInShortSuccessionAreAllHeardOfInTheEnd(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	here, there := storetest.Open(t, url, store.Options{}), storetest.Open(t, url, store.Options{})
	heard := listen(t, there)
	for range 1000 {
		here.Ring()
	}
	hears(t, heard)
	if n := len(heard); n > 100 {
		t.Errorf("1000 rings were heard %d times", n)
	}
	write(t, here, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_notify%'")
	for { // the connection that rings is gone: it comes back by itself
		here.Ring()
		select {
		case <-heard:
		case <-time.After(10 * time.Millisecond):
			continue
		case <-t.Context().Done():
			t.Fatal("nothing was heard")
		}
		break
	}
}

func TestBell_ListenEndsWithAnErrorWhenItsConnectionIsGone(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Postgres(t), store.Options{})
	ended := make(chan error, 1)
	heard := make(chan task.News, 10)
	go func() { ended <- db.Listen(t.Context(), func(n task.News) { heard <- n }) }()
	hears(t, heard)
	write(t, db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	select {
	case err := <-ended:
		if err == nil {
			t.Error("Listen ended without an error")
		}
	case <-time.After(bellWait):
		t.Fatal("Listen goes on")
	}
}
