package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
	sqlite3 "modernc.org/sqlite"
	sqlite3lib "modernc.org/sqlite/lib"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// readPostgres reads through pgx itself, in text format: numbers arrive as the
// digits that the server has.
func readPostgres(ctx context.Context, db *sql.DB, query string, args []any, zone *time.Location, out *collector) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // It goes back to the pool, broken or not.
	return conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the connection is a %T, not one of pgx", driver)
		}
		return pgx.BeginTxFunc(ctx, c.Conn(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			return collectPostgres(ctx, tx, query, args, zone, out)
		})
	})
}

func collectPostgres(ctx context.Context, tx pgx.Tx, query string, args []any, zone *time.Location, out *collector) error {
	_, err := tx.Exec(ctx, "SELECT set_config('TimeZone', $1, true), set_config('DateStyle', 'ISO, YMD', true), set_config('IntervalStyle', 'iso_8601', true)", zone.String())
	if err != nil {
		return err
	}
	// A text fits every type of argument; which one it is the server infers.
	texts := []any{pgx.QueryExecModeExec, pgx.QueryResultFormats{pgx.TextFormatCode}}
	for _, arg := range args {
		texts = append(texts, textArgument(arg))
	}
	rows, err := tx.Query(ctx, query, texts...)
	if err != nil {
		return classify(err)
	}
	defer rows.Close()
	if len(rows.FieldDescriptions()) == 0 {
		rows.Close()
		if err := rows.Err(); err != nil {
			return classify(err)
		}
	}
	where, err := positions(out.schema, fieldNames(rows.FieldDescriptions()))
	if err != nil {
		return err
	}
	if err := refuseFloats(out.schema, where, rows.FieldDescriptions()); err != nil {
		return err
	}
	padded := paddedColumns(where, rows.FieldDescriptions())
	for rows.Next() {
		values := rows.RawValues()
		for _, w := range padded {
			values[w] = unpadded(values[w])
		}
		if err := out.add(func(i int) []byte { return values[where[i]] }); err != nil {
			return err
		}
	}
	return classify(rows.Err())
}

func textArgument(arg any) any {
	switch arg := arg.(type) {
	case int64:
		return strconv.FormatInt(arg, 10)
	case bool:
		return strconv.FormatBool(arg)
	}
	return arg
}

func fieldNames(fields []pgconn.FieldDescription) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

// paddedColumns returns the positions of columns of the type character(n), whose
// values the server fills up with blanks that mean nothing.
func paddedColumns(where []int, fields []pgconn.FieldDescription) []int {
	var padded []int
	for _, w := range where {
		if fields[w].DataTypeOID == pgtype.BPCharOID {
			padded = append(padded, w)
		}
	}
	return padded
}

// unpadded returns the value without the blanks at its end. What is empty stays
// a value, and null stays null.
func unpadded(value []byte) []byte {
	end := len(value)
	for end > 0 && value[end-1] == ' ' {
		end--
	}
	return value[:end]
}

func refuseFloats(schema dataset.Schema, where []int, fields []pgconn.FieldDescription) error {
	for i, c := range schema.Columns {
		oid := fields[where[i]].DataTypeOID
		if refusesFloats(c.Kind) && (oid == pgtype.Float4OID || oid == pgtype.Float8OID) {
			return floatError(c)
		}
	}
	return nil
}

// refusesFloats reports whether a binary floating point number has no place in a
// column: amounts are exact, and as text it may be 2.0261001e+19.
func refusesFloats(kind dataset.Kind) bool { return kind.IsDecimal() || kind.IsText() }

func floatError(c dataset.Column) error {
	cause := "which has no exact amount; cast it in the statement only if the source column is exact"
	if c.Kind.IsText() {
		cause = "which may have lost digits; store it as text, or write it as text in the statement"
	}
	return step.PermanentCode("query.float", fmt.Errorf("column %q is declared as %s and comes as a binary floating point number, %s", c.Name, c.Kind, cause))
}

// classify marks what no repetition can mend: a statement that is wrong.
func classify(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && len(pg.Code) == 5 && (pg.Code[:2] == "42" || pg.Code[:2] == "22" || pg.Code[:2] == "25" || pg.Code[:2] == "0A") {
		return step.PermanentCode("query.sql", err)
	}
	var lite *sqlite3.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case sqlite3lib.SQLITE_ERROR, sqlite3lib.SQLITE_READONLY, sqlite3lib.SQLITE_AUTH, sqlite3lib.SQLITE_TOOBIG,
			sqlite3lib.SQLITE_MISMATCH, sqlite3lib.SQLITE_RANGE, sqlite3lib.SQLITE_NOTADB:
			return step.PermanentCode("query.sql", err)
		}
	}
	return err
}

// positions finds the declared columns among those of the result.
func positions(schema dataset.Schema, names []string) ([]int, error) {
	where := make([]int, len(schema.Columns))
	for i, c := range schema.Columns {
		where[i] = -1
		for j, name := range names {
			if name != c.Name {
				continue
			}
			if where[i] >= 0 {
				return nil, step.PermanentCode("query.columns", fmt.Errorf("the statement returns the column %q twice; give one another name with AS", c.Name))
			}
			where[i] = j
		}
		if where[i] < 0 {
			return nil, step.PermanentCode("query.columns", fmt.Errorf("the statement returns no column %q; it returns %s", c.Name, strings.Join(names, ", ")))
		}
	}
	return where, nil
}
