package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"madeira/engine/store/storetest"
)

// exampleCopy returns a copy of an example that readers copy as well.
func exampleCopy(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "examples", name))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestExamples_NightlyTellsEachNightApart runs the job for a day with all files, one
// without refunds, one without orders in the file, and one without the file.
func TestExamples_NightlyTellsEachNightApart(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		job := filepath.Join(exampleCopy(t, "nightly"), "nightly.yaml")
		ok(t, "migrate", "--database", url)
		for _, night := range []struct {
			day  string
			code int
			want []string
		}{
			{"2026-10-30", exitOK, []string{"version 1  success", "amount 7.50 EUR", "amount -19.90 EUR", "alarm  skipped", "log  success"}},
			{"2026-10-29", exitOK, []string{"version 1  warning", "amount 259.90 EUR", "refunds  error", "refund_lines  skipped", "alarm  skipped", "log  success"}},
			{"2026-10-31", exitOK, []string{"version 1  warning", "order_table  skipped", "log  success"}},
			{"2026-11-01", exitFailed, []string{"version 1  error", "orders  error", "order_table  skipped", "alarm  success", "log  success"}},
			{"2026-10-30", exitOK, []string{"is done: version 1", "sources have not changed"}},
		} {
			r := call(t, "run", job, "--database", url, "--period", night.day)
			if r.code != night.code {
				t.Errorf("%s ends with %d, want %d\n%s\n%s", night.day, r.code, night.code, r.stdout, r.stderr)
			}
			for _, want := range night.want {
				if !strings.Contains(r.stdout, want) {
					t.Errorf("the report of %s lacks %q:\n%s", night.day, want, r.stdout)
				}
			}
		}
		db := database(t, url)
		got := mustRows(t, db, "SELECT upstream_key, amount FROM orders ORDER BY upstream_key")
		want := []string{"upstream_key=A-1001 amount=19.90 ", "upstream_key=A-1002 amount=240.00 ", "upstream_key=A-1003 amount=7.50 "}
		if !slices.Equal(got, want) {
			t.Errorf("the orders are %q, want %q", got, want)
		}
	})
}

// TestExamples_NightlyCatchesUpAfterTwoDaysOfDowntime stops the server, puts the
// watermark of the schedule two days back, and serves again.
func TestExamples_NightlyCatchesUpAfterTwoDaysOfDowntime(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := exampleCopy(t, "nightly")
		ok(t, "migrate", "--database", url)
		db := database(t, url)
		serve := func() *child { return start(t, dir, nil, "serve", "--jobs", dir, "--database", url) }
		first := serve()
		var followed []string
		eventually(t, childTime, "a watermark", func(ctx context.Context) (_ bool, err error) {
			followed, err = rows(ctx, db, "SELECT job FROM schedule_entry")
			return len(followed) > 0, err
		})
		first.signal(t, syscall.SIGTERM)
		if code := first.wait(t); code != exitOK {
			t.Fatalf("serve ends with %d", code)
		}

		now := time.Now()
		missed := nights(t, now.Add(-48*time.Hour), now)
		for _, night := range missed {
			day := night.AddDate(0, 0, -1).Format(time.DateOnly) // the day before: period of previous
			write(t, filepath.Join(dir, "data", "orders_"+day+".csv"), fmt.Sprintf("order_no,day,currency,amount\nN-%s,%s,EUR,1.00\n", day, day))
		}
		back := "UPDATE schedule_entry SET watermark = watermark - interval '48 hours'"
		if strings.HasPrefix(url, "sqlite") {
			back = fmt.Sprintf("UPDATE schedule_entry SET watermark = watermark - %d", (48 * time.Hour).Microseconds())
		}
		if _, err := db.ExecContext(t.Context(), back); err != nil {
			t.Fatal(err)
		}
		second := serve()
		eventually(t, childTime, "a run for each night", func(ctx context.Context) (bool, error) {
			done, err := rows(ctx, db, "SELECT id FROM run WHERE trigger = 'schedule' AND status = 'warning'")
			return len(done) == len(missed), err
		})
		second.signal(t, syscall.SIGTERM)
		second.wait(t)

		var want []string
		for _, night := range missed {
			want = append(want, "upstream_key=orders/"+night.AddDate(0, 0, -1).Format(time.DateOnly)+" ")
		}
		if got := mustRows(t, db, "SELECT upstream_key FROM run ORDER BY started_at"); !slices.Equal(got, want) {
			t.Errorf("the runs are %q, want %q: each night once, oldest first", got, want)
		}
		if got := mustRows(t, db, "SELECT outcome FROM occurrence WHERE outcome <> 'caught_up'"); len(got) > 0 {
			t.Errorf("due times became %q, want all of them caught_up", got)
		}
	})
}

