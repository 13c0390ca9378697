package store

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func openLite(t *testing.T) (*DB, *sqlite) {
	t.Helper()
	db, err := Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "m.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.bun.ExecContext(t.Context(), "CREATE TABLE said (word text UNIQUE)"); err != nil {
		t.Fatal(err)
	}
	return db, db.hot.(*sqlite)
}

const liteSay = "INSERT INTO said (word) VALUES (?)"

func say(s *sqlite, ctx context.Context, word string, more func() error) error { //nolint:revive // The store comes first, as in a method.
	return s.writing(ctx, func(ctx context.Context, tx *liteTx) error {
		if _, err := tx.run(ctx, liteSay, word); err != nil {
			return err
		}
		return more()
	}, liteSay)
}

// inLine waits until n turns wait.
func inLine(t *testing.T, s *sqlite, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s.line.mu.Lock()
		waiting := len(s.line.waiting)
		s.line.mu.Unlock()
		if waiting == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d turns wait, want %d", waiting, n)
		}
	}
}

func TestSQLite_WhatWaitsForACommitSharesTheNextAndFailsAlone(t *testing.T) {
	t.Parallel()
	db, s := openLite(t)
	ctx, fine := t.Context(), func() error { return nil }
	held, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := say(s, ctx, "first", func() error { close(held); <-release; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-held
	refusal := errors.New("no")
	errs := make([]error, 5)
	gone, leave := context.WithCancel(ctx)
	for i, turn := range []struct {
		ctx  context.Context
		word string
		more func() error
	}{
		{ctx, "second", fine}, {ctx, "first", fine}, {ctx, "third", func() error { return refusal }}, {ctx, "fourth", func() error { panic("boom") }}, {gone, "fifth", fine},
	} {
		wg.Go(func() { errs[i] = say(s, turn.ctx, turn.word, turn.more) })
		inLine(t, s, i+1)
	}
	leave()
	inLine(t, s, 4)
	close(release)
	wg.Wait()
	if errs[0] != nil || s.fails(errs[1]) != refused || !errors.Is(errs[2], refusal) || errs[3] == nil || !errors.Is(errs[4], context.Canceled) {
		t.Errorf("the turns ended with %v; want none, a constraint, no, a panic, cancelled", errs)
	}
	var words []string
	if err := db.bun.NewRaw("SELECT word FROM said ORDER BY rowid").Scan(ctx, &words); err != nil || len(words) != 2 || words[1] != "second" {
		t.Errorf("kept %v, %v; want first and second", words, err)
	}
	if err := say(s, ctx, "last", fine); err != nil || s.line.led {
		t.Errorf("after all that: %v, led %t; want none, false", err, s.line.led)
	}
}

func TestSQLite_WhoCannotHaveTheConnectionLeavesTheLeadToTheNext(t *testing.T) {
	t.Parallel()
	db, s := openLite(t)
	ctx := t.Context()
	if err := s.stmts.ready(ctx, s.write.DB, []string{liteSay}); err != nil {
		t.Fatal(err)
	}
	conn, err := db.bun.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(ctx)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i, c := range []context.Context{gone, ctx} {
		wg.Go(func() { errs[i] = say(s, c, []string{"a", "b"}[i], func() error { return nil }) })
		inLine(t, s, i+1)
	}
	leave()
	inLine(t, s, 1)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if !errors.Is(errs[0], context.Canceled) || errs[1] != nil {
		t.Errorf("errors = %v; want cancelled, none", errs)
	}
}
