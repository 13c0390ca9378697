package load_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/load"
	"madeira/jobs/step/steptest"
)

// refusal runs a load that has to fail for good and checks the code and what the
// message says.
func refusal(t *testing.T, in step.Input, code string, says ...string) step.Output {
	t.Helper()
	out, err := load.Type().Runner.Run(t.Context(), in)
	var permanent *step.PermanentError
	if !errors.As(err, &permanent) || permanent.Code != code {
		t.Fatalf("got %v (%T), want a permanent error with code %s", err, err, code)
	}
	for _, want := range says {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to say %q", err, want)
		}
	}
	return out
}

func TestBadInput_B74_AMissingKeyIsRefusedBeforeTheFirstInsert(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		rows := bill("a", 10)
		for i := 3; i < 10; i += 2 {
			rows[i][0] = nil
		}
		rows[4][0] = ""
		refusal(t, kit.Attempt(settings(t, kit.Dataset(billSchema(), rows...), ""), task(1, 1)),
			"load.key_missing", "5 of 10 rows have no upstream_key", "line 4")
		d := kit.Dataset(dataset.Schema{Columns: []dataset.Column{{Name: "other", Kind: dataset.Text}}}, []any{"x"})
		refusal(t, kit.Attempt(settings(t, d, ""), task(1, 1)), "load.key_missing", `"upstream_key"`, "there are other")
		refusal(t, kit.Attempt(settings(t, d, `, "columns": {"upstream_key": "gone"}`), task(1, 1)), "load.key_missing", `"gone"`)
		query := "SELECT name FROM sqlite_master WHERE name = 'bill'"
		if db.Dialect == step.Postgres {
			query = "SELECT relname FROM pg_class WHERE relname = 'bill'"
		}
		if got := kit.Table(db, query); len(got) != 0 {
			t.Errorf("there is a table %v, want none", got)
		}
	})
}

func TestFault_F62_ALineThatBreaksAnotherConstraintIsNamed(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		kit.Exec(db, `CREATE TABLE bill (upstream_key text PRIMARY KEY, kind text NOT NULL, note text UNIQUE)`)
		schema := dataset.Schema{Columns: []dataset.Column{
			{Name: "upstream_key", Kind: dataset.Text}, {Name: "kind", Kind: dataset.Text}, {Name: "note", Kind: dataset.Text}}}
		var rows [][]any
		for _, row := range bill("a", 20_000) {
			rows = append(rows, []any{row[0], "pay", row[0]})
		}
		rows[17_123][1] = nil
		out := refusal(t, kit.Attempt(settings(t, kit.Dataset(schema, rows...), ""), task(1, 1)), "load.refused", "line 17124", "kind")
		if got := out.Values["rejected"]; got != int64(1) {
			t.Errorf("rejected = %v, want 1", got)
		}
		rows[17_123][1] = "pay"
		rows[18_000][2] = rows[5][2]
		refusal(t, kit.Attempt(settings(t, kit.Dataset(schema, rows...), ""), task(2, 1)), "load.refused", "line 18001", "note")
		rows[18_000][2] = nil
		if got := run(t, kit.Attempt(settings(t, kit.Dataset(schema, rows...), ""), task(3, 1))); got.Values["conflict_count"] != int64(0) {
			t.Errorf("after the mend: %s, want no conflict", counts(got))
		}
	})
}

func TestLoad_RefusesATableThatCannotHoldTheRows(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		d := kit.Dataset(billSchema(), bill("a", 3)...)
		in := kit.Attempt(strings.Replace(settings(t, d, ""), `"create": true`, `"create": false`, 1), task(1, 1))
		refusal(t, in, "load.no_table", `CREATE TABLE IF NOT EXISTS "bill" ("upstream_key" `)
		kit.Exec(db, `CREATE TABLE bill (upstream_key text, amount double precision)`)
		in = kit.Attempt(settings(t, d, `, "columns": {"upstream_key": "upstream_key", "amount": "amount"}`), task(1, 1))
		refusal(t, in, "load.type", `"amount"`, "floating point")
		refusal(t, kit.Attempt(settings(t, d, ""), task(1, 1)), "load.columns", `no column "ccy"`)
		in = kit.Attempt(settings(t, d, `, "columns": {"upstream_key": "upstream_key"}`), task(1, 1))
		refusal(t, in, "load.no_unique_key", `CREATE UNIQUE INDEX "bill_upstream_key" ON "bill" ("upstream_key")`)
		kit.Exec(db, `CREATE UNIQUE INDEX partial ON bill (upstream_key) WHERE amount > 0`)
		refusal(t, in, "load.no_unique_key")
		kit.Exec(db, `CREATE UNIQUE INDEX "bill_upstream_key" ON "bill" ("upstream_key")`)
		if got := run(t, in); got.Values["inserted"] != int64(3) {
			t.Errorf("after the index: %s, want 3 inserted", counts(got))
		}
	})
}

