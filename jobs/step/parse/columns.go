package parse

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A draft is the settings before there is a file.
type draft struct {
	settings

	File   json.RawMessage `json:"file"`   // an expression
	Preset string          `json:"preset"` // still there when it was not found
}

// draftColumns says what the settings tell about columns: those that they declare, which
// formulas, controls and the key name, and what of it cannot work.
func draftColumns(d step.Draft) step.Columns {
	out := step.Columns{Left: map[string][]step.Column{"changes": step.ColumnsOf(changesSchema())}}
	set := draft{settings: newSettings()}
	if json.Unmarshal(d.Settings, &set) != nil || set.Preset != "" || len(set.Columns) == 0 {
		return out
	}
	n := namer{}
	for i := range set.Columns {
		n.own = append(n.own, step.Column{Name: set.Columns[i].Name, Kind: dataset.Kind(set.Columns[i].Type)})
	}
	out.Left["rows"] = n.own
	for i := range set.Columns {
		c := &set.Columns[i]
		n.formula(c.Value, nil, "columns", c.Name, "value")
		n.currency(c)
		n.name(c.Codes, []dataset.Kind{dataset.Currency}, "columns", c.Name, "currency_column")
	}
	for i, name := range set.Key {
		n.name(name, nil, "key", strconv.Itoa(i))
	}
	for i, c := range set.Controls {
		n.formula(c.Computed, []dataset.Kind{dataset.Money, dataset.Decimal, dataset.Integer}, "controls", strconv.Itoa(i), "computed")
		n.formula(c.Where, nil, "controls", strconv.Itoa(i), "where")
	}
	out.Named, out.Wrong = n.named, set.wrong()
	return out
}

// wrong says why the settings cannot become a plan.
func (s *settings) wrong() []step.WrongSetting {
	err := s.CSV.check()
	if err == nil {
		_, err = newPlan(s)
	}
	var of *settingError
	if errors.As(err, &of) {
		return []step.WrongSetting{{At: of.at, Text: of.err.Error()}}
	}
	return nil
}

// currency notes that the only name in the value of a column of currencies is that of
// a currency, and no column is meant: small letters are read as capitals in files.
func (n *namer) currency(c *columnSetting) {
	code := strings.ToUpper(c.Value)
	if last := len(n.named) - 1; c.Type == string(dataset.Currency) && last >= 0 && n.named[last].Name == c.Value && dataset.KnownCurrency(code) {
		n.named[last].Text = strconv.Quote(code)
	}
}

// A namer collects the names of columns in the settings.
type namer struct {
	own   []step.Column
	named []step.ColumnName
}

func (n *namer) name(name string, kinds []dataset.Kind, at ...string) {
	if name != "" {
		n.named = append(n.named, step.ColumnName{Name: name, At: at, Own: n.own, Kinds: kinds})
	}
}

// formula collects the names in a formula. One that cannot be read has none, and
// neither has a single word that no column can be called, such as CNY: the plan says
// how a text is written.
func (n *namer) formula(src string, kinds []dataset.Kind, at ...string) {
	if src == "" {
		return
	}
	g, err := newGrammar(src, dataset.Schema{})
	if err != nil || len(g.tokens) == 1 && strings.ToLower(src) != src {
		return
	}
	for i, t := range g.tokens {
		calls := i+1 < len(g.tokens) && g.tokens[i+1].text == "("
		if isLetter(t.text[0]) && !calls && !slices.Contains(words, t.text) {
			n.named = append(n.named, step.ColumnName{Name: t.text, At: at, Offset: t.at, Own: n.own, Kinds: kinds})
		}
	}
}
