package load

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

const (
	// sliceTime is how long a slice goes on taking lines. With the commit, the
	// connection is held for less than half a second.
	sliceTime = 250 * time.Millisecond

	// chunkRows is how many lines one statement writes.
	chunkRows = 100

	// mostArguments of one statement, of which SQLite allows 32766.
	mostArguments = 32000
)

// merge writes slice after slice, each one transaction that also moves the
// record of the task.
func (s *sqlite) merge(ctx context.Context, from record) (record, error) {
	withheld, err := s.withhold(ctx, from)
	if err != nil {
		return from, classify(err)
	}
	if withheld && from.Next > 0 {
		return from, step.PermanentCode("load.conflicts", fmt.Errorf("%w, and an attempt before this one has written the rows before number %d", errConflicts, from.Next+1))
	}
	m := s.merger(from)
	m.rec.Tally.withheld = withheld
	r, err := s.in.Datasets.Open(ctx, s.set.Rows, s.plan.read...)
	if err != nil {
		return from, err
	}
	defer func() { _ = r.Close() }() // Nothing was written.
	if err := m.skip(r, from.Next); err != nil {
		return from, err
	}
	for !m.rec.Done {
		if err := ctx.Err(); err != nil {
			return m.rec, err
		}
		if err := m.slice(ctx, r); err != nil {
			return m.rec, err
		}
		s.in.Progress.Report(m.rec.Next, s.set.Rows.Rows, "rows")
	}
	return m.rec, nil
}

func (s *sqlite) merger(from record) *sliceMerger {
	return &sliceMerger{sqlite: s, rec: from, chunk: min(chunkRows, mostArguments/len(s.plan.columns))}
}

// A sliceMerger goes through the rows of the dataset.
type sliceMerger struct {
	*sqlite
	rec   record
	chunk int

	batch    *dataset.Batch
	at       int   // the row of the batch that comes next
	first    int64 // number of the batch's first row
	rendered []rendered
	args     []any
	rows     []int // of the batch, in one statement
	expect   bool  // the last statement met keys that were there already
}

// skip moves to the row that comes next, which may be in the middle of a batch.
func (m *sliceMerger) skip(r step.DatasetReader, next int64) error {
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			m.batch = nil
			return nil
		}
		if err != nil {
			return err
		}
		if m.first+int64(b.Len()) > next {
			m.take(b, int(next-m.first))
			return nil
		}
		m.first += int64(b.Len())
	}
}

func (m *sliceMerger) take(b *dataset.Batch, at int) {
	m.batch, m.at = b, at
	m.rendered = render(m.rendered, m.plan, b)
}

// advance makes sure that there is a next row; false after the last one.
func (m *sliceMerger) advance(r step.DatasetReader) (bool, error) {
	for m.batch != nil && m.at == m.batch.Len() {
		m.first += int64(m.batch.Len())
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			m.batch = nil
			break
		}
		if err != nil {
			return false, err
		}
		m.take(b, 0)
	}
	return m.batch != nil, nil
}

// slice writes lines for as long as a slice may take. When it fails nothing of it
// is in the table, and the attempt is over.
func (m *sliceMerger) slice(ctx context.Context, r step.DatasetReader) error {
	tx, err := m.begin(ctx)
	if err != nil {
		return classify(err)
	}
	defer tx.Rollback() //nolint:errcheck // After a commit there is nothing to roll back.
	w, err := newSliceWriter(ctx, tx, m)
	if err != nil {
		return classify(err)
	}
	next := m.rec
	next.Tally = m.rec.Tally.clone()
	timer := time.NewTimer(m.attempt.slice)
	defer timer.Stop()
	for over := false; !over; {
		more, err := m.advance(r)
		if err != nil {
			return err
		}
		if !more {
			next.Done = true
			break
		}
		if err := w.write(ctx, &next.Tally); err != nil {
			return classify(err)
		}
		if !next.Tally.withheld && m.forbids(&next.Tally) {
			return errConflicts // Somebody has changed the table since they were counted.
		}
		select {
		case <-timer.C:
			over = true
		default:
		}
	}
	next.reopened = false
	next.Next = m.first
	if m.batch != nil {
		next.Next += int64(m.at)
	}
	if err := m.commit(ctx, tx, next); err != nil {
		return classify(err)
	}
	m.rec = next
	return nil
}

// begin starts a transaction and checks that nobody else has moved the record.
func (m *sliceMerger) begin(ctx context.Context) (*sql.Tx, error) {
	var tx *sql.Tx
	err := again(ctx, func() (err error) {
		tx, err = m.db.Write.BeginTx(ctx, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("begin a slice: %w", err)
	}
	have, err := readRecord(ctx, tx, m.in.Task, m.plan)
	if err == nil && have.Content == m.rec.Content && have.Next != m.rec.Next && !m.rec.reopened {
		err = errMoved
	}
	if err == nil && m.rec.Next == 0 {
		err = forget(ctx, tx, m.in.Task)
	}
	if err != nil {
		_ = tx.Rollback()
		return nil, err
	}
	return tx, nil
}

func (m *sliceMerger) commit(ctx context.Context, tx *sql.Tx, next record) error {
	if err := next.write(ctx, tx, m.in.Task); err != nil {
		return err
	}
	if err := m.db.Guard(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit a slice: %w", err)
	}
	return nil
}
