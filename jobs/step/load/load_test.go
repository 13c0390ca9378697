package load_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"madeira/engine/store/storetest"
	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/load"
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
		url := storetest.Postgres(t)
		kit := steptest.New(t)
		test(t, kit, kit.Postgres("ledger", url))
	})
}

// billSchema has every kind of column.
func billSchema() dataset.Schema {
	return dataset.Schema{Columns: []dataset.Column{
		{Name: "upstream_key", Kind: dataset.Text},
		{Name: "ccy", Kind: dataset.Currency},
		{Name: "amount", Kind: dataset.Money, Scale: 4},
		{Name: "rate", Kind: dataset.Decimal, Scale: 6},
		{Name: "count", Kind: dataset.Integer},
		{Name: "paid", Kind: dataset.Boolean},
		{Name: "booked_on", Kind: dataset.Date},
		{Name: "paid_at", Kind: dataset.Timestamp},
	}}
}

// bill returns n different rows whose keys begin with prefix.
func bill(prefix string, n int) [][]any {
	rows := make([][]any, n)
	for i := range rows {
		rows[i] = []any{
			fmt.Sprintf("%s/%06d", prefix, i), []string{"CNY", "JPY", "KWD"}[i%3], int64(i)*12345 - 70000, int64(i) * 7,
			int64(i) - 3, int64(i % 2), int64(20000 + i%400), int64(1_790_000_000_123_456) + int64(i)*1_000_003,
		}
	}
	return rows
}

// settings returns the "with" of a load of rows into the table bill.
func settings(t *testing.T, rows step.Dataset, more string) string {
	t.Helper()
	ref, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return `{"connection": "ledger", "table": "bill", "key": "upstream_key", "create": true, "rows": ` + string(ref) + more + `}`
}

// task is the load of one version.
func task(version int, fence int64) step.Task {
	return step.Task{ID: int64(version), Run: fmt.Sprintf("01942f3e-0000-7000-8000-%012d", version), Job: "j", Key: "k",
		Version: version, Step: "settle", Attempt: int(fence), Fence: fence}
}

// counts returns the counted outputs in one line.
func counts(out step.Output) string {
	var list []string
	for _, name := range []string{"inserted", "same", "repeated", "conflict_count", "rejected", "gone"} {
		list = append(list, fmt.Sprintf("%s %v", name, out.Values[name]))
	}
	return strings.Join(list, ", ")
}

func run(t *testing.T, in step.Input) step.Output {
	t.Helper()
	out, err := steptest.Run(t, load.Type(), in)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return out
}

func TestLoad_InsertsEveryKindAndFindsItTheSame(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		rows := bill("a", 500)
		rows[7] = []any{"a/null", nil, nil, nil, nil, nil, nil, nil}
		rows[8] = []any{"a/\t\\\n'é;--", "", int64(0), int64(-1), int64(-1 << 63), int64(0), int64(-1), int64(-1)}
		d := kit.Dataset(billSchema(), rows...)
		out := run(t, kit.Attempt(settings(t, d, ""), task(1, 1)))
		if got, want := counts(out), "inserted 500, same 0, repeated 0, conflict_count 0, rejected 0, gone 0"; got != want {
			t.Errorf("first load: %s, want %s", got, want)
		}
		out = run(t, kit.Attempt(settings(t, d, ""), task(2, 1)))
		if got, want := counts(out), "inserted 0, same 500, repeated 0, conflict_count 0, rejected 0, gone 0"; got != want {
			t.Errorf("second load: %s, want %s\n%s", got, want, out.Report)
		}
		got := kit.Table(db, `SELECT count(*) FROM bill`)
		if got[0][0] != "500" {
			t.Errorf("the table has %s lines, want 500", got[0][0])
		}
	})
}

