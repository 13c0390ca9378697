package load

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"madeira/jobs/dataset"
)

// A sliceWriter holds the statements of one slice.
type sliceWriter struct {
	*sliceMerger
	tx     *sql.Tx // nil when it only reads
	reads  preparer
	insert map[int]*sql.Stmt // by number of rows
	find   map[int]*sql.Stmt
	note   *sql.Stmt
	update *sql.Stmt

	values []any // where a line of the table is scanned to
	stored []sql.RawBytes
	index  int
	there  []bool // which rows of a statement are in the table
}

// newLineFinder returns a writer that can only look lines up.
func newLineFinder(q preparer, m *sliceMerger) *sliceWriter {
	w := &sliceWriter{sliceMerger: m, reads: q, find: map[int]*sql.Stmt{}, there: make([]bool, m.chunk)}
	w.stored = make([]sql.RawBytes, len(m.plan.columns))
	w.values = []any{&w.index}
	for i, c := range m.plan.columns {
		if c.target != "" && i != m.plan.key {
			w.values = append(w.values, &w.stored[i])
		}
	}
	return w
}

func (w *sliceWriter) closeFind() {
	for _, stmt := range w.find {
		_ = stmt.Close() // Nothing was written.
	}
}

func newSliceWriter(ctx context.Context, tx *sql.Tx, m *sliceMerger) (*sliceWriter, error) {
	w := newLineFinder(tx, m)
	w.tx, w.insert = tx, map[int]*sql.Stmt{}
	var errs [2]error
	w.note, errs[0] = tx.PrepareContext(ctx, `INSERT INTO madeira_load_conflict
		(task, row_number, position, line, key, column_name, there, here) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`)
	if m.set.OnConflict == onConflictUpdate && !m.rec.Tally.withheld && len(w.values) > 1 {
		w.update, errs[1] = tx.PrepareContext(ctx, m.plan.updateRow())
	}
	return w, errors.Join(errs[:]...)
}

// pick takes the next lines of the batch, as many as one statement takes; false
// when all of them repeat earlier ones.
func (w *sliceWriter) pick() bool {
	w.rows = w.rows[:0]
	for w.at < w.batch.Len() && len(w.rows) < w.chunk {
		if !w.settled.repeats.has(w.first + int64(w.at)) {
			w.rows = append(w.rows, w.at)
		}
		w.at++
	}
	clear(w.there[:len(w.rows)])
	return len(w.rows) > 0
}

// write merges the next lines of the batch.
func (w *sliceWriter) write(ctx context.Context, t *tally) error {
	if !w.pick() {
		return nil
	}
	if t.withheld {
		return w.compare(ctx, t)
	}
	if !w.expect {
		all, err := w.insertAll(ctx)
		if err != nil {
			return err
		}
		if all {
			w.count(t, inserted)
			return nil
		}
	}
	if err := w.compare(ctx, t); err != nil {
		return err
	}
	return w.insertRest(ctx, t)
}

func (w *sliceWriter) count(t *tally, o outcome) {
	for _, i := range w.rows {
		t.add(o, w.batch, i)
	}
}

// insertAll writes the lines on the guess that all of them are new. If one is
// not, nothing has happened.
func (w *sliceWriter) insertAll(ctx context.Context) (bool, error) {
	if _, err := w.tx.ExecContext(ctx, "SAVEPOINT chunk"); err != nil {
		return false, err
	}
	n, err := w.insertRows(ctx, w.rows)
	if err == nil && n == int64(len(w.rows)) {
		_, err = w.tx.ExecContext(ctx, "RELEASE chunk")
		return true, err
	}
	if err != nil && !refusing(err) {
		return false, err
	}
	_, err = w.tx.ExecContext(ctx, "ROLLBACK TO chunk; RELEASE chunk")
	return false, err
}

