package step_test

import (
	"errors"
	"io"
	"testing"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

func amounts() *dataset.Batch {
	b := dataset.NewBatch(dataset.Schema{Columns: []dataset.Column{
		{Name: "order_no", Kind: dataset.Text}, {Name: "amount", Kind: dataset.Money, Scale: 2, Currency: "CNY"},
	}})
	for i, order := range []string{"A-1", "A-2"} {
		b.Columns[0].AppendString(order)
		b.Columns[1].AppendInt(int64(1050 * (i + 1)))
		b.Lines = append(b.Lines, int64(i+2))
	}
	return b
}

func write(t *testing.T, d step.Datasets, b *dataset.Batch) step.DatasetWriter {
	t.Helper()
	w, err := d.Create(t.Context(), b.Schema)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestDatasets_GiveBackTheRowsAndColumnsAskedFor(t *testing.T) {
	t.Parallel()
	d := step.NewDatasets(steptest.New(t).Files)
	ref, err := write(t, d, amounts()).Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ref.Rows != 2 || ref.Size == 0 || len(ref.Schema.Columns) != 2 {
		t.Errorf("reference = %+v", ref)
	}
	r, err := d.Open(t.Context(), ref, "amount")
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() != 2 || len(b.Columns) != 1 || b.Columns[0].Ints[1] != 2100 || b.Lines[1] != 3 {
		t.Errorf("batch = %+v", b)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last batch: %v, want io.EOF", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestDatasets_TheSameRowsHaveTheSameDigest(t *testing.T) {
	t.Parallel()
	d := step.NewDatasets(steptest.New(t).Files)
	first, err := write(t, d, amounts()).Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := write(t, d, amounts()).Commit(t.Context())
	if err != nil || second.Digest != first.Digest {
		t.Errorf("digests %s and %s, %v", first.Digest, second.Digest, err)
	}
}

func TestObserveDatasets_TellsOnlyOfWhatWasCommitted(t *testing.T) {
	t.Parallel()
	var seen []step.Dataset
	d := step.ObserveDatasets(step.NewDatasets(steptest.New(t).Files), func(ref step.Dataset) { seen = append(seen, ref) })
	write(t, d, amounts()).Discard()
	ref, err := write(t, d, amounts()).Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0].Digest != ref.Digest {
		t.Errorf("told of %+v, want %s alone", seen, ref.Digest)
	}
}
