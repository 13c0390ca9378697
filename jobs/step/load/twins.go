package load

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // Keeps the lines of repeated keys while they are compared.

	"madeira/jobs/dataset"
)

// twins are the lines of one load that share a key with an earlier one.
type twins struct {
	tally tally // same: repeated as they are; conflict: with other content
	db    *sql.DB
}

func (t *twins) close() {
	if t.db != nil {
		_ = t.db.Close()
	}
}

const twinTables = `
CREATE TABLE origin (fingerprint blob NOT NULL PRIMARY KEY, content blob NOT NULL) WITHOUT ROWID;
CREATE TABLE difference (row_number integer NOT NULL, position integer NOT NULL, line integer NOT NULL,
  key text NOT NULL, column_name text NOT NULL, there text, here text, PRIMARY KEY (row_number, position)) WITHOUT ROWID;`

// settleTwins compares every line that repeats a key with the first line of that
// key, which wins. First lines wait in a file, because they may be anywhere.
func (a *attempt) settleTwins(ctx context.Context) error {
	t := &a.settled.twins
	t.tally = newTally(a.plan)
	if !a.settled.many {
		return nil
	}
	path := (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(a.scratch, "twins.db"))}).String()
	db, err := sql.Open("sqlite", path+"?_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	t.db = db
	if _, err := db.ExecContext(ctx, twinTables); err != nil {
		return fmt.Errorf("compare repeated keys: %w", err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("compare repeated keys: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // Only after a failure, and then the file is of no use.
	c, err := newTwinComparer(ctx, tx, a)
	if err != nil {
		return fmt.Errorf("compare repeated keys: %w", err)
	}
	row := int64(0)
	err = a.eachBatch(ctx, a.set.Rows, a.plan.read, func(b *dataset.Batch) error {
		for i := range b.Len() {
			if err := c.row(ctx, b, i, row+int64(i)); err != nil {
				return err
			}
		}
		row += int64(b.Len())
		return nil
	})
	if err != nil {
		return fmt.Errorf("compare repeated keys: %w", err)
	}
	return tx.Commit()
}

// A twinComparer keeps first lines and compares later ones with them.
type twinComparer struct {
	a                 *attempt
	keep, find, write *sql.Stmt
	key, content      []byte
}

// A value is one value as display text.
type value struct {
	text  string
	valid bool // false for null
}

func (v value) argument() any {
	if !v.valid {
		return nil
	}
	return v.text
}

func newTwinComparer(ctx context.Context, tx *sql.Tx, a *attempt) (*twinComparer, error) {
	c := &twinComparer{a: a}
	var errs [3]error
	c.keep, errs[0] = tx.PrepareContext(ctx, `INSERT INTO origin VALUES (?, ?)`)
	c.find, errs[1] = tx.PrepareContext(ctx, `SELECT content FROM origin WHERE fingerprint = ?`)
	c.write, errs[2] = tx.PrepareContext(ctx, `INSERT INTO difference VALUES (?, ?, ?, ?, ?, ?, ?)`)
	return c, errors.Join(errs[:]...)
}

func (c *twinComparer) row(ctx context.Context, b *dataset.Batch, i int, row int64) error {
	origin, repeat := c.a.settled.origins.has(row), c.a.settled.repeats.has(row)
	if !origin && !repeat {
		return nil
	}
	key := c.a.plan.keyColumn()
	c.key = appendKey(c.key[:0], key.Column, &b.Columns[key.source], i)
	f := fingerprintOf(c.key)
	if origin {
		c.content = c.appendContent(c.content[:0], b, i)
		_, err := c.keep.ExecContext(ctx, f[:], c.content)
		return err
	}
	var first []byte
	if err := c.find.QueryRowContext(ctx, f[:]).Scan(&first); err != nil {
		return err
	}
	return c.compare(ctx, b, i, row, first)
}

// compare writes what differs between row i and the first line of its key.
func (c *twinComparer) compare(ctx context.Context, b *dataset.Batch, i int, row int64, first []byte) error {
	differs := false
	for position, col := range c.a.plan.columns {
		if col.target == "" || position == c.a.plan.key {
			continue
		}
		there, rest := takeValue(first)
		first = rest
		here := rowValue(col.Column, &b.Columns[col.source], i)
		if here == there {
			continue
		}
		differs = true
		if _, err := c.write.ExecContext(ctx, row, position, b.Lines[i], string(c.key), col.target, there.argument(), here.argument()); err != nil {
			return err
		}
	}
	if differs {
		c.a.settled.twins.tally.add(conflict, b, i)
	} else {
		c.a.settled.twins.tally.add(same, b, i)
	}
	return nil
}

// appendContent appends the loaded values of a row but the key.
func (c *twinComparer) appendContent(dst []byte, b *dataset.Batch, i int) []byte {
	for position, col := range c.a.plan.columns {
		if col.target == "" || position == c.a.plan.key {
			continue
		}
		v := rowValue(col.Column, &b.Columns[col.source], i)
		if !v.valid {
			dst = binary.AppendUvarint(dst, 0)
			continue
		}
		dst = append(binary.AppendUvarint(dst, uint64(len(v.text))+1), v.text...)
	}
	return dst
}

// takeValue reads what appendContent wrote.
func takeValue(content []byte) (value, []byte) {
	n, size := binary.Uvarint(content)
	content = content[size:]
	if n == 0 {
		return value{}, content
	}
	return value{text: string(content[:n-1]), valid: true}, content[n-1:]
}

func rowValue(c dataset.Column, v *dataset.Vector, i int) value {
	if v.Null(i) {
		return value{}
	}
	return value{text: c.Format(v, i), valid: true}
}
