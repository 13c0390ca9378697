package load_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/load"
	"madeira/jobs/step/steptest"
)

var errCrash = errors.New("the worker died")

// dying is a database port whose worker dies at the n-th guard, before the commit.
type dying struct {
	step.Databases
	calls *int
	at    int
}

func (d dying) Database(ctx context.Context, name string) (*step.Database, error) {
	db, err := d.Databases.Database(ctx, name)
	if err != nil {
		return nil, err
	}
	inner := *db
	inner.Guard = func(ctx context.Context, tx *sql.Tx) error {
		if *d.calls++; *d.calls == d.at {
			return errCrash
		}
		return db.Guard(ctx, tx)
	}
	return &inner, nil
}

// full is a dataset port that has no room: the worker dies after all commits.
type full struct{ step.Datasets }

func (full) Create(context.Context, dataset.Schema) (step.DatasetWriter, error) {
	return nil, errCrash
}

// disturbed is a load into a table that has lines already: some are the same,
// some differ, and the load repeats some of its own keys.
func disturbed(t *testing.T, kit *steptest.Kit, mode string, version int) string {
	t.Helper()
	old := bill("a", 400)
	for i := 0; i < 400; i += 10 {
		old[i][2] = int64(5)
	}
	run(t, kit.Attempt(settings(t, kit.Dataset(billSchema(), old...), ""), task(5000+version, 1)))
	rows := append(bill("a", 1000), bill("a", 30)...)
	rows[1005][2] = int64(1)
	return settings(t, kit.Dataset(billSchema(), rows...), `, "on_conflict": "`+mode+`"`)
}

func tableOf(kit *steptest.Kit, db *step.Database) [][]string {
	return kit.Table(db, `SELECT upstream_key, ccy, amount, rate, booked_on FROM bill ORDER BY upstream_key`)
}

func TestFault_F59_CountsAreThoseOfAnUndisturbedLoadWhereverItDies(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"conflict", "update"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
				typ := load.TypeWithSlices(1)
				deaths := 0
				for version := 1; ; version++ {
					fresh := steptest.New(t)
					var target *step.Database
					if db.Dialect == step.SQLite {
						target = fresh.SQLite("ledger")
					} else {
						target = db
						kit.Exec(db, "DROP TABLE IF EXISTS bill")
						fresh.Databases["ledger"] = db
					}
					with := disturbed(t, fresh, mode, version)
					died, out := loadWithDeathAt(t, fresh, typ, with, version)
					if got, want := counts(out), "inserted 600, same 389, repeated 29, conflict_count 41, rejected 0, gone 0"; got != want {
						t.Fatalf("death at guard %d: %s, want %s", version, got, want)
					}
					if n := len(tableOf(fresh, target)); n != 1000 {
						t.Fatalf("death at guard %d: the table has %d lines, want 1000", version, n)
					}
					if !died {
						break
					}
					deaths++
				}
				if want := map[step.Dialect]int{step.SQLite: 5, step.Postgres: 1}[db.Dialect]; deaths < want {
					t.Errorf("%d deaths, want at least %d", deaths, want)
				}
			})
		})
	}
}

// loadWithDeathAt runs an attempt that dies at the n-th guard, one that dies after
// the last commit, and one that ends.
func loadWithDeathAt(t *testing.T, kit *steptest.Kit, typ step.Type, with string, n int) (bool, step.Output) {
	t.Helper()
	calls := 0
	in := kit.Attempt(with, task(1000+n, 1))
	in.Databases = dying{Databases: in.Databases, calls: &calls, at: n}
	_, err := typ.Runner.Run(t.Context(), in)
	if err != nil && !errors.Is(err, errCrash) {
		t.Fatalf("death at guard %d: %v", n, err)
	}
	in = kit.Attempt(with, task(1000+n, 2))
	in.Datasets = full{in.Datasets}
	if _, err := typ.Runner.Run(t.Context(), in); !errors.Is(err, errCrash) {
		t.Fatalf("death after the last commit: %v, want %v", err, errCrash)
	}
	out, lastErr := typ.Runner.Run(t.Context(), kit.Attempt(with, task(1000+n, 3)))
	if lastErr != nil {
		t.Fatalf("after death at guard %d: %v", n, lastErr)
	}
	return err != nil, out
}