// nights returns the instants of half past two in Berlin after one instant, up to
// another, by the calendar alone.
func nights(t *testing.T, after, until time.Time) []time.Time {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	var all []time.Time
	y, m, d := after.In(berlin).Date()
	for i := range 4 {
		if at := time.Date(y, m, d+i, 2, 30, 0, 0, berlin); at.After(after) && !at.After(until) {
			all = append(all, at)
		}
	}
	return all
}

// TestExamples_GroupCloseRerunsTheOneThatFailed closes five subsidiaries, of which one
// has a wrong statement, and does that one alone again when the bank has corrected it.
func TestExamples_GroupCloseRerunsTheOneThatFailed(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := exampleCopy(t, "group-close")
		ok(t, "migrate", "--database", url)
		closing := []string{"run", filepath.Join(dir, "group-close.yaml"), "--database", url, "--period", "2026-10"}
		first := call(t, closing...)
		for _, want := range []string{"version 1  error", "entity[uk]  error", "amount_mismatch 1", "entity[cn]  success", "alarm  success"} {
			if first.code != exitFailed || !strings.Contains(first.stdout, want) {
				t.Fatalf("the first run ends with %d, want %d and %q in\n%s\n%s", first.code, exitFailed, want, first.stdout, first.stderr)
			}
		}
		db := database(t, url)
		const runs = "SELECT upstream_key, version, status FROM run WHERE job = 'subsidiary' ORDER BY upstream_key, version"
		before := mustRows(t, db, runs)
		if len(before) != 5 {
			t.Fatalf("there are %d runs of subsidiaries, want 5: %q", len(before), before)
		}

		edit(t, filepath.Join(dir, "data", "2026-10"), "uk_bank.csv", "604.00", "640.00")
		again := call(t, append(closing, "--step", "entity[uk]", "--reason", "corrected file from the bank")...)
		if again.code != exitOK || !strings.Contains(again.stdout, "entity[uk]  success") {
			t.Fatalf("the rerun ends with %d\n%s\n%s", again.code, again.stdout, again.stderr)
		}
		var other []string
		for _, run := range mustRows(t, db, runs) {
			if !slices.Contains(before, run) {
				other = append(other, run)
			}
		}
		if len(other) != 1 || !strings.Contains(other[0], "/uk version=2 status=success") {
			t.Errorf("the rerun made %q, want version 2 of uk alone", other)
		}
		whole := call(t, closing...)
		if whole.code != exitOK || strings.Count(whole.stdout, "  repeated") != 5 || !strings.Contains(whole.stdout, "done  success") {
			t.Errorf("the same command again ends with %d, want five repeated subsidiaries and the message\n%s\n%s", whole.code, whole.stdout, whole.stderr)
		}
		if same := ok(t, closing...); !strings.Contains(same, "sources have not changed") {
			t.Errorf("the same command once more says\n%s\nwant that nothing has changed", same)
		}
		edit(t, filepath.Join(dir, "data", "2026-10"), "hk_bank.csv", "75.00", "76.00")
		later := call(t, closing...)
		if later.code != exitFailed || strings.Count(later.stdout, "  repeated") != 4 || !strings.Contains(later.stdout, "entity[hk]  error") {
			t.Errorf("with another file of hk it ends with %d, want an error of hk alone\n%s", later.code, later.stdout)
		}
		if out := ok(t, "doctor", "--invariants", "--database", url); strings.Contains(out, "broken") {
			t.Errorf("doctor says\n%s", out)
		}
	})
}
