package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// sideSchema is what the sides of most tests look like.
var sideSchema = dataset.Schema{Columns: []dataset.Column{
	{Name: "ref", Kind: dataset.Text},
	{Name: "day", Kind: dataset.Date},
	{Name: "ccy", Kind: dataset.Currency},
	{Name: "amount", Kind: dataset.Money, Scale: 2},
	{Name: "state", Kind: dataset.Text},
	{Name: "memo", Kind: dataset.Text},
}}

// A rec is a row of sideSchema, written as people do: "L01 2026-10-01 CNY 12.30 paid memo".
// A minus stands for no value; what is left out at the end is empty.
func rec(t testing.TB, text string) []any {
	t.Helper()
	f := append(strings.Fields(text), "", "", "", "", "", "")
	day, err := dataset.ParseDate([]byte(f[1]))
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := dataset.ParseFixed([]byte(f[3]))
	if err != nil {
		t.Fatal(err)
	}
	mant, err := fixed.Rescale(2)
	if err != nil {
		t.Fatal(err)
	}
	return []any{f[0], day, f[2], mant, f[4], f[5]}
}

func recs(t testing.TB, texts []string) [][]any {
	t.Helper()
	rows := make([][]any, len(texts))
	for i, text := range texts {
		rows[i] = rec(t, text)
	}
	return rows
}

