package notify

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The templates.
const (
	templateReconciliation = "reconciliation"
	templateText           = "text"
)

// A summary is what the template reads of the output "summary" of a reconcile
// step. Amounts stay the digits they are.
type summary struct {
	Categories map[string]map[string]struct {
		Count int64  `json:"count"`
		Delta string `json:"delta"`
	} `json:"categories"`
	Matched map[string]struct {
		Count  int64  `json:"count"`
		Amount string `json:"amount"`
	} `json:"matched"`
	Proof map[string]struct {
		Left  string `json:"left"`
		Right string `json:"right"`
		Delta string `json:"delta"`
	} `json:"proof"`
	LeftLines  int64 `json:"left_lines"`
	RightLines int64 `json:"right_lines"`
}

// reconciliationText says in a few lines what matched, what did not, and how the
// two sides differ. Without a summary the step before has not come to an end.
func reconciliationText(raw json.RawMessage) (string, error) {
	if raw == nil {
		return "The reconciliation has no result: a step before it failed.", nil
	}
	var s summary
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("read the summary: %w", err)
	}
	lines := []string{s.matched(), s.breaks()}
	for _, currency := range slices.Sorted(maps.Keys(s.Proof)) {
		p := s.Proof[currency]
		lines = append(lines, fmt.Sprintf("%s: left %s, right %s, difference %s", currency, p.Left, p.Right, p.Delta))
	}
	return strings.Join(lines, "\n"), nil
}

func (s summary) matched() string {
	var pairs int64
	var amounts []string
	for _, currency := range slices.Sorted(maps.Keys(s.Matched)) {
		pairs += s.Matched[currency].Count
		amounts = append(amounts, currency+" "+s.Matched[currency].Amount)
	}
	text := fmt.Sprintf("matched %d of %d lines on the left and %d on the right", pairs, s.LeftLines, s.RightLines)
	if len(amounts) > 0 {
		text += ": " + strings.Join(amounts, ", ")
	}
	return text
}

func (s summary) breaks() string {
	if s.Categories == nil {
		return "breaks: too many currencies and categories for a message; see the attached breaks"
	}
	var parts []string
	for _, category := range slices.Sorted(maps.Keys(s.Categories)) {
		for _, currency := range slices.Sorted(maps.Keys(s.Categories[category])) {
			b := s.Categories[category][currency]
			parts = append(parts, fmt.Sprintf("%s %d (%s %s)", category, b.Count, currency, b.Delta))
		}
	}
	if len(parts) == 0 {
		return "no breaks"
	}
	return "breaks: " + strings.Join(parts, ", ")
}
