package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// listed is a RowReader of batches in memory.
type listed struct {
	schema  Schema
	batches []*Batch
}

func list(batches ...*Batch) *listed { return &listed{batches[0].Schema, batches} }

func (l *listed) Schema() Schema { return l.schema }

func (l *listed) Next() (*Batch, error) {
	if len(l.batches) == 0 {
		return nil, io.EOF
	}
	b := l.batches[0]
	l.batches = l.batches[1:]
	return b, nil
}

// of returns a batch whose rows are written as texts, "-" for a null, with lines from 1.
func of(schema Schema, rows ...[]string) *Batch {
	b := NewBatch(schema)
	for i, r := range rows {
		for c, text := range r {
			v := &b.Columns[c]
			switch {
			case text == "-":
				v.AppendNull()
			case v.Kind.IsText():
				v.AppendString(text)
			default:
				f, err := ParseFixed([]byte(text))
				if err != nil {
					panic(err)
				}
				mant, err := f.Rescale(scaleOf(b, c))
				if err != nil {
					panic(err)
				}
				v.AppendInt(mant)
			}
		}
		b.Lines = append(b.Lines, int64(i+1))
	}
	return b
}

// diff runs Diff and returns its changes, one line each.
func diff(t interface {
	Helper()
	Fatal(args ...any)
}, o DiffOptions) (DiffCounts, []string) {
	t.Helper()
	var lines []string
	counts, err := Diff(context.Background(), o, func(c Change) error {
		lines = append(lines, describe(c))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Fatal("left behind:", left, err)
	}
	return counts, lines
}

func describe(c Change) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %d→%d %q", c.Kind, c.OldLine, c.NewLine, c.Key)
	value := func(text string, null bool) string {
		if null {
			return "-"
		}
		return fmt.Sprintf("%q", text)
	}
	for _, v := range c.Columns {
		fmt.Fprintf(&s, " %s:%s→%s", v.Name, value(v.Old, v.OldNull), value(v.New, v.NewNull))
	}
	return s.String()
}

var (
	orders = Schema{Columns: []Column{{Name: "no", Kind: Text}, {Name: "amount", Kind: Money, Scale: 2, Currency: "EUR"}, {Name: "note", Kind: Text}}}
	finer  = Schema{Columns: []Column{{Name: "note", Kind: Text}, {Name: "no", Kind: Text}, {Name: "amount", Kind: Money, Scale: 4, Currency: "EUR"}}}
)

