package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"madeira/engine/store/storetest"
	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/load"
	"madeira/jobs/step/steptest"
)

// benchRows is how many rows a benchmark loads; MADEIRA_BENCH_ROWS says otherwise.
func benchRows(b *testing.B) int {
	n, err := strconv.Atoi(os.Getenv("MADEIRA_BENCH_ROWS"))
	if err != nil {
		return 200_000
	}
	return n
}

func BenchmarkLoad(b *testing.B) {
	for _, dialect := range []string{"sqlite", "postgres"} {
		b.Run(dialect, func(b *testing.B) {
			n := benchRows(b)
			kit := steptest.New(b)
			if dialect == "sqlite" {
				kit.SQLite("ledger")
			} else {
				kit.Postgres("ledger", storetest.Postgres(b))
			}
			d := ledger(b, kit, n)
			ref, err := json.Marshal(d)
			if err != nil {
				b.Fatal(err)
			}
			version := 0
			for b.Loop() {
				version++
				with := fmt.Sprintf(`{"connection": "ledger", "table": "bill%d", "key": "upstream_key", "create": true, "rows": %s}`, version, ref)
				stop := watchMemory(b)
				start := time.Now()
				if _, err := load.Type().Runner.Run(b.Context(), kit.Attempt(with, task(2*version, 1))); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(n)/time.Since(start).Seconds(), "new_rows/s")
				start = time.Now()
				if _, err := load.Type().Runner.Run(b.Context(), kit.Attempt(with, task(2*version+1, 1))); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(n)/time.Since(start).Seconds(), "same_rows/s")
				stop()
			}
		})
	}
}

// ledger makes a dataset of n rows as a ledger has them.
func ledger(b *testing.B, kit *steptest.Kit, n int) step.Dataset {
	b.Helper()
	schema := dataset.Schema{Columns: []dataset.Column{
		{Name: "upstream_key", Kind: dataset.Text}, {Name: "order_no", Kind: dataset.Text}, {Name: "kind", Kind: dataset.Text},
		{Name: "ccy", Kind: dataset.Currency}, {Name: "amount", Kind: dataset.Money, Scale: 4},
		{Name: "booked_on", Kind: dataset.Date}, {Name: "paid_at", Kind: dataset.Timestamp}}}
	w, err := kit.Datasets.Create(b.Context(), schema)
	if err != nil {
		b.Fatal(err)
	}
	batch := dataset.NewBatch(schema)
	for i := range n {
		order := fmt.Sprintf("2026%012d", i*7919%1_000_000_007)
		batch.Columns[0].AppendString("alipay/" + order + "/pay")
		batch.Columns[1].AppendString(order)
		batch.Columns[2].AppendString("pay")
		batch.Columns[3].AppendString("CNY")
		batch.Columns[4].AppendInt(int64(i) * 97 % 10_000_000)
		batch.Columns[5].AppendInt(20000 + int64(i)%31)
		batch.Columns[6].AppendInt(1_790_000_000_000_000 + int64(i)*1_000_000)
		batch.Lines = append(batch.Lines, int64(i+1))
		if batch.Full() || i == n-1 {
			if err := w.Write(batch); err != nil {
				b.Fatal(err)
			}
			batch.Reset()
		}
	}
	d, err := w.Commit(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// watchMemory samples the memory the process holds and reports the most of it.
func watchMemory(b *testing.B) func() {
	ctx, cancel := context.WithCancel(b.Context())
	var most uint64
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, resident())
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
		b.ReportMetric(float64(most)/(1<<20), "MB_resident")
	}
}

// resident returns the resident memory in bytes, or what the runtime has.
func resident() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
		if pages, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
			return pages * uint64(os.Getpagesize())
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys
}
