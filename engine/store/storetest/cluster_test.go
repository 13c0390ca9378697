package storetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec1(t *testing.T, url, sql string) {
	t.Helper()
	if _, err := connect(t, url).Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func value(t *testing.T, url, sql string) string {
	t.Helper()
	var s string
	if err := connect(t, url).QueryRow(t.Context(), sql).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPostgres_GivesEachTestAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one", "two", "three"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := storetest.Postgres(t)
			exec1(t, url, "CREATE TABLE only_here (n int)")
			if got := value(t, url, "SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"); got != "1" {
				t.Errorf("tables = %s, want 1", got)
			}
		})
	}
}

func TestPostgres_DropsTheDatabaseAfterTheTest(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("user", func(t *testing.T) { url = storetest.Postgres(t) })
	if url == "" {
		t.Skip("no PostgreSQL")
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		_ = conn.Close(t.Context())
		t.Errorf("%s is still there", url)
	}
}

func TestPostgresLike_CopiesTheTemplate(t *testing.T) {
	t.Parallel()
	template := storetest.Postgres(t)
	conn, err := pgx.Connect(t.Context(), template)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE ledger AS SELECT '12.30' AS amount"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := storetest.PostgresLike(t, conn.Config().Database)
	if got := value(t, url, "SELECT amount FROM ledger"); got != "12.30" {
		t.Errorf("amount = %q, want 12.30", got)
	}
}

func TestCluster_SortsAndStoresTextAsProductionDoes(t *testing.T) {
	t.Parallel()
	url := storetest.Postgres(t)
	if got := value(t, url, "SHOW server_encoding"); got != "UTF8" {
		t.Errorf("encoding = %s, want UTF8", got)
	}
	if got := value(t, url, "SELECT '交易号'"); got != "交易号" {
		t.Errorf("text = %q", got)
	}
}

// What was committed must survive each way for a server to end; the URLs stay good.
func TestCluster_KeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	c := storetest.Private(t, storetest.Options{})
	url, err := c.Database(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	exec1(t, url, "CREATE TABLE kept (how text)")
	ends := []struct {
		name string
		end  func() error
	}{
		{"stop", c.Stop},
		{"kill", c.Kill},
		{"stop again", c.Stop},
		{"restart", func() error { return c.Restart(t.Context()) }},
	}
	for _, e := range ends {
		// A backend that is busy while its server dies must not keep the next one from starting.
		busy := connect(t, url)
		go func() { _, _ = busy.Exec(context.Background(), "SELECT pg_sleep(60)") }()
		exec1(t, url, "INSERT INTO kept VALUES ('"+e.name+"')")
		if err := e.end(); err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		if err := c.Restart(t.Context()); err != nil {
			t.Fatalf("restart after %s: %v", e.name, err)
		}
	}
	if got, want := value(t, url, "SELECT string_agg(how, ', ') FROM kept"), "stop, kill, stop again, restart"; got != want {
		t.Errorf("kept = %s, want %s", got, want)
	}
}

func TestStart_AppliesItsOptions(t *testing.T) {
	t.Parallel()
	c := storetest.Private(t, storetest.Options{Durable: true, Settings: []string{"work_mem=5MB"}})
	for setting, want := range map[string]string{"fsync": "on", "work_mem": "5MB", "listen_addresses": "", "max_connections": "200"} {
		if got := value(t, c.URL(), "SHOW "+setting); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
}

func TestStart_ReportsTheServersOwnWords(t *testing.T) {
	t.Parallel()
	c, err := storetest.Start(t.Context(), storetest.Options{Settings: []string{"work_mem=much"}})
	if err == nil {
		_ = c.Close()
		t.Fatal("a server with bad settings started")
	}
	if errors.Is(err, storetest.ErrNoPostgres) {
		t.Skip(err)
	}
	if !strings.Contains(err.Error(), `"work_mem"`) {
		t.Errorf("error = %v, want the line of the server's log about work_mem", err)
	}
}

func TestClose_RemovesTheFolder(t *testing.T) {
	t.Parallel()
	c, err := storetest.Start(t.Context(), storetest.Options{})
	if errors.Is(err, storetest.ErrNoPostgres) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, dir, _ := strings.Cut(c.URL(), "host=")
	dir, _, _ = strings.Cut(dir, "&")
	if socket := filepath.Join(dir, ".s.PGSQL.5432"); len(socket) > 107 {
		t.Errorf("socket path %s has %d bytes, the limit is 107", socket, len(socket))
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

// The suite of another process, run with its environment changed, tells what users see.
func suiteOutput(t *testing.T, run string, env ...string) string {
	t.Helper()
	if os.Getenv("STORETEST_INNER") != "" {
		t.Skip("runs in the outer process")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", run)
	cmd.Env = append(os.Environ(), append(env, "STORETEST_INNER=1")...)
	out, _ := cmd.CombinedOutput() // a failing suite is one of the things to see
	return string(out)
}

func TestRun_SaysWhichDatabasesItUsed(t *testing.T) {
	t.Parallel()
	_ = storetest.SuiteServer(t) // skips without PostgreSQL
	out := suiteOutput(t, "TestCluster_Sorts", "MADEIRA_TEST_POSTGRES=")
	if !strings.Contains(out, "databases: sqlite 3.") || !strings.Contains(out, "(private cluster)") {
		t.Errorf("output = %s", out)
	}
}

func TestRun_UsesAServerThatIsGiven(t *testing.T) {
	t.Parallel()
	out := suiteOutput(t, "TestCluster_Sorts", "MADEIRA_TEST_POSTGRES="+storetest.SuiteServer(t).URL())
	if !strings.Contains(out, "(given by MADEIRA_TEST_POSTGRES)") || !strings.Contains(out, "\nPASS") {
		t.Errorf("output = %s", out)
	}
}

func TestPostgres_SkipsOrFailsWithOneLineWhenNotInstalled(t *testing.T) {
	t.Parallel()
	const line = "apt-get install postgresql"
	out := suiteOutput(t, "TestCluster_Sorts", "PG_BIN=/nowhere", "MADEIRA_TEST_POSTGRES=")
	if !strings.Contains(out, "--- SKIP") || !strings.Contains(out, line) {
		t.Errorf("not required: output = %s", out)
	}
	out = suiteOutput(t, "TestCluster_Sorts", "PG_BIN=/nowhere", "MADEIRA_TEST_POSTGRES=required")
	if !strings.Contains(out, "--- FAIL") || !strings.Contains(out, line) {
		t.Errorf("required: output = %s", out)
	}
}
