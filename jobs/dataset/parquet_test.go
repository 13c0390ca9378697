package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// everyKind has a column of each kind, in an order that is not alphabetical.
var everyKind = Schema{Columns: []Column{
	{Name: "order_no", Kind: Text},
	{Name: "ccy", Kind: Currency},
	{Name: "net", Kind: Money, Scale: 2, Currency: "CNY"},
	{Name: "count", Kind: Integer},
	{Name: "booked", Kind: Date},
	{Name: "paid", Kind: Timestamp},
	{Name: "rate", Kind: Decimal, Scale: 18},
	{Name: "客户, 名称.a", Kind: Text},
	{Name: "closed", Kind: Boolean},
	{Name: "amount", Kind: Money, Scale: 0},
}}

// row renders a row so that rows can be compared; a null differs from "" and 0.
func row(b *Batch, i int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d", b.Lines[i])
	for c := range b.Columns {
		switch v := &b.Columns[c]; {
		case v.Null(i):
			s.WriteString("|null")
		case v.Kind.IsText():
			fmt.Fprintf(&s, "|%q", v.Text(i))
		default:
			fmt.Fprintf(&s, "|%d", v.Ints[i])
		}
	}
	return s.String()
}

func rowsOf(batches ...*Batch) []string {
	var rows []string
	for _, b := range batches {
		for i := range b.Len() {
			rows = append(rows, row(b, i))
		}
	}
	return rows
}

func write(t testing.TB, opts WriterOptions, schema Schema, batches ...*Batch) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, schema, opts)
	if err != nil {
		t.Fatalf("NewWriter: %v", err)
	}
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			t.Fatalf("Write: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return file.Bytes()
}

func openFile(t testing.TB, file []byte, columns ...string) *Reader {
	t.Helper()
	r, err := NewReader(bytes.NewReader(file), int64(len(file)), columns...)
	if err != nil {
		t.Fatalf("NewReader: %v", err)
	}
	return r
}

func readRows(t testing.TB, r *Reader) []string {
	t.Helper()
	var rows []string
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		if b.Len() == 0 || b.Len() > BatchRows {
			t.Fatalf("Next gave %d rows, want 1 to %d", b.Len(), BatchRows)
		}
		rows = append(rows, rowsOf(b)...)
	}
	if err := r.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return rows
}

func sameRows(t testing.TB, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("row %d:\n got %s\nwant %s", i, got[i], want[i])
		}
	}
}

// appendExtremes adds n rows whose values walk through the ends of their ranges,
// with a null in row i of column c whenever nulls(i, c).
func appendExtremes(b *Batch, n int, nulls func(i, c int) bool) {
	ints := []int64{0, -1, 1, math.MinInt64, math.MaxInt64, -9999, 1234567890123456789}
	texts := []string{"", "a", "中文", strings.Repeat("x", 300), "null", "\x00"}
	for i := range n {
		for c := range b.Columns {
			v := &b.Columns[c]
			switch n := ints[(i+c)%len(ints)]; {
			case nulls(i, c):
				v.AppendNull()
			case v.Kind.IsText():
				v.AppendString(texts[(i+c)%len(texts)])
			case v.Kind == Date:
				v.AppendInt(int64(int32(n)))
			case v.Kind == Boolean:
				v.AppendInt(n & 1)
			default:
				v.AppendInt(n)
			}
		}
		b.Lines = append(b.Lines, ints[i%len(ints)])
	}
}

