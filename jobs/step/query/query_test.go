package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"madeira/engine/store/storetest"
	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/query"
	"madeira/jobs/step/steptest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// bothDatabases runs a test on SQLite and on PostgreSQL.
func bothDatabases(t *testing.T, test func(t *testing.T, kit *steptest.Kit, db *step.Database)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		kit := steptest.New(t)
		test(t, kit, kit.SQLite("ledger"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		kit := steptest.New(t)
		test(t, kit, kit.Postgres("ledger", storetest.Postgres(t)))
	})
}

// with returns the settings of a query.
func with(t *testing.T, sql, columns, more string) string {
	t.Helper()
	text, err := json.Marshal(sql)
	if err != nil {
		t.Fatal(err)
	}
	return `{"connection": "ledger", "sql": ` + string(text) + `, "columns": ` + columns + more + `}`
}

// read runs a query and returns its rows, one text a row.
func read(t *testing.T, kit *steptest.Kit, settings string) ([]string, step.Output) {
	t.Helper()
	out, err := kit.Run(query.Type(), settings)
	if err != nil {
		t.Fatalf("query: %v", err)
	}
	var rows []string
	for _, row := range kit.Rows(out.Values["rows"].(step.Dataset)) {
		rows = append(rows, strings.Join(row, "|"))
	}
	return rows, out
}

// refusal checks that a query fails for good, with a code and a message.
func refusal(t *testing.T, kit *steptest.Kit, settings, code, says string) {
	t.Helper()
	_, err := kit.Run(query.Type(), settings)
	var p *step.PermanentError
	if !errors.As(err, &p) || p.Code != code || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: got %v, want a permanent error %s that says %q", settings, err, code, says)
	}
	if n, err := kit.Files.Count(); n != 0 || err != nil {
		t.Errorf("%s: %d datasets are kept, want none", settings, n)
	}
}

// numbers is the type of a column of exact numbers.
func numbers(d step.Dialect) string {
	if d == step.SQLite {
		return "text"
	}
	return "numeric"
}

func TestQuery_ReadsExactDecimals(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		kit.Exec(db, "CREATE TABLE ledger (n integer, amount "+numbers(db.Dialect)+", rate "+numbers(db.Dialect)+")",
			"INSERT INTO ledger VALUES (1, '90071992547409.9301', '0.100000000000000001'), (2, '-0.01', NULL), (3, '1.5000000', '2'), (4, NULL, '0')")
		columns := `{"amount": {"type": "money", "currency": "CNY", "scale": 4}, "rate": {"type": "decimal", "scale": 18}}`
		got, _ := read(t, kit, with(t, "SELECT * FROM ledger ORDER BY n", columns, ""))
		want := []string{"90071992547409.9301|0.100000000000000001", "-0.01|", "1.50|2.000000000000000000", "|0.000000000000000000"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		kit2 := steptest.New(t)
		kit2.Databases = kit.Databases
		refusal(t, kit2, with(t, "SELECT amount FROM ledger ORDER BY n", `{"amount": {"type": "money", "currency": "CNY"}}`, ""), "query.value", `row 1, column "amount"`)
		refusal(t, kit2, with(t, "SELECT 'many' AS amount", `{"amount": "money"}`, ""), "query.value", `"many"`)
		refusal(t, kit2, with(t, "SELECT cast(1.5 AS real) AS amount", `{"amount": "money"}`, ""), "query.float", "floating point")
		refusal(t, kit2, with(t, "SELECT '99999999999999999999' AS amount", `{"amount": "money"}`, ""), "query.value", "out of range; a number has at most 18 digits, and with 4 decimals at most 14 before the point")
		refusal(t, kit2, with(t, "SELECT '999999999999999' AS amount", `{"amount": {"type": "money", "scale": 6}}`, ""), "query.value", "out of range; a number has at most 18 digits, and with 6 decimals at most 12 before the point")
	})
}

