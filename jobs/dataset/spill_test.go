package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var billSchema = Schema{Columns: []Column{
	{Name: "order_no", Kind: Text}, {Name: "ccy", Kind: Currency}, {Name: "amount", Kind: Money, Scale: 4},
	{Name: "rate", Kind: Decimal, Scale: 6}, {Name: "n", Kind: Integer}, {Name: "ok", Kind: Boolean},
	{Name: "day", Kind: Date}, {Name: "at", Kind: Timestamp}, {Name: "note", Kind: Text},
}}

// batches draws rows of a schema.
func batches(schema Schema) *rapid.Generator[*Batch] {
	return rapid.Custom(func(t *rapid.T) *Batch {
		b := NewBatch(schema)
		for range rapid.IntRange(0, 60).Draw(t, "rows") {
			for i := range b.Columns {
				v := &b.Columns[i]
				switch {
				case rapid.IntRange(0, 5).Draw(t, "null") == 0:
					v.AppendNull()
				case v.Kind.IsText():
					v.AppendText(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "text"))
				default:
					v.AppendInt(mantissas().Draw(t, "int"))
				}
			}
			b.Lines = append(b.Lines, rapid.Int64().Draw(t, "line"))
		}
		return b
	})
}

// row returns everything about a row as text.
func rowText(b *Batch, i int) string {
	var s strings.Builder
	fmt.Fprint(&s, b.Lines[i])
	for c := range b.Columns {
		v := &b.Columns[c]
		switch {
		case v.Null(i):
			s.WriteString(" null")
		case v.Kind.IsText():
			fmt.Fprintf(&s, " %q", v.Text(i))
		default:
			fmt.Fprintf(&s, " %d", v.Ints[i])
		}
	}
	return s.String()
}

// drain reads all rows of a partition.
func drain(t interface {
	Helper()
	Fatal(args ...any)
}, s *Spill, part int) (rows []string) {
	t.Helper()
	r, err := s.Open(part)
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Len() > BatchRows {
			t.Fatal("batch of", b.Len(), "rows")
		}
		for i := range b.Len() {
			rows = append(rows, rowText(b, i))
		}
	}
}

func TestSpill_GivesBackEveryRowInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.IntRange(1, 5).Draw(t, "parts")
		s, err := NewSpill(dir, billSchema, parts, rapid.Int64Range(0, 20_000).Draw(t, "memory"))
		if err != nil {
			t.Fatal(err)
		}
		want := make([][]string, parts)
		for range rapid.IntRange(0, 4).Draw(t, "batches") {
			b := batches(billSchema).Draw(t, "batch")
			for i := range b.Len() {
				part := rapid.IntRange(0, parts-1).Draw(t, "part")
				want[part] = append(want[part], rowText(b, i))
				if err := s.Add(part, b, i); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.Finish(); err != nil {
			t.Fatal(err)
		}
		for part := range parts {
			checkPart(t, s, part, want[part])
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Fatalf("left behind: %v, %v", left, err)
		}
	})
}

func checkPart(t *rapid.T, s *Spill, part int, want []string) {
	for range 2 { // partitions can be read as often as needed
		if got := drain(t, s, part); !slices.Equal(got, want) {
			t.Fatalf("partition %d = %q, want %q", part, got, want)
		}
	}
	table, err := s.Load(part)
	if err != nil {
		t.Fatal(err)
	}
	if table.Len() != len(want) || s.Rows(part) != int64(len(want)) {
		t.Fatalf("partition %d has %d rows, %d loaded, want %d", part, s.Rows(part), table.Len(), len(want))
	}
	for i, w := range want {
		if b, r := table.At(i); rowText(b, r) != w {
			t.Fatalf("row %d loaded = %s, want %s", i, rowText(b, r), w)
		}
	}
}

