package jobs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"madeira/jobs"
)

// twentySteps returns a job of twenty steps, as people write them: four files that
// are fetched, parsed, reconciled with a ledger and loaded.
func twentySteps(number int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `name: month-end-%d
description: Settle the monthly bills of channel %d against our ledger.
labels: {team: finance, channel: "%d"}
timezone: Asia/Shanghai
period: {every: month, of: previous}
schedule:
  - {cron: "30 10 5 * *", catchup: latest, catchup_window: 3d}
upstream_key: channel-%d/${{ period.label }}
inputs:
  tolerance: {type: string, pattern: '^\d+\.\d{2}$', default: "0.00"}
connections: [inbox, ledger]
defaults:
  timeout: 30m
  retry: {max_attempts: 5, delay: 30s, factor: 2, max_delay: 15m}
steps:
`, number, number, number, number)
	for i := range 4 {
		fmt.Fprintf(&b, `  - id: bill%[1]d
    needs: []
    uses: fetch
    with: {from: inbox, path: "%[1]d/${{ period.label }}_*.csv.gz", pick: exactly_one}
  - id: lines%[1]d
    needs: [bill%[1]d]
    uses: parse
    with:
      file: "${{ steps.bill%[1]d.outputs.file }}"
      encoding: gb18030
      header: {find: [Order, Amount], within: 50}
      columns:
        order_no: {from: Order, type: text, clean: [tab, backquote], required: true}
        amount: {from: Amount, type: money, currency: CNY, thousands: ","}
        fee: {from: Fee, type: money, currency: CNY, scale: 5, round: half_even}
        kind: {from: Kind, type: text, map: {P: pay, R: refund}, else: reject}
        ccy: {type: currency, value: '"CNY"'}
      rejects: {max: 0}
      controls:
        - {name: count, declared: {line: '^count:(\d+)'}, computed: count(), else: fail}
  - id: ledger%[1]d
    needs: []
    uses: query
    with:
      connection: ledger
      sql: |
        SELECT order_no, kind, amount, ccy FROM ledger
        WHERE booked_on >= :from AND booked_on < :to AND amount > :least
      args: {from: "${{ period.start }}", to: "${{ period.end }}", least: "${{ inputs.tolerance }}"}
      columns: {order_no: text, kind: text, amount: {type: money, currency: CNY}, ccy: currency}
  - id: recon%[1]d
    needs: [lines%[1]d, ledger%[1]d]
    uses: reconcile
    with:
      left: {rows: "${{ steps.ledger%[1]d.outputs.rows }}", amount: amount, currency: ccy}
      right: {rows: "${{ steps.lines%[1]d.outputs.rows }}", amount: amount, currency: ccy}
      match:
        - {id: order, kind: one_to_one, keys: {order_no: order_no}, amount: exact}
      expect: {all: {max: 0, else: warn}}
  - id: tell%[1]d
    needs: [recon%[1]d]
    if: always() && steps.recon%[1]d.outputs.open_count > 0
    uses: notify
    with: {channel: ops, subject: "Breaks of ${{ period.label }}", summary: "${{ steps.recon%[1]d.outputs.summary }}"}
`, i)
	}
	return b.String()
}

// BenchmarkValidate checks a thousand files of twenty steps, which should take no
// more than two seconds on two processors. MADEIRA_BENCH_DIR says where to leave
// the files for a measurement of the program.
func BenchmarkValidate(b *testing.B) {
	e := env(".")
	files := fstest.MapFS{}
	for i := range 1000 {
		files[fmt.Sprintf("job-%04d.yaml", i)] = &fstest.MapFile{Data: []byte(twentySteps(i))}
	}
	e.FS = files
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		b.Fatal(err)
	}
	if dir := os.Getenv("MADEIRA_BENCH_DIR"); dir != "" {
		for name, file := range files {
			if err := os.WriteFile(filepath.Join(dir, name), file.Data, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	slices.Sort(names)
	b.ReportAllocs()
	for b.Loop() {
		checked, problems := jobs.Check(names, e)
		if len(problems) > 0 || len(checked) != len(names) {
			b.Fatal(problems[0])
		}
		runtime.KeepAlive(checked)
	}
}