func TestQuery_ReadsDatesAndTimesInTheZoneOfTheJob(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		kit.Exec(db, "CREATE TABLE ledger (d date, at timestamp, note text, ok boolean, n bigint)",
			"INSERT INTO ledger VALUES ('2026-10-31', '2026-11-01 00:30:00.123456', '', true, 9223372036854775807), (NULL, NULL, NULL, NULL, NULL)")
		columns := `{"d": "date", "at": "timestamp", "note": "text", "ok": "boolean", "n": "integer"}`
		for zone, at := range map[string]string{"Asia/Shanghai": "2026-10-31T16:30:00.123456Z", "UTC": "2026-11-01T00:30:00.123456Z", "": "2026-11-01T00:30:00.123456Z"} {
			got, out := read(t, kit, with(t, "SELECT d, at, note, ok, n FROM ledger ORDER BY n", columns, `, "timezone": "`+zone+`"`))
			line := "2026-10-31|" + at + "||true|9223372036854775807"
			if !slices.Contains(got, line) || !slices.Contains(got, "||||") || len(got) != 2 {
				t.Errorf("zone %q: got %q, want %q and a row of nulls", zone, got, line)
			}
			if zone == "" {
				checkNulls(t, kit, out)
			}
		}
		refusal(t, kit2(t, kit), with(t, "SELECT '31/10/2026' AS d", `{"d": "date"}`, ""), "query.value", `"31/10/2026"`)
		refusal(t, kit2(t, kit), with(t, "SELECT 'maybe' AS ok", `{"ok": "boolean"}`, ""), "query.value", `"maybe"`)
	})
}

// kit2 is a kit with the same databases and no files.
func kit2(t *testing.T, kit *steptest.Kit) *steptest.Kit {
	t.Helper()
	other := steptest.New(t)
	other.Databases = kit.Databases
	return other
}

// checkNulls tells the empty text from null.
func checkNulls(t *testing.T, kit *steptest.Kit, out step.Output) {
	t.Helper()
	r, err := kit.Datasets.Open(t.Context(), out.Values["rows"].(step.Dataset), "note")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }() // Nothing was written.
	b, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	nulls := 0
	for i := range b.Len() {
		if b.Columns[0].Null(i) {
			nulls++
		}
	}
	if nulls != 1 {
		t.Errorf("%d texts are null, want one null and one empty", nulls)
	}
}

func TestQuery_ReadsInstantsWithOffsets(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		typ := map[step.Dialect]string{step.SQLite: "text", step.Postgres: "timestamptz"}[db.Dialect]
		kit.Exec(db, "CREATE TABLE ledger (at "+typ+")", "INSERT INTO ledger VALUES ('2026-10-31T23:59:59+08:00')")
		got, _ := read(t, kit, with(t, "SELECT at FROM ledger", `{"at": "timestamp"}`, `, "timezone": "America/New_York"`))
		if !slices.Equal(got, []string{"2026-10-31T15:59:59Z"}) {
			t.Errorf("got %q, want 2026-10-31T15:59:59Z", got)
		}
	})
}

func TestQuery_SaysWhichColumnsDoNotFit(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, _ *step.Database) {
		refusal(t, kit, with(t, "SELECT 1 AS a, 2 AS b", `{"c": "integer"}`, ""), "query.columns", `no column "c"; it returns a, b`)
		refusal(t, kit, with(t, "SELECT 1 AS a, 2 AS a", `{"a": "integer"}`, ""), "query.columns", `the column "a" twice`)
		refusal(t, kit, with(t, "SELECT a FROM nowhere", `{"a": "integer"}`, ""), "query.sql", "nowhere")
		refusal(t, kit, with(t, "SELECT :a AS a", `{"a": "text"}`, ""), "query.args", "the statement uses :a")
		refusal(t, kit, with(t, "SELECT 1 AS a", `{"a": "integer"}`, `, "args": {"b": 1}`), "query.args", "args.b is not used")
		refusal(t, kit, with(t, "SELECT :a AS a", `{"a": "text"}`, `, "args": {"a": 1.5}`), "query.args", "strings of digits")
		got, _ := read(t, kit, with(t, "SELECT 1 AS a, 2 AS b, 3 AS b;", `{"a": "integer"}`, ""))
		if !slices.Equal(got, []string{"1"}) {
			t.Errorf("got %q, want the column that is named", got)
		}
	})
}