func TestDiff(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		old, new *Batch
		key      []string
		want     []string
		counts   DiffCounts
	}{
		"a moved line is no change": {
			old:    of(orders, []string{"a", "1.00", "x"}, []string{"b", "2.00", "y"}),
			new:    of(orders, []string{"b", "2.00", "y"}, []string{"a", "1.00", "x"}),
			counts: DiffCounts{Old: 2, New: 2, Same: 2},
		},
		"without a key a changed row is removed and added": {
			old: of(orders, []string{"a", "1.00", "x"}),
			new: of(orders, []string{"a", "1.50", "x"}),
			want: []string{
				`removed 1→0 [] no:"a"→- amount:"1.00"→- note:"x"→-`,
				`added 0→1 [] no:-→"a" amount:-→"1.50" note:-→"x"`,
			},
			counts: DiffCounts{Old: 1, New: 1, Removed: 1, Added: 1},
		},
		"with a key it is changed": {
			old: of(orders, []string{"a", "1.00", "x"}, []string{"b", "2.00", ""}, []string{"c", "3.00", "z"}),
			new: of(orders, []string{"b", "2.00", "-"}, []string{"d", "4.00", "-"}, []string{"a", "1.50", "y"}),
			key: []string{"no"},
			want: []string{
				`removed 3→0 ["c"] no:"c"→- amount:"3.00"→- note:"z"→-`,
				`changed 2→1 ["b"] note:""→-`,
				`added 0→2 ["d"] no:-→"d" amount:-→"4.00" note:-→-`,
				`changed 1→3 ["a"] amount:"1.00"→"1.50" note:"x"→"y"`,
			},
			counts: DiffCounts{Old: 3, New: 3, Added: 1, Removed: 1, Changed: 2},
		},
		"one of two equal rows is gone": {
			old:    of(orders, []string{"a", "1.00", "x"}, []string{"a", "1.00", "x"}),
			new:    of(orders, []string{"a", "1.00", "x"}),
			want:   []string{`removed 2→0 [] no:"a"→- amount:"1.00"→- note:"x"→-`},
			counts: DiffCounts{Old: 2, New: 1, Same: 1, Removed: 1},
		},
		"duplicates of a key are paired by content, then in order": {
			old:    of(orders, []string{"a", "1.00", "x"}, []string{"a", "2.00", "x"}, []string{"a", "3.00", "x"}),
			new:    of(orders, []string{"a", "4.00", "x"}, []string{"a", "1.00", "x"}, []string{"a", "5.00", "x"}),
			key:    []string{"no"},
			want:   []string{`changed 2→1 ["a"] amount:"2.00"→"4.00"`, `changed 3→3 ["a"] amount:"3.00"→"5.00"`},
			counts: DiffCounts{Old: 3, New: 3, Same: 1, Changed: 2},
		},
		"columns are found by name and amounts compared by value": {
			old:    of(orders, []string{"a", "1.00", "x"}, []string{"b", "2.00", "y"}),
			new:    of(finer, []string{"x", "a", "1.0000"}, []string{"y", "b", "2.0001"}),
			key:    []string{"no"},
			want:   []string{`changed 2→2 ["b"] amount:"2.00"→"2.0001"`},
			counts: DiffCounts{Old: 2, New: 2, Same: 1, Changed: 1},
		},
		"a column that is new or gone was or is null": {
			old:    of(Schema{Columns: []Column{{Name: "no", Kind: Text}, {Name: "gone", Kind: Integer}}}, []string{"a", "7"}, []string{"b", "-"}),
			new:    of(Schema{Columns: []Column{{Name: "no", Kind: Text}, {Name: "fresh", Kind: Text}}}, []string{"a", ""}, []string{"b", "-"}),
			key:    []string{"no"},
			want:   []string{`changed 1→1 ["a"] fresh:-→"" gone:"7"→-`},
			counts: DiffCounts{Old: 2, New: 2, Same: 1, Changed: 1},
		},
		"a column of another kind is compared as people read it": {
			old:    of(Schema{Columns: []Column{{Name: "no", Kind: Integer}, {Name: "day", Kind: Date}}}, []string{"1", "0"}, []string{"2", "1"}, []string{"-", "-"}),
			new:    of(Schema{Columns: []Column{{Name: "no", Kind: Text}, {Name: "day", Kind: Text}}}, []string{"1", "1970-01-01"}, []string{"2", "1970-01-01"}, []string{"-", "-"}),
			key:    []string{"no"},
			want:   []string{`changed 2→2 ["2"] day:"1970-01-02"→"1970-01-01"`},
			counts: DiffCounts{Old: 3, New: 3, Same: 2, Changed: 1},
		},
		"the same number in another currency is another amount": {
			old:    of(Schema{Columns: []Column{{Name: "amount", Kind: Money, Scale: 2, Currency: "EUR"}}}, []string{"1.00"}),
			new:    of(Schema{Columns: []Column{{Name: "amount", Kind: Money, Scale: 2, Currency: "USD"}}}, []string{"1.00"}),
			want:   []string{`removed 1→0 [] amount:"1.00 EUR"→-`, `added 0→1 [] amount:-→"1.00 USD"`},
			counts: DiffCounts{Old: 1, New: 1, Removed: 1, Added: 1},
		},
		"nothing and nothing": {old: of(orders), new: of(orders), key: []string{"no"}},
	} {
		for _, memory := range []int64{0, 1} {
			counts, lines := diff(t, DiffOptions{Old: list(tc.old), New: list(tc.new), Key: tc.key, Dir: t.TempDir(), Memory: memory})
			if memory == 1 { // runs of a single change come as the partitions do
				slices.Sort(lines)
				slices.Sort(tc.want)
			}
			if counts != tc.counts || !slices.Equal(lines, tc.want) {
				t.Errorf("%s, memory %d:\n got %+v\n%s\nwant %+v\n%s", name, memory,
					counts, strings.Join(lines, "\n"), tc.counts, strings.Join(tc.want, "\n"))
			}
		}
	}
}