func TestParquet_GivesBackWhatWasWritten(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		rows  int
		opts  WriterOptions
		nulls func(i, c int) bool
	}{
		{"no rows", 0, WriterOptions{}, nil},
		{"one row of nulls", 1, WriterOptions{}, func(int, int) bool { return true }},
		{"nothing null", 100, WriterOptions{}, func(int, int) bool { return false }},
		{"all null", 200, WriterOptions{RowGroupRows: 64}, func(int, int) bool { return true }},
		{"first null", 130, WriterOptions{}, func(i, _ int) bool { return i == 0 }},
		{"last null", 130, WriterOptions{}, func(i, _ int) bool { return i == 129 }},
		{"around the words of the bitmap", 193, WriterOptions{}, func(i, _ int) bool { return i%64 >= 62 || i%64 == 0 }},
		{"every other null in every other column", 500, WriterOptions{RowGroupRows: 77}, func(i, c int) bool { return (i+c)%2 == 0 }},
		{"a column all null", 300, WriterOptions{RowGroupRows: 100}, func(_, c int) bool { return c == 2 || c == 0 }},
		{"several row groups", 1000, WriterOptions{RowGroupRows: 90}, func(i, _ int) bool { return i%7 == 0 }},
		{"more than a batch", 10_000, WriterOptions{}, func(i, _ int) bool { return i%1000 == 0 }},
		{"compressed", 10_000, WriterOptions{Compression: Zstd, RowGroupRows: 3000}, func(i, c int) bool { return i%11 == c }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := NewBatch(everyKind)
			appendExtremes(b, tt.rows, tt.nulls)
			r := openFile(t, write(t, tt.opts, everyKind, b))
			if got := r.Schema(); !slices.Equal(got.Columns, everyKind.Columns) {
				t.Errorf("Schema() = %+v, want %+v", got, everyKind)
			}
			if r.Rows() != int64(tt.rows) {
				t.Errorf("Rows() = %d, want %d", r.Rows(), tt.rows)
			}
			sameRows(t, readRows(t, r), rowsOf(b))
		})
	}
}

func TestReader_ReadsOnlyTheColumnsAskedForInThatOrder(t *testing.T) {
	t.Parallel()
	b := NewBatch(everyKind)
	appendExtremes(b, 700, func(i, c int) bool { return i%9 == c })
	file := write(t, WriterOptions{RowGroupRows: 256}, everyKind, b)
	for _, columns := range [][]string{
		{"net"}, {"closed", "order_no"}, {"amount", "net", "ccy"}, {"客户, 名称.a", "booked", "paid", "rate"}, {LineColumn, "ccy"},
	} {
		var named []string
		for _, name := range columns {
			if name != LineColumn {
				named = append(named, name)
			}
		}
		schema, err := everyKind.Project(named...)
		if err != nil {
			t.Fatal(err)
		}
		want := NewBatch(schema)
		want.Lines = b.Lines
		for i, c := range schema.Columns {
			want.Columns[i] = *b.Column(c.Name)
		}
		r := openFile(t, file, columns...)
		if got := r.Schema().Names(); !slices.Equal(got, named) {
			t.Errorf("Schema() of %q has %q", columns, got)
		}
		sameRows(t, readRows(t, r), rowsOf(want))
	}
}

func TestReader_ReadsTheLinesAlone(t *testing.T) {
	t.Parallel()
	b := NewBatch(everyKind)
	appendExtremes(b, 500, func(int, int) bool { return false })
	r := openFile(t, write(t, WriterOptions{RowGroupRows: 99}, everyKind, b), LineColumn)
	sameRows(t, readRows(t, r), rowsOf(&Batch{Lines: b.Lines}))
}

func TestWriter_KeepsADatasetWithoutColumns(t *testing.T) {
	t.Parallel()
	b := &Batch{Lines: []int64{3, 1, 2}}
	r := openFile(t, write(t, WriterOptions{}, Schema{}, b))
	sameRows(t, readRows(t, r), []string{"3", "1", "2"})
}

