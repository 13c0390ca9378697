package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
)

// liteRows is how many rows a statement takes. It is prepared once for all; a longer one
// takes longer to prepare, a shorter one has to be run more often.
const liteRows = 50

// insert binds what differs from row to row, and once what all rows share.
func (s *sqlite) insert(ctx context.Context, tx bun.Tx, all bulks) (written int, err error) {
	for _, b := range all {
		if written, err = b.bind(ctx, tx.Tx); err != nil {
			return 0, err
		}
	}
	return written, nil
}

func (b bulk) bind(ctx context.Context, tx *sql.Tx) (int, error) {
	b.columns = slices.Clone(b.columns)
	var vary []bulkColumn
	for i, c := range b.columns {
		if c.same() {
			b.columns[i].values = []any{bound(c.values[0])}
		} else {
			vary = append(vary, c)
		}
	}
	var many *sql.Stmt
	if b.rows >= 2*liteRows {
		var err error
		if many, err = tx.PrepareContext(ctx, b.values(liteRows)); err != nil {
			return 0, err
		}
		defer func() { _ = many.Close() }()
	}
	written := 0
	args := make([]any, 0, liteRows*len(vary))
	for from := 0; from < b.rows; from += liteRows {
		rows := min(liteRows, b.rows-from)
		args = args[:0]
		for row := from; row < from+rows; row++ {
			for _, c := range vary {
				args = append(args, bound(c.values[row]))
			}
		}
		var res sql.Result
		var err error
		if many != nil && rows == liteRows {
			res, err = many.ExecContext(ctx, args...)
		} else {
			res, err = tx.ExecContext(ctx, b.values(rows), args...)
		}
		if err != nil {
			return written, err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return written, err
		}
		written += int(n)
	}
	return written, nil
}

// values is the text of a statement for so many rows.
func (b bulk) values(rows int) string {
	return string(b.append(nil, func(text []byte, vary []bulkColumn) []byte {
		row := "(?" + strings.Repeat(", ?", len(vary)-1) + ")"
		text = append(append(text, "(VALUES "...), row...)
		for range rows - 1 {
			text = append(append(text, ", "...), row...)
		}
		return append(text, ") AS u"...)
	}))
}

// bound is a value as the driver takes it.
func bound(v any) any {
	if at, ok := v.(time.Time); ok {
		return at.UnixMicro()
	}
	return v
}
