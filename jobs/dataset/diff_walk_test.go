package dataset

import (
	"context"
	"testing"
)

func TestWalk_LoadsOnlyWhatFitsIntoHalfOfTheMemory(t *testing.T) {
	t.Parallel()
	const rows, memory = 20_000, 256 << 10
	d, err := newDiffer(DiffOptions{
		Old: &generated{batch: manyRows(1000), rows: rows}, New: &generated{batch: manyRows(1000), rows: rows},
		Key: []string{"n"}, Dir: t.TempDir(), Memory: memory,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen, pieces, ctx := int64(0), 0, context.Background()
	w := walk{columns: d.key, loaded: func(_ context.Context, p pair) error {
		if got := p.bytes(); got > memory/2 {
			t.Errorf("a piece of %d bytes is loaded, want at most %d", got, memory/2)
		}
		seen, pieces = seen+p.old.Rows(p.part)+p.new.Rows(p.part), pieces+1
		return nil
	}, single: func(_ context.Context, p pair) error {
		t.Errorf("%d rows of distinct keys are taken for a single key", p.old.Rows(p.part))
		return nil
	}}
	var p pair
	defer func() {
		if p.closeInto(&err); err != nil {
			t.Error(err)
		}
	}()
	if p.old, err = d.spill(ctx, d.old, w); err != nil {
		t.Fatal(err)
	}
	if p.new, err = d.spill(ctx, d.new, w); err != nil {
		t.Fatal(err)
	}
	for p.part = range d.parts {
		if err := d.walk(ctx, p, w); err != nil {
			t.Fatal(err)
		}
	}
	if seen != 2*rows || pieces <= d.parts {
		t.Errorf("%d rows in %d pieces, want %d rows in more than the %d of the first level", seen, pieces, 2*rows, d.parts)
	}
}
