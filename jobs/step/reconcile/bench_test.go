package reconcile

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// benchSide keeps n lines of a usual bill: seven columns, one line in a thousand
// that the other side has not. The right side is in another order.
func benchSide(b *testing.B, kit *steptest.Kit, n int64, right bool) step.Dataset {
	b.Helper()
	schema := dataset.Schema{Columns: []dataset.Column{
		{Name: "order_no", Kind: dataset.Text}, {Name: "kind", Kind: dataset.Text}, {Name: "ccy", Kind: dataset.Currency},
		{Name: "amount", Kind: dataset.Money, Scale: 2}, {Name: "fee", Kind: dataset.Money, Scale: 2},
		{Name: "day", Kind: dataset.Date}, {Name: "state", Kind: dataset.Text},
	}}
	w, err := kit.Datasets.Create(b.Context(), schema)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Discard()
	batch := dataset.NewBatch(schema)
	var key []byte
	const prime = 1_000_003
	for i := range n {
		order, skip := i, int64(1)
		if right {
			order, skip = i*prime%n, 2
		}
		if order%1000 == skip {
			continue
		}
		h := uint64(order+1) * 0x9E3779B97F4A7C15
		key = fmt.Appendf(key[:0], "ORD-%09d%07x", order, h>>36)
		c := batch.Columns
		c[0].AppendText(key)
		c[1].AppendString("payment")
		c[2].AppendString("CNY")
		c[3].AppendInt(int64(h >> 44))
		c[4].AppendInt(int64(h >> 54))
		c[5].AppendInt(20_000 + order*30/n)
		c[6].AppendString("paid")
		batch.Lines = append(batch.Lines, i+2)
		if batch.Full() || i == n-1 {
			if err := w.Write(batch); err != nil {
				b.Fatal(err)
			}
			batch.Reset()
		}
	}
	if err := w.Write(batch); err != nil {
		b.Fatal(err)
	}
	d, err := w.Commit(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// BenchmarkReconcile compares two sides of MADEIRA_BENCH_ROWS lines (a million
// when that is not set), in memory and in parts.
func BenchmarkReconcile(b *testing.B) {
	n, err := strconv.ParseInt(os.Getenv("MADEIRA_BENCH_ROWS"), 10, 64)
	if err != nil {
		n = 1_000_000
	}
	kit := steptest.New(b)
	left, right := benchSide(b, kit, n, false), benchSide(b, kit, n, true)
	for _, memory := range []string{"4GiB", "64MiB", "128MiB"} {
		b.Run("memory="+memory, func(b *testing.B) {
			kit.Memory = 4 << 30
			settings := config(b, left, right, func(set map[string]any) {
				set["match"] = []any{map[string]any{"id": "order", "kind": "one_to_one", "keys": map[string]any{"order_no": "order_no", "kind": "kind"}, "amount": "exact"}}
				set["limits"] = map[string]any{"memory": memory}
			})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := kit.Run(Type(), settings); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(left.Rows+right.Rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
