package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// Options are what a database is opened with. The zero value is right for a program.
type Options struct {
	// Application names the program to the server; "" is "madeira".
	Application string

	// MaxConns bounds the connections to PostgreSQL; 0 is 12, and less than 4 is
	// taken as 4. A third of them is kept for claims and heartbeats, so that
	// steps that hold the others cannot cost a lease.
	MaxConns int

	// ReadConns bounds the reading connections to SQLite; 0 is 4.
	ReadConns int

	// TransactionPooler says that a pooler gives every transaction another
	// session of PostgreSQL: no named prepared statements, no session settings.
	TransactionPooler bool

	// Circuits says when the circuit of a downstream opens and how it closes.
	Circuits Circuits

	// Now replaces the database's clock, in tests.
	Now func() time.Time
}

// A DB is an open state database. Its methods may be called from many goroutines.
type DB struct {
	dialect dialect
	hot     hotPath
	bun     *bun.DB // writes; on SQLite a single connection
	read    *bun.DB

	door      door
	bell      bell
	listeners listeners
	lenders   lenders

	circuits Circuits

	mu     sync.Mutex
	orphan []orphan // claims whose commit was not acknowledged
	swept  int64    // the last task that the look for finished lone ones passed over
}

// A hotPath is the part that each database has written for itself. Every method
// is one transaction.
type hotPath interface {
	exchange(ctx context.Context, b batch) (answer, error)
	heartbeat(ctx context.Context, worker string, held []task.Hold, lease time.Duration) (task.Beat, error)
	expired(ctx context.Context, limit int) ([]expired, error)
	promote(ctx context.Context, limit int) (int, time.Duration, error)
	// enqueue makes tasks, all or none, and answers in the order of the rows. With
	// borrowed slots it claims as well; nil: it claims nothing.
	enqueue(ctx context.Context, rows []loneRow, with *borrowing) (entrance, error)
	close() error
}

// A dialect is the little in which the shared statements differ.
type dialect interface {
	// now is the instant that the rows of a transaction are stamped with.
	now(ctx context.Context, tx bun.IDB) (instant, error)
	// reserve returns n ids for new tasks, ascending.
	reserve(ctx context.Context, tx bun.Tx, n int) ([]int64, error)
	// insert writes rows, and returns how many of the last ones it wrote.
	insert(ctx context.Context, tx bun.Tx, all bulks) (int, error)
	// steady keeps plans for the rest of the transaction from going through whole tables.
	steady(ctx context.Context, tx bun.Tx) error
	// forUpdate ends a SELECT whose rows the transaction goes on to write.
	forUpdate() string
	// skipLocked is forUpdate without waiting: rows that somebody else holds are left out.
	skipLocked() string
	// alone waits until no other transaction that asked for the lock is under way.
	alone(ctx context.Context, tx bun.Tx, lock int64) error
	// shifting prepares a transaction that moves rows to the archive, or drops them,
	// and says how many at most.
	shifting(ctx context.Context, tx bun.Tx) (most int, err error)
	// giveWay leaves the database to others after such a transaction that took so long.
	giveWay(ctx context.Context, took time.Duration) error
	// fails says what an error of the database means for the caller.
	fails(err error) failure
	// migrating holds off other migrators while fn runs.
	migrating(ctx context.Context, fn func(context.Context) error) error
	// schema names the folder of migrations.
	schema() string
}

// What a transaction can be alone in. 7453010373645639777 is "madeira" as a number,
// so that nobody else meets it, and the lock of migrations.
const (
	gatesLock = 7453010373645639778 // letting tasks through gates
	turnsLock = 7453010373645639779 // deciding whose turn it is
)

// A failure is what an error of the database means.
type failure int

const (
	failed  failure = iota // the statement is wrong, or the database cannot do it now
	unsure                 // the connection broke: committed or not, nobody knows
	victim                 // rolled back for the sake of another transaction: try again
	refused                // what was to be written is not fit for the column
	blocked                // rolled back: somebody holds a row for too long
)

// Open opens the database that the URL names: postgres:// or postgresql:// with
// what libpq understands, or sqlite://PATH, which makes the file and its folder
// where they are missing. It neither creates nor checks tables: see Migrate and CheckSchema.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	scheme, path, ok := strings.Cut(url, "://")
	switch {
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		return openPostgres(ctx, url, o)
	case ok && scheme == "sqlite":
		return openSQLite(ctx, path, o)
	case ok:
		return nil, fmt.Errorf("open the state database: scheme %q is not known: use sqlite://PATH or postgres://…", scheme)
	}
	return nil, errors.New("open the state database: no URL: use sqlite://PATH or postgres://…")
}

// Close releases all connections. The DB is of no use afterwards.
func (db *DB) Close() error {
	db.door.idle.Wait()
	errs := []error{db.bun.Close()}
	if db.read != db.bun {
		errs = append(errs, db.read.Close())
	}
	return errors.Join(append(errs, db.hot.close())...)
}

// SQL returns the pools that steps use on the state database: one to read and
// one to write. On PostgreSQL they are the same, speak the simple protocol, and
// give the *pgx.Conn through sql.Conn.Raw. Do not close them.
func (db *DB) SQL() (read, write *sql.DB) { return db.read.DB, db.bun.DB }