// TestParquet_RoundTrips lets rapid choose schema, rows, batches and projection.
func TestParquet_RoundTrips(t *testing.T) {
	t.Parallel()
	kinds := []Kind{Text, Currency, Integer, Boolean, Money, Decimal, Date, Timestamp}
	rapid.Check(t, func(rt *rapid.T) {
		var schema Schema
		for i, kind := range rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 6).Draw(rt, "kinds") {
			c := Column{Name: fmt.Sprintf("%c%d", 'z'-i, i), Kind: kind}
			if kind.IsDecimal() {
				c.Scale = rapid.IntRange(0, 18).Draw(rt, "scale")
			}
			schema.Columns = append(schema.Columns, c)
		}
		var batches []*Batch
		for range rapid.IntRange(0, 4).Draw(rt, "batches") {
			b := NewBatch(schema)
			for range rapid.IntRange(0, 40).Draw(rt, "rows") {
				drawRow(rt, b)
			}
			batches = append(batches, b)
		}
		opts := WriterOptions{RowGroupRows: rapid.IntRange(0, 50).Draw(rt, "group")}
		want := rowsOf(batches...)
		file := write(t, opts, schema, batches...)
		got := readRows(t, openFile(t, file))
		if !slices.Equal(got, want) {
			rt.Fatalf("got  %q\nwant %q", got, want)
		}
		one := NewBatch(schema) // the same rows cut otherwise
		for _, b := range batches {
			for i := range b.Len() {
				one.AppendRow(b, i)
			}
		}
		if !bytes.Equal(write(t, opts, schema, one), file) {
			rt.Fatalf("the same rows in one batch gave another file")
		}
	})
}

func drawRow(rt *rapid.T, b *Batch) {
	for c := range b.Columns {
		v := &b.Columns[c]
		switch {
		case rapid.IntRange(0, 3).Draw(rt, "null") == 0:
			v.AppendNull()
		case v.Kind.IsText():
			v.AppendString(rapid.String().Draw(rt, "text"))
		case v.Kind == Boolean:
			v.AppendInt(rapid.Int64Range(0, 1).Draw(rt, "bool"))
		case v.Kind == Date:
			v.AppendInt(int64(rapid.Int32().Draw(rt, "date")))
		default:
			v.AppendInt(rapid.Int64().Draw(rt, "int"))
		}
	}
	b.Lines = append(b.Lines, rapid.Int64().Draw(rt, "line"))
}

func TestWriter_MakesTheSameBytesHoweverRowsAreCutIntoBatches(t *testing.T) {
	t.Parallel()
	whole := NewBatch(everyKind)
	appendExtremes(whole, 30_000, func(i, c int) bool { return i%13 == c })
	cut := func(sizes ...int) []*Batch {
		var batches []*Batch
		for i, k := 0, 0; i < whole.Len(); k++ {
			b := NewBatch(everyKind)
			for n := sizes[k%len(sizes)]; n > 0 && i < whole.Len(); n, i = n-1, i+1 {
				b.AppendRow(whole, i)
			}
			batches = append(batches, b)
		}
		return batches
	}
	want := write(t, WriterOptions{}, everyKind, whole)
	for _, sizes := range [][]int{{BatchRows}, {1000}, {1, 5000, 17}} {
		if got := write(t, WriterOptions{}, everyKind, cut(sizes...)...); !bytes.Equal(got, want) {
			t.Errorf("batches of %v gave other bytes than one of %d", sizes, whole.Len())
		}
	}
}

func TestReader_EndsABatchEarlyWhenTextsAreLong(t *testing.T) {
	t.Parallel()
	schema := Schema{Columns: []Column{{Name: "n", Kind: Integer}, {Name: "memo", Kind: Text}}}
	long := bytes.Repeat([]byte("长"), 20_000)
	b := NewBatch(schema)
	for i := range 100 {
		b.Columns[0].AppendInt(int64(i))
		b.Columns[1].AppendText(long[:3*(19_000+i)])
		b.Lines = append(b.Lines, int64(i))
	}
	r := openFile(t, write(t, WriterOptions{}, schema, b))
	n := 0
	for {
		got, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if size := len(got.Columns[1].Bytes); size > 2<<20 {
			t.Fatalf("a batch has %d bytes of text, want at most 2 MiB", size)
		}
		for i := range got.Len() {
			if row(got, i) != row(b, n) {
				t.Fatalf("row %d differs", n)
			}
			n++
		}
	}
	if n != b.Len() {
		t.Errorf("read %d rows, want %d", n, b.Len())
	}
}
