package load

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// shownInReport is how many conflicts and how many gone keys a report lists.
const shownInReport = 20

// output makes the outputs of a load that is at its end.
func (a *attempt) output(ctx context.Context, rec record) (step.Output, error) {
	total := rec.Tally.clone()
	if a.set.OnConflict == onConflictUpdate && !total.withheld {
		total.update()
	}
	total.plus(a.settled.twins.tally)
	total.plus(a.settled.gone.tally)
	conflicts, first, err := a.conflicts(ctx)
	if err != nil {
		return step.Output{}, err
	}
	return step.Output{
		Values: map[string]any{
			"inserted":       total.counts[inserted],
			"same":           total.counts[same],
			"repeated":       a.settled.twins.tally.counts[same],
			"conflict_count": total.counts[conflict] + total.counts[updated],
			"updated":        total.counts[updated],
			"rejected":       total.rejected,
			"gone":           total.counts[gone],
			"sums":           sums(&total),
			"conflicts":      conflicts,
			"rows":           a.set.Rows,
		},
		Report: a.report(&total, first),
	}, nil
}

// A sumOutput is one element of the output "sums".
type sumOutput struct {
	Outcome  string `json:"outcome"`
	Column   string `json:"column"`
	Currency string `json:"currency,omitempty"`
	Amount   string `json:"amount"`
}

func sums(t *tally) []sumOutput {
	list := []sumOutput{}
	for o := range t.sums {
		for c, column := range t.columns {
			for _, s := range t.sorted(outcome(o), c) {
				list = append(list, sumOutput{outcomeNames[o], column.target, s.currency, s.sum.Money(column.Scale, s.currency)})
			}
		}
	}
	return list
}

