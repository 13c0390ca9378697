package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// A pooler gives every transaction another session of the server, taken at
// random, and wipes the session before the next one gets it: what pgbouncer does
// in transaction mode, without any of its mercies.
type pooler struct {
	*testing.T
	URL      string
	listener net.Listener
	config   *pgx.ConnConfig
	sessions chan *pgconn.HijackedConn
	serving  sync.WaitGroup

	mu      sync.Mutex
	clients map[net.Conn]struct{}
}

func newPooler(t *testing.T, database string, sessions int) *pooler {
	t.Helper()
	cfg, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.User(cfg.User), Host: listener.Addr().String(), Path: "/" + cfg.Database, RawQuery: "sslmode=disable"}
	p := &pooler{T: t, URL: u.String(), listener: listener, config: cfg, sessions: make(chan *pgconn.HijackedConn, sessions), clients: map[net.Conn]struct{}{}}
	for range sessions {
		p.sessions <- p.session()
	}
	p.serving.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for c := range p.clients {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.serving.Wait()
		close(p.sessions)
		for s := range p.sessions {
			_ = s.Conn.Close()
		}
	})
	return p
}

func (p *pooler) session() *pgconn.HijackedConn {
	p.Helper()
	conn, err := pgconn.ConnectConfig(p.Context(), &p.config.Config)
	if err != nil {
		p.Fatal(err)
	}
	session, err := conn.Hijack()
	if err != nil {
		p.Fatal(err)
	}
	return session
}

// take returns a session at random.
func (p *pooler) take() *pgconn.HijackedConn {
	for range rand.N(cap(p.sessions)) {
		select {
		case s := <-p.sessions:
			p.sessions <- s
		default:
		}
	}
	return <-p.sessions
}

func (p *pooler) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.mu.Lock()
		p.clients[client] = struct{}{}
		p.mu.Unlock()
		p.serving.Go(func() {
			defer func() { _ = client.Close() }()
			if err := p.serve(client); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrUnexpectedEOF) {
				p.Logf("pooler: %v", err)
			}
		})
	}
}

// serve greets a client and gives each of its transactions a session.
func (p *pooler) serve(client net.Conn) error {
	hello := pgproto3.NewBackend(client, client)
	first, err := hello.ReceiveStartupMessage()
	if err != nil {
		return err
	}
	start, ok := first.(*pgproto3.StartupMessage)
	if !ok {
		return nil // it wants to cancel something: a pooler may ignore that
	}
	for name := range start.Parameters {
		if name != "user" && name != "database" && name != "client_encoding" {
			hello.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + name})
			return errors.Join(hello.Flush(), fmt.Errorf("a client asked for %s", name))
		}
	}
	hello.Send(&pgproto3.AuthenticationOk{})
	for name, value := range map[string]string{"server_version": "15.0", "client_encoding": "UTF8", "standard_conforming_strings": "on", "TimeZone": "UTC", "integer_datetimes": "on"} {
		hello.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	hello.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	hello.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := hello.Flush(); err != nil {
		return err
	}
	for {
		typ, message, err := frame(client)
		if err != nil || typ == 'X' {
			return err
		}
		if err := p.transaction(client, typ, message); err != nil {
			return err
		}
	}
}

// transaction sees one through, which begins with a message of the client.
func (p *pooler) transaction(client net.Conn, typ byte, message []byte) (err error) {
	s := p.take()
	defer func() {
		if wiped := wipe(s.Conn); err != nil || wiped != nil {
			_ = s.Conn.Close()
			fresh, failed := pgconn.ConnectConfig(p.Context(), &p.config.Config)
			if failed != nil {
				return // the test is over, or will say that nothing goes on
			}
			if s, failed = fresh.Hijack(); failed != nil {
				return
			}
		}
		p.sessions <- s
	}()
	for {
		if _, err := s.Conn.Write(message); err != nil {
			return err
		}
		if typ == 'S' || typ == 'Q' { // the server answers these with its readiness
			status, err := answer(s.Conn, client)
			if err != nil {
				return err
			}
			if status == 'I' {
				return nil
			}
		}
		if typ, message, err = frame(client); err != nil {
			return err
		}
	}
}

// answer passes on what the server says until it is ready, and returns whether it
// is in a transaction.
func answer(server, client net.Conn) (status byte, err error) {
	for {
		typ, message, err := frame(server)
		if err != nil {
			return 0, err
		}
		if _, err := client.Write(message); err != nil {
			return 0, err
		}
		if typ == 'Z' {
			return message[5], nil
		}
	}
}

// frame reads one message with its type and length.
func frame(from net.Conn) (typ byte, message []byte, err error) {
	message = make([]byte, 5)
	if _, err := io.ReadFull(from, message); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(message[1:])
	body := make([]byte, n-4)
	if _, err := io.ReadFull(from, body); err != nil {
		return 0, nil, err
	}
	return message[0], append(message, body...), nil
}

// wipe makes a session forget everything.
func wipe(server net.Conn) error {
	query, err := (&pgproto3.Query{String: "DISCARD ALL"}).Encode(nil)
	if err != nil {
		return err
	}
	if _, err := server.Write(query); err != nil {
		return err
	}
	_, err = answer(server, silent{server})
	return err
}

// silent is a connection on which what is written is lost.
type silent struct{ net.Conn }

func (silent) Write(b []byte) (int, error) { return len(b), nil }
