package load_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"madeira/jobs/step"
	"madeira/jobs/step/load"
	"madeira/jobs/step/steptest"
)

// lastDiffers is a load of 900 lines into a table that has 800 of them, of which
// one far behind the first slice has another amount.
func lastDiffers(t *testing.T, kit *steptest.Kit, more string) string {
	t.Helper()
	run(t, kit.Attempt(settings(t, kit.Dataset(billSchema(), bill("a", 800)...), ""), task(1, 1)))
	rows := bill("a", 900)
	rows[750][2] = int64(1)
	return settings(t, kit.Dataset(billSchema(), rows...), `, "on_conflict": "update"`+more)
}

func TestLoad_OverwritesNothingWhenThereAreTooManyConflicts(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		typ := load.TypeWithSlices(1)
		with := lastDiffers(t, kit, `, "conflicts": {"max": 0, "else": "fail"}`)
		before := tableOf(kit, db)
		for fence := int64(1); fence <= 3; fence++ {
			out, err := typ.Runner.Run(t.Context(), kit.Attempt(with, task(2, fence)))
			var permanent *step.PermanentError
			if !errors.As(err, &permanent) || permanent.Code != "load.conflicts" {
				t.Fatalf("attempt %d: got %v, want a permanent error with code load.conflicts", fence, err)
			}
			if got, want := counts(out), "inserted 0, same 799, repeated 0, conflict_count 1, rejected 0, gone 0"; got != want {
				t.Errorf("attempt %d: %s, want %s", fence, got, want)
			}
			got := kit.Rows(out.Values["conflicts"].(step.Dataset))
			if len(got) != 1 || got[0][0] != "a/000750" || got[0][1] != "amount" {
				t.Errorf("attempt %d: conflicts %v, want that of the amount of a/000750", fence, got)
			}
			if !reflect.DeepEqual(tableOf(kit, db), before) {
				t.Fatalf("attempt %d changed the table", fence)
			}
		}
		kit.Exec(db, "UPDATE bill SET amount = '0.0001' WHERE upstream_key = 'a/000750'")
		out, err := typ.Runner.Run(t.Context(), kit.Attempt(with, task(2, 4)))
		if got, want := counts(out), "inserted 100, same 800, repeated 0, conflict_count 0, rejected 0, gone 0"; err != nil || got != want {
			t.Errorf("after the mend: %s, error %v, want %s", got, err, want)
		}
	})
}

func TestFault_F59_TooManyConflictsAreTheSameVerdictWhereverAnAttemptDies(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		typ := load.TypeWithSlices(1)
		with := lastDiffers(t, kit, `, "conflicts": {"max": 0, "else": "fail"}`)
		before := tableOf(kit, db)
		for version := 1; ; version++ {
			calls := 0
			in := kit.Attempt(with, task(100+version, 1))
			in.Databases = dying{Databases: in.Databases, calls: &calls, at: version}
			_, first := typ.Runner.Run(t.Context(), in)
			in = kit.Attempt(with, task(100+version, 2))
			in.Datasets = full{in.Datasets}
			if _, err := typ.Runner.Run(t.Context(), in); !errors.Is(err, errCrash) {
				t.Fatalf("death after the last commit: %v, want %v", err, errCrash)
			}
			out, err := typ.Runner.Run(t.Context(), kit.Attempt(with, task(100+version, 3)))
			var permanent *step.PermanentError
			if !errors.As(err, &permanent) || permanent.Code != "load.conflicts" || out.Values["conflict_count"] != int64(1) {
				t.Fatalf("death at guard %d: %s, error %v, want one conflict and load.conflicts", version, counts(out), err)
			}
			if !reflect.DeepEqual(tableOf(kit, db), before) {
				t.Fatalf("death at guard %d: the table has changed", version)
			}
			if !errors.Is(first, errCrash) {
				break
			}
		}
	})
}

