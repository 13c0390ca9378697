package load

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	sqlite3 "modernc.org/sqlite"
	sqlite3lib "modernc.org/sqlite/lib"

	"madeira/jobs/step"
)

// A refusedError is a line that the table does not take for a reason other than
// its key.
type refusedError struct {
	line int64
	err  error
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the table refuses line %d: %s", e.line, e.err)
}
func (e *refusedError) Unwrap() error { return e.err }

func refused(line int64, err error) error {
	return step.PermanentCode("load.refused", &refusedError{line: line, err: err})
}

// errMoved is returned when another attempt has written meanwhile. The next
// attempt goes on from there.
var errMoved = errors.New("another attempt of this task has written meanwhile")

// permanentClasses are the first two characters of a SQLSTATE that speak of the
// statement, the data, or what the role may do.
var permanentClasses = []string{"0A", "21", "22", "23", "26", "28", "3D", "3F", "42"}

// classify marks what no repetition can mend and what is the fault of the
// machine. What is left is tried again.
func classify(err error) error {
	var permanent *step.PermanentError
	if err == nil || errors.As(err, &permanent) {
		return err
	}
	if code := stateOf(err); len(code) == 5 && slices.Contains(permanentClasses, code[:2]) {
		return step.PermanentCode("load.sql", err)
	}
	var lite *sqlite3.Error
	if !errors.As(err, &lite) {
		return err
	}
	switch lite.Code() & 0xff {
	case sqlite3lib.SQLITE_FULL:
		return step.Infrastructure(err)
	case sqlite3lib.SQLITE_ERROR, sqlite3lib.SQLITE_CONSTRAINT, sqlite3lib.SQLITE_MISMATCH, sqlite3lib.SQLITE_READONLY,
		sqlite3lib.SQLITE_PERM, sqlite3lib.SQLITE_AUTH, sqlite3lib.SQLITE_NOTADB, sqlite3lib.SQLITE_TOOBIG:
		return step.PermanentCode("load.sql", err)
	}
	return err
}

// stateOf returns the SQLSTATE of an error of PostgreSQL, or "".
func stateOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// victim reports whether the transaction was rolled back for the sake of another
// one and may be tried again at once.
func victim(err error) bool {
	if code := stateOf(err); code == "40001" || code == "40P01" {
		return true
	}
	var lite *sqlite3.Error
	if !errors.As(err, &lite) {
		return false
	}
	code := lite.Code() & 0xff
	return code == sqlite3lib.SQLITE_BUSY || code == sqlite3lib.SQLITE_LOCKED
}

// refusing reports whether the error is about the content of a line.
func refusing(err error) bool {
	if code := stateOf(err); len(code) == 5 && (code[:2] == "22" || code[:2] == "23") {
		return true
	}
	var lite *sqlite3.Error
	if !errors.As(err, &lite) {
		return false
	}
	code := lite.Code() & 0xff
	return code == sqlite3lib.SQLITE_CONSTRAINT || code == sqlite3lib.SQLITE_MISMATCH
}
