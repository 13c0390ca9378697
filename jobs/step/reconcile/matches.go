package reconcile

import (
	"context"
	"fmt"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// matchColumns are the columns of matches before those of the two sides.
const matchColumns = 8

// A matchWriter writes the output matches. Pairs are gathered and then written
// column by column.
type matchWriter struct {
	plan        *plan
	left, right *table
	writer      step.DatasetWriter
	batch       *dataset.Batch
	ids         ids

	lefts, rights []uint32
	occurrences   []int64
}

func newMatchWriter(ctx context.Context, m *matcher, datasets step.Datasets) (*matchWriter, error) {
	schema := m.plan.matchSchema()
	w, err := datasets.Create(ctx, schema)
	if err != nil {
		return nil, fmt.Errorf("write matches: %w", err)
	}
	return &matchWriter{plan: m.plan, left: &m.left, right: &m.right, writer: w, batch: dataset.NewBatch(schema)}, nil
}

func (p *plan) money(name string) dataset.Column {
	currency := p.left.schema.Columns[p.left.amount].Currency
	if p.right.schema.Columns[p.right.amount].Currency != currency {
		currency = ""
	}
	return dataset.Column{Name: name, Kind: dataset.Money, Scale: p.scale, Currency: currency}
}

// matchSchema returns the columns of matches: those of all matches, then every
// column of both sides, prefixed. One whose name is taken gets a number, but the
// amount that was compared is not there twice.
func (p *plan) matchSchema() dataset.Schema {
	s := dataset.Schema{Columns: []dataset.Column{
		{Name: "match_id", Kind: dataset.Text},
		{Name: "pass", Kind: dataset.Text},
		{Name: "currency", Kind: dataset.Currency},
		p.money("left_amount"),
		p.money("right_amount"),
		p.money("delta"),
		{Name: "left_line", Kind: dataset.Integer},
		{Name: "right_line", Kind: dataset.Integer},
	}}
	taken := map[string]bool{}
	for _, c := range s.Columns {
		taken[c.Name] = true
	}
	for _, side := range []*side{&p.left, &p.right} {
		for _, i := range side.shown() {
			c := side.schema.Columns[i]
			name := side.name + "_" + c.Name
			for n := 2; taken[name]; n++ {
				name = fmt.Sprintf("%s_%s_%d", side.name, c.Name, n)
			}
			taken[name] = true
			c.Name = name
			s.Columns = append(s.Columns, c)
		}
	}
	return s
}

// shown returns the columns that a match repeats: all but an amount that would be
// called as the amount that was compared, and is it.
func (s *side) shown() []int {
	var shown []int
	for i, c := range s.schema.Columns {
		if i != s.amount || c.Name != "amount" {
			shown = append(shown, i)
		}
	}
	return shown
}

// add adds a pair. Its rows may change only after gather.
func (w *matchWriter) add(l, r uint32, occurrence int64) error {
	w.lefts, w.rights, w.occurrences = append(w.lefts, l), append(w.rights, r), append(w.occurrences, occurrence)
	if len(w.lefts)+w.batch.Len() < dataset.BatchRows {
		return nil
	}
	w.gather()
	return w.flush()
}

// flush writes the pairs that were gathered.
func (w *matchWriter) flush() error {
	if err := w.writer.Write(w.batch); err != nil {
		return fmt.Errorf("write matches: %w", err)
	}
	w.batch.Reset()
	return nil
}

// gather copies the pairs out of the tables. It is called before those change.
func (w *matchWriter) gather() {
	w.fill()
	columns := w.batch.Columns[matchColumns:]
	for _, part := range []struct {
		t    *table
		rows []uint32
	}{{w.left, w.lefts}, {w.right, w.rights}} {
		for _, c := range part.t.side.shown() {
			columns[0].AppendRows(&part.t.rows.Columns[c], part.rows)
			columns = columns[1:]
		}
	}
	w.lefts, w.rights, w.occurrences = w.lefts[:0], w.rights[:0], w.occurrences[:0]
}

// fill fills the columns that every match has, and the lines.
func (w *matchWriter) fill() {
	c := w.batch.Columns
	for i, l := range w.lefts {
		c[0].AppendText(w.ids.match(w.plan, w.left, w.right, l, w.rights[i], w.occurrences[i]))
		c[1].AppendString(w.plan.pass)
		c[3].AppendInt(w.left.amounts[l])
		c[4].AppendInt(w.right.amounts[w.rights[i]])
		c[5].AppendInt(0) // only what agrees to the last digit is a match
		c[6].AppendInt(w.left.rows.Lines[l])
		c[7].AppendInt(w.right.rows.Lines[w.rights[i]])
	}
	c[2].AppendRows(&w.left.rows.Columns[w.left.side.currency], w.lefts)
	w.batch.Lines = append(w.batch.Lines, c[6].Ints[w.batch.Len():]...)
}
