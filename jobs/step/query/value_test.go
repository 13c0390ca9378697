package query_test

import (
	"slices"
	"sync"
	"testing"

	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

func TestQuery_WritesCurrenciesInCapitalsAndRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		kit.Exec(db, "CREATE TABLE ledger (n integer, ccy text, padded char(5))",
			"INSERT INTO ledger VALUES (1, 'cny', 'cny  '), (2, ' Usd ', 'USD'), (3, 'EUR', NULL)")
		const columns = `{"ccy": "currency", "padded": "currency"}`
		got, lower := read(t, kit, with(t, "SELECT ccy, padded FROM ledger ORDER BY n", columns, ""))
		if want := []string{"CNY|CNY", "USD|USD", "EUR|"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		_, upper := read(t, kit, with(t, "SELECT upper(trim(ccy)) AS ccy, upper(trim(padded)) AS padded FROM ledger", columns, ""))
		if lower.Digest != upper.Digest {
			t.Errorf("digest %s, want %s as of the same codes in capitals", lower.Digest, upper.Digest)
		}
		for _, bad := range []string{"", " ", "CN", "CNYX", "C1Y", "元", "¥", "156", "C Y"} {
			refusal(t, kit2(t, kit), with(t, "SELECT 'CNY' AS ccy UNION ALL SELECT '"+bad+"'", `{"ccy": "currency"}`, ""),
				"query.value", `row 2, column "ccy": "`+bad+`" is not the three letters of a currency`)
		}
	})
}

func TestQuery_ReadsPaddedColumnsWithoutTheirBlanks(t *testing.T) {
	t.Parallel()
	digests := map[step.Dialect]string{}
	t.Cleanup(func() {
		if digests[step.SQLite] != digests[step.Postgres] {
			t.Errorf("the digests differ: %v", digests)
		}
	})
	var mu sync.Mutex
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		kit.Exec(db, "CREATE TABLE ledger (n integer, id character(20), note varchar(9), amount character(9), booked_on character(12))",
			"INSERT INTO ledger VALUES (1, 'A1', ' kept  ', '1.50', '2026-10-31'), (2, ' B 2', '', '-3', NULL), (3, '', NULL, NULL, NULL), (4, NULL, NULL, NULL, NULL)")
		got, out := read(t, kit, with(t, "SELECT id, note, amount, booked_on, id IS NULL AS absent FROM ledger ORDER BY n",
			`{"id": "text", "note": "text", "amount": "money", "booked_on": "date", "absent": "boolean"}`, ""))
		want := []string{"A1| kept  |1.50|2026-10-31|false", " B 2||-3.00||false", "||||false", "||||true"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		mu.Lock()
		defer mu.Unlock()
		digests[db.Dialect] = out.Digest // It tells null from empty.
	})
}

func TestQuery_ReadsLocalTimesWhereClocksChange(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		kit.Exec(db, "CREATE TABLE ledger (at timestamp)", "INSERT INTO ledger VALUES ('2026-03-29 01:59:59'), ('2026-03-29 03:00:00'), ('2026-10-25 02:30:00.25'), ('2026-10-25 03:00:00')")
		const columns, berlin = `{"at": "timestamp"}`, `, "timezone": "Europe/Berlin"`
		got, _ := read(t, kit, with(t, "SELECT at FROM ledger ORDER BY at", columns, berlin))
		want := []string{"2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", "2026-10-25T00:30:00.25Z", "2026-10-25T02:00:00Z"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		kit.Exec(db, "INSERT INTO ledger VALUES ('2026-03-29 02:30:00')")
		refusal(t, kit2(t, kit), with(t, "SELECT at FROM ledger ORDER BY at", columns, berlin), "query.value",
			`row 2, column "at": "2026-03-29 02:30:00" did not exist in Europe/Berlin: clocks were put forward over it`)
		got, _ = read(t, kit, with(t, "SELECT at FROM ledger WHERE at = '2026-03-29 02:30:00'", columns, ""))
		if want := []string{"2026-03-29T02:30:00Z"}; !slices.Equal(got, want) {
			t.Errorf("in UTC got %q, want %q", got, want)
		}
	})
}

func TestQuery_RefusesFloatsAsText(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		kit.Exec(db, "CREATE TABLE ledger (id double precision, exact "+numbers(db.Dialect)+")", "INSERT INTO ledger VALUES (20261001000000000001, '20261001000000000001')")
		for _, kind := range []string{"text", "currency"} {
			refusal(t, kit, with(t, "SELECT id FROM ledger", `{"id": "`+kind+`"}`, ""), "query.float",
				`column "id" is declared as `+kind+` and comes as a binary floating point number, which may have lost digits`)
		}
		got, _ := read(t, kit, with(t, "SELECT exact FROM ledger", `{"exact": "text"}`, ""))
		if want := []string{"20261001000000000001"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
