package query

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// readSQLite reads on a connection of its own inside one transaction, whose
// snapshot is that of its first read. Nothing can be written on it, whatever
// earlier statements have set.
func readSQLite(ctx context.Context, db *sql.DB, query string, args []any, out *collector) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // It goes back to the pool, broken or not.
	if _, err := conn.ExecContext(ctx, "PRAGMA query_only = 1"); err != nil {
		return classify(err)
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return classify(err)
	}
	defer tx.Rollback() //nolint:errcheck // Nothing was written.
	return classify(collectSQLite(ctx, tx, query, args, out))
}

func collectSQLite(ctx context.Context, tx *sql.Tx, query string, args []any, out *collector) error {
	rows, where, err := openSQLite(ctx, tx, query, args, out.schema)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	texts := make([][]byte, len(out.schema.Columns))
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, c := range out.schema.Columns {
			if texts[i], err = sqliteText(texts[i][:0], c, values[where[i]]); err != nil {
				return err
			}
		}
		if err := out.add(func(i int) []byte { return texts[i] }); err != nil {
			return err
		}
	}
	return rows.Err()
}

// openSQLite starts the statement and finds the declared columns. The driver
// makes times of texts where the table says DATE or TIMESTAMP, and so forgets
// whether they had an offset; then the columns are asked for as expressions,
// which have no declared type.
func openSQLite(ctx context.Context, tx *sql.Tx, query string, args []any, schema dataset.Schema) (*sql.Rows, []int, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, nil, err
	}
	where, timed, err := columnsOf(rows, schema)
	if err == nil && !timed {
		return rows, where, nil
	}
	rows.Close() //nolint:sqlclosecheck // It is asked again below.
	if err != nil {
		return nil, nil, err
	}
	list := make([]string, len(schema.Columns))
	for i, c := range schema.Columns {
		list[i] = `+q."` + strings.ReplaceAll(c.Name, `"`, `""`) + `"`
		where[i] = i
	}
	rows, err = tx.QueryContext(ctx, "SELECT "+strings.Join(list, ", ")+" FROM ("+query+"\n) AS q", args...)
	if err != nil {
		return nil, nil, err
	}
	return rows, where, nil
}

// columnsOf finds the declared columns and tells whether the driver would make
// times of one.
func columnsOf(rows *sql.Rows, schema dataset.Schema) (where []int, timed bool, err error) {
	names, err := rows.Columns()
	if err != nil {
		return nil, false, err
	}
	if where, err = positions(schema, names); err != nil {
		return nil, false, err
	}
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, false, err
	}
	for _, w := range where {
		declared := strings.ToUpper(types[w].DatabaseTypeName())
		timed = timed || slices.Contains([]string{"DATE", "DATETIME", "TIMESTAMP", "TIME"}, declared)
	}
	return where, timed, nil
}

// sqliteText returns the value as text, nil for null. It appends to buffer.
func sqliteText(buffer []byte, c dataset.Column, value any) ([]byte, error) {
	if buffer == nil {
		buffer = []byte{}
	}
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string:
		return append(buffer, value...), nil
	case []byte:
		return append(buffer, value...), nil
	case int64:
		if c.Kind == dataset.Timestamp {
			return nil, step.PermanentCode("query.value", fmt.Errorf("column %q is declared as timestamp and holds the integer %d; format it in the statement, as with datetime(…, 'unixepoch')", c.Name, value))
		}
		return strconv.AppendInt(buffer, value, 10), nil
	case bool:
		return strconv.AppendBool(buffer, value), nil
	case float64:
		if refusesFloats(c.Kind) {
			return nil, floatError(c)
		}
		return strconv.AppendFloat(buffer, value, 'g', -1, 64), nil
	case time.Time:
		// The driver turns columns declared as DATE or TIMESTAMP into times.
		if c.Kind == dataset.Date {
			return value.AppendFormat(buffer, "2006-01-02"), nil
		}
		return value.AppendFormat(buffer, time.RFC3339Nano), nil
	}
	return nil, fmt.Errorf("column %q: a value of type %T", c.Name, value)
}