// report is the text for people: counts, sums, and where to look.
func (a *attempt) report(t *tally, differences []difference) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rows      %d\n", a.set.Rows.Rows)
	outcomes := []outcome{inserted, same, conflict}
	if a.set.OnConflict == onConflictUpdate {
		outcomes = []outcome{inserted, same, updated, conflict}
	}
	for _, o := range outcomes {
		a.line(&b, outcomeNames[o], t.counts[o], t.amounts(o))
	}
	a.line(&b, "rejected", t.rejected, "")
	if a.settled.gone.known {
		a.line(&b, outcomeNames[gone], t.counts[gone], t.amounts(gone))
	}
	if n := a.settled.twins.tally.counts[same]; n > 0 {
		fmt.Fprintf(&b, "%d of the same repeat an earlier line of this load\n", n)
	}
	for _, d := range differences {
		fmt.Fprintf(&b, "%s  %s  %s → %s  line %d\n", plain(d.key), d.column, shown(d.there), shown(d.here), d.line)
	}
	if n := t.counts[conflict] + t.counts[updated]; n > 0 && len(differences) == shownInReport {
		b.WriteString("all differences are in the output conflicts\n")
	}
	for _, key := range a.settled.gone.first {
		fmt.Fprintf(&b, "%s  gone\n", plain(key))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (a *attempt) line(b *strings.Builder, name string, n int64, amounts string) {
	b.WriteString(strings.TrimRight(fmt.Sprintf("%-8s  %d%s", name, n, amounts), " ") + "\n")
}

// amounts returns the sums of one outcome, each after two blanks.
func (t *tally) amounts(o outcome) string {
	var b strings.Builder
	for c, column := range t.columns {
		for _, s := range t.sorted(o, c) {
			b.WriteString("  " + column.target + " " + s.sum.Money(column.Scale, s.currency))
			if s.currency != "" {
				b.WriteString(" " + plain(s.currency))
			}
		}
	}
	return b.String()
}

// A difference is one column in which two lines of a key differ.
type difference struct {
	row, position, line int64
	key, column         string
	there, here         value
}

func (d difference) before(e difference) bool {
	return d.row < e.row || d.row == e.row && d.position < e.position
}

// conflictSchema is what the output "conflicts" holds. Values are text, as
// people read them; null is null.
func conflictSchema() dataset.Schema {
	return dataset.Schema{Columns: []dataset.Column{
		{Name: "key", Kind: dataset.Text},
		{Name: "column", Kind: dataset.Text},
		{Name: "there", Kind: dataset.Text},
		{Name: "here", Kind: dataset.Text},
		{Name: "line", Kind: dataset.Integer},
	}}
}

const (
	selectTargetDifferences = `SELECT row_number, position, line, key, column_name, there, here
		FROM madeira_load_conflict WHERE task = $1 ORDER BY row_number, position`
	selectTwinDifferences = `SELECT row_number, position, line, key, column_name, there, here
		FROM difference ORDER BY row_number, position`
)

// conflicts writes all differences in the order of the rows, those with the
// table and those inside the load, and returns the first ones as well.
func (a *attempt) conflicts(ctx context.Context) (step.Dataset, []difference, error) {
	table, err := a.db.Read.QueryContext(ctx, selectTargetDifferences, a.in.Task.Identity())
	if err != nil {
		return step.Dataset{}, nil, classify(fmt.Errorf("read the conflicts: %w", err))
	}
	defer table.Close()
	twins := &sql.Rows{}
	if a.settled.twins.db != nil {
		if twins, err = a.settled.twins.db.QueryContext(ctx, selectTwinDifferences); err != nil {
			return step.Dataset{}, nil, fmt.Errorf("read the conflicts: %w", err)
		}
		defer twins.Close()
	}
	w, err := a.in.Datasets.Create(ctx, conflictSchema())
	if err != nil {
		return step.Dataset{}, nil, err
	}
	defer w.Discard()
	first, err := a.writeDifferences(w, table, twins)
	if err != nil {
		return step.Dataset{}, nil, fmt.Errorf("write the conflicts: %w", err)
	}
	d, err := w.Commit(ctx)
	return d, first, err
}

// writeDifferences merges two lists that are in order.
func (a *attempt) writeDifferences(w step.DatasetWriter, table, twins *sql.Rows) ([]difference, error) {
	var first []difference
	b := dataset.NewBatch(conflictSchema())
	left, more, err := a.next(table)
	if err != nil {
		return nil, err
	}
	right, moreTwins := difference{}, false
	if a.settled.twins.db != nil {
		if right, moreTwins, err = a.next(twins); err != nil {
			return nil, err
		}
	}
	for more || moreTwins {
		d := right
		if more && (!moreTwins || left.before(right)) {
			d = left
			left, more, err = a.next(table)
		} else {
			right, moreTwins, err = a.next(twins)
		}
		if err != nil {
			return nil, err
		}
		if len(first) < shownInReport {
			first = append(first, d)
		}
		d.appendTo(b)
		if b.Full() {
			if err := w.Write(b); err != nil {
				return nil, err
			}
			b.Reset()
		}
	}
	return first, w.Write(b)
}

func (d difference) appendTo(b *dataset.Batch) {
	b.Columns[0].AppendString(d.key)
	b.Columns[1].AppendString(d.column)
	for i, v := range []value{d.there, d.here} {
		if v.valid {
			b.Columns[2+i].AppendString(v.text)
		} else {
			b.Columns[2+i].AppendNull()
		}
	}
	b.Columns[4].AppendInt(d.line)
	b.Lines = append(b.Lines, d.line)
}

// next reads one difference, both values in the form of the column's kind.
func (a *attempt) next(rows *sql.Rows) (difference, bool, error) {
	if !rows.Next() {
		return difference{}, false, rows.Err()
	}
	var d difference
	var there, here sql.NullString
	if err := rows.Scan(&d.row, &d.position, &d.line, &d.key, &d.column, &there, &here); err != nil {
		return difference{}, false, err
	}
	c, _ := a.plan.find(d.column)
	d.key = display(a.plan.keyColumn().Column, d.key)
	d.there = value{text: display(c.Column, there.String), valid: there.Valid}
	d.here = value{text: display(c.Column, here.String), valid: here.Valid}
	return d, true, nil
}

// display writes a value that a database returned as people read it. What is not
// of the kind of the column stays as it is.
func display(c dataset.Column, text string) string {
	switch c.Kind {
	case dataset.Money, dataset.Decimal:
		f, err := dataset.ParseFixed([]byte(text))
		if err != nil {
			return text
		}
		if c.Kind == dataset.Money {
			return dataset.FormatMoney(f.Mant, f.Scale, c.Currency)
		}
		if mant, err := f.Rescale(c.Scale); err == nil {
			return dataset.Fixed{Mant: mant, Scale: c.Scale}.String()
		}
		return f.String()
	case dataset.Boolean:
		if n, ok := parseBoolean([]byte(text)); ok {
			return strconv.FormatBool(n != 0)
		}
	case dataset.Timestamp:
		if micros, err := parseTimestamp(text); err == nil {
			return dataset.FormatTimestamp(micros)
		}
	}
	return text
}

// shown returns a value for a line of the report.
func shown(v value) string {
	if !v.valid {
		return "null"
	}
	return plain(v.text)
}

// plain returns a text that cannot break a line or run on for ever.
func plain(text string) string {
	const most = 80
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most]) + "…"
	}
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
