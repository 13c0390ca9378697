package reconcile

import (
	"encoding/json"
	"fmt"

	"madeira/jobs/dataset"
)

// An openAmount is one element of the output open.
type openAmount struct {
	Currency string `json:"currency"`
	Net      string `json:"net"`   // sum of the deltas
	Gross    string `json:"gross"` // sum of the deltas without their signs
}

// A summary is the output summary: everything by category and currency.
type summary struct {
	Categories map[string]map[string]categorySummary `json:"categories"` // only those that occur
	Matched    map[string]matchedSummary             `json:"matched"`    // by currency
	Proof      map[string]proofSummary               `json:"proof"`      // by currency
	LeftLines  int64                                 `json:"left_lines"`
	RightLines int64                                 `json:"right_lines"`
}

type categorySummary struct {
	Count int64  `json:"count"`
	Left  string `json:"left"`
	Right string `json:"right"`
	Delta string `json:"delta"`
}

type matchedSummary struct {
	Count  int64  `json:"count"`
	Amount string `json:"amount"` // of the left side
}

// A proofSummary says that left - right = delta = breaks, or left + right with
// opposite signs.
type proofSummary struct {
	Left   string `json:"left"`
	Right  string `json:"right"`
	Delta  string `json:"delta"`
	Breaks string `json:"breaks"`
}

// open returns what is open in each currency that has a break.
func (l *ledger) open() []openAmount {
	open := []openAmount{}
	for _, t := range l.sorted() {
		if t.breakCount() > 0 {
			open = append(open, openAmount{Currency: t.currency, Net: l.money(t, t.net()), Gross: l.money(t, t.gross)})
		}
	}
	return open
}

// money returns a sum as other steps read it.
func (l *ledger) money(t *tally, s dataset.Sum) string { return s.Money(l.plan.scale, t.currency) }

func (l *ledger) summary() summary {
	s := summary{
		Categories: map[string]map[string]categorySummary{},
		Matched:    map[string]matchedSummary{},
		Proof:      map[string]proofSummary{},
		LeftLines:  l.plan.left.data.Rows,
		RightLines: l.plan.right.data.Rows,
	}
	for _, t := range l.sorted() {
		s.Matched[t.currency] = matchedSummary{Count: t.matched.count, Amount: l.money(t, t.matched.left)}
		s.Proof[t.currency] = proofSummary{
			Left: l.money(t, t.read[onLeft].sum), Right: l.money(t, t.read[onRight].sum),
			Delta: l.money(t, l.difference(t)), Breaks: l.money(t, t.net()),
		}
		for c, b := range t.breaks {
			if b.count == 0 {
				continue
			}
			name := category(c).String()
			if s.Categories[name] == nil {
				s.Categories[name] = map[string]categorySummary{}
			}
			s.Categories[name][t.currency] = categorySummary{
				Count: b.count, Left: l.money(t, b.left), Right: l.money(t, b.right), Delta: l.money(t, b.delta),
			}
		}
	}
	return s
}

// maxSummary keeps the outputs of the step within what the engine stores: 250
// currencies with breaks of all categories would be more.
const maxSummary = 160 << 10

// fits returns the summary, without its categories if it would be too large; the
// breaks hold them line by line.
func (s summary) fits() (summary, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return s, fmt.Errorf("write summary: %w", err)
	}
	if len(text) > maxSummary {
		s.Categories = nil
	}
	return s, nil
}
