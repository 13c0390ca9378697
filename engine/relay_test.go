package engine_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A wire is a TCP relay in front of PostgreSQL. It passes everything on, swallows
// everything without a word as a network does that has lost its route, or hangs up.
type wire struct {
	URL      string // of the database through the relay
	listener net.Listener
	to       func() (net.Conn, error)

	mu    sync.Mutex
	shut  chan struct{}         // closed when bytes may pass
	conns map[net.Conn]struct{} // both ends of everything that is open
	pumps sync.WaitGroup
}

func newWire(t *testing.T, database string) *wire {
	t.Helper()
	cfg, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.User(cfg.User), Host: listener.Addr().String(), Path: "/" + cfg.Database, RawQuery: "sslmode=disable"}
	if cfg.Password != "" {
		u.User = url.UserPassword(cfg.User, cfg.Password)
	}
	w := &wire{URL: u.String(), listener: listener, shut: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	w.to = func() (net.Conn, error) {
		return new(net.Dialer).DialContext(context.WithoutCancel(t.Context()), network, address)
	}
	close(w.shut)
	w.pumps.Go(w.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		w.restore()
		w.hangUp()
		w.pumps.Wait()
	})
	return w
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := w.to()
		if err != nil {
			_ = client.Close()
			continue
		}
		w.keep(client, server)
		w.pumps.Go(func() { w.pump(client, server) })
		w.pumps.Go(func() { w.pump(server, client) })
	}
}

func (w *wire) keep(ends ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range ends {
		w.conns[c] = struct{}{}
	}
}

// pump passes bytes on in one direction while the way is open.
func (w *wire) pump(from io.ReadCloser, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		w.mu.Lock()
		shut := w.shut
		w.mu.Unlock()
		<-shut
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// blackhole lets nothing through in either direction, and hangs up on nobody.
func (w *wire) blackhole() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = make(chan struct{})
}

// restore lets everything through again, what was swallowed too.
func (w *wire) restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.shut:
	default:
		close(w.shut)
	}
}

// hangUp closes every connection.
func (w *wire) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}
