package store_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
)

// walked says what a plan may walk along without an index to find its rows, and
// why that is not too much.
var walked = map[string]string{
	"r":              "a claim walks along the order it claims in, and stops when it has enough",
	"o":              "",
	"task_ready":     "the lowest priority is the first entry",
	"level":          "there are as many levels as priorities",
	"json_each":      "the list of types",
	"hold":           "EXISTS reads one row",
	"task_undecided": "EXISTS reads one row",
	"run_undecided":  "EXISTS reads one row",
	"task_later":     "the first by run_at",
	"l":              "there are as many leases as tasks at work",
	"CONSTANT":       "no table",
}

// sorting are parts of the statements that may sort: few rows, or what is ready of
// the runs that one process was asked for, each of which comes in order by itself.
var sorting = []string{"RECURSIVE level", "ORDER BY l.lease_until", "r.run_id IN (SELECT value FROM json_each(?3))"}

// TestSQLite_ReadsOnlyWhatItWrites holds the plans of the hot path against 200,000
// ready tasks, half a million that are not due and 100,000 that are held.
func TestSQLite_ReadsOnlyWhatItWrites(t *testing.T) {
	notRaced(t)
	t.Parallel()
	db := storetest.Open(t, storetest.SQLite(t), store.Options{})
	enqueue(t, db, 200_000)
	fill(t, db, 500_000, "INSERT INTO task_later (task_id, run_at) SELECT id, run_at + 1000000000000 FROM task_queue")
	fill(t, db, 100_000, "INSERT INTO task_held (task_id, gate, priority) SELECT id, 'limit:k', priority FROM task_queue")
	for _, known := range []string{"nothing", "the tables"} { // what ANALYZE has told the planner
		for _, text := range store.LiteTexts() {
			plan := litePlan(t, db, text)
			for _, line := range plan {
				if table := scanned(line); table != "" && !allowed(table, line) {
					t.Errorf("knowing %s, this walks through %s:\n%s\n%s", known, table, text, strings.Join(plan, "\n"))
				}
			}
			if sorts := strings.Contains(strings.Join(plan, "\n"), "USE TEMP B-TREE FOR ORDER BY"); sorts && !slices.ContainsFunc(sorting, func(part string) bool { return strings.Contains(text, part) }) {
				t.Errorf("knowing %s, this sorts:\n%s\n%s", known, text, strings.Join(plan, "\n"))
			}
		}
		write(t, db, "ANALYZE")
	}
}

// fill makes n more tasks and places those that stand nowhere.
func fill(t *testing.T, db *store.DB, n int, place string) {
	t.Helper()
	write(t, db, fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO task_queue (type, placed) SELECT 'noop', 1 FROM n", n))
	write(t, db, place+" WHERE id > (SELECT max(id) FROM task_queue) - "+fmt.Sprint(n))
}

var scan = regexp.MustCompile(`^SCAN (\w+)( USING .*INDEX \w+)?`)

func scanned(line string) string {
	if m := scan.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

func allowed(table, line string) bool {
	_, ok := walked[table]
	return ok && (table != "task_later" || strings.Contains(line, "USING COVERING INDEX task_later_order"))
}

func litePlan(t *testing.T, db *store.DB, text string) []string {
	t.Helper()
	_, w := db.SQL()
	rows, err := w.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, make([]any, strings.Count(text, "?"))[:params(text)]...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer func() {
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Error(err)
		}
	}()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var line string
		if err := rows.Scan(&id, &parent, &unused, &line); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, line)
	}
	return plan
}

var param = regexp.MustCompile(`\?(\d*)`)

// params returns how many arguments a statement takes.
func params(text string) int {
	n := 0
	for i, m := range param.FindAllStringSubmatch(text, -1) {
		at := i + 1
		if m[1] != "" {
			_, _ = fmt.Sscan(m[1], &at)
		}
		n = max(n, at)
	}
	return n
}
