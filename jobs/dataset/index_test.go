package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// single returns a batch of one column and one row; a nil value is a null.
func single(c Column, value any) *Batch {
	b := NewBatch(Schema{Columns: []Column{c}})
	switch v := value.(type) {
	case nil:
		b.Columns[0].AppendNull()
	case string:
		b.Columns[0].AppendString(v)
	case int:
		b.Columns[0].AppendInt(int64(v))
	}
	b.Lines = append(b.Lines, 1)
	return b
}

func TestKeysEqual(t *testing.T) {
	t.Parallel()
	text, ccy := Column{Kind: Text}, Column{Kind: Currency}
	cents, fine := Column{Kind: Money, Scale: 2}, Column{Kind: Money, Scale: 4}
	for _, tc := range []struct {
		a, b *Batch
		want bool
	}{
		{single(text, "a"), single(text, "a"), true},
		{single(text, "a"), single(text, "b"), false},
		{single(text, "EUR"), single(ccy, "EUR"), true},
		{single(text, ""), single(text, nil), false},
		{single(text, nil), single(text, nil), true},
		{single(text, nil), single(Column{Kind: Integer}, nil), true},
		{single(Column{Kind: Integer}, nil), single(Column{Kind: Integer}, 0), false},
		{single(cents, 150), single(fine, 15000), true},
		{single(cents, 150), single(fine, 15001), false},
		{single(cents, 0), single(fine, 0), true},
		{single(cents, math.MaxInt64), single(fine, math.MaxInt64), false},
		{single(cents, 500), single(Column{Kind: Integer}, 5), true},
		{single(cents, 500), single(Column{Kind: Decimal, Scale: 18}, int(5e18)), true},
		{single(cents, -500), single(cents, 500), false},
		{single(Column{Kind: Date}, 5), single(Column{Kind: Integer}, 5), false},
		{single(Column{Kind: Date}, 5), single(Column{Kind: Timestamp}, 5), false},
		{single(Column{Kind: Boolean}, 1), single(Column{Kind: Integer}, 1), false},
		{single(text, "5"), single(Column{Kind: Integer}, 5), false},
	} {
		a, b := Key{tc.a, []int{0}, 0}, Key{tc.b, []int{0}, 0}
		if got := KeysEqual(a, b); got != tc.want || KeysEqual(b, a) != tc.want {
			t.Errorf("%s and %s equal: %v, want %v", rowText(tc.a, 0), rowText(tc.b, 0), got, tc.want)
		}
		equal := HashKey(tc.a, a.Columns, 0, 7) == HashKey(tc.b, b.Columns, 0, 7)
		if equal != tc.want {
			t.Errorf("%s and %s have equal hashes: %v, want %v", rowText(tc.a, 0), rowText(tc.b, 0), equal, tc.want)
		}
	}
}

func TestHashKey_IsEqualForEqualNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f, g := fixeds().Draw(t, "f"), fixeds().Draw(t, "g")
		if rapid.Bool().Draw(t, "same") {
			if mant, err := f.Rescale(g.Scale); err == nil {
				g.Mant = mant
			}
		}
		a, b := single(Column{Kind: Money, Scale: f.Scale}, int(f.Mant)), single(Column{Kind: Decimal, Scale: g.Scale}, int(g.Mant))
		equal := KeysEqual(Key{a, []int{0}, 0}, Key{b, []int{0}, 0})
		if equal != (f.Cmp(g) == 0) {
			t.Fatalf("%s and %s equal: %v", f, g, equal)
		}
		if same := HashKey(a, []int{0}, 0, 1) == HashKey(b, []int{0}, 0, 1); same != equal {
			t.Fatalf("hashes of %s and %s equal: %v, want %v", f, g, same, equal)
		}
	})
}

func TestHashKey_IsFixed(t *testing.T) {
	t.Parallel()
	b := manyRows(1)
	for seed, want := range map[uint64]uint64{0: 0xabd7884a8ed03376, 1: 0xef3a148d6b564913} {
		if got := HashKey(b, []int{0, 2, 5, 8}, 0, seed); got != want {
			t.Errorf("HashKey with seed %d = %#x, want %#x", seed, got, want)
		}
	}
}

