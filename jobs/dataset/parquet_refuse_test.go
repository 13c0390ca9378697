package dataset

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestNewWriter_RefusesSchemasThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for want, columns := range map[string][]Column{
		`column 1 has no name`:             {{Kind: Text}},
		`kept for line numbers`:            {{Name: LineColumn, Kind: Integer}},
		`two columns are called "a"`:       {{Name: "a", Kind: Text}, {Name: "a", Kind: Date}},
		`column "m" has scale 19`:          {{Name: "m", Kind: Money, Scale: 19}},
		`column "m" has scale -1`:          {{Name: "m", Kind: Decimal, Scale: -1}},
		`column "f" is of unknown kind "f`: {{Name: "f", Kind: "float"}},
	} {
		_, err := NewWriter(io.Discard, Schema{Columns: columns}, WriterOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewWriter(%v): error %v, want one with %q", columns, err, want)
		}
	}
	if _, err := NewWriter(io.Discard, Schema{}, WriterOptions{Compression: "lz4"}); err == nil {
		t.Error("NewWriter took lz4, which reads back wrong sums")
	}
}

func TestWriter_RefusesValuesAndKeepsRefusing(t *testing.T) {
	t.Parallel()
	schema := Schema{Columns: []Column{{Name: "d", Kind: Date}, {Name: "t", Kind: Text}}}
	fill := func(day int64, text string) *Batch {
		b := NewBatch(schema)
		b.Columns[0].AppendInt(day)
		b.Columns[1].AppendString(text)
		b.Lines = append(b.Lines, 1)
		return b
	}
	for want, b := range map[string]*Batch{
		"day 2147483648 is out of range": fill(math.MaxInt32+1, ""),
		"is not UTF-8":                   fill(0, "\xff"),
		"write batch of 0 columns":       {Lines: []int64{1}},
		"write integer to column \"d\"":  {Lines: []int64{1}, Columns: []Vector{{Kind: Integer, Ints: []int64{1}}, {Kind: Text}}},
		"column \"d\" of 0 values":       {Lines: []int64{1}, Columns: []Vector{{Kind: Date}, {Kind: Text}}},
	} {
		w, err := NewWriter(io.Discard, schema, WriterOptions{RowGroupRows: 1})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Write(b)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Write: %v, want an error with %q", err, want)
		}
		if again := w.Write(fill(0, "")); again != err { //nolint:errorlint // the very same error
			t.Errorf("a second Write gave %v, want the first error again", again)
		}
		if closing := w.Close(); closing != err { //nolint:errorlint // the very same error
			t.Errorf("Close gave %v, want the first error again", closing)
		}
	}
}

func TestNewReader_RefusesFilesThatAreNoDataset(t *testing.T) {
	t.Parallel()
	b := NewBatch(everyKind)
	appendExtremes(b, 20, func(int, int) bool { return false })
	file := write(t, WriterOptions{}, everyKind, b)
	for name, bad := range map[string][]byte{
		"empty": nil, "text": []byte("order_no,amount\n1,2.00\n"), "cut": file[:len(file)-1], "half": file[:len(file)/2],
	} {
		if _, err := NewReader(bytes.NewReader(bad), int64(len(bad))); err == nil {
			t.Errorf("NewReader took a file that is %s", name)
		}
	}
	_, err := NewReader(bytes.NewReader(file), int64(len(file)), "nett")
	if err == nil || !strings.Contains(err.Error(), `no column "nett"`) {
		t.Errorf("NewReader of a column that is not there: %v", err)
	}
}

// TestReader_ReportsDamage flips every byte of a file: whatever comes of it, it
// must be rows or an error, and values may not change unnoticed.
func TestReader_ReportsDamage(t *testing.T) {
	t.Parallel()
	b := NewBatch(everyKind)
	appendExtremes(b, 9, func(i, c int) bool { return i%5 == c })
	file := write(t, WriterOptions{RowGroupRows: 6}, everyKind, b)
	want := rowsOf(b)
	footer := bytes.Index(file, []byte("dataset"))
	for i := range file {
		bad := slices.Clone(file)
		bad[i] ^= 0x55
		r, err := NewReader(bytes.NewReader(bad), int64(len(bad)))
		if err != nil {
			continue
		}
		var got []string
		for err == nil {
			var b *Batch
			if b, err = r.Next(); err == nil {
				got = append(got, rowsOf(b)...)
			}
		}
		if errors.Is(err, io.EOF) && i < footer && !slices.Equal(got, want) {
			t.Errorf("byte %d of %d changed values and nothing was said", i, len(file))
		}
		if err := r.Close(); err != nil {
			t.Logf("Close after damage at byte %d: %v", i, err)
		}
	}
}