// model is Diff as one would write it for rows that all fit into memory.
func model(old, new *Batch, key []int) (lines []string) {
	content := func(b *Batch, i int) string { return rowText(b, i)[len(fmt.Sprint(b.Lines[i])):] }
	oldDone, newDone := map[int]bool{}, map[int]bool{}
	pair := func(same func(o, n int) bool, found func(o, n int)) {
		for n := range new.Len() {
			for o := range old.Len() {
				if !oldDone[o] && !newDone[n] && same(o, n) {
					oldDone[o], newDone[n] = true, true
					found(o, n)
				}
			}
		}
	}
	all := []int{0, 1, 2}
	d := &differ{all: all, key: key, named: len(key)}
	pair(func(o, n int) bool { return content(old, o) == content(new, n) }, func(int, int) {})
	if len(key) > 0 {
		pair(func(o, n int) bool { return KeysEqual(Key{old, key, o}, Key{new, key, n}) },
			func(o, n int) { lines = append(lines, describe(d.changed(Key{old, all, o}, Key{new, all, n}))) })
	}
	for o := range old.Len() {
		if !oldDone[o] {
			lines = append(lines, describe(d.removed(Key{old, all, o})))
		}
	}
	for n := range new.Len() {
		if !newDone[n] {
			lines = append(lines, describe(d.added(Key{new, all, n})))
		}
	}
	slices.Sort(lines)
	return lines
}

func TestDiff_FindsWhatAModelFindsWhateverTheMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []string {
			return []string{
				rapid.SampledFrom([]string{"-", "", "a", "b", "c", "d", "e", "f", "g"}).Draw(t, "no"),
				rapid.SampledFrom([]string{"-", "0", "1.00", "2.5"}).Draw(t, "amount"),
				rapid.SampledFrom([]string{"-", "", "x"}).Draw(t, "note"),
			}
		}), 0, 60)
		before, after := of(orders, rows.Draw(t, "old")...), of(orders, rows.Draw(t, "new")...)
		var key []string
		var cols []int
		if rapid.Bool().Draw(t, "keyed") {
			key, cols = []string{"no"}, []int{0}
		}
		memory := rapid.SampledFrom([]int64{1, 2 << 10, 8 << 10, 64 << 10, 1 << 20}).Draw(t, "memory")
		counts, got := diff(t, DiffOptions{Old: list(before), New: list(after), Key: key, Dir: dir, Memory: memory})
		again, gotAgain := diff(t, DiffOptions{Old: list(before), New: list(after), Key: key, Dir: dir, Memory: memory})
		if counts != again || !slices.Equal(got, gotAgain) {
			t.Fatalf("run twice: %+v %q, then %+v %q", counts, got, again, gotAgain)
		}
		slices.Sort(got)
		if want := model(before, after, cols); !slices.Equal(got, want) {
			t.Fatalf("changes =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if counts.Old != counts.Same+counts.Changed+counts.Removed || counts.New != counts.Same+counts.Changed+counts.Added ||
			counts.Old != int64(before.Len()) || counts.New != int64(after.Len()) || int64(len(got)) != counts.Added+counts.Removed+counts.Changed {
			t.Fatalf("counts %+v do not add up for %d changes", counts, len(got))
		}
	})
}

func TestDiff_TakesAKeyThatAllRowsShareApart(t *testing.T) {
	t.Parallel()
	const rows = 30_000
	var before, after []*Batch
	for start := 0; start < rows; start += BatchRows {
		b, n := NewBatch(orders), NewBatch(orders)
		for i := start; i < min(start+BatchRows, rows); i++ {
			for _, side := range []*Batch{b, n} {
				side.Columns[0].AppendNull()
				side.Columns[1].AppendInt(int64(i % 7))
				side.Lines = append(side.Lines, int64(i+1))
			}
			b.Columns[2].AppendString(fmt.Sprint("note ", i/2))
			if i%10_000 == 5_000 {
				n.Columns[2].AppendString("corrected")
				continue
			}
			n.Columns[2].AppendString(fmt.Sprint("note ", i/2))
		}
		before, after = append(before, b), append(after, n)
	}
	slices.Reverse(after)
	counts, lines := diff(t, DiffOptions{Old: list(before...), New: list(after...), Key: []string{"no"}, Dir: t.TempDir(), Memory: 256 << 10})
	want := []string{
		`changed 25001→5001 [""] amount:"0.03"→"0.02" note:"note 12500"→"corrected"`,
		`changed 15001→15001 [""] note:"note 7500"→"corrected"`,
		`changed 5001→25001 [""] amount:"0.02"→"0.03" note:"note 2500"→"corrected"`,
	}
	if wantCounts := (DiffCounts{Old: rows, New: rows, Same: rows - 3, Changed: 3}); counts != wantCounts || !slices.Equal(lines, want) {
		t.Errorf("got %+v %s\nwant %+v %s", counts, strings.Join(lines, "\n"), wantCounts, strings.Join(want, "\n"))
	}
}

