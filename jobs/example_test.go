package jobs_test

import (
	"fmt"
	"testing/fstest"
	"time"

	"madeira/jobs"
)

func ExampleCheck() {
	files := fstest.MapFS{"job.yaml": {Data: []byte(`name: month-end
steps:
  - id: bill
    uses: fetch
    timeout: 30
    with: {url: "https://bank.example/bill.csv"}
  - id: lines
    uses: parse
    depends_on: [bill]
    with:
      file: "${{ steps.bil.outputs.file }}"
      columns: {amount: {from: Amount, type: money, currency: EUR}}
`)}}
	checked, problems := jobs.Check([]string{"job.yaml"}, jobs.Env{
		FS: files, Today: time.Date(2026, 11, 5, 0, 0, 0, 0, time.UTC), Catalog: builtin(),
	})
	fmt.Println(len(checked), "jobs")
	for _, p := range problems {
		fmt.Println(p)
	}
	// Output:
	// 0 jobs
	// job.yaml:3:5 dag.needs_missing step "bill" has no needs, and other steps do; as soon as one has it all do: write needs: [] for a step that waits for none
	// job.yaml:5:14 value.duration 30 has no unit; write "30s" or the like: from 1s to 30d is allowed
	// job.yaml:9:5 yaml.unknown_field unknown key "depends_on"; did you mean "needs"?
	// job.yaml:11:24 expr.undefined there is no step bil; did you mean "bill"?
}
