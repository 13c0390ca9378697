package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // asked for its version
)

// variable says which PostgreSQL the tests use: empty, a private one if it is installed; "required", a
// private one or a failure; else the URL of a server.
const variable = "MADEIRA_TEST_POSTGRES"

// suite is the one server of this test process. It has to be a package variable: go test gives TestMain
// and the tests nothing in common but the package. Main opens and closes it, the first test that asks fills
// it, and nothing else writes it.
var suite struct {
	sync.Mutex
	open    bool
	asked   bool
	server  Server
	cluster *Cluster // nil when the server was given by URL
	err     error
}

// Main runs the tests of a package and exits: TestMain calls it and nothing after it.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run runs the tests, stops the server if one was started, says on standard error which databases the
// suite ran on, and returns the exit code. It is for a TestMain that has to wrap the tests in something else too.
func Run(m interface{ Run() int }) int {
	suite.Lock()
	suite.open = true
	suite.Unlock()
	code := m.Run()
	suite.Lock()
	defer suite.Unlock()
	suite.open = false
	fmt.Fprintln(os.Stderr, "databases: sqlite "+sqliteVersion()+", "+postgresState())
	if suite.cluster != nil {
		if err := suite.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
			code = max(code, 1)
		}
	}
	return code
}

// Postgres returns the URL of a fresh, empty database of this test's own, which is dropped when the test
// ends. Without PostgreSQL it skips the test, or fails it where PostgreSQL is required. It may be called
// from parallel tests.
func Postgres(t testing.TB) string {
	t.Helper()
	return PostgresLike(t, "")
}

// PostgresLike is Postgres with a database that is a copy of template, the name of a database on the same
// server that nobody is connected to.
func PostgresLike(t testing.TB, template string) string {
	t.Helper()
	server := SuiteServer(t)
	database, err := server.Database(t.Context(), template)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), readyWithin) // t.Context is over by now
		defer cancel()
		if err := server.Drop(ctx, database); err != nil {
			t.Error(err)
		}
	})
	return database
}

// SuiteServer returns the server that all tests of this process share. Without PostgreSQL it skips or
// fails the test as Postgres does.
func SuiteServer(t testing.TB) Server {
	t.Helper()
	suite.Lock()
	defer suite.Unlock()
	if !suite.open {
		t.Fatal("storetest: TestMain of this package must call storetest.Main, which stops PostgreSQL when the tests are over")
	}
	if !suite.asked {
		suite.asked = true
		suite.server, suite.cluster, suite.err = connect()
	}
	unless(t, suite.err)
	return suite.server
}

// Private returns a cluster of this test's own, which it may stop, kill and restart; it is closed when the
// test ends. Without PostgreSQL it skips or fails the test as Postgres does. A URL in
// MADEIRA_TEST_POSTGRES makes no difference: nobody kills a server that was lent.
func Private(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), o)
	unless(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// connect finds the server that the environment asks for.
func connect() (Server, *Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*readyWithin)
	defer cancel()
	switch value := os.Getenv(variable); {
	case value == "" || value == "required":
		c, err := Start(ctx, Options{})
		if err != nil {
			return Server{}, nil, err
		}
		return c.Server, c, nil
	case strings.HasPrefix(value, "postgres://") || strings.HasPrefix(value, "postgresql://"):
		server := Server{admin: value}
		if _, err := server.Version(ctx); err != nil {
			return Server{}, nil, fmt.Errorf("%s: %w", variable, err)
		}
		return server, nil, nil
	default:
		return Server{}, nil, fmt.Errorf("%s=%q: want nothing, required, or a URL (postgres://…)", variable, value)
	}
}

// unless ends the test if there is no server: a skip when PostgreSQL is merely not installed.
func unless(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrNoPostgres) && os.Getenv(variable) != "required":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

func postgresState() string {
	if !suite.asked {
		return "postgresql not used"
	}
	if suite.err != nil {
		return "no postgresql (" + suite.err.Error() + ")"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	version, err := suite.server.Version(ctx)
	switch {
	case err != nil:
		return "postgresql gone (" + err.Error() + ")"
	case suite.cluster == nil:
		return "postgresql " + version + " (given by " + variable + ")"
	default:
		return "postgresql " + version + " (private cluster)"
	}
}

func sqliteVersion() string {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = db.Close() }()
	var version string
	if err := db.QueryRowContext(context.Background(), "SELECT sqlite_version()").Scan(&version); err != nil {
		return err.Error()
	}
	return version
}
