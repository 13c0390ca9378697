package reconcile

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A breakList keeps the output breaks in memory and writes it sorted by category
// and key; the rows of one key stay in the order of their content. When it
// outgrows its limit, what there is after a part is sorted and written, so that
// the order then holds part by part only.
type breakList struct {
	schema dataset.Schema
	writer step.DatasetWriter
	limit  int64 // bytes
	rows   *dataset.Batch
	of     []category
	first  [][]string // what the report shows of the first ones
	dates  [2]int     // columns, -1 when there is none
	plan   *plan
}

// The columns of breaks that are always there; dates and the note follow.
const (
	breakID = iota
	breakCategory
	breakKey
	breakCurrency
	breakLeftAmount
	breakRightAmount
	breakDelta
	breakLeftLine
	breakRightLine
)

func newBreakList(ctx context.Context, p *plan, datasets step.Datasets, limit int64) (*breakList, error) {
	l := &breakList{plan: p, limit: limit, schema: p.breakSchema()}
	for which, s := range []*side{&p.left, &p.right} {
		l.dates[which] = l.schema.Index(s.name + "_date")
	}
	w, err := datasets.Create(ctx, l.schema)
	if err != nil {
		return nil, fmt.Errorf("write breaks: %w", err)
	}
	l.writer, l.rows = w, dataset.NewBatch(l.schema)
	return l, nil
}

// breakSchema returns the columns of breaks.
func (p *plan) breakSchema() dataset.Schema {
	schema := dataset.Schema{Columns: []dataset.Column{
		{Name: "break_id", Kind: dataset.Text},
		{Name: "category", Kind: dataset.Text},
		{Name: "key", Kind: dataset.Text},
		{Name: "currency", Kind: dataset.Currency},
		p.money("left_amount"),
		p.money("right_amount"),
		p.money("delta"),
		{Name: "left_line", Kind: dataset.Integer},
		{Name: "right_line", Kind: dataset.Integer},
	}}
	for _, s := range []*side{&p.left, &p.right} {
		if s.date >= 0 {
			schema.Columns = append(schema.Columns, dataset.Column{Name: s.name + "_date", Kind: s.schema.Columns[s.date].Kind})
		}
	}
	schema.Columns = append(schema.Columns, dataset.Column{Name: "note", Kind: dataset.Text})
	return schema
}

// add appends a row.
func (l *breakList) add(o *outcomes, b breakRow, id, currency []byte, delta int64) {
	c := l.rows.Columns
	c[breakID].AppendText(id)
	c[breakCategory].AppendString(b.category.String())
	c[breakKey].AppendString(o.keyText(b))
	c[breakCurrency].AppendText(currency)
	appendAmountTo(&c[breakLeftAmount], b.left)
	appendAmountTo(&c[breakRightAmount], b.right)
	c[breakDelta].AppendInt(delta)
	l.addSide(o.left, b.l, breakLeftLine, l.dates[onLeft])
	l.addSide(o.right, b.r, breakRightLine, l.dates[onRight])
	c[len(c)-1].AppendString(b.note)
	if b.l != none {
		l.rows.Lines = append(l.rows.Lines, o.left.rows.Lines[b.l])
	} else {
		l.rows.Lines = append(l.rows.Lines, o.right.rows.Lines[b.r])
	}
	l.of = append(l.of, b.category)
}

// addSide appends line and date of one side, nulls if it has no line.
func (l *breakList) addSide(t *table, row line, number, date int) {
	c := l.rows.Columns
	if row == none {
		c[number].AppendNull()
	} else {
		c[number].AppendInt(t.rows.Lines[row])
	}
	switch {
	case date < 0:
	case row == none:
		c[date].AppendNull()
	default:
		c[date].AppendFrom(&t.rows.Columns[t.side.date], int(row))
	}
}

func appendAmountTo(v *dataset.Vector, a amount) {
	if a.ok {
		v.AppendInt(a.mant)
	} else {
		v.AppendNull()
	}
}

// full reports whether the list has outgrown its limit.
func (l *breakList) full() bool {
	n := int64(len(l.of) * 8 * (len(l.schema.Columns) + 3))
	for i := range l.rows.Columns {
		n += int64(len(l.rows.Columns[i].Bytes))
	}
	return n > l.limit
}

// flush sorts and writes what there is.
func (l *breakList) flush() error {
	order := make([]int32, len(l.of))
	for i := range order {
		order[i] = int32(i)
	}
	keys := &l.rows.Columns[breakKey]
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(l.of[a], l.of[b]), bytes.Compare(keys.Text(int(a)), keys.Text(int(b))))
	})
	batch := dataset.NewBatch(l.schema)
	for _, i := range order {
		if len(l.first) < shownBreaks {
			l.first = append(l.first, l.plan.breakLine(l.rows, int(i)))
		}
		batch.AppendRow(l.rows, int(i))
		if !batch.Full() {
			continue
		}
		if err := l.writer.Write(batch); err != nil {
			return fmt.Errorf("write breaks: %w", err)
		}
		batch.Reset()
	}
	if err := l.writer.Write(batch); err != nil {
		return fmt.Errorf("write breaks: %w", err)
	}
	l.rows.Reset()
	l.of = l.of[:0]
	return nil
}