func TestHashKey_SpreadsKeysEvenly(t *testing.T) {
	t.Parallel()
	b := manyRows(BatchRows)
	s, err := NewSpill(t.TempDir(), billSchema, 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeSpill(t, s)
	for c, name := range []string{"texts", "", "money", "", "numbers", "", "", "instants"} {
		if name == "" {
			continue
		}
		count := make([]int, 64)
		for i := range b.Len() {
			count[s.PartOf(HashKey(b, []int{c}, i, 3))]++
		}
		if least, most := slices.Min(count), slices.Max(count); least < 32 || most > 104 {
			t.Errorf("%s in 64 partitions: %d to %d rows, want about 64", name, least, most)
		}
	}
}

func TestIndex_FindsWhatAMapFinds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		schema := Schema{Columns: []Column{{Name: "k", Kind: Text}, {Name: "n", Kind: Money, Scale: 2}}}
		table, want := NewTable(schema), map[string][]int{}
		name := func(b *Batch, i int) string { return fmt.Sprintf("%s/%d", b.Columns[0].Text(i), b.Columns[1].Ints[i]) }
		probe := NewBatch(schema)
		for i := range rapid.IntRange(0, 200).Draw(t, "rows") {
			b := NewBatch(schema)
			b.Columns[0].AppendString(rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "k"))
			b.Columns[1].AppendInt(rapid.Int64Range(0, 9).Draw(t, "n"))
			b.Lines = append(b.Lines, int64(i))
			probe.AppendRow(b, 0)
			if rapid.Bool().Draw(t, "in") {
				want[name(b, 0)] = append(want[name(b, 0)], table.Len())
				table.Append(b, 0)
			}
		}
		cols := []int{0, 1}
		x := NewIndex(table, cols, rapid.Uint64().Draw(t, "seed"))
		for i := range probe.Len() {
			k, found := Key{probe, cols, i}, []int(nil)
			for r := x.First(k); r >= 0; r = x.Next(r) {
				found = append(found, r)
			}
			if !slices.Equal(found, want[name(probe, i)]) {
				t.Fatalf("rows of %s = %v, want %v", name(probe, i), found, want[name(probe, i)])
			}
		}
		for i := range probe.Len() {
			n, wantRow := name(probe, i), -1
			if left := want[n]; len(left) > 0 {
				wantRow, want[n] = left[0], left[1:]
			}
			if got := x.Take(Key{probe, cols, i}); got != wantRow {
				t.Fatalf("Take(%s) = %d, want %d", n, got, wantRow)
			}
		}
	})
}

func TestIndex_TakesNoMemoryForEachRow(t *testing.T) {
	table := NewTable(billSchema)
	b := manyRows(BatchRows)
	for i := range b.Len() {
		table.Append(b, i)
	}
	cols := []int{0}
	if n := testing.AllocsPerRun(5, func() { NewIndex(table, cols, 1) }); n > 5 {
		t.Errorf("an index of %d rows takes %v allocations, want at most 5", table.Len(), n)
	}
	x := NewIndex(table, cols, 1)
	if n := testing.AllocsPerRun(5, func() {
		for i := range b.Len() {
			if x.First(Key{b, cols, i}) != i {
				t.Fatal("row not found")
			}
		}
	}); n != 0 {
		t.Errorf("%d searches take %v allocations, want 0", b.Len(), n)
	}
}

// BenchmarkHashJoin joins two sides of a million rows through partitions on disk:
// both are spilled, each left partition is loaded and indexed, the right one probes.
func BenchmarkHashJoin(b *testing.B) {
	const rows, parts = 1_000_000, 64
	batch := manyRows(BatchRows)
	key := []int{0, 4}
	spill := func() *Spill {
		s, err := NewSpill(b.TempDir(), billSchema, parts, 8<<20)
		if err != nil {
			b.Fatal(err)
		}
		for i := range rows {
			r := i % BatchRows
			batch.Columns[4].Ints[r] = int64(i)
			if err := s.Add(s.PartOf(HashKey(batch, key, r, 1)), batch, r); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Finish(); err != nil {
			b.Fatal(err)
		}
		return s
	}
	b.ReportAllocs()
	for b.Loop() {
		left, right := spill(), spill()
		matched := 0
		for part := range parts {
			table, err := left.Load(part)
			if err != nil {
				b.Fatal(err)
			}
			x := NewIndex(table, key, 1)
			r, err := right.Open(part)
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
				for i := range got.Len() {
					if x.Take(Key{got, key, i}) >= 0 {
						matched++
					}
				}
			}
		}
		if matched != rows {
			b.Fatalf("matched %d rows, want %d", matched, rows)
		}
		if err := errors.Join(left.Close(), right.Close()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(2*rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkHashKey(b *testing.B) {
	batch, key := manyRows(BatchRows), []int{0, 1, 2}
	for b.Loop() {
		for i := range BatchRows {
			HashKey(batch, key, i, 1)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/BatchRows, "ns/row")
}
