package store

import (
	"context"
	"database/sql"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/uptrace/bun"
)

// A turn is one transaction on the hot path, until it is committed: by the caller
// itself, or together with others by one of them.
type turn struct {
	fn   func(ctx context.Context, tx *liteTx) error
	err  error
	told chan bool // true: it is over; false: the caller leads
}

// A line is who waits to write. The first goes on at once; what comes while a
// commit is on its way shares the next, which the first of them leads.
type line struct {
	mu      sync.Mutex
	waiting []*turn
	led     bool
}

// join lines up and reports whether the caller leads.
func (l *line) join(t *turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, t)
	first := !l.led
	l.led = true
	return first
}

// leave takes a turn back, and reports false when it has begun or has to lead.
func (l *line) leave(t *turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(t.told) == 0 && l.remove(t)
}

// drop takes the turn of the leader back.
func (l *line) drop(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(t)
}

func (l *line) remove(t *turn) bool {
	i := slices.Index(l.waiting, t)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// board returns all who wait, for one commit.
func (l *line) board() []*turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	group := l.waiting
	l.waiting = nil
	return group
}

// pass hands the lead on to the first who waits. The caller must not be in line.
func (l *line) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.led = len(l.waiting) > 0; l.led {
		l.waiting[0].told <- false
	}
}

// writing runs fn in a transaction with the given statements prepared, and shares
// the commit with those who ask at the same time. Once it has begun it does not
// end with ctx.
func (s *sqlite) writing(ctx context.Context, fn func(ctx context.Context, tx *liteTx) error, texts ...string) error {
	if err := s.stmts.ready(ctx, s.write.DB, texts); err != nil {
		return err
	}
	t := &turn{fn: fn, told: make(chan bool, 1)}
	if s.line.join(t) {
		return s.lead(ctx, t)
	}
	select {
	case over := <-t.told:
		if over {
			return t.err
		}
		return s.lead(ctx, t)
	case <-ctx.Done():
		if s.line.leave(t) {
			return ctx.Err()
		}
		if over := <-t.told; over {
			return t.err
		}
		return s.lead(ctx, t) // which finds that ctx is done
	}
}

// lead commits what waits, if the connection is to be had in the caller's time;
// otherwise only the caller fails.
func (s *sqlite) lead(ctx context.Context, t *turn) error {
	defer s.line.pass()
	conn, err := s.write.Conn(ctx)
	if err != nil {
		s.line.drop(t)
		return err
	}
	defer func() { _ = conn.Close() }()
	group := s.line.board()
	err = s.commit(context.WithoutCancel(ctx), conn, group)
	for _, member := range group {
		if member.err == nil {
			member.err = err
		}
		if member != t {
			member.told <- true
		}
	}
	return t.err
}

// commit runs the turns in one transaction. One that fails takes back only what it
// wrote itself.
func (s *sqlite) commit(ctx context.Context, conn bun.Conn, group []*turn) error {
	return conn.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		lite := &liteTx{txn: txn{Tx: tx, dialect: s, now: now}, stmts: &s.stmts, bound: map[string]*sql.Stmt{}}
		if len(group) == 1 {
			return group[0].run(ctx, lite)
		}
		for _, t := range group {
			if err := lite.part(ctx, t); err != nil {
				return err
			}
		}
		return nil
	})
}

// part runs a turn within a transaction that is not its alone. The error is one
// that ends the whole transaction.
func (tx *liteTx) part(ctx context.Context, t *turn) error {
	if err := tx.exec(ctx, "SAVEPOINT turn"); err != nil {
		return err
	}
	if t.err = t.run(ctx, tx); t.err != nil {
		if err := tx.exec(ctx, "ROLLBACK TO turn"); err != nil {
			return t.err
		}
	}
	return tx.exec(ctx, "RELEASE turn")
}

// run turns a panic into an error: it must not end the caller that happens to lead.
func (t *turn) run(ctx context.Context, tx *liteTx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return t.fn(ctx, tx)
}
