package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// bulkText is how long a text may become before it is sent.
const bulkText = 4 << 20

// insert writes the rows as arrays, one for each column: the server reads them many times
// faster than lists of values, and plans each statement once. What is small goes together.
func (p *postgres) insert(ctx context.Context, tx bun.Tx, all bulks) (int, error) {
	var text []byte
	written := 0
	for i, b := range all {
		text = b.append(text, func(text []byte, vary []bulkColumn) []byte {
			return appendColumns(appendArrays(text, vary), " AS u", len(vary))
		})
		if i < len(all)-1 && len(text) < bulkText {
			text = append(text, "; "...)
			continue
		}
		res, err := tx.Tx.ExecContext(ctx, string(text))
		if err != nil {
			return 0, err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return 0, err
		}
		written, text = int(n), text[:0]
	}
	return written, nil
}

// appendArrays writes rows as arrays side by side: unnest('{…}'::text[], …).
func appendArrays(b []byte, columns []bulkColumn) []byte {
	b = append(b, "unnest("...)
	for i, c := range columns {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(append(appendArray(b, c.values), "::"...), c.kind...)
		b = append(b, "[]"...)
	}
	return append(b, ')')
}

// appendArray writes the literal of an array: '{"…", NULL}'.
func appendArray(b []byte, values []any) []byte {
	b = append(b, "'{"...)
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		switch v := v.(type) {
		case string:
			b = append(b, '"')
			for i := range len(v) {
				switch v[i] {
				case '\'':
					b = append(b, '\'')
				case '"', '\\':
					b = append(b, '\\')
				}
				b = append(b, v[i])
			}
			b = append(b, '"')
		case time.Time:
			b = append(appendMoment(append(b, '"'), v), '"')
		default:
			b = appendPlain(b, v)
		}
	}
	return append(b, "}'"...)
}
