package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// bill returns rows of modelSchema for n keys, some of them more than once, some
// on one side only, some with another amount.
func bill(n int, right bool) [][]any {
	var rows [][]any
	for i := range n {
		h := (uint64(i) + 1) * 0x9E3779B97F4A7C15 >> 40
		row := []any{fmt.Sprintf("ORD-%07d", i), "CNY", int64(h % 100_000), int64(20_000 + i%30), "paid", "memo"}
		switch {
		case i%97 == 0 && right, i%101 == 0 && !right:
			continue
		case i%53 == 0 && right:
			row[2] = int64(h%100_000) + 1
		case i%61 == 0 && right, i%67 == 0 && !right:
			rows = append(rows, row)
		case i%71 == 0 && right:
			row[1] = "USD"
		}
		rows = append(rows, row)
	}
	if right { // another order than on the left
		slices.Reverse(rows)
	}
	return rows
}

// runMasked runs with other hashes of keys than usual.
func runMasked(t *testing.T, kit *steptest.Kit, settings string, mask uint64) (step.Output, error) {
	t.Helper()
	in := kit.Input(settings)
	set, err := readSettings(in.Settings)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := set.memory(in.Memory)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPlan(set)
	if err != nil {
		t.Fatal(err)
	}
	p.hashMask = mask
	return run(t.Context(), in, set, p, memory)
}

func TestReconcile_SplitsPartsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	left, right := kit.Dataset(modelSchema, bill(4000, false)...), kit.Dataset(modelSchema, bill(4000, true)...)
	large, err := kit.Run(Type(), modelSetup{}.config(t, left, right, "64MiB"))
	if err != nil {
		t.Fatal(err)
	}
	for _, memory := range []string{"1KiB", "300KiB", "2MiB"} {
		small, err := kit.Run(Type(), modelSetup{}.config(t, left, right, memory))
		if err != nil {
			t.Fatalf("with %s: %v", memory, err)
		}
		if got, want := value[step.Dataset](t, small, "matches").Digest, value[step.Dataset](t, large, "matches").Digest; got != want {
			t.Errorf("with %s matches have digest %s, want %s", memory, got, want)
		}
		if got, want := value[step.Dataset](t, small, "breaks").Digest, value[step.Dataset](t, large, "breaks").Digest; memory == "2MiB" && got != want {
			t.Errorf("with %s breaks have digest %s, want %s as they fit into memory", memory, got, want)
		}
		equalLists(t, "outcomes with "+memory, outcomesOf(t, kit, small), outcomesOf(t, kit, large))
	}
}

