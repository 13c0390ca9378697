package steptest_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"testing"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// count is a step type that adds a line to a table, guarded.
type count struct{}

func (count) Run(ctx context.Context, in step.Input) (step.Output, error) {
	db, err := in.Databases.Database(ctx, "ledger")
	if err != nil {
		return step.Output{}, err
	}
	tx, err := db.Write.BeginTx(ctx, nil)
	if err != nil {
		return step.Output{}, err
	}
	defer tx.Rollback() //nolint:errcheck // After a commit there is nothing to roll back.
	if _, err := tx.ExecContext(ctx, "INSERT INTO lines VALUES (?)", in.Task.Key); err != nil {
		return step.Output{}, err
	}
	if err := db.Guard(ctx, tx); err != nil {
		return step.Output{}, err
	}
	return step.Output{}, tx.Commit()
}

// watched is a test that notes whether it was failed.
type watched struct {
	testing.TB
	failed bool
}

func (w *watched) Errorf(string, ...any) { w.failed = true }

func TestRepeat_CatchesAStepThatDoesItsWorkTwice(t *testing.T) {
	t.Parallel()
	seen := &watched{TB: t}
	kit := steptest.New(seen)
	db := kit.SQLite("ledger")
	lines := func() any { return kit.Table(db, "SELECT k FROM lines") }
	kit.Exec(db, "CREATE TABLE lines (k text)")
	kit.Repeat(step.Type{Name: "count", Runner: count{}}, kit.Input(`{}`), lines)
	if !seen.failed {
		t.Error("ten lines where one was expected did not fail the test")
	}
	seen.failed = false
	kit.Exec(db, "DELETE FROM lines", "CREATE TRIGGER once BEFORE INSERT ON lines WHEN (SELECT count(*) FROM lines) > 0 BEGIN SELECT RAISE(IGNORE); END")
	kit.Repeat(step.Type{Name: "count", Runner: count{}}, kit.Attempt(`{}`, step.Task{Run: "another", Step: "it"}), lines)
	if seen.failed {
		t.Error("a step with one effect failed the test")
	}
}

func TestGuard_RefusesAnOlderFence(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	db := kit.SQLite("ledger")
	kit.Exec(db, "CREATE TABLE lines (k text)")
	in := kit.Input(`{}`)
	for _, test := range []struct {
		fence int64
		want  error
	}{{2, nil}, {2, nil}, {1, step.ErrLeaseLost}, {3, nil}} {
		in.Task.Fence = test.fence
		_, err := count{}.Run(t.Context(), kit.Attempt(`{}`, in.Task))
		if !errors.Is(err, test.want) {
			t.Errorf("fence %d: %v, want %v", test.fence, err, test.want)
		}
	}
	if got := kit.Table(db, "SELECT count(*) FROM lines"); got[0][0] != "3" {
		t.Errorf("%s lines, want 3: a refused attempt writes nothing", got[0][0])
	}
}

func TestKit_KeepsFilesAndDatasets(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	ref, err := kit.Files.Put("bill.csv", []byte("a,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := kit.Files.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if text, err := io.ReadAll(f); err != nil || string(text) != "a,1\n" || ref.Size != 4 {
		t.Errorf("read %q (%v) of %+v, want what was put", text, err, ref)
	}
	schema := dataset.Schema{Columns: []dataset.Column{{Name: "k", Kind: dataset.Text}, {Name: "amount", Kind: dataset.Money, Scale: 2, Currency: "EUR"}}}
	d := kit.Dataset(schema, []any{"a", 150}, []any{nil, int64(-1)}, []any{"c", nil})
	want := [][]string{{"1.50", "a"}, {"-0.01", ""}, {"", "c"}}
	if got := kit.Rows(d, "amount", "k"); !reflect.DeepEqual(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	if _, err := kit.Input(`{}`).Databases.Database(t.Context(), "nowhere"); err == nil {
		t.Error("a connection that is not there is no error")
	}
}