func TestLoad_OverwritesAsManyLinesAsTheJobAllows(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{`{"max": 1, "else": "fail"}`, `{"max": 0, "else": "warn"}`} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
				typ := load.TypeWithSlices(1)
				with := lastDiffers(t, kit, `, "conflicts": `+limit)
				for fence := int64(1); fence <= 2; fence++ {
					out, err := typ.Runner.Run(t.Context(), kit.Attempt(with, task(2, fence)))
					if got, want := counts(out), "inserted 100, same 799, repeated 0, conflict_count 1, rejected 0, gone 0"; err != nil || got != want {
						t.Errorf("attempt %d: %s, error %v, want %s", fence, got, err, want)
					}
				}
				if got := kit.Table(db, "SELECT amount FROM bill WHERE upstream_key = 'a/000750'"); got[0][0] != "0.0001" {
					t.Errorf("the amount is %s, want the new one", got[0][0])
				}
			})
		})
	}
}

func TestLoad_CountsConflictsInsideTheLoadBeforeItOverwrites(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		schema := noteSchema()
		run(t, kit.Attempt(settings(t, kit.Dataset(schema, []any{"a", "old"}), ""), task(1, 1)))
		d := kit.Dataset(schema, []any{"a", "new"}, []any{"b", "x"}, []any{"b", "y"})
		with := settings(t, d, `, "on_conflict": "update", "conflicts": {"max": 1, "else": "fail"}`)
		for fence := int64(1); fence <= 2; fence++ {
			refusal(t, kit.Attempt(with, task(2, fence)), "load.conflicts", "2 lines", "the job allows 1; nothing was written")
			if got := kit.Table(db, "SELECT upstream_key, note FROM bill"); !reflect.DeepEqual(got, [][]string{{"a", "old"}}) {
				t.Fatalf("attempt %d: the table holds %v, want what was there", fence, got)
			}
		}
	})
}

func TestLoad_ThatHasOverwrittenLinesKeepsItsCountWhenTheLimitIsLowered(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, _ *step.Database) {
		run(t, kit.Attempt(lastDiffers(t, kit, `, "conflicts": {"max": 1, "else": "fail"}`), task(2, 1)))
		rows := bill("a", 900)
		rows[750][2] = int64(1)
		with := settings(t, kit.Dataset(billSchema(), rows...), `, "on_conflict": "update", "conflicts": {"max": 0, "else": "fail"}`)
		for fence := int64(2); fence <= 3; fence++ {
			out := refusal(t, kit.Attempt(with, task(2, fence)), "load.conflicts", "1 line has the key")
			if got, want := counts(out), "inserted 100, same 799, repeated 0, conflict_count 1, rejected 0, gone 0"; got != want {
				t.Errorf("attempt %d: %s, want %s", fence, got, want)
			}
		}
	})
}

// A line that was overwritten is told as that, in the counts, the sums and the words.
func TestLoad_SaysWhatItUpdated(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, _ *step.Database) {
		run(t, kit.Attempt(settings(t, kit.Dataset(billSchema(), bill("a", 10)...), ""), task(1, 1)))
		rows := bill("a", 11)
		rows[3][2], rows[7][2] = int64(10_000), int64(20_000)
		rows = append(rows, bill("a", 1)...) // repeats the first line with other content, which the table never gets
		rows[11][2] = int64(1)
		with := settings(t, kit.Dataset(billSchema(), rows...), `, "on_conflict": "update", "conflicts": {"max": 0, "else": "warn"}`)
		for fence := int64(1); fence <= 2; fence++ {
			out := run(t, kit.Attempt(with, task(2, fence)))
			if out.Values["updated"] != int64(2) || out.Values["conflict_count"] != int64(3) || out.Values["inserted"] != int64(1) || out.Values["same"] != int64(8) {
				t.Errorf("attempt %d: %s, updated %v", fence, counts(out), out.Values["updated"])
			}
			for _, want := range []string{"\nupdated   2  amount 1.00 CNY  amount 2 JPY\n", "\nconflict  1  amount 0.0001 CNY\n"} {
				if !strings.Contains(out.Report, want) {
					t.Errorf("attempt %d: the report has no %q:\n%s", fence, want, out.Report)
				}
			}
			if want := "3 lines have the key of a line with other content, 2 updated; the job allows 0"; out.Warning != want {
				t.Errorf("attempt %d: warning %q, want %q", fence, out.Warning, want)
			}
			sums, err := json.Marshal(out.Values["sums"])
			if err != nil || !strings.Contains(string(sums), `{"outcome":"updated","column":"amount"`) {
				t.Errorf("attempt %d: sums %s, error %v", fence, sums, err)
			}
		}
	})
}