func TestDiff_SortsRunsThatFit(t *testing.T) {
	t.Parallel()
	before := manyRows(3000)
	var last, restarts, calls int64
	counts, err := Diff(context.Background(), DiffOptions{Old: list(of(billSchema)), New: list(before), Dir: t.TempDir(), Memory: 512 << 10}, func(c Change) error {
		if c.NewLine < last {
			restarts++
		}
		last, calls = c.NewLine, calls+1
		return nil
	})
	if err != nil || counts.Added != 3000 || calls != 3000 {
		t.Fatalf("Diff = %+v, %v after %d calls, want 3000 added rows", counts, err, calls)
	}
	if restarts < 1 || restarts > 40 {
		t.Errorf("changes came in %d sorted runs, want a few", restarts+1)
	}
}

func TestDiff_EndsWithTheFirstErrorAndLeavesNothing(t *testing.T) {
	t.Parallel()
	dir, stop := t.TempDir(), errors.New("stop")
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		key  []string
		new  RowReader
		want error
	}{
		"emit":    {context.Background(), nil, list(manyRows(3000)), stop},
		"context": {cancelled, nil, list(manyRows(3000)), context.Canceled},
		"reader":  {context.Background(), nil, &broken{listed: list(manyRows(3000))}, errBroken},
	} {
		_, err := Diff(tc.ctx, DiffOptions{Old: list(of(billSchema)), New: tc.new, Key: tc.key, Dir: dir, Memory: 64 << 10},
			func(Change) error { return stop })
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: Diff = %v, want %v", name, err, tc.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind %v, %v", name, left, err)
		}
	}
	_, err := Diff(context.Background(), DiffOptions{Old: list(of(orders)), New: list(of(billSchema)), Key: []string{"order_no"}, Dir: dir}, nil)
	if err == nil || !strings.Contains(err.Error(), `old rows: no column "order_no"; there are ["no" "amount" "note"]`) {
		t.Errorf("Diff by an unknown column: %v", err)
	}
}

// errBroken is what a broken reader ends with.
var errBroken = errors.New("disk on fire")

type broken struct{ *listed }

func (b *broken) Next() (*Batch, error) {
	batch, err := b.listed.Next()
	if errors.Is(err, io.EOF) {
		return nil, errBroken
	}
	return batch, err
}

// generated is a RowReader of many rows that takes no memory.
type generated struct {
	batch      *Batch
	rows, done int64
	every      int64 // each so many-th row differs; 0 means none
}

func (g *generated) Schema() Schema { return g.batch.Schema }

func (g *generated) Next() (*Batch, error) {
	if g.done == g.rows {
		return nil, io.EOF
	}
	for i := range g.batch.Len() {
		n := g.done + int64(i)
		g.batch.Lines[i], g.batch.Columns[4].Ints[i] = n+2, n
		g.batch.Columns[2].Ints[i] = n * 137
		if g.every > 0 && n%g.every == 0 {
			g.batch.Columns[2].Ints[i]++
		}
	}
	g.done += int64(g.batch.Len())
	return g.batch, nil
}

func BenchmarkDiff1M(b *testing.B) {
	const rows = 256 * BatchRows
	b.ReportAllocs()
	for b.Loop() {
		counts, err := Diff(context.Background(), DiffOptions{
			Old: &generated{batch: manyRows(BatchRows), rows: rows},
			New: &generated{batch: manyRows(BatchRows), rows: rows, every: 10_000},
			Key: []string{"order_no", "n"}, Dir: b.TempDir(), Memory: 32 << 20,
		}, func(Change) error { return nil })
		if err != nil || counts.Changed != (rows+9_999)/10_000 {
			b.Fatal(counts, err)
		}
	}
	b.ReportMetric(2*rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