func TestBadInput_B34_NamesThatAreNoIdentifiersAreRefused(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	kit.SQLite("ledger")
	d := kit.Dataset(billSchema(), bill("a", 1)...)
	for _, table := range []string{`bill; drop table ledger`, `a.b.c`, `bill\"`, ``, `1bill`} {
		with := strings.Replace(settings(t, d, ""), `"table": "bill"`, `"table": "`+table+`"`, 1)
		refusal(t, kit.Attempt(with, task(1, 1)), "load.columns", "a name is letters")
	}
	refusal(t, kit.Attempt(settings(t, d, `, "columns": {"a\"b": "upstream_key"}`), task(1, 1)), "load.columns", "a name is letters")
}

func TestLoad_RefusesAPostgresTableThatRounds(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		if db.Dialect == step.SQLite {
			return
		}
		kit.Exec(db, `CREATE TABLE bill (upstream_key varchar(20) PRIMARY KEY, amount numeric(12, 2))`)
		columns := `, "columns": {"upstream_key": "upstream_key", "amount": "amount"}`
		d := kit.Dataset(billSchema(), []any{"a", "CNY", int64(15000), nil, nil, nil, nil, nil}, []any{"b", "CNY", int64(15050), nil, nil, nil, nil, nil})
		refusal(t, kit.Attempt(settings(t, d, columns), task(1, 1)), "load.changed", "line 2", "1.51", "1.505")
		d = kit.Dataset(billSchema(), []any{"a", "CNY", int64(15000), nil, nil, nil, nil, nil}, []any{"a key that is too long for it", nil, nil, nil, nil, nil, nil, nil})
		refusal(t, kit.Attempt(settings(t, d, columns), task(1, 1)), "load.refused", "line 2")
		d = kit.Dataset(billSchema(), []any{"zero\x00", nil, nil, nil, nil, nil, nil, nil})
		refusal(t, kit.Attempt(settings(t, d, columns), task(1, 1)), "load.refused", "line 1", "zero byte")
		if n := len(kit.Table(db, "SELECT 1 FROM bill")); n != 0 {
			t.Errorf("the table has %d lines, want none", n)
		}
		if got := kit.Table(db, "SELECT relname FROM pg_class WHERE relname LIKE 'madeira_stage%'"); len(got) != 0 {
			t.Errorf("staging tables are left: %v", got)
		}
	})
}

func TestLoad_TakesWhatConflictsTheJobAllows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		with    string
		warning bool
		fails   bool
	}{
		{"", true, false},
		{`, "conflicts": {"max": 1, "else": "warn"}`, false, false},
		{`, "conflicts": {"max": 0, "else": "warn"}`, true, false},
		{`, "conflicts": {"max": 0}`, false, true},
		{`, "on_conflict": "keep"`, false, false},
		{`, "on_conflict": "keep", "conflicts": {"max": 0, "else": "fail"}`, false, true},
	} {
		kit := steptest.New(t)
		db := kit.SQLite("ledger")
		run(t, kit.Attempt(settings(t, kit.Dataset(billSchema(), bill("a", 5)...), ""), task(1, 1)))
		rows := bill("a", 7)
		rows[2][2] = int64(1)
		in := kit.Attempt(settings(t, kit.Dataset(billSchema(), rows...), test.with), task(2, 1))
		out, err := load.Type().Runner.Run(t.Context(), in)
		if (err != nil) != test.fails || (out.Warning != "") != test.warning {
			t.Errorf("%s: error %v, warning %q; want fails %t, warns %t", test.with, err, out.Warning, test.fails, test.warning)
		}
		if got, want := counts(out), "inserted 2, same 4, repeated 0, conflict_count 1, rejected 0, gone 0"; got != want {
			t.Errorf("%s: %s, want %s", test.with, got, want)
		}
		if got := kit.Rows(out.Values["conflicts"].(step.Dataset)); len(got) != 1 || strings.Join(got[0], "|") != "a/000002|amount|-4.531|0.0001|3" {
			t.Errorf("%s: conflicts %v, want one", test.with, got)
		}
		if got := kit.Table(db, "SELECT amount FROM bill WHERE upstream_key = 'a/000002'"); got[0][0] != "-4.531" {
			t.Errorf("%s: the table holds %s, want what was there", test.with, got[0][0])
		}
	}
}

