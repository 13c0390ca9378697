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
	out, err := load.Type().Runner.Run(t.Context(), in)
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
		"rows      65",
		"inserted  2  amount 1.00 CNY",
		"same      56  amount 1526.9025 CNY  amount 1516.7955 JPY  amount 1589.0475 KWD",
		"conflict  7  amount 63.25 CNY  amount -3.8275 JPY  amount -2.593 KWD",
		"rejected  0",
		"gone      1  amount 65.837 KWD",
		"1 of the same repeat an earlier line of this load",
	}
	for i, line := range want {
		if i >= len(reports["sqlite"]) || reports["sqlite"][i] != line {
			t.Errorf("line %d of the report:\n%s\nwant %s", i+1, strings.Join(reports["sqlite"], "\n"), line)
			break
		}
	}
}

// corrected is the bill of 60 rows with one key gone, two new, two repeated, and
// one difference of every kind.
func corrected() [][]any {
	rows := bill("a", 59)
	rows[1][2] = int64(-38275)
	rows[2][1] = "KWD"
	rows[2][2] = int64(-25930)
	rows[3][3] = nil
	rows[4][4] = int64(99)
	rows[5][5] = int64(0)
	rows[6][6] = int64(20500)
	rows[7][7] = int64(0)
	return rows
}

func previous(t *testing.T, rows step.Dataset) map[string]json.RawMessage {
	t.Helper()
	ref, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]json.RawMessage{"rows": ref}
}