// config returns settings for two datasets of sideSchema; change may alter them.
func config(t testing.TB, left, right step.Dataset, change func(map[string]any)) string {
	t.Helper()
	side := func(d step.Dataset) map[string]any {
		return map[string]any{"rows": d, "amount": "amount", "currency": "ccy", "date": "day"}
	}
	set := map[string]any{
		"left": side(left), "right": side(right),
		"match": []any{map[string]any{"id": "order", "kind": "one_to_one", "keys": map[string]any{"ref": "ref"}, "amount": "exact"}},
	}
	if change != nil {
		change(set)
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// value returns an output as the type it has.
func value[T any](t testing.TB, out step.Output, name string) T {
	t.Helper()
	v, ok := out.Values[name].(T)
	if !ok {
		t.Fatalf("output %s is %T %v", name, out.Values[name], out.Values[name])
	}
	return v
}

// breaksOf renders the breaks without ids and notes: category key currency left right delta lines.
func breaksOf(t testing.TB, kit *steptest.Kit, out step.Output) []string {
	t.Helper()
	var lines []string
	for _, r := range kit.Rows(value[step.Dataset](t, out, "breaks"), "category", "key", "currency", "left_amount", "right_amount", "delta", "left_line", "right_line") {
		lines = append(lines, fmt.Sprintf("%s %s %s %s|%s=%s %s:%s", r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]))
	}
	return lines
}

func matchesOf(t testing.TB, kit *steptest.Kit, out step.Output) []string {
	t.Helper()
	var lines []string
	for _, r := range kit.Rows(value[step.Dataset](t, out, "matches"), "left_ref", "currency", "left_amount", "right_amount", "left_line", "right_line") {
		lines = append(lines, fmt.Sprintf("%s %s %s|%s %s:%s", r[0], r[1], r[2], r[3], r[4], r[5]))
	}
	slices.Sort(lines)
	return lines
}

func equalLists(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func TestReconcile_DecidesAboutEveryCombination(t *testing.T) {
	t.Parallel()
	withStatus := func(set map[string]any) {
		sideOf(t, set, "left")["status"] = "state"
		sideOf(t, set, "right")["status"] = "state"
		set["status"] = map[string]any{"paid": []string{"success", "settled"}, "refunded": "settled"}
	}
	withCutoff := func(set map[string]any) {
		set["cutoff"] = map[string]any{"at": "2026-11-01", "grace": "3d"}
	}
	both := func(set map[string]any) { withStatus(set); withCutoff(set) }
	tests := []struct {
		name            string
		left, right     []string
		change          func(map[string]any)
		matches, breaks []string
	}{
		{
			name: "nothing on either side",
		},
		{
			name:    "equal",
			left:    []string{"A 2026-10-01 CNY 1.00"},
			right:   []string{"A 2026-10-05 CNY 1.00"},
			matches: []string{"A CNY 1.00|1.00 1:1"},
		},
		{
			name:    "zero against zero",
			left:    []string{"A 2026-10-01 CNY 0.00"},
			right:   []string{"A 2026-10-01 CNY 0.00"},
			matches: []string{"A CNY 0.00|0.00 1:1"},
		},
		{
			name:   "missing on the left",
			right:  []string{"A 2026-10-01 CNY 5.55"},
			breaks: []string{"missing_left A CNY |5.55=-5.55 :1"},
		},
		{
			name:   "missing on the right",
			left:   []string{"A 2026-10-01 CNY 5.55"},
			breaks: []string{"missing_right A CNY 5.55|=5.55 1:"},
		},
		{
			name:   "other amount",
			left:   []string{"A 2026-10-01 CNY 70.00"},
			right:  []string{"A 2026-10-01 CNY 71.00"},
			breaks: []string{"amount_mismatch A CNY 70.00|71.00=-1.00 1:1"},
		},
		{
			name:   "other sign",
			left:   []string{"A 2026-10-01 CNY 70.00"},
			right:  []string{"A 2026-10-01 CNY -70.00"},
			breaks: []string{"amount_mismatch A CNY 70.00|-70.00=140.00 1:1"},
		},
		{
			name:  "other currency, a delta in each",
			left:  []string{"A 2026-10-01 USD 15.00"},
			right: []string{"A 2026-10-01 EUR 15.00"},
			breaks: []string{
				"currency_mismatch A USD 15.00|=15.00 1:1",
				"currency_mismatch A EUR |15.00=-15.00 1:1",
			},
		},
		{
			name:    "same again on the left",
			left:    []string{"A 2026-10-01 CNY 40.00", "A 2026-10-01 CNY 40.00"},
			right:   []string{"A 2026-10-01 CNY 40.00"},
			matches: []string{"A CNY 40.00|40.00 1:1"},
			breaks:  []string{"duplicate_left A CNY 40.00|=40.00 2:"},
		},
		{
			name:    "same again on the right",
			left:    []string{"A 2026-10-01 CNY 40.00"},
			right:   []string{"A 2026-10-01 CNY 40.00", "A 2026-10-01 CNY 40.00"},
			matches: []string{"A CNY 40.00|40.00 1:1"},
			breaks:  []string{"duplicate_right A CNY |40.00=-40.00 :2"},
		},
		{
			name:    "two on each side are two matches",
			left:    []string{"A 2026-10-01 CNY 40.00", "A 2026-10-01 CNY 40.00"},
			right:   []string{"A 2026-10-01 CNY 40.00", "A 2026-10-01 CNY 40.00"},
			matches: []string{"A CNY 40.00|40.00 1:1", "A CNY 40.00|40.00 2:2"},
		},
		{
			name:    "same key, other amount, other side exhausted",
			left:    []string{"A 2026-10-01 CNY 40.00", "A 2026-10-01 CNY 41.00"},
			right:   []string{"A 2026-10-01 CNY 41.00"},
			matches: []string{"A CNY 41.00|41.00 2:1"},
			breaks:  []string{"duplicate_left A CNY 40.00|=40.00 1:"},
		},
		{
			name:   "several without a counterpart: the first by content is missing",
			left:   []string{"A 2026-10-01 CNY 41.00", "A 2026-10-01 CNY 40.00", "A 2026-10-01 CNY 40.00"},
			breaks: []string{"missing_right A CNY 40.00|=40.00 2:", "duplicate_left A CNY 40.00|=40.00 3:", "duplicate_left A CNY 41.00|=41.00 1:"},
		},
		{
			name:    "one pair and one other amount on each side",
			left:    []string{"A 2026-10-01 CNY 40.00", "A 2026-10-01 CNY 7.00"},
			right:   []string{"A 2026-10-01 CNY 8.00", "A 2026-10-01 CNY 40.00"},
			matches: []string{"A CNY 40.00|40.00 1:2"},
			breaks:  []string{"amount_mismatch A CNY 7.00|8.00=-1.00 2:1"},
		},
		{
			name:    "a duplicate is one before the rest is compared",
			left:    []string{"A 2026-10-01 CNY 40.00", "A 2026-10-01 CNY 40.00", "A 2026-10-01 CNY 7.00"},
			right:   []string{"A 2026-10-01 CNY 8.00", "A 2026-10-01 CNY 40.00"},
			matches: []string{"A CNY 40.00|40.00 1:2"},
			breaks:  []string{"amount_mismatch A CNY 7.00|8.00=-1.00 3:1", "duplicate_left A CNY 40.00|=40.00 2:"},
		},
		{
			name:  "a duplicate is one before it is ambiguous",
			left:  []string{"A 2026-10-01 CNY 10.00", "A 2026-10-01 CNY 10.00"},
			right: []string{"A 2026-10-01 CNY 12.00"},
			breaks: []string{
				"amount_mismatch A CNY 10.00|12.00=-2.00 1:1",
				"duplicate_left A CNY 10.00|=10.00 2:",
			},
		},
		{
			name:  "two alike against two alike leave nothing to guess",
			left:  []string{"A 2026-10-01 CNY 10.00", "A 2026-10-01 CNY 10.00"},
			right: []string{"A 2026-10-01 CNY 12.00", "A 2026-10-01 CNY 12.00"},
			breaks: []string{
				"amount_mismatch A CNY 10.00|12.00=-2.00 1:1",
				"amount_mismatch A CNY 10.00|12.00=-2.00 2:2",
			},
		},
		{
			name:  "one against two is not guessed",
			left:  []string{"A 2026-10-01 CNY 500.00"},
			right: []string{"A 2026-10-01 CNY 300.00", "A 2026-10-01 CNY 200.00"},
			breaks: []string{
				"ambiguous A CNY 500.00|=500.00 1:",
				"ambiguous A CNY |200.00=-200.00 :2",
				"ambiguous A CNY |300.00=-300.00 :1",
			},
		},
		{
			name:    "statuses go together as declared",
			left:    []string{"A 2026-10-01 CNY 1.00 paid", "B 2026-10-01 CNY 1.00 open", "C 2026-10-01 CNY 1.00 paid"},
			right:   []string{"A 2026-10-01 CNY 1.00 settled", "B 2026-10-01 CNY 1.00 open", "C 2026-10-01 CNY 1.00 paid"},
			change:  withStatus,
			matches: []string{"A CNY 1.00|1.00 1:1", "B CNY 1.00|1.00 2:2"},
			breaks:  []string{"status_mismatch C CNY 1.00|1.00=0.00 3:3"},
		},
		{
			name:    "a status with one choice chooses before one with two",
			left:    []string{"A 2026-10-01 CNY 1.00 paid", "A 2026-10-01 CNY 1.00 refunded"},
			right:   []string{"A 2026-10-01 CNY 1.00 settled", "A 2026-10-01 CNY 1.00 success"},
			change:  withStatus,
			matches: []string{"A CNY 1.00|1.00 1:2", "A CNY 1.00|1.00 2:1"},
		},
		{
			name:    "a fitting status is preferred, the other one is a duplicate",
			left:    []string{"A 2026-10-01 CNY 1.00 paid"},
			right:   []string{"A 2026-10-01 CNY 1.00 closed", "A 2026-10-01 CNY 1.00 success"},
			change:  withStatus,
			matches: []string{"A CNY 1.00|1.00 1:2"},
			breaks:  []string{"duplicate_right A CNY |1.00=-1.00 :1"},
		},
		{
			name:   "counterpart within the grace",
			left:   []string{"A 2026-10-31 CNY 66.00"},
			right:  []string{"A 2026-11-03 CNY 66.00"},
			change: withCutoff,
			breaks: []string{"timing A CNY 66.00|66.00=0.00 1:1"},
		},
		{
			name:   "left one within the grace",
			left:   []string{"A 2026-11-01 CNY 66.00"},
			right:  []string{"A 2026-10-31 CNY 66.00"},
			change: withCutoff,
			breaks: []string{"timing A CNY 66.00|66.00=0.00 1:1"},
		},
		{
			name:    "both after the cut-off agree",
			left:    []string{"A 2026-11-01 CNY 66.00"},
			right:   []string{"A 2026-11-20 CNY 66.00"},
			change:  withCutoff,
			matches: []string{"A CNY 66.00|66.00 1:1"},
		},
		{
			name:   "counterpart after the grace",
			left:   []string{"A 2026-10-31 CNY 66.00"},
			right:  []string{"A 2026-11-04 CNY 66.00"},
			change: withCutoff,
			breaks: []string{"missing_left A CNY |66.00=-66.00 :1", "missing_right A CNY 66.00|=66.00 1:"},
		},
		{
			name:   "no counterpart at all just before the cut-off",
			left:   []string{"A 2026-10-31 CNY 66.00"},
			change: withCutoff,
			breaks: []string{"missing_right A CNY 66.00|=66.00 1:"},
		},
		{
			name:    "a counterpart in time is preferred",
			left:    []string{"A 2026-10-31 CNY 66.00"},
			right:   []string{"A 2026-10-30 CNY 66.00", "A 2026-11-02 CNY 66.00"},
			change:  withCutoff,
			matches: []string{"A CNY 66.00|66.00 1:1"},
			breaks:  []string{"duplicate_right A CNY |66.00=-66.00 :2"},
		},
		{
			name:    "in time with the wrong status, late with the right one",
			left:    []string{"A 2026-10-31 CNY 66.00 paid", "A 2026-10-31 CNY 66.00 paid"},
			right:   []string{"A 2026-10-30 CNY 66.00 closed", "A 2026-11-02 CNY 66.00 success"},
			change:  both,
			breaks:  []string{"status_mismatch A CNY 66.00|66.00=0.00 2:1", "timing A CNY 66.00|66.00=0.00 1:2"},
			matches: nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			kit := steptest.New(t)
			left, right := kit.Dataset(sideSchema, recs(t, tt.left)...), kit.Dataset(sideSchema, recs(t, tt.right)...)
			out, err := kit.Run(Type(), config(t, left, right, tt.change))
			if err != nil {
				t.Fatal(err)
			}
			equalLists(t, "matches", matchesOf(t, kit, out), tt.matches)
			equalLists(t, "breaks", breaksOf(t, kit, out), tt.breaks)
			if got := value[int64](t, out, "matched_count"); got != int64(len(tt.matches)) {
				t.Errorf("matched_count = %d, want %d", got, len(tt.matches))
			}
			if (out.Warning == "") != (len(tt.breaks) == 0) {
				t.Errorf("%d breaks, but Warning = %q", len(tt.breaks), out.Warning)
			}
		})
	}
}
