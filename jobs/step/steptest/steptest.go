package steptest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A Kit holds the ports that steps under test use. Its maps may be filled before
// a step runs.
type Kit struct {
	Files     *Folder
	Datasets  step.Datasets
	Databases map[string]*step.Database
	Remotes   map[string]step.Remote
	Channels  map[string]step.Channel
	Memory    int64     // of one attempt, in bytes
	Now       time.Time // the instant of the claim

	t testing.TB
}

// New returns a kit whose files are in a temporary folder of the test.
func New(t testing.TB) *Kit {
	t.Helper()
	files := &Folder{root: t.TempDir()}
	return &Kit{
		Files:     files,
		Datasets:  step.NewDatasets(files),
		Databases: map[string]*step.Database{},
		Remotes:   map[string]step.Remote{},
		Channels:  map[string]step.Channel{},
		Memory:    64 << 20,
		Now:       time.Date(2026, 11, 3, 2, 30, 0, 0, time.UTC),
		t:         t,
	}
}

// Input returns the input of a first attempt with these settings.
func (k *Kit) Input(settings string) step.Input {
	return k.Attempt(settings, step.Task{
		ID: 1, Run: "01942f3e-0000-7000-8000-000000000001", Job: "test", Key: "test/1", Version: 1,
		Step: "it", Attempt: 1, Fence: 1,
	})
}

// Attempt returns the input of an attempt of a task. The databases in it know the
// fence of that attempt.
func (k *Kit) Attempt(settings string, t step.Task) step.Input {
	return step.Input{
		Task:      t,
		Settings:  json.RawMessage(settings),
		Databases: databases{byName: k.Databases, task: t},
		Files:     k.Files,
		Datasets:  k.Datasets,
		Remotes:   remotes(k.Remotes),
		Channels:  channels(k.Channels),
		Progress:  silent{},
		Memory:    k.Memory,
		Now:       k.Now,
	}
}

// Run runs a first attempt of the type with these settings.
func (k *Kit) Run(typ step.Type, settings string) (step.Output, error) {
	k.t.Helper()
	return Run(k.t, typ, k.Input(settings))
}

// Run runs an attempt. What the type says of columns has to hold for it.
func Run(t testing.TB, typ step.Type, in step.Input) (step.Output, error) {
	t.Helper()
	out, err := typ.Runner.Run(t.Context(), in)
	if err == nil {
		checkColumns(t, typ, in.Settings, out)
	}
	return out, err
}

// Repeat runs the type ten times on the same input, each time with a higher
// fence, and fails the test when observe, which looks at the outside world,
// answers differently after the last time than after the first.
func (k *Kit) Repeat(typ step.Type, in step.Input, observe func() any) step.Output {
	k.t.Helper()
	var first any
	var out step.Output
	for i := range 10 {
		in.Task.Attempt, in.Task.Fence = i+1, int64(i+1)
		if d, ok := in.Databases.(databases); ok {
			in.Databases = databases{byName: d.byName, task: in.Task}
		}
		var err error
		if out, err = Run(k.t, typ, in); err != nil {
			k.t.Fatalf("attempt %d of %s: %v", i+1, typ.Name, err)
		}
		if i == 0 {
			first = observe()
		}
	}
	if last := observe(); !reflect.DeepEqual(first, last) {
		k.t.Errorf("%s run ten times: the world is %v, want %v as after once", typ.Name, last, first)
	}
	return out
}

// Dataset keeps rows under the schema and returns their reference. A value is a
// string for columns that are text, an int64 for all others, or nil; the line
// of row i is i+1.
func (k *Kit) Dataset(schema dataset.Schema, rows ...[]any) step.Dataset {
	k.t.Helper()
	w, err := k.Datasets.Create(k.t.Context(), schema)
	if err != nil {
		k.t.Fatal(err)
	}
	defer w.Discard()
	b := dataset.NewBatch(schema)
	for i, row := range rows {
		for c, value := range row {
			appendValue(&b.Columns[c], value)
		}
		b.Lines = append(b.Lines, int64(i+1))
	}
	if err := w.Write(b); err != nil {
		k.t.Fatal(err)
	}
	d, err := w.Commit(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	return d
}

func appendValue(v *dataset.Vector, value any) {
	switch value := value.(type) {
	case nil:
		v.AppendNull()
	case string:
		v.AppendString(value)
	case int64:
		v.AppendInt(value)
	case int:
		v.AppendInt(int64(value))
	default:
		panic(fmt.Sprintf("steptest: a value of type %T", value))
	}
}

// Rows reads a dataset back as display text, one list a row.
func (k *Kit) Rows(d step.Dataset, columns ...string) [][]string {
	k.t.Helper()
	r, err := k.Datasets.Open(k.t.Context(), d, columns...)
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() { _ = r.Close() }() // Nothing was written.
	var rows [][]string
	for b, err := range batches(r) {
		if err != nil {
			k.t.Fatal(err)
		}
		for i := range b.Len() {
			row := make([]string, len(b.Columns))
			for c := range b.Columns {
				row[c] = b.Schema.Columns[c].Format(&b.Columns[c], i)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

type remotes map[string]step.Remote

func (r remotes) Remote(_ context.Context, name string) (step.Remote, error) {
	if remote, ok := r[name]; ok {
		return remote, nil
	}
	return step.Remote{}, step.Permanent(fmt.Errorf("no connection %q in this test", name))
}

type channels map[string]step.Channel

func (c channels) Channel(_ context.Context, name string) (step.Channel, error) {
	if channel, ok := c[name]; ok {
		return channel, nil
	}
	return step.Channel{}, step.Permanent(fmt.Errorf("no channel %q in this test", name))
}

type silent struct{}

func (silent) Report(_, _ int64, _ string) {}