func TestBadInput_B28_AnArgumentStaysText(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		kit.Exec(db, "CREATE TABLE ledger (id text)", "INSERT INTO ledger VALUES ('a')")
		const bad = `'; drop table ledger; --`
		args := `, "args": {"id": "'; drop table ledger; --", "n": 7, "yes": true, "nothing": null}`
		got, _ := read(t, kit, with(t, "SELECT cast(:id AS text) AS id, cast(:n AS integer) AS n, cast(:nothing AS text) AS absent FROM ledger WHERE id <> :id AND (:yes)",
			`{"id": "text", "n": "integer", "absent": "text"}`, args))
		if !slices.Equal(got, []string{bad + "|7|"}) {
			t.Errorf("got %q, want the text itself", got)
		}
		if n := kit.Table(db, "SELECT count(*) FROM ledger"); n[0][0] != "1" {
			t.Errorf("the table has %s rows, want 1", n[0][0])
		}
	})
}

func TestBadInput_B33_OnlyOneStatementThatReads(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		kit.Exec(db, "CREATE TABLE ledger (id integer)", "INSERT INTO ledger VALUES (1)")
		for _, sql := range []string{
			"SELECT id FROM ledger; DELETE FROM ledger", "SELECT id FROM ledger;;SELECT id FROM ledger",
			"DELETE FROM ledger RETURNING id", "PRAGMA query_only = 0", "COPY ledger TO PROGRAM 'true'", "SET ROLE postgres",
			"WITH gone AS (DELETE FROM ledger RETURNING id) SELECT id FROM gone", "-- SELECT\nDROP TABLE ledger", "", ";",
		} {
			refusal(t, kit, with(t, sql, `{"id": "integer"}`, ""), "query.sql", "")
		}
		if got := kit.Table(db, "SELECT id FROM ledger"); len(got) != 1 {
			t.Errorf("the table has %d rows, want 1", len(got))
		}
	})
}

func TestQuery_DigestsAreEqualInAnyOrderAndOnBothDatabases(t *testing.T) {
	t.Parallel()
	digests := map[string]string{}
	for _, dialect := range []step.Dialect{step.SQLite, step.Postgres} {
		kit := steptest.New(t)
		var db *step.Database
		if dialect == step.SQLite {
			db = kit.SQLite("ledger")
		} else {
			db = kit.Postgres("ledger", storetest.Postgres(t))
		}
		kit.Exec(db, "CREATE TABLE ledger (n integer, amount "+numbers(dialect)+", at timestamp, ok boolean, note text)")
		for i := range 50 {
			kit.Exec(db, fmt.Sprintf("INSERT INTO ledger VALUES (%d, '%d.%02d', '2026-10-%02d 10:00:00', %t, 'n%d')", i, i, i%7*10, i%28+1, i%2 == 0, i%3))
		}
		columns := `{"n": "integer", "amount": "money", "at": "timestamp", "ok": "boolean", "note": "text"}`
		for _, order := range []string{"n", "n DESC", "note, n"} {
			_, out := read(t, kit, with(t, "SELECT * FROM ledger ORDER BY "+order, columns, ""))
			digests[string(dialect)+" "+order] = out.Digest
		}
		kit.Exec(db, "UPDATE ledger SET amount = '0.00' WHERE n = 0")
		_, out := read(t, kit, with(t, "SELECT * FROM ledger", columns, ""))
		digests[string(dialect)+" other zeros"] = out.Digest
		kit.Exec(db, "UPDATE ledger SET amount = '0.01' WHERE n = 0")
		if _, changed := read(t, kit, with(t, "SELECT * FROM ledger", columns, "")); changed.Digest == out.Digest {
			t.Errorf("%s: the digest is the same after a cent more", dialect)
		}
		if _, twice := read(t, kit, with(t, "SELECT * FROM ledger UNION ALL SELECT * FROM ledger", columns, "")); twice.Digest == out.Digest {
			t.Errorf("%s: the digest is the same with every row twice", dialect)
		}
	}
	want := digests["sqlite n"]
	for name, got := range digests {
		if got != want {
			t.Errorf("%s: digest %s, want %s", name, got, want)
		}
	}
}

