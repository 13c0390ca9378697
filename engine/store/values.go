package store

import (
	"fmt"
	"time"

	bundialect "github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/schema"
)

// An instant is a time as both databases keep it: timestamptz in PostgreSQL,
// microseconds since 1970 UTC in SQLite. The zero value is NULL.
type instant struct{ time.Time }

// AppendQuery writes the instant into the text of a statement for bun.
func (i instant) AppendQuery(gen schema.QueryGen, b []byte) ([]byte, error) {
	switch {
	case i.IsZero():
		return append(b, "NULL"...), nil
	case gen.Dialect().Name() == bundialect.SQLite:
		return fmt.Append(b, i.UnixMicro()), nil
	default:
		return fmt.Appendf(b, "'%s'::timestamptz", i.UTC().Format("2006-01-02 15:04:05.999999Z07:00")), nil
	}
}

// Scan reads the column of either database.
func (i *instant) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*i = instant{}
	case int64:
		*i = instant{time.UnixMicro(v).UTC()}
	case time.Time:
		*i = instant{v.UTC()}
	default:
		return fmt.Errorf("read an instant from %T", src)
	}
	return nil
}

// A document is JSON as both databases keep it; nil is NULL.
type document []byte

// AppendQuery writes the document into the text of a statement for bun.
func (d document) AppendQuery(gen schema.QueryGen, b []byte) ([]byte, error) {
	if d == nil {
		return append(b, "NULL"...), nil
	}
	return gen.Dialect().AppendString(b, string(d)), nil
}

// Scan reads the column of either database.
func (d *document) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*d = nil
	case string:
		*d = document(v)
	case []byte:
		*d = append(document{}, v...)
	default:
		return fmt.Errorf("read JSON from %T", src)
	}
	return nil
}

// argument is the document as an argument of a prepared statement.
func (d document) argument() *string {
	if d == nil {
		return nil
	}
	s := string(d)
	return &s
}

// nullable is the text as an argument of a prepared statement: NULL when empty.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