func (w *sliceWriter) insertRows(ctx context.Context, rows []int) (int64, error) {
	stmt, ok := w.insert[len(rows)]
	if !ok {
		var err error
		if stmt, err = w.tx.PrepareContext(ctx, w.plan.insertRows(len(rows))); err != nil {
			return 0, fmt.Errorf("write to the table: %w", err)
		}
		w.insert[len(rows)] = stmt
	}
	w.args = w.args[:0]
	for _, i := range rows {
		for c, col := range w.plan.columns {
			if col.target != "" {
				w.args = append(w.args, w.rendered[c].argument(&w.batch.Columns[col.source], i))
			}
		}
	}
	result, err := stmt.ExecContext(ctx, w.args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// insertRest writes the lines that the table does not have, one by one when one
// of them is refused, so that the message can name it.
func (w *sliceWriter) insertRest(ctx context.Context, t *tally) error {
	rest := w.rows[:0]
	for n, i := range w.rows {
		if !w.there[n] {
			rest = append(rest, i)
		}
	}
	w.rows = rest
	w.expect = len(rest) < w.chunk/2
	for _, i := range rest {
		n, err := w.insertRows(ctx, []int{i})
		if err != nil && refusing(err) {
			return refused(w.batch.Lines[i], err)
		}
		if err != nil {
			return err
		}
		if n != 1 {
			return refused(w.batch.Lines[i], errors.New("the table takes its key for that of another line of this load"))
		}
		t.add(inserted, w.batch, i)
	}
	return nil
}

// compare settles the lines that are there already.
func (w *sliceWriter) compare(ctx context.Context, t *tally) error {
	differing, err := w.lookUp(ctx, t)
	if err != nil {
		return err
	}
	for _, f := range differing {
		if err := w.settleConflict(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// lookUp looks up the keys, counts the lines that are there, and returns those
// that differ.
func (w *sliceWriter) lookUp(ctx context.Context, t *tally) ([]found, error) {
	stmt, ok := w.find[len(w.rows)]
	if !ok {
		var err error
		if stmt, err = w.reads.PrepareContext(ctx, w.plan.findRows(len(w.rows))); err != nil {
			return nil, fmt.Errorf("read the table: %w", err)
		}
		w.find[len(w.rows)] = stmt
	}
	key := w.plan.keyColumn()
	w.args = w.args[:0]
	for _, i := range w.rows {
		w.args = append(w.args, w.rendered[w.plan.key].argument(&w.batch.Columns[key.source], i))
	}
	var differing []found
	rows, err := stmt.QueryContext(ctx, w.args...)
	if err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(w.values...); err != nil {
			return nil, fmt.Errorf("read the table: %w", err)
		}
		w.there[w.index] = true
		i := w.rows[w.index]
		f := w.differences(i)
		if len(f.columns) == 0 {
			t.add(same, w.batch, i)
			continue
		}
		t.add(conflict, w.batch, i)
		differing = append(differing, f)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	return differing, nil
}

// found is a line of the table whose content differs.
type found struct {
	row     int
	columns []int
	there   []any
}

func (w *sliceWriter) differences(i int) found {
	f := found{row: i}
	for c, col := range w.plan.columns {
		if col.target == "" || c == w.plan.key || equal(col.Column, w.stored[c], &w.batch.Columns[col.source], i) {
			continue
		}
		var there any
		if w.stored[c] != nil {
			there = string(w.stored[c])
		}
		f.columns, f.there = append(f.columns, c), append(f.there, there)
	}
	return f
}

// settleConflict keeps both values, and writes the new one where the job wants that.
func (w *sliceWriter) settleConflict(ctx context.Context, f found) error {
	key := w.plan.keyColumn()
	name := rowValue(key.Column, &w.batch.Columns[key.source], f.row).text
	for n, c := range f.columns {
		col := w.plan.columns[c]
		here := rowValue(col.Column, &w.batch.Columns[col.source], f.row).argument()
		if _, err := w.note.ExecContext(ctx, w.in.Task.Identity(), w.first+int64(f.row), c, w.batch.Lines[f.row], name, col.target, f.there[n], here); err != nil {
			return fmt.Errorf("keep a conflict: %w", err)
		}
	}
	if w.update == nil {
		return nil
	}
	w.args = w.args[:0]
	for c, col := range w.plan.columns {
		if col.target != "" && c != w.plan.key {
			w.args = append(w.args, w.rendered[c].argument(&w.batch.Columns[col.source], f.row))
		}
	}
	w.args = append(w.args, w.rendered[w.plan.key].argument(&w.batch.Columns[key.source], f.row))
	_, err := w.update.ExecContext(ctx, w.args...)
	if err != nil && refusing(err) {
		return refused(w.batch.Lines[f.row], err)
	}
	return err
}

// insertRows returns the statement that inserts n lines whose keys are new.
func (p *plan) insertRows(n int) string {
	var names []string
	for _, name := range p.targets() {
		names = append(names, quote(name))
	}
	row := "(?" + strings.Repeat(", ?", len(names)-1) + ")"
	return "INSERT INTO " + p.name() + " (" + strings.Join(names, ", ") + ") VALUES " + row + strings.Repeat(", "+row, n-1) +
		" ON CONFLICT (" + quote(p.keyColumn().target) + ") DO NOTHING"
}

// findRows returns the statement that finds the lines of n keys, each with the
// number of its key. A plus sign keeps the driver from making times of texts. The
// collation is that of the unique index; that of the column may be looser.
func (p *plan) findRows(n int) string {
	names := ""
	for i, c := range p.columns {
		if c.target != "" && i != p.key {
			names += ", +t." + quote(c.target)
		}
	}
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("(%d, ?)", i)
	}
	return "WITH madeira_wanted (i, k) AS (VALUES " + strings.Join(list, ", ") + ") SELECT w.i" + names + " FROM madeira_wanted AS w CROSS JOIN " +
		p.name() + " AS t ON t." + quote(p.keyColumn().target) + " = w.k COLLATE BINARY"
}

// updateRow returns the statement that writes the content of one line, its key last.
func (p *plan) updateRow() string {
	var sets []string
	for i, c := range p.columns {
		if c.target != "" && i != p.key {
			sets = append(sets, quote(c.target)+" = ?")
		}
	}
	return "UPDATE " + p.name() + " SET " + strings.Join(sets, ", ") + " WHERE " + quote(p.keyColumn().target) + " = ? COLLATE BINARY"
}

// rendered is one column of a batch in the form in which SQLite keeps it: all
// values in one string, or nothing for those that are integers.
type rendered struct {
	integers bool
	text     string
	ends     []uint32
	buffer   []byte
}

// render renews the rendered columns for a batch.
func render(into []rendered, p plan, b *dataset.Batch) []rendered {
	if into == nil {
		into = make([]rendered, len(p.columns))
	}
	for i, c := range p.columns {
		r, v := &into[i], &b.Columns[c.source]
		switch {
		case c.target == "":
		case c.Kind == dataset.Integer || c.Kind == dataset.Boolean:
			r.integers = true
		case c.Kind.IsText():
			r.text, r.ends = string(v.Bytes), v.Ends
		default:
			r.buffer, r.ends = r.buffer[:0], r.ends[:0]
			for row := range v.Len() {
				r.buffer = c.AppendFormat(r.buffer, v, row)
				r.ends = append(r.ends, uint32(len(r.buffer)))
			}
			r.text = string(r.buffer)
		}
	}
	return into
}

func (r *rendered) argument(v *dataset.Vector, i int) any {
	switch {
	case v.Null(i):
		return nil
	case r.integers:
		return v.Ints[i]
	case i == 0:
		return r.text[:r.ends[0]]
	}
	return r.text[r.ends[i-1]:r.ends[i]]
}
