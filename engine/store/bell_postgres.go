package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"madeira/engine/task"
)

const (
	// bellChannel is a name of its own in each database of a server.
	bellChannel = "madeira_ready"

	// bellTime is what one notification may take, and how long a bell that broke is
	// left alone; the others poll meanwhile.
	bellTime = 5 * time.Second

	// bellGap keeps a process that makes work all the time from spending more on
	// telling than on working: what is rung so soon after a notification is told at
	// the end of the gap.
	bellGap = 2 * time.Millisecond

	// bellCheck is how often a silent connection is asked whether it is still there.
	bellCheck = 30 * time.Second

	pgNotify = "SELECT pg_notify($1, $2)"
)

// A pgBell notifies and listens on connections of its own, or behind a commit that
// makes work, but never within the transaction of anybody: those that notify commit
// one after the other.
type pgBell struct {
	config *pgx.ConnConfig
	off    bool          // a pooler stands between: no session hears anything
	name   string        // of this process, to know its own rings by
	rung   chan struct{} // rings that were not told yet; many are one

	// claim is what is tried first about tasks that are ready; it reports whether that
	// was all there is to do.
	claim func(ctx context.Context, conn *pgx.Conn) bool

	mu     sync.Mutex
	untold task.News // by those rings
	quiet  time.Time // until when nothing more is told

	start sync.Once
	stop  context.CancelFunc
	ended chan struct{}
}

func newPGBell(config *pgx.ConnConfig, off bool) *pgBell {
	return &pgBell{config: config, off: off, name: rand.Text(), rung: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (b *pgBell) ring(n task.News) {
	if b.off {
		return
	}
	b.mu.Lock()
	b.untold = max(b.untold, n)
	b.mu.Unlock()
	select {
	case b.rung <- struct{}{}:
	default:
		return
	}
	b.start.Do(func() {
		ctx, stop := context.WithCancel(context.Background())
		b.stop = stop
		go b.toll(ctx)
	})
}

// along reports whether whoever is about to make work may tell the others itself,
// behind its commit: nothing was told a moment ago.
func (b *pgBell) along() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.off || now.Before(b.quiet) {
		return false
	}
	b.quiet = now.Add(bellGap)
	return true
}

// rest returns how long nothing is told.
func (b *pgBell) rest() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Until(b.quiet)
}

// tell returns what is to be told, and that nothing more is for so long.
func (b *pgBell) tell() task.News {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.untold
	b.untold = 0
	return n
}

func (b *pgBell) told(gap time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quiet = time.Now().Add(gap)
}

// A process names itself in what it tells, and says so when it is only of what is
// ready. One of an earlier version hears all alike.
const onlyReady = "ready"

func (b *pgBell) payload(n task.News) string {
	if n == task.NewsReady {
		return b.name + " " + onlyReady
	}
	return b.name
}

// news reads a payload; 0 stands for one of this process.
func (b *pgBell) news(payload string) task.News {
	name, kind, _ := strings.Cut(payload, " ")
	switch {
	case name == b.name:
		return 0
	case kind == onlyReady:
		return task.NewsReady
	}
	return task.NewsAny
}

// toll tells the others, one notification after the other: the first at once,
// and what is rung meanwhile as one more. It ends with close.
func (b *pgBell) toll(ctx context.Context) {
	defer close(b.ended)
	var conn *pgx.Conn
	defer func() { hangUp(conn) }() //nolint:contextcheck // the goodbye has a time of its own; ctx is over by then
	for {
		select {
		case <-b.rung:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(b.rest()):
		case <-ctx.Done():
			return
		}
		var err error
		gap := bellGap
		if conn, err = b.notify(ctx, conn, b.tell()); err != nil {
			hangUp(conn) //nolint:contextcheck // the goodbye has a time of its own; ctx is over by then
			conn, gap = nil, bellTime
		}
		b.told(gap)
	}
}

// notify sends one notification, over a new connection where there is none.
func (b *pgBell) notify(ctx context.Context, conn *pgx.Conn, n task.News) (_ *pgx.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panicked: %v\n%s", p, debug.Stack())
			slog.ErrorContext(ctx, "the bell", "error", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, bellTime)
	defer cancel()
	if conn == nil {
		if conn, err = pgx.ConnectConfig(ctx, b.config.Copy()); err != nil {
			return nil, err
		}
	}
	_, err = conn.Exec(ctx, pgNotify, bellChannel, b.payload(n))
	return conn, err
}

func (b *pgBell) listen(ctx context.Context, heard func(task.News)) error {
	if b.off {
		<-ctx.Done()
		return ctx.Err()
	}
	conn, err := pgx.ConnectConfig(ctx, b.config.Copy())
	if err != nil {
		return fmt.Errorf("listen: %w", mask(err))
	}
	defer hangUp(conn) //nolint:contextcheck // the goodbye has a time of its own; ctx is over by then
	if _, err := conn.Exec(ctx, "LISTEN "+bellChannel); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	heard(task.NewsAny) // what was rung before
	for {
		if err := b.hear(ctx, conn, heard); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
}

// hear waits for one notification, or finds out that the silence means nothing.
func (b *pgBell) hear(ctx context.Context, conn *pgx.Conn, heard func(task.News)) error {
	waiting, cancel := context.WithTimeout(ctx, bellCheck)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		news := b.news(n.Payload)
		if news != 0 && (news != task.NewsReady || !b.claim(ctx, conn)) {
			heard(news)
		}
	case ctx.Err() == nil && errors.Is(waiting.Err(), context.DeadlineExceeded):
		asking, cancel := context.WithTimeout(ctx, bellTime)
		defer cancel()
		return conn.Ping(asking)
	}
	return err
}

func (b *pgBell) close() {
	b.start.Do(func() { close(b.ended) }) // never rung
	if b.stop != nil {
		b.stop()
	}
	<-b.ended
}

// hangUp closes a connection, politely where that is quick.
func hangUp(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
