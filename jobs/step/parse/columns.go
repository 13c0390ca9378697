package parse

import (
	"encoding/json"
	"slices"
	"strconv"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A draftColumn is what a column says about columns.
type draftColumn struct {
	name  string
	Type  string `json:"type"`
	Value string `json:"value"`
	Codes string `json:"currency_column"`
}

type draftList []draftColumn

// UnmarshalJSON keeps the order of the keys.
func (l *draftList) UnmarshalJSON(raw []byte) error {
	return eachColumn(raw, func(name string, d *json.Decoder) error {
		c := draftColumn{name: name}
		err := d.Decode(&c)
		*l = append(*l, c)
		return err
	})
}

// draftColumns says what the settings tell about columns: those that they declare, which
// formulas, controls and the key name.
func draftColumns(d step.Draft) step.Columns {
	out := step.Columns{Left: map[string][]step.Column{"changes": step.ColumnsOf(changesSchema())}}
	var set struct {
		Preset   string    `json:"preset"` // still there when it was not found
		Columns  draftList `json:"columns"`
		Key      []string  `json:"key"`
		Controls []struct {
			Computed string `json:"computed"`
			Where    string `json:"where"`
		} `json:"controls"`
	}
	if json.Unmarshal(d.Settings, &set) != nil || set.Preset != "" || len(set.Columns) == 0 {
		return out
	}
	n := namer{}
	for _, c := range set.Columns {
		n.own = append(n.own, step.Column{Name: c.name, Kind: dataset.Kind(c.Type)})
	}
	out.Left["rows"] = n.own
	for _, c := range set.Columns {
		n.formula(c.Value, nil, "columns", c.name, "value")
		n.name(c.Codes, []dataset.Kind{dataset.Currency}, "columns", c.name, "currency_column")
	}
	for i, name := range set.Key {
		n.name(name, nil, "key", strconv.Itoa(i))
	}
	for i, c := range set.Controls {
		n.formula(c.Computed, []dataset.Kind{dataset.Money, dataset.Decimal, dataset.Integer}, "controls", strconv.Itoa(i), "computed")
		n.formula(c.Where, nil, "controls", strconv.Itoa(i), "where")
	}
	out.Named = n.named
	return out
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

// formula collects the names in a formula. One that cannot be read has none.
func (n *namer) formula(src string, kinds []dataset.Kind, at ...string) {
	g, err := newGrammar(src, dataset.Schema{})
	if err != nil {
		return
	}
	for i, t := range g.tokens {
		calls := i+1 < len(g.tokens) && g.tokens[i+1].text == "("
		if isLetter(t.text[0]) && !calls && !slices.Contains(words, t.text) {
			n.named = append(n.named, step.ColumnName{Name: t.text, At: at, Offset: t.at, Own: n.own, Kinds: kinds})
		}
	}
}
