package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

// billColumns are those of a usual bill.
var billColumns = Schema{Columns: []Column{
	{Name: "order_no", Kind: Text}, {Name: "kind", Kind: Text}, {Name: "ccy", Kind: Currency},
	{Name: "amount", Kind: Money, Scale: 2}, {Name: "fee", Kind: Money, Scale: 5},
	{Name: "booked", Kind: Date}, {Name: "paid", Kind: Timestamp},
}}

// billBatch fills b with the BatchRows rows that begin at row start.
func billBatch(b *Batch, start int64) {
	b.Reset()
	var key []byte
	for n := start; n < start+BatchRows; n++ {
		h := uint64(n+1) * 0x9E3779B97F4A7C15
		h ^= h >> 29
		key = fmt.Appendf(key[:0], "ORD-%09d%07x", n, h&0xfffffff)
		b.Columns[0].AppendText(key)
		b.Columns[1].AppendString([]string{"payment", "refund", "chargeback"}[h%3])
		b.Columns[2].AppendString([]string{"CNY", "USD"}[h>>7&1])
		b.Columns[3].AppendInt(int64(h >> 16 % 9_999_999))
		if n%7 == 0 {
			b.Columns[4].AppendNull()
		} else {
			b.Columns[4].AppendInt(int64(h >> 20 % 99_999_999))
		}
		b.Columns[5].AppendInt(20_000 + n/40_000)
		b.Columns[6].AppendInt(1_700_000_000_000_000 + n*2_000_000)
		b.Lines = append(b.Lines, n+2)
	}
}

func BenchmarkWriter(b *testing.B) {
	for _, c := range []Compression{Uncompressed, Zstd} {
		b.Run("compression="+string(c), func(b *testing.B) {
			batch := NewBatch(billColumns)
			billBatch(batch, 0)
			w, err := NewWriter(io.Discard, billColumns, WriterOptions{Compression: c})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Write(batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(w.Rows())/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}

func BenchmarkReader(b *testing.B) {
	var file bytes.Buffer
	w, err := NewWriter(&file, billColumns, WriterOptions{})
	if err != nil {
		b.Fatal(err)
	}
	batch := NewBatch(billColumns)
	for start := int64(0); start < 256*BatchRows; start += BatchRows {
		billBatch(batch, start)
		if err := w.Write(batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	if path := os.Getenv("MADEIRA_BENCH_PARQUET"); path != "" { // to look at with DuckDB
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for _, columns := range [][]string{nil, {"order_no", "amount"}} {
		b.Run(fmt.Sprintf("columns=%d", len(columns)), func(b *testing.B) {
			b.ReportAllocs()
			rows := int64(0)
			for b.Loop() {
				r, err := NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()), columns...)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = r.Next()
				}
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
				rows += r.Rows()
				if err := r.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}