func TestFault_F63_TenTimesLeaveTheTableAsOnce(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		with := disturbed(t, kit, "update", 1)
		out := kit.Repeat(load.Type(), kit.Attempt(with, task(1, 1)), func() any { return tableOf(kit, db) })
		if got, want := counts(out), "inserted 600, same 389, repeated 29, conflict_count 41, rejected 0, gone 0"; got != want {
			t.Errorf("the tenth time: %s, want %s", got, want)
		}
	})
}

func TestLoad_OfALostLeaseWritesNothing(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		d := kit.Dataset(billSchema(), bill("a", 50)...)
		with := settings(t, d, "")
		in := kit.Attempt(with, task(1, 5))
		in.Databases = overtaken{in.Databases}
		_, err := load.Type().Runner.Run(t.Context(), in)
		if !errors.Is(err, step.ErrLeaseLost) {
			t.Fatalf("got %v, want %v", err, step.ErrLeaseLost)
		}
		if n := len(tableOf(kit, db)); n != 0 {
			t.Errorf("the table has %d lines, want none", n)
		}
		run(t, kit.Attempt(with, task(1, 6)))
		if _, err := load.Type().Runner.Run(t.Context(), kit.Attempt(with, task(1, 5))); !errors.Is(err, step.ErrLeaseLost) {
			t.Errorf("an older fence after a newer one: %v, want %v", err, step.ErrLeaseLost)
		}
	})
}

// overtaken is a database port of an attempt whose task is another's by now.
type overtaken struct{ step.Databases }

func (o overtaken) Database(ctx context.Context, name string) (*step.Database, error) {
	db, err := o.Databases.Database(ctx, name)
	if err != nil {
		return nil, err
	}
	inner := *db
	inner.Guard = func(context.Context, *sql.Tx) error { return step.ErrLeaseLost }
	return &inner, nil
}

func TestFault_F61_TwoLoadsOfTheSameRowsAtOnceInsertTheUnionOnce(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, kit *steptest.Kit, db *step.Database) {
		typ := load.TypeWithSlices(1)
		kit.Exec(db, `CREATE TABLE bill (upstream_key text PRIMARY KEY, ccy text, amount `+
			map[step.Dialect]string{step.SQLite: "text", step.Postgres: "numeric"}[db.Dialect]+`)`)
		const rows = 3000
		schema := dataset.Schema{Columns: billSchema().Columns[:3]}
		data := bill("a", rows)
		for i := range data {
			data[i] = data[i][:3]
		}
		with := settings(t, kit.Dataset(schema, data...), "")
		outs, errs := make([]step.Output, 2), make([]error, 2)
		var both sync.WaitGroup
		for i := range outs {
			both.Go(func() { outs[i], errs[i] = typ.Runner.Run(t.Context(), kit.Attempt(with, task(i+1, 1))) })
		}
		both.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		var all int64
		for _, out := range outs {
			all += out.Values["inserted"].(int64)
			if got := out.Values["inserted"].(int64) + out.Values["same"].(int64); got != rows {
				t.Errorf("inserted + same = %d, want %d: %s", got, rows, counts(out))
			}
		}
		if all != rows {
			t.Errorf("inserted %d together, want %d", all, rows)
		}
		if got := kit.Table(db, "SELECT count(*) FROM bill"); !reflect.DeepEqual(got, [][]string{{fmt.Sprint(rows)}}) {
			t.Errorf("the table has %v lines, want %d", got, rows)
		}
	})
}

func TestLoad_LetsOthersWriteBetweenSlices(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	db := kit.SQLite("ledger")
	kit.Exec(db, "CREATE TABLE queue (n integer)")
	with := settings(t, kit.Dataset(billSchema(), bill("a", 20_000)...), "")
	over := make(chan struct{})
	var engine sync.WaitGroup
	written := 0
	engine.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			if _, err := db.Write.ExecContext(t.Context(), "INSERT INTO queue VALUES (1)"); err != nil {
				t.Errorf("the engine: %v", err)
				return
			}
			written++
		}
	})
	_, err := load.TypeWithSlices(1).Runner.Run(t.Context(), kit.Attempt(with, task(1, 1)))
	close(over)
	engine.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if written < 20 {
		t.Errorf("the engine wrote %d times during the load, want it to have its turn between slices", written)
	}
}
