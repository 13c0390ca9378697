package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monthend "madeira/examples/month-end"
)

// exampleFolder returns a copy of examples/month-end.
func exampleFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, monthend.Files); err != nil {
		t.Fatal(err)
	}
	return dir
}

// initFolder returns a folder as init writes it.
func initFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "books")
	ok(t, "init", dir)
	return dir
}

// edit replaces a text that a file of the folder has exactly once.
func edit(t *testing.T, dir, name, from, to string) {
	t.Helper()
	path := filepath.Join(dir, name)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(content, []byte(from)); n != 1 {
		t.Fatalf("%s has %q %d times, want once", path, from, n)
	}
	write(t, path, strings.Replace(string(content), from, to, 1))
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// everySecond gives the job of a folder a schedule that makes a run a second,
// each under a key of its own, side by side.
func everySecond(t *testing.T, dir string) {
	t.Helper()
	edit(t, dir, "job.yaml", "upstream_key: harbour-pay/${{ inputs.month }}\n",
		"schedule:\n  - {cron: \"* * * * * *\"}\noverlap: allow\nupstream_key: harbour-pay/${{ schedule.due_at }}\n")
}

// bigBill makes the bill so many lines longer, and lets the job accept them.
func bigBill(t *testing.T, dir string, lines int) {
	t.Helper()
	edit(t, dir, "job.yaml", "all: {max: 5, else: fail}", fmt.Sprintf("all: {max: %d, else: fail}", lines+5))
	edit(t, dir, "bill.csv", "#总笔数：17", fmt.Sprintf("#总笔数：%d", lines+17))
	var more strings.Builder
	for i := range lines {
		fmt.Fprintf(&more, "HP20261099%08d\t,SO-9%08d\t,交易,成功,CNY,%d.%02d,0.00000,2026-10-15 12:00:00,\n", i, i, i%1000, i%100)
	}
	edit(t, dir, "bill.csv", "HP2026100100001", more.String()+"HP2026100100001")
}

// database opens the database of a URL beside the program, as people do.
func database(t *testing.T, url string) *sql.DB {
	t.Helper()
	driver, source := "pgx", url
	if path, isFile := strings.CutPrefix(url, "sqlite://"); isFile {
		driver, source = "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// rows returns what a query finds, a line for each row.
func rows(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	found, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	names, err := found.Columns()
	if err != nil {
		return nil, err
	}
	var lines []string
	for found.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := found.Scan(into...); err != nil {
			return nil, err
		}
		var line strings.Builder
		for i, v := range values {
			if text, isText := v.([]byte); isText {
				v = string(text)
			}
			fmt.Fprintf(&line, "%s=%v ", names[i], v)
		}
		lines = append(lines, line.String())
	}
	return lines, found.Err()
}

func mustRows(t *testing.T, db *sql.DB, query string, args ...any) []string {
	t.Helper()
	lines, err := rows(t.Context(), db, query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return lines
}

// targets returns all rows of the tables that the example loads.
func targets(t *testing.T, db *sql.DB) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, table := range []string{"ledger", "settlement"} {
		all[table] = mustRows(t, db, "SELECT * FROM "+table+" ORDER BY upstream_key")
	}
	return all
}

// wantTargets compares the tables that the example loads with what they should be.
func wantTargets(t *testing.T, when string, got, want map[string][]string) {
	t.Helper()
	for table, lines := range want {
		if len(lines) == 0 {
			t.Fatalf("table %s of the undisturbed run is empty", table)
		}
		if !slices.Equal(got[table], lines) {
			t.Errorf("%s: table %s is\n%s\nwant\n%s", when, table, strings.Join(got[table], "\n"), strings.Join(lines, "\n"))
		}
	}
}

// golden compares a text with a file of testdata; -update rewrites the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		write(t, path, got)
		return
	}
	want, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if string(want) != got {
		write(t, path+".got", got)
		t.Errorf("%s differs from what was printed, see %s.got: %s", path, path, firstDifference(got, string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		a, b := "(end)", "(end)"
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d is %q, want %q", i+1, a, b)
		}
	}
	return "no line differs"
}