func TestLoad_ComparesAgainAfterTheConflictsWereMended(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		run(t, kit.Attempt(settings(t, kit.Dataset(billSchema(), bill("a", 5)...), ""), task(1, 1)))
		rows := bill("a", 7)
		rows[2][2] = int64(1)
		with := settings(t, kit.Dataset(billSchema(), rows...), `, "conflicts": {"max": 0, "else": "fail"}`)
		for fence := int64(1); fence <= 2; fence++ {
			out := refusal(t, kit.Attempt(with, task(2, fence)), "load.conflicts", "1 line has the key of a line with other content; the job allows 0")
			if got, want := counts(out), "inserted 2, same 4, repeated 0, conflict_count 1, rejected 0, gone 0"; got != want {
				t.Errorf("attempt %d: %s, want %s", fence, got, want)
			}
		}
		kit.Exec(db, "UPDATE bill SET amount = '0.0001' WHERE upstream_key = 'a/000002'")
		out := run(t, kit.Attempt(with, task(2, 3)))
		if got, want := counts(out), "inserted 2, same 5, repeated 0, conflict_count 0, rejected 0, gone 0"; got != want {
			t.Errorf("after the mend: %s, want %s", got, want)
		}
	})
}

func TestLoad_RefusesASQLiteKeyWhoseCollationTakesTextsForEqual(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	db := kit.SQLite("ledger")
	d := kit.Dataset(noteSchema(), []any{"a", "x"}, []any{"A", "x"}, []any{"a ", "x"})
	for _, create := range []string{
		`CREATE TABLE bill (upstream_key TEXT COLLATE NOCASE PRIMARY KEY, note TEXT)`,
		`CREATE TABLE bill (upstream_key TEXT COLLATE RTRIM PRIMARY KEY, note TEXT) WITHOUT ROWID`,
		`CREATE TABLE bill (upstream_key TEXT COLLATE NOCASE UNIQUE, note TEXT)`,
	} {
		kit.Exec(db, create)
		refusal(t, kit.Attempt(settings(t, d, ""), task(1, 1)), "load.type", `"upstream_key"`, "keys that differ are equal")
		kit.Exec(db, `DROP TABLE bill`)
	}
	kit.Exec(db, `CREATE TABLE bill (upstream_key TEXT COLLATE NOCASE, note TEXT)`)
	kit.Exec(db, `CREATE UNIQUE INDEX loose ON bill (upstream_key)`)
	cure := `DROP INDEX "main"."loose"; CREATE UNIQUE INDEX "bill_upstream_key" ON "bill" ("upstream_key" COLLATE BINARY)`
	refusal(t, kit.Attempt(settings(t, d, ""), task(1, 1)), "load.type", "NOCASE", cure)
	kit.Exec(db, cure)
	looseColumn(t, kit, db)
	kit.Exec(db, `DROP TABLE bill`)
	kit.Exec(db, `CREATE TABLE bill (upstream_key TEXT PRIMARY KEY, note TEXT COLLATE NOCASE)`)
	if got, want := counts(run(t, kit.Attempt(settings(t, d, ""), task(2, 1)))), "inserted 3, same 0, repeated 0, conflict_count 0, rejected 0, gone 0"; got != want {
		t.Errorf("with a collation that compares bytes: %s, want %s", got, want)
	}
}

// looseColumn loads into a table whose column takes a and A for equal, and whose
// unique index does not.
func looseColumn(t *testing.T, kit *steptest.Kit, db *step.Database) {
	t.Helper()
	for i, load := range []struct {
		rows [][]any
		want string
	}{
		{[][]any{{"a", "x"}}, "inserted 1, same 0, repeated 0, conflict_count 0, rejected 0, gone 0"},
		{[][]any{{"a", "x"}, {"A", "y"}}, "inserted 1, same 1, repeated 0, conflict_count 0, rejected 0, gone 0"},
		{[][]any{{"a", "z"}, {"A", "y"}}, "inserted 0, same 1, repeated 0, conflict_count 1, rejected 0, gone 0"},
	} {
		with := settings(t, kit.Dataset(noteSchema(), load.rows...), `, "on_conflict": "update"`)
		if got := counts(run(t, kit.Attempt(with, task(10+i, 1)))); got != load.want {
			t.Errorf("load %d into a loose column: %s, want %s", i+1, got, load.want)
		}
	}
	got := kit.Table(db, "SELECT upstream_key, note FROM bill ORDER BY upstream_key COLLATE BINARY")
	if want := [][]string{{"A", "y"}, {"a", "z"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("the table holds %v, want %v", got, want)
	}
}
