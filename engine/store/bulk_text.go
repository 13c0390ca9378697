package store

import (
	"strconv"
	"time"

	bundialect "github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/schema"
)

// append writes the statement that inserts the rows. What differs from row to row comes
// from what source writes, as column1 and so on of u.
func (b bulk) append(text []byte, source func(text []byte, vary []bulkColumn) []byte) []byte {
	text = append(append(append(text, "INSERT INTO "...), b.into...), " ("...)
	for i, c := range b.columns {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(text, c.name...)
	}
	text = append(text, ") SELECT "...)
	var vary []bulkColumn
	for i, c := range b.columns {
		if i > 0 {
			text = append(text, ", "...)
		}
		if c.same() {
			text = appendLiteral(text, c.values[0])
		} else {
			vary = append(vary, c)
			text = strconv.AppendInt(append(text, "u.column"...), int64(len(vary)), 10)
		}
	}
	if len(vary) > 0 {
		text = source(append(text, " FROM "...), vary)
	}
	return append(append(text, " WHERE true "...), b.clause...) // without WHERE, SQLite takes ON for that of a join
}

// appendColumns names columns: AS u (column1, column2).
func appendColumns(b []byte, as string, n int) []byte {
	b = append(b, as...)
	for i := range n {
		b = append(b, [2]string{", column", " (column"}[one(i == 0)]...)
		b = strconv.AppendInt(b, int64(i+1), 10)
	}
	return append(b, ')')
}

// A relation is rows that a statement is given: FROM (?) AS u, with column1, column2 and
// so on. PostgreSQL reads arrays many times faster than lists of values.
type relation []bulkColumn

// add adds one row.
func (r relation) add(values ...any) {
	for i, v := range values {
		r[i].values = append(r[i].values, v)
	}
}

// eachHas is the condition that a row is there for one of a relation. EXISTS would let
// PostgreSQL join instead of looking each up, which is quadratic where it does not know
// yet how large a table has become, and SQLite would not heed the order.
func eachHas(table, where string) string {
	return "(SELECT 1 FROM " + table + " WHERE " + where + " LIMIT 1) IS NOT NULL"
}

// AppendQuery writes the rows into the text of a statement for bun.
func (r relation) AppendQuery(gen schema.QueryGen, b []byte) ([]byte, error) {
	if gen.Dialect().Name() == bundialect.PG {
		return appendColumns(appendArrays(append(b, "SELECT * FROM "...), r), " AS a", len(r)), nil
	}
	b = append(b, "VALUES "...)
	for row := range r[0].values {
		for i, c := range r {
			sep := ", "
			switch {
			case i == 0 && row == 0:
				sep = "("
			case i == 0:
				sep = "), ("
			}
			b = appendLiteral(append(b, sep...), bound(c.values[row]))
		}
	}
	return append(b, ')'), nil
}

// appendLiteral writes a value into the text of a statement. It has no type of its own:
// the column gives it one.
func appendLiteral(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		b = append(b, '\'')
		for i := range len(v) {
			if v[i] == '\'' {
				b = append(b, '\'')
			}
			b = append(b, v[i])
		}
		return append(b, '\'')
	case time.Time:
		return append(appendMoment(append(b, '\''), v), '\'')
	default:
		return appendPlain(b, v)
	}
}

func appendMoment(b []byte, at time.Time) []byte {
	return at.UTC().AppendFormat(b, "2006-01-02 15:04:05.999999Z07:00")
}

func appendPlain(b []byte, v any) []byte {
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(b, v, 10)
	case bool:
		return strconv.AppendBool(b, v)
	default:
		return append(b, "NULL"...)
	}
}