func TestLoad_ReportsTheSameOnBothDatabases(t *testing.T) {
	t.Parallel()
	reports := map[string][]string{}
	digests := map[string]any{}
	for _, dialect := range []string{"sqlite", "postgres"} {
		kit := steptest.New(t)
		if dialect == "sqlite" {
			kit.SQLite("ledger")
		} else {
			kit.Postgres("ledger", storetest.Postgres(t))
		}
		first := bill("a", 60)
		run(t, kit.Attempt(settings(t, kit.Dataset(billSchema(), first...), ""), task(1, 1)))
		second := corrected()
		d := kit.Dataset(billSchema(), second...)
		in := kit.Attempt(settings(t, d, ""), task(2, 1))
		in.Previous = previous(t, kit.Dataset(billSchema(), first...))
		out := run(t, in)
		reports[dialect] = append(strings.Split(out.Report, "\n"), counts(out), out.Warning)
		digests[dialect] = out.Values["conflicts"].(step.Dataset).Digest
	}
	if !slices.Equal(reports["sqlite"], reports["postgres"]) {
		t.Errorf("reports differ:\n%s\n\n%s", strings.Join(reports["sqlite"], "\n"), strings.Join(reports["postgres"], "\n"))
	}
	if digests["sqlite"] != digests["postgres"] {
		t.Errorf("the conflicts differ: %v and %v", digests["sqlite"], digests["postgres"])
	}
	want := []string{
		"rows      63",
		"inserted  2  amount 1.00 CNY  amount 2 JPY",
		"same      53  amount 566.5545 CNY  amount 599.886 JPY  amount 552.568 KWD",
		"conflict  8  amount -2.8895 CNY  amount -4.248 JPY  amount -2.4205 KWD",
		"rejected  0",
		"gone      1  amount 65.8355 KWD",
		"1 of the same repeat an earlier line of this load",
		"a/000001  amount  -5.7655 → -3.8275  line 2",
		"a/000002  amount  -4.531 → -2.593  line 3",
		"a/000003  rate  0.000021 → null  line 4",
		"a/000004  count  1 → 99  line 5",
		"a/000005  paid  true → false  line 6",
		"a/000006  booked_on  2024-10-10 → 2026-02-16  line 7",
		"a/000007  paid_at  2026-09-21T14:13:27.123477Z → 1970-01-01T00:00:00Z  line 8",
		"a/000011  amount  6.5795 → 1.00  line 63",
		"a/000059  gone",
		"inserted 2, same 53, repeated 1, conflict_count 8, rejected 0, gone 1",
		"8 lines have the key of a line with other content",
	}
	if !slices.Equal(reports["sqlite"], want) {
		t.Errorf("report:\n%s\nwant\n%s", strings.Join(reports["sqlite"], "\n"), strings.Join(want, "\n"))
	}
}

// corrected is the bill of 60 rows with the last key gone, two new ones, one
// repeated as it is and one with another amount, and one difference in every column.
func corrected() [][]any {
	rows := bill("a", 59)
	rows[1][2] = int64(-38275)
	rows[2][2] = int64(-25930)
	rows[3][3] = nil
	rows[4][4] = int64(99)
	rows[5][5] = int64(0)
	rows[6][6] = int64(20500)
	rows[7][7] = int64(0)
	repeated, contradicting := slices.Clone(rows[10]), slices.Clone(rows[11])
	contradicting[2] = int64(10000)
	return append(rows,
		[]any{"b/1", "CNY", int64(10000), nil, nil, nil, nil, nil},
		[]any{"b/2", "JPY", int64(20000), nil, nil, nil, nil, nil},
		repeated, contradicting)
}

func previous(t *testing.T, rows step.Dataset) map[string]json.RawMessage {
	t.Helper()
	ref, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]json.RawMessage{"rows": ref}
}

func TestLoad_TakesAnyNamesOfTablesAndColumns(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, _ *step.Database) {
		schema := dataset.Schema{Columns: []dataset.Column{{Name: "k", Kind: dataset.Text}, {Name: "i", Kind: dataset.Text}, {Name: "n", Kind: dataset.Text}}}
		with := settings(t, kit.Dataset(schema, []any{"a", "x", "y"}), "")
		with = strings.NewReplacer(`"table": "bill"`, `"table": "wanted"`, `"key": "upstream_key"`, `"key": "k"`).Replace(with)
		run(t, kit.Attempt(with, task(1, 1)))
		if got, want := counts(run(t, kit.Attempt(with, task(2, 1)))), "inserted 0, same 1, repeated 0, conflict_count 0, rejected 0, gone 0"; got != want {
			t.Errorf("again: %s, want %s", got, want)
		}
	})
}
