package parse_test

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/parse"
)

// The ports of an engine, reduced to one file in memory; what is written is dropped.
type ports struct{ content []byte }

func (p ports) Open(context.Context, step.File) (step.FileReader, error) {
	return memory{bytes.NewReader(p.content)}, nil
}

func (p ports) Create(context.Context, string, string) (step.FileWriter, error) {
	return dropped{Writer: io.Discard}, nil
}

func (p ports) Scratch(context.Context) (string, error) { return "", nil }

func (p ports) Report(int64, int64, string) {}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

type dropped struct{ io.Writer }

func (dropped) Commit(context.Context) (step.File, error) { return step.File{}, nil }
func (dropped) Discard()                                  {}

type rows struct{}

func (rows) Create(context.Context, dataset.Schema) (step.DatasetWriter, error) { return rows{}, nil }
func (rows) Open(context.Context, step.Dataset, ...string) (step.DatasetReader, error) {
	return nil, io.EOF
}
func (rows) Write(*dataset.Batch) error                   { return nil }
func (rows) Commit(context.Context) (step.Dataset, error) { return step.Dataset{}, nil }
func (rows) Discard()                                     {}

func ExampleType() {
	p := ports{content: []byte("Bill of October\nid,kind,amount\nA1,pay,\"1,234.56\"\nA2,refund,-20.00\nTotal,2\n")}
	out, err := parse.Type().Runner.Run(context.Background(), step.Input{
		Files: p, Datasets: rows{}, Progress: p, Memory: 64 << 20,
		Settings: []byte(`{
			"file": {"file": "sha256:0", "name": "bill.csv", "size_bytes": 73},
			"header": {"find": ["id", "amount"]},
			"end": {"match": "^Total"},
			"columns": {
				"id": {"from": "id", "type": "text", "required": true},
				"amount": {"from": "amount", "type": "money", "currency": "EUR", "thousands": ","}
			},
			"controls": [{"name": "count", "declared": {"line": "^Total,(\\d+)"}, "computed": "count()"}]
		}`),
	})
	fmt.Println(out.Report)
	fmt.Println(err)
	// Output:
	// bill.csv: 2 rows read, 0 refused
	//   bill.csv: utf-8 (found), header in line 2, columns not kept: "kind"
	//   control count: declared 2, computed 2: agrees
	//   sum of amount: 1214.56 EUR
	// <nil>
}