// writing is a dataset port that changes the table while it is read.
type writing struct {
	step.Datasets
	write func()
}

func (w writing) Create(ctx context.Context, s dataset.Schema) (step.DatasetWriter, error) {
	inner, err := w.Datasets.Create(ctx, s)
	return &writingWriter{DatasetWriter: inner, write: w.write}, err
}

type writingWriter struct {
	step.DatasetWriter
	write func()
}

func (w *writingWriter) Write(b *dataset.Batch) error {
	if w.write != nil {
		w.write()
		w.write = nil
	}
	return w.DatasetWriter.Write(b)
}

func TestQuery_ReadsOneSnapshotWhileOthersWrite(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		const rows = 3 * dataset.BatchRows
		kit.Exec(db, "CREATE TABLE ledger (n integer PRIMARY KEY, v integer)", fmt.Sprintf(
			"WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %d) INSERT INTO ledger SELECT n, 0 FROM s", rows))
		in := kit.Input(with(t, "SELECT n, v FROM ledger ORDER BY n", `{"n": "integer", "v": "integer"}`, ""))
		in.Datasets = writing{in.Datasets, func() {
			kit.Exec(db, "UPDATE ledger SET v = 1", "INSERT INTO ledger VALUES (1000000, 1)", fmt.Sprintf("DELETE FROM ledger WHERE n = %d", rows))
		}}
		out, err := steptest.Run(t, query.Type(), in)
		if err != nil {
			t.Fatal(err)
		}
		got := kit.Rows(out.Values["rows"].(step.Dataset), "v")
		changed := slices.IndexFunc(got, func(row []string) bool { return row[0] != "0" })
		if len(got) != rows || changed >= 0 {
			t.Errorf("%d rows, row %d changed; want %d rows of one snapshot", len(got), changed, rows)
		}
	})
}

func TestFault_F63_QueriedTenTimesNothingChanges(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		kit.Exec(db, "CREATE TABLE ledger (id integer)", "INSERT INTO ledger VALUES (1), (2)")
		kit.Repeat(query.Type(), kit.Input(with(t, "SELECT id FROM ledger", `{"id": "integer"}`, "")), func() any {
			n, err := kit.Files.Count()
			return fmt.Sprint(kit.Table(db, "SELECT id FROM ledger ORDER BY id"), n, err)
		})
	})
}

func BenchmarkQuery(b *testing.B) {
	for _, dialect := range []string{"sqlite", "postgres"} {
		b.Run(dialect, func(b *testing.B) {
			kit := steptest.New(b)
			var db *step.Database
			if dialect == "sqlite" {
				db = kit.SQLite("ledger")
			} else {
				db = kit.Postgres("ledger", storetest.Postgres(b))
			}
			const rows = 1_000_000
			kit.Exec(db, "CREATE TABLE ledger (order_no text, ccy text, amount "+numbers(db.Dialect)+", booked_on date)", fmt.Sprintf(
				`WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %d)
				INSERT INTO ledger SELECT 'order-' || n, 'CNY', cast(n AS `+numbers(db.Dialect)+`), '2026-10-31' FROM s`, rows))
			for b.Loop() {
				start := time.Now()
				_, err := kit.Run(query.Type(), `{"connection": "ledger", "sql": "SELECT * FROM ledger",
					"columns": {"order_no": "text", "ccy": "currency", "amount": "money", "booked_on": "date"}}`)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(rows/time.Since(start).Seconds(), "rows/s")
			}
		})
	}
}