// What the size of a file promises may be too little; then the rows are read again.
func TestReconcile_StartsAgainInPartsWhenMemoryRunsOut(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	left, right := kit.Dataset(modelSchema, bill(1000, false)...), kit.Dataset(modelSchema, bill(1000, true)...)
	in := kit.Input(modelSetup{}.config(t, left, right, "64MiB"))
	set, err := readSettings(in.Settings)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPlan(set)
	if err != nil {
		t.Fatal(err)
	}
	j, err := newJoiner(t.Context(), in, p, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer j.discard()
	j.limit = 150_000 // more than the left side takes, less than both
	if err := j.inMemory(); !errors.Is(err, errTooLarge) {
		t.Fatalf("inMemory: %v, want errTooLarge", err)
	}
	j.restart()
	if err := j.inParts(2); err != nil {
		t.Fatal(err)
	}
	if err := j.ledger.prove(); err != nil {
		t.Error(err)
	}
}

func TestReconcile_TellsKeysOfTheSameHashApart(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	left, right := kit.Dataset(modelSchema, bill(500, false)...), kit.Dataset(modelSchema, bill(500, true)...)
	settings := modelSetup{}.config(t, left, right, "64MiB")
	want, err := kit.Run(Type(), settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, mask := range []uint64{0, 1 << 63, 0xff << 56, 0xff} {
		got, err := runMasked(t, kit, settings, mask)
		if err != nil {
			t.Fatalf("mask %x: %v", mask, err)
		}
		equalLists(t, fmt.Sprintf("outcomes with mask %x", mask), outcomesOf(t, kit, got), outcomesOf(t, kit, want))
	}
}

func TestReconcile_RefusesAKeyThatDoesNotFitIntoMemory(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	rows := bill(300, false)
	for range 500 {
		rows = append(rows, []any{"HOT", "CNY", int64(1), int64(20_000), "", ""})
	}
	left, right := kit.Dataset(modelSchema, rows...), kit.Dataset(modelSchema, bill(300, true)...)
	_, err := kit.Run(Type(), modelSetup{}.config(t, left, right, "64KiB"))
	var permanent *step.PermanentError
	if !errors.As(err, &permanent) || permanent.Code != "recon.memory" || !strings.Contains(err.Error(), `the key "HOT" has 500 lines on the left and 0 on the right`) {
		t.Fatalf("error %v, want recon.memory that names the key", err)
	}
	if _, err := kit.Run(Type(), modelSetup{}.config(t, left, right, "1MiB")); err != nil {
		t.Errorf("with memory enough: %v", err)
	}
}

func TestReconcile_GivesTheSameBytesTenTimes(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	left, right := kit.Dataset(modelSchema, bill(2000, false)...), kit.Dataset(modelSchema, bill(2000, true)...)
	for _, memory := range []string{"64KiB", "64MiB"} {
		var first []string
		for range 10 {
			out, err := kit.Run(Type(), modelSetup{}.config(t, left, right, memory))
			if err != nil {
				t.Fatal(err)
			}
			got := []string{
				value[step.Dataset](t, out, "matches").Digest, value[step.Dataset](t, out, "breaks").Digest,
				out.Report, out.Warning, fmt.Sprint(out.Values["summary"]),
			}
			if first == nil {
				first = got
			}
			equalLists(t, "with "+memory, got, first)
		}
	}
}

func TestReconcile_ProvesSumsBeyond64Bits(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	var ls, rs [][]any
	for i := range 50 {
		ls = append(ls, []any{fmt.Sprint("P", i), "CNY", int64(math.MaxInt64), int64(0), "", ""}, []any{fmt.Sprint("N", i), "CNY", int64(math.MinInt64), int64(0), "", ""})
		rs = append(rs, []any{fmt.Sprint("P", i), "CNY", int64(math.MaxInt64), int64(0), "", ""}, []any{fmt.Sprint("N", i), "CNY", int64(math.MinInt64), int64(0), "", ""})
	}
	for i := range 3 {
		ls = append(ls, []any{fmt.Sprint("L", i), "CNY", int64(math.MinInt64), int64(0), "", ""})
		rs = append(rs, []any{fmt.Sprint("R", i), "CNY", int64(math.MaxInt64), int64(0), "", ""})
	}
	out, err := kit.Run(Type(), modelSetup{}.config(t, kit.Dataset(modelSchema, ls...), kit.Dataset(modelSchema, rs...), "64MiB"))
	if err != nil {
		t.Fatal(err)
	}
	// 3 × -2^63 - 3 × (2^63 - 1), by hand, besides 50 × -1 on each side
	want := proofSummary{Left: "-276701161105643274.74", Right: "276701161105643273.71", Delta: "-553402322211286548.45", Breaks: "-553402322211286548.45"}
	if got := value[summary](t, out, "summary").Proof["CNY"]; got != want {
		t.Errorf("proof = %+v, want %+v", got, want)
	}
}

func TestReconcile_RefusesADifferenceThatCannotBeKept(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	for _, tt := range []struct {
		opposite    bool
		left, right [][]any
	}{
		{false, [][]any{{"A", "CNY", int64(math.MaxInt64), int64(0), "", ""}}, [][]any{{"A", "CNY", int64(-1), int64(0), "", ""}}},
		{false, nil, [][]any{{"A", "CNY", int64(math.MinInt64), int64(0), "", ""}}},
		{true, [][]any{{"A", "CNY", int64(math.MinInt64), int64(0), "", ""}}, [][]any{{"A", "CNY", int64(math.MinInt64), int64(0), "", ""}}},
	} {
		_, err := kit.Run(Type(), modelSetup{opposite: tt.opposite}.config(t, kit.Dataset(modelSchema, tt.left...), kit.Dataset(modelSchema, tt.right...), "64MiB"))
		var permanent *step.PermanentError
		if !errors.As(err, &permanent) || permanent.Code != "recon.range" {
			t.Errorf("%v against %v: error %v, want recon.range", tt.left, tt.right, err)
		}
	}
}

func TestReconcile_StopsWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	left := kit.Dataset(modelSchema, bill(10, false)...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Type().Runner.Run(ctx, kit.Input(modelSetup{}.config(t, left, left, "64MiB")))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestTable_OrdersByHash(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 3, 100, 5000} {
		for _, used := range []int{0, 5} {
			var tab table
			for i := range n {
				h := uint64(i%max(n*3/4, 1)) * 0x9E3779B97F4A7C15 >> used
				tab.slots = append(tab.slots, slot{hash: h, row: uint32(n - i)})
			}
			want := slices.Clone(tab.slots)
			slices.SortFunc(want, compareSlots)
			tab.order(used)
			if !slices.Equal(tab.slots, want) {
				t.Errorf("order of %d slots after %d bits is wrong", n, used)
			}
		}
	}
}

// A ledger that lost a line, or counted an amount twice, must not be signed off.
func TestLedger_ProveCatchesWhatWasLost(t *testing.T) {
	t.Parallel()
	p := &plan{scale: 2}
	p.left.name, p.right.name = "left", "right"
	p.left.data.Rows, p.right.data.Rows = 1, 1
	build := func() *ledger {
		l := newLedger(p)
		tally, err := l.tally([]byte("CNY"))
		if err != nil {
			t.Fatal(err)
		}
		for which := range tally.read {
			tally.read[which] = count{lines: 1, sum: dataset.SumOf(100)}
		}
		if err := l.match([]byte("CNY"), 100, 100); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if err := build().prove(); err != nil {
		t.Fatalf("prove of a good ledger: %v", err)
	}
	for name, spoil := range map[string]func(*ledger){
		"an amount on the left":  func(l *ledger) { l.tallies[0].matched.left.Add(1) },
		"an amount on the right": func(l *ledger) { l.tallies[0].matched.right.Sub(1) },
		"both amounts":           func(l *ledger) { l.tallies[0].matched.left.Add(1); l.tallies[0].matched.right.Add(1) },
		"a delta":                func(l *ledger) { l.tallies[0].breaks[timing].delta.Add(1) },
		"a line without outcome": func(l *ledger) { l.outcomes[onLeft]-- },
		"a line never read":      func(l *ledger) { l.tallies[0].read[onRight].lines-- },
	} {
		l := build()
		spoil(l)
		var permanent *step.PermanentError
		if err := l.prove(); !errors.As(err, &permanent) || permanent.Code != "recon.proof" {
			t.Errorf("%s: error %v, want recon.proof", name, err)
		}
	}
}