func TestSpill_WritesNothingWhileRowsFitIntoItsBuffers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := NewSpill(dir, billSchema, 4, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer closeSpill(t, s)
	b := manyRows(100)
	for i := range b.Len() {
		if err := s.Add(i%4, b, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("files = %v, %v, want none", files, err)
	}
	if got := len(drain(t, s, 3)); got != 25 {
		t.Errorf("partition 3 has %d rows, want 25", got)
	}
}

func TestSpill_KeepsItsBuffersWithinTheMemory(t *testing.T) {
	t.Parallel()
	const parts, memory = 16, 1 << 20
	s, err := NewSpill(t.TempDir(), Schema{Columns: []Column{{Name: "note", Kind: Text}}}, parts, memory)
	if err != nil {
		t.Fatal(err)
	}
	defer closeSpill(t, s)
	b := NewBatch(s.Schema())
	b.Columns[0].AppendText(bytes.Repeat([]byte("x"), 300<<10)) // longer than a buffer
	b.Columns[0].AppendText(bytes.Repeat([]byte("y"), 700))
	b.Lines = append(b.Lines, 1, 2)
	for i := range 20_000 {
		if err := s.Add(i%parts, b, min(i%97, 1)); err != nil {
			t.Fatal(err)
		}
	}
	held := 0
	for _, p := range s.parts {
		held += cap(p.buf)
	}
	if held > memory {
		t.Errorf("buffers hold %d bytes, want at most %d", held, memory)
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for part := range parts {
		rows += len(drain(t, s, part))
	}
	if rows != 20_000 {
		t.Errorf("read %d rows, want 20000", rows)
	}
}

func TestSpill_RefusesUseOutOfOrder(t *testing.T) {
	t.Parallel()
	s, err := NewSpill(t.TempDir(), billSchema, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(0); !errors.Is(err, ErrSpillState) {
		t.Errorf("Open before Finish: %v, want %v", err, ErrSpillState)
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(0, manyRows(1), 0); !errors.Is(err, ErrSpillState) {
		t.Errorf("Add after Finish: %v, want %v", err, ErrSpillState)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close twice: %v", err)
	}
	if _, err := NewSpill(t.TempDir(), billSchema, 0, 0); err == nil {
		t.Error("NewSpill takes 0 partitions")
	}
}

func TestSpill_SaysWhatFailed(t *testing.T) {
	t.Parallel()
	s, err := NewSpill(t.TempDir()+"/gone", billSchema, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := manyRows(100)
	for i := range b.Len() {
		err = s.Add(0, b, i)
	}
	if !errors.Is(err, os.ErrNotExist) || !errors.Is(s.Finish(), os.ErrNotExist) {
		t.Errorf("Add into a folder that is gone: %v, Finish: %v, want %v", err, s.Finish(), os.ErrNotExist)
	}
}

func TestSpillReader_ReportsDamage(t *testing.T) {
	t.Parallel()
	b := manyRows(1)
	whole := appendRow(nil, b, 0)
	for n := range len(whole) {
		if _, err := decodeRow(NewBatch(billSchema), whole[:n]); !errors.Is(err, errDamaged) {
			t.Fatalf("decoding %d of %d bytes: %v, want %v", n, len(whole), err, errDamaged)
		}
	}
}

func closeSpill(t *testing.T, s *Spill) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// manyRows returns n rows such as a bill has.
func manyRows(n int) *Batch {
	b := NewBatch(billSchema)
	for i := range n {
		b.Columns[0].AppendString(fmt.Sprintf("2026103122001%014d", i*7919))
		b.Columns[1].AppendString("CNY")
		b.Columns[2].AppendInt(int64(i) * 137)
		b.Columns[3].AppendInt(6000)
		b.Columns[4].AppendInt(int64(i))
		b.Columns[5].AppendInt(int64(i & 1))
		b.Columns[6].AppendInt(20757)
		b.Columns[7].AppendInt(1793404800000000 + int64(i))
		b.Columns[8].AppendNull()
		b.Lines = append(b.Lines, int64(i+2))
	}
	return b
}

func BenchmarkSpill3M(b *testing.B) {
	const rows, parts = 3_000_000, 128
	batch := manyRows(BatchRows)
	key := []int{0}
	b.ReportAllocs()
	for b.Loop() {
		s, err := NewSpill(b.TempDir(), billSchema, parts, 16<<20)
		if err != nil {
			b.Fatal(err)
		}
		for i := range rows {
			r := i % BatchRows
			if err := s.Add(s.PartOf(HashKey(batch, key, r, uint64(i))), batch, r); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Finish(); err != nil {
			b.Fatal(err)
		}
		read := 0
		for part := range parts {
			r, err := s.Open(part)
			if err != nil {
				b.Fatal(err)
			}
			for {
				got, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					b.Fatal(err)
				}
				read += got.Len()
			}
		}
		if read != rows {
			b.Fatalf("read %d rows, want %d", read, rows)
		}
		b.SetBytes(s.size)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
