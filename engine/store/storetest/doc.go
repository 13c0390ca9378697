// Package storetest gives tests real databases.
//
// A package whose tests need PostgreSQL says so in its TestMain and asks for a database in each test:
//
//	func TestMain(m *testing.M) { storetest.Main(m) }
//
//	func TestClaim(t *testing.T) {
//		url := storetest.Postgres(t) // a fresh, empty database, dropped when the test ends
//		…
//	}
//
// The first test that asks starts a private PostgreSQL server for its test process: its own folder, a
// Unix socket and no port, stopped and removed when the suite ends. Nothing has to be set up by hand, and
// two suites never meet. A server that is given instead (MADEIRA_TEST_POSTGRES=postgres://…) is used as it
// is; its databases have random names and are dropped again.
//
// MADEIRA_TEST_POSTGRES=required turns "PostgreSQL is not installed" from a skip into a failure; make test
// and make check say it. PG_BIN names the folder of the server's programs where the search would find the wrong one.
//
// A test that stops, kills or restarts its server takes one of its own with Private.
package storetest
