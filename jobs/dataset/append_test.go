package dataset

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// appendSource returns ten rows of a text and an integer, every third one null.
func appendSource() *Batch {
	b := NewBatch(Schema{Columns: []Column{{Name: "t", Kind: Text}, {Name: "n", Kind: Integer}}})
	for i := range 10 {
		if i%3 == 2 {
			b.Columns[0].AppendNull()
			b.Columns[1].AppendNull()
		} else {
			b.Columns[0].AppendString(strings.Repeat("é", i))
			b.Columns[1].AppendInt(int64(i))
		}
		b.Lines = append(b.Lines, int64(i+2))
	}
	return b
}

func sameVectors(t *testing.T, got, want *Batch) {
	t.Helper()
	if !slices.Equal(got.Lines, want.Lines) {
		t.Fatalf("got lines %v, want %v", got.Lines, want.Lines)
	}
	for c := range want.Columns {
		g, w := &got.Columns[c], &want.Columns[c]
		if !slices.Equal(g.Ints, w.Ints) || string(g.Bytes) != string(w.Bytes) || !slices.Equal(g.Ends, w.Ends) {
			t.Errorf("column %d: got %+v, want %+v", c, *g, *w)
		}
		for i := range want.Lines {
			if g.Null(i) != w.Null(i) {
				t.Errorf("column %d, row %d: got null %v, want %v", c, i, g.Null(i), w.Null(i))
			}
		}
	}
}

func TestRowsAppendedTogetherAreThoseAppendedOneByOne(t *testing.T) {
	t.Parallel()
	from := appendSource()
	for first := range 11 {
		for end := first; end <= 10; end++ {
			got, want := appendSource(), appendSource()
			got.AppendRows(from, first, end)
			for i := first; i < end; i++ {
				want.AppendRow(from, i)
			}
			sameVectors(t, got, want)
		}
	}
}

func TestPickedRowsAreThoseAppendedOneByOne(t *testing.T) {
	t.Parallel()
	from, rows := appendSource(), []uint32{9, 2, 2, 0, 8, 4}
	got, want := appendSource(), appendSource()
	for c := range got.Columns {
		got.Columns[c].AppendRows(&from.Columns[c], rows)
	}
	for _, r := range rows {
		got.Lines = append(got.Lines, from.Lines[r])
		want.AppendRow(from, int(r))
	}
	sameVectors(t, got, want)
}

func TestWriterRefusesACharacterCutBetweenTwoTexts(t *testing.T) {
	t.Parallel()
	schema := Schema{Columns: []Column{{Name: "t", Kind: Text}}}
	w, err := NewWriter(io.Discard, schema, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch(schema)
	b.Columns[0].AppendString("a\xc3") // with what follows, the bytes are UTF-8
	b.Columns[0].AppendString("\xa9b")
	b.Lines = append(b.Lines, 1, 2)
	if err = w.Write(b); err == nil {
		err = w.Close()
	}
	if err == nil || !strings.Contains(err.Error(), `"a\xc3" is not UTF-8`) {
		t.Errorf("got error %v, want one that shows the first text", err)
	}
}

func TestSpilledRowsAppendToWhatABatchHolds(t *testing.T) {
	t.Parallel()
	for _, memory := range []int64{0, 1 << 20} { // in the file and in the buffer
		from, want := appendSource(), appendSource()
		spill, err := NewSpill(t.TempDir(), from.Schema, 2, memory)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = spill.Close() }()
		for range 100 { // several chunks of the least memory
			for i := range from.Lines {
				if err := spill.Add(1, from, i); err != nil {
					t.Fatal(err)
				}
				want.AppendRow(from, i)
			}
		}
		if err := spill.Finish(); err != nil {
			t.Fatal(err)
		}
		r, err := spill.Open(1)
		if err != nil {
			t.Fatal(err)
		}
		got := appendSource()
		for err == nil {
			err = r.AppendTo(got)
		}
		if !errors.Is(err, io.EOF) {
			t.Fatalf("memory %d: got error %v, want io.EOF", memory, err)
		}
		sameVectors(t, got, want)
	}
}
