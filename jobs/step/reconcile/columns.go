package reconcile

import (
	"encoding/json"
	"strconv"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// sideNames are the columns that the settings name of one side.
type sideNames struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Date     string `json:"date"`
	Status   string `json:"status"`
}

// A role is what a column is to a side.
type role struct {
	setting, column string
	kinds           []dataset.Kind
}

func (n sideNames) roles() [4]role {
	return [...]role{
		{"amount", n.Amount, []dataset.Kind{dataset.Money}},
		{"currency", n.Currency, []dataset.Kind{dataset.Currency}},
		{"date", n.Date, []dataset.Kind{dataset.Date, dataset.Timestamp}},
		{"status", n.Status, []dataset.Kind{dataset.Text}},
	}
}

// A draft is the settings before there are rows.
type draft struct {
	settings

	Left  draftSide `json:"left"`
	Right draftSide `json:"right"`
}

type draftSide struct {
	sideNames

	Rows json.RawMessage `json:"rows"` // an expression
}

// draftColumns says what the settings tell about columns before the rows are there.
func draftColumns(d step.Draft) step.Columns {
	var set draft
	if json.Unmarshal(d.Settings, &set) != nil {
		return step.Columns{}
	}
	set.settings.Left.sideNames, set.settings.Right.sideNames = set.Left.sideNames, set.Right.sideNames
	left, right := []string{"left", "rows"}, []string{"right", "rows"}
	p := plan{left: expected("left", d.Rows(left...), set.Left.sideNames), right: expected("right", d.Rows(right...), set.Right.sideNames)}
	out := step.Columns{Named: append(named(left, set.Left.sideNames), named(right, set.Right.sideNames)...), Wrong: set.contradictions()}
	for i, pass := range set.Match {
		for name, other := range pass.Keys {
			at := []string{"match", strconv.Itoa(i), "keys", name}
			out.Named = append(out.Named, step.ColumnName{Name: name, At: at, Key: true, Of: left}, step.ColumnName{Name: other, At: at, Of: right})
			out.Wrong = append(out.Wrong, p.unequal(at, name, other)...)
		}
	}
	if p.left.amount >= 0 && p.right.amount >= 0 {
		out.Left = map[string][]step.Column{"matches": step.ColumnsOf(p.matchSchema()), "breaks": step.ColumnsOf(p.breakSchema())}
	}
	return out
}

// unequal returns what is wrong with two columns of a key that are known and never
// equal.
func (p *plan) unequal(at []string, left, right string) []step.WrongSetting {
	l, noLeft := p.left.schema.Column(left)
	r, noRight := p.right.schema.Column(right)
	if noLeft != nil || noRight != nil || l.Kind == "" || r.Kind == "" || comparable(l.Kind, r.Kind) {
		return nil
	}
	return []step.WrongSetting{{At: at, Text: neverEqual(l, r)}}
}

func named(of []string, names sideNames) []step.ColumnName {
	var out []step.ColumnName
	for _, r := range names.roles() {
		if r.column != "" {
			out = append(out, step.ColumnName{Name: r.column, At: []string{of[0], r.setting}, Of: of, Kinds: r.kinds})
		}
	}
	return out
}

// expected returns a side as far as it is known before there are rows. Its amount is
// -1 when nothing is known.
func expected(name string, columns []step.Column, names sideNames) side {
	s := side{name: name}
	for _, c := range columns {
		s.schema.Columns = append(s.schema.Columns, dataset.Column{Name: c.Name, Kind: c.Kind})
	}
	s.amount, s.date = s.schema.Index(names.Amount), s.schema.Index(names.Date)
	if names.Date != "" && s.date < 0 {
		s.amount = -1
	}
	return s
}
