package load

import (
	"context"
	"database/sql"
	"errors"
)

// errMended is returned when the conflicts for which a load was withheld are there
// no more. The next attempt compares once more.
var errMended = errors.New("lines of the table were changed during the load")

// errConflicts is returned before a transaction would overwrite more lines than
// the job allows.
var errConflicts = errors.New("more lines have the key of a line with other content than the job allows")

// overwrites reports whether conflicts may be written to the table, and yet fail
// the step when they are too many. Then they are counted before the first write:
// a line once overwritten is the same to every later attempt.
func (a *attempt) overwrites() bool {
	c := a.set.Conflicts
	return a.set.OnConflict == onConflictUpdate && c != nil && c.Else != "warn"
}

// forbids reports whether the conflicts counted here, with those inside the load,
// are too many to write any line.
func (a *attempt) forbids(t *tally) bool {
	return a.overwrites() && a.tooMany(a.settled.twins.tally.counts[conflict]+t.counts[conflict])
}

// withhold decides before the first slice, and again before an attempt goes on
// from a later one, whether the rows may be written.
func (s *sqlite) withhold(ctx context.Context, from record) (bool, error) {
	if !s.overwrites() {
		return false, nil
	}
	t := from.Tally.clone()
	if err := s.countAhead(ctx, from.Next, &t); err != nil {
		return false, err
	}
	return s.forbids(&t), nil
}

// countAhead compares the rows that are not merged yet with the table. It only
// reads, in statements of their own, and so keeps nobody from writing. It stops
// when there are too many conflicts.
func (s *sqlite) countAhead(ctx context.Context, next int64, t *tally) (err error) {
	conn, err := s.db.Read.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // It goes back to the pool, broken or not.
	r, err := s.in.Datasets.Open(ctx, s.set.Rows, s.plan.read...)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // Nothing was written.
	m := s.merger(record{Next: next})
	if err := m.skip(r, next); err != nil {
		return err
	}
	w := newLineFinder(conn, m)
	defer w.closeFind()
	for !s.forbids(t) {
		more, err := m.advance(r)
		if err != nil || !more {
			return err
		}
		if !w.pick() {
			continue
		}
		if _, err := w.lookUp(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// A preparer is a connection or a transaction.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}
