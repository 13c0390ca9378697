package dataset_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"madeira/jobs/dataset"
)

// bill is a RowReader of one batch.
type bill struct {
	batch *dataset.Batch
	read  bool
}

func (b *bill) Schema() dataset.Schema { return b.batch.Schema }

func (b *bill) Next() (*dataset.Batch, error) {
	if b.read {
		return nil, io.EOF
	}
	b.read = true
	return b.batch, nil
}

func newBill(order string, cents int64) *bill {
	b := dataset.NewBatch(dataset.Schema{Columns: []dataset.Column{
		{Name: "order_no", Kind: dataset.Text},
		{Name: "amount", Kind: dataset.Money, Scale: 2, Currency: "CNY"},
	}})
	b.Columns[0].AppendString(order)
	b.Columns[1].AppendInt(cents)
	b.Lines = append(b.Lines, 5)
	return &bill{batch: b}
}

func ExampleDiff() {
	options := dataset.DiffOptions{Old: newBill("A-1", 1999), New: newBill("A-1", 2099), Key: []string{"order_no"}, Dir: os.TempDir()}
	counts, err := dataset.Diff(context.Background(), options, func(c dataset.Change) error {
		for _, v := range c.Columns {
			fmt.Printf("%s line %d, order %s: %s was %s, is %s\n", c.Kind, c.NewLine, c.Key[0], v.Name, v.Old, v.New)
		}
		return nil
	})
	fmt.Println(counts.Changed, counts.Same, err)
	// Output:
	// changed line 5, order A-1: amount was 19.99, is 20.99
	// 1 0 <nil>
}
