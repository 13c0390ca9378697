package load_test

import (
	"fmt"
	"slices"
	"testing"

	"madeira/engine/store/storetest"
	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// onPostgres returns a kit whose connection "ledger" is an empty database.
func onPostgres(t *testing.T) (*steptest.Kit, *step.Database) {
	t.Helper()
	url := storetest.Postgres(t)
	kit := steptest.New(t)
	return kit, kit.Postgres("ledger", url)
}

func noteSchema() dataset.Schema {
	return dataset.Schema{Columns: []dataset.Column{{Name: "upstream_key", Kind: dataset.Text}, {Name: "note", Kind: dataset.Text}}}
}

func TestLoad_RefusesAPostgresColumnThatDoesNotKeepATextByteForByte(t *testing.T) {
	t.Parallel()
	kit, db := onPostgres(t)
	d := kit.Dataset(noteSchema(), []any{"007", "1.50"}, []any{"7", "1.5"})
	kit.Exec(db, `CREATE DOMAIN short AS char(8)`)
	for _, typ := range []string{"integer", "bigint", "numeric", "numeric(12,2)", "char(8)", "short", "uuid", "name", "date", "bytea", "jsonb", "double precision"} {
		kit.Exec(db, `CREATE TABLE bill (upstream_key text, note `+typ+`)`)
		kit.Exec(db, `CREATE UNIQUE INDEX bill_key ON bill (upstream_key)`)
		refusal(t, kit.Attempt(settings(t, d, ""), task(1, 1)), "load.type", `"note"`, "byte for byte")
		kit.Exec(db, `DROP TABLE bill`)
		if typ == "jsonb" {
			continue // as good as integer
		}
		kit.Exec(db, `CREATE TABLE bill (upstream_key `+typ+`, note text)`)
		kit.Exec(db, `CREATE UNIQUE INDEX bill_key ON bill (upstream_key)`)
		refusal(t, kit.Attempt(settings(t, d, ""), task(1, 1)), "load.type", `"upstream_key"`, "byte for byte")
		kit.Exec(db, `DROP TABLE bill`)
	}
	if got := kit.Table(db, `SELECT relname FROM pg_class WHERE relname LIKE 'madeira%'`); len(got) != 0 {
		t.Errorf("refused loads have written %v, want nothing", got)
	}
}

func TestLoad_KeepsTextsThatLookLikeOneNumberApart(t *testing.T) {
	t.Parallel()
	kit, db := onPostgres(t)
	d := kit.Dataset(noteSchema(), []any{"007", "red"}, []any{"7", "green"}, []any{"7 ", "red"})
	kit.Exec(db, `CREATE TYPE colour AS ENUM ('green', 'red')`)
	for i, typ := range []string{"text", "varchar(20)", "colour"} {
		kit.Exec(db, `CREATE TABLE bill (upstream_key varchar(8) PRIMARY KEY, note `+typ+`)`)
		for again, want := range []string{
			"inserted 3, same 0, repeated 0, conflict_count 0, rejected 0, gone 0",
			"inserted 0, same 3, repeated 0, conflict_count 0, rejected 0, gone 0",
		} {
			if got := counts(run(t, kit.Attempt(settings(t, d, ""), task(10*i+again+1, 1)))); got != want {
				t.Errorf("%s, load %d: %s, want %s", typ, again+1, got, want)
			}
		}
		kit.Exec(db, `DROP TABLE bill`)
	}
}

func TestLoad_DoesNotTakeTextsForEqualBecauseACollationDoes(t *testing.T) {
	t.Parallel()
	kit, db := onPostgres(t)
	kit.Exec(db, `CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`)
	d := kit.Dataset(noteSchema(), []any{"a", "x"}, []any{"A", "x"})
	kit.Exec(db, `CREATE TABLE bill (upstream_key text COLLATE loose PRIMARY KEY, note text)`)
	refusal(t, kit.Attempt(settings(t, d, ""), task(1, 1)), "load.type", `"upstream_key"`, "loose", `COLLATE "C"`)
	kit.Exec(db, `DROP TABLE bill`)
	kit.Exec(db, `CREATE TABLE bill (upstream_key text PRIMARY KEY, note text COLLATE loose)`)
	run(t, kit.Attempt(settings(t, d, ""), task(2, 1)))
	d = kit.Dataset(noteSchema(), []any{"a", "X"}, []any{"A", "x"})
	if got, want := counts(run(t, kit.Attempt(settings(t, d, ""), task(3, 1)))), "inserted 0, same 1, repeated 0, conflict_count 1, rejected 0, gone 0"; got != want {
		t.Errorf("a note in another case: %s, want %s", got, want)
	}
}

func TestLoad_RefusesAPostgresColumnThatCutsOtherKinds(t *testing.T) {
	t.Parallel()
	kit, db := onPostgres(t)
	d := kit.Dataset(billSchema(), bill("a", 3)...)
	for name, typ := range map[string]string{"paid_at": "date", "amount": "money", "booked_on": "integer"} {
		kit.Exec(db, `CREATE TABLE bill (upstream_key text PRIMARY KEY, `+name+` `+typ+`)`)
		columns := `, "columns": {"upstream_key": "upstream_key", "` + name + `": "` + name + `"}`
		refusal(t, kit.Attempt(settings(t, d, columns), task(1, 1)), "load.type", `"`+name+`" is `+typ)
		kit.Exec(db, `DROP TABLE bill`)
		kit.Exec(db, `CREATE TABLE bill (upstream_key text PRIMARY KEY, `+name+` text)`)
		if got := run(t, kit.Attempt(settings(t, d, columns), task(2, 1))); got.Values["inserted"] != int64(3) {
			t.Errorf("%s as text: %s, want 3 inserted", name, counts(got))
		}
		kit.Exec(db, `DROP TABLE bill`)
	}
}

func TestLoad_StagingTablesOfTasksThatWereGivenUpAreDroppedAfterADay(t *testing.T) {
	t.Parallel()
	kit, db := onPostgres(t)
	stage := func(task string, age int) string {
		t.Helper()
		at := kit.Table(db, fmt.Sprintf("SELECT extract(epoch FROM now())::bigint - %d", age))[0][0]
		name := "madeira_stage_" + task + "_3_" + at
		kit.Exec(db, "CREATE UNLOGGED TABLE "+name+" (n bigint)")
		return name
	}
	stale, young, atWork := stage("0123456789abcdef", 90_000), stage("1123456789abcdef", 80_000), stage("2123456789abcdef", 90_000)
	kit.Exec(db, "CREATE TABLE madeira_stage_notes_1_5 (n bigint)")
	tx, err := db.Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // It only holds a lock.
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO "+atWork+" VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	d := kit.Dataset(noteSchema(), []any{"a", "x"})
	run(t, kit.Attempt(settings(t, d, ""), task(1, 1)))
	left := func() []string {
		var names []string
		for _, row := range kit.Table(db, `SELECT relname FROM pg_class WHERE relname LIKE 'madeira_stage%' ORDER BY relname`) {
			names = append(names, row[0])
		}
		return names
	}
	if got, want := left(), []string{young, atWork, "madeira_stage_notes_1_5"}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v and not %s", got, want, stale)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	run(t, kit.Attempt(settings(t, d, ""), task(2, 1)))
	if got, want := left(), []string{young, "madeira_stage_notes_1_5"}; !slices.Equal(got, want) {
		t.Errorf("when nobody is at work on it, left are %v, want %v", got, want)
	}
}
