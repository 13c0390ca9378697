package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// A modelLine is a line of the model, which looks for everything in everything.
type modelLine struct {
	key, ccy, status, memo string
	day, amount            int64
	line                   int
	used                   bool
}

// A modelSetup is what rapid chooses besides the lines.
type modelSetup struct {
	opposite, status, cutoff bool
}

const (
	modelCutoff = 20_000
	modelGrace  = 3
)

var modelAccepts = map[string][]string{"paid": {"success", "settled"}, "refunded": {"settled"}}

func (s modelSetup) together(l, r *modelLine) bool {
	if !s.status {
		return true
	}
	if accepted, ok := modelAccepts[l.status]; ok {
		return slices.Contains(accepted, r.status)
	}
	return l.status == r.status
}

func (s modelSetup) verdict(l, r *modelLine) string {
	inTime := func(d int64) bool { return !s.cutoff || d < modelCutoff }
	tooLate := func(d int64) bool { return s.cutoff && d >= modelCutoff+modelGrace }
	if inTime(l.day) != inTime(r.day) {
		if tooLate(l.day) || tooLate(r.day) {
			return "beyond"
		}
		if s.together(l, r) {
			return "timing"
		}
	}
	if s.together(l, r) {
		return "matched"
	}
	return "status_mismatch"
}

func (s modelSetup) sameMoney(l, r *modelLine) bool {
	return l.ccy == r.ccy && (l.amount == r.amount && !s.opposite || l.amount == -r.amount && s.opposite)
}

func (s modelSetup) choices(l *modelLine) int {
	if accepted, ok := modelAccepts[l.status]; ok && s.status {
		return len(accepted)
	}
	return 1
}

// content orders lines as the program does, so that it is the same one of several
// like lines that becomes the duplicate.
func content(a, b *modelLine) int {
	return cmp.Or(
		strings.Compare(a.ccy, b.ccy), cmp.Compare(a.amount, b.amount), cmp.Compare(a.day, b.day),
		strings.Compare(a.status, b.status), strings.Compare(a.memo, b.memo), cmp.Compare(a.line, b.line),
	)
}

// decide returns every outcome as "category left right", by lines.
func (s modelSetup) decide(ls, rs []modelLine) []string {
	keys := map[string]bool{}
	for _, side := range [][]modelLine{ls, rs} {
		for i := range side {
			keys[side[i].key] = true
		}
	}
	var out []string
	for key := range keys {
		out = append(out, s.decideKey(ofKey(ls, key), ofKey(rs, key))...)
	}
	slices.Sort(out)
	return out
}

func ofKey(lines []modelLine, key string) []*modelLine {
	var of []*modelLine
	for i := range lines {
		if lines[i].key == key {
			of = append(of, &lines[i])
		}
	}
	slices.SortFunc(of, content)
	return of
}

func (s modelSetup) decideKey(ls, rs []*modelLine) []string {
	var out []string
	add := func(category string, l, r *modelLine) {
		text := func(m *modelLine) string {
			if m == nil {
				return ""
			}
			m.used = true
			return strconv.Itoa(m.line)
		}
		out = append(out, fmt.Sprintf("%s %s:%s", category, text(l), text(r)))
	}
	paired := s.pairAll(ls, rs, add)
	unused := func(side []*modelLine) []*modelLine {
		return slices.DeleteFunc(slices.Clone(side), func(m *modelLine) bool { return m.used })
	}
	for _, l := range unused(ls) {
		if slices.ContainsFunc(paired, func(p [2]*modelLine) bool { return p[0].ccy == l.ccy && p[0].amount == l.amount }) {
			add("duplicate_left", l, nil)
		}
	}
	for _, r := range unused(rs) {
		if slices.ContainsFunc(paired, func(p [2]*modelLine) bool { return p[1].ccy == r.ccy && p[1].amount == r.amount }) {
			add("duplicate_right", nil, r)
		}
	}
	restLeft, restRight := unused(ls), unused(rs)
	if s.opposite { // the first by content is then the largest on the right
		slices.SortFunc(restRight, func(a, b *modelLine) int {
			return cmp.Or(strings.Compare(a.ccy, b.ccy), cmp.Compare(b.amount, a.amount), content(a, b))
		})
	}
	switch {
	case len(restLeft) > 0 && len(restRight) > 0 && oneAmount(restLeft) && oneAmount(restRight):
		for i := range max(len(restLeft), len(restRight)) {
			switch {
			case i >= len(restRight):
				add("duplicate_left", restLeft[i], nil)
			case i >= len(restLeft):
				add("duplicate_right", nil, restRight[i])
			case restLeft[i].ccy == restRight[i].ccy:
				add("amount_mismatch", restLeft[i], restRight[i])
			default:
				add("currency_mismatch", restLeft[i], restRight[i])
			}
		}
	case len(restLeft) > 0 && len(restRight) > 0:
		for _, l := range restLeft {
			add("ambiguous", l, nil)
		}
		for _, r := range restRight {
			add("ambiguous", nil, r)
		}
	default:
		for i, l := range restLeft {
			if i == 0 && len(paired) == 0 {
				add("missing_right", l, nil)
			} else {
				add("duplicate_left", l, nil)
			}
		}
		for i, r := range restRight {
			if i == 0 && len(paired) == 0 {
				add("missing_left", nil, r)
			} else {
				add("duplicate_right", nil, r)
			}
		}
	}
	return out
}

func (s modelSetup) pairAll(ls, rs []*modelLine, add func(string, *modelLine, *modelLine)) (paired [][2]*modelLine) {
	byChoice := slices.Clone(ls)
	slices.SortStableFunc(byChoice, func(a, b *modelLine) int { return cmp.Compare(s.choices(a), s.choices(b)) })
	for _, verdict := range []string{"matched", "timing", "status_mismatch", "beyond"} {
		for _, l := range byChoice {
			for _, r := range rs {
				if l.used || r.used || !s.sameMoney(l, r) || s.verdict(l, r) != verdict {
					continue
				}
				paired = append(paired, [2]*modelLine{l, r})
				if verdict == "beyond" {
					add("missing_right", l, nil)
					add("missing_left", nil, r)
				} else {
					add(verdict, l, r)
				}
			}
		}
	}
	return paired
}

var modelSchema = dataset.Schema{Columns: []dataset.Column{
	{Name: "ref", Kind: dataset.Text}, {Name: "ccy", Kind: dataset.Currency}, {Name: "amount", Kind: dataset.Money, Scale: 2},
	{Name: "day", Kind: dataset.Date}, {Name: "state", Kind: dataset.Text}, {Name: "memo", Kind: dataset.Text},
}}

func drawLines(rt *rapid.T, name string, statuses []string) []modelLine {
	lines := make([]modelLine, rapid.IntRange(0, 24).Draw(rt, name))
	for i := range lines {
		lines[i] = modelLine{
			key:    rapid.SampledFrom([]string{"A", "B", "C", "D", "", "E", "F"}).Draw(rt, "key"),
			ccy:    rapid.SampledFrom([]string{"CNY", "CNY", "CNY", "USD"}).Draw(rt, "ccy"),
			amount: rapid.Int64Range(-2, 2).Draw(rt, "amount"),
			day:    modelCutoff + rapid.Int64Range(-2, 5).Draw(rt, "day"),
			status: rapid.SampledFrom(statuses).Draw(rt, "status"),
			memo:   rapid.SampledFrom([]string{"", "x", "y"}).Draw(rt, "memo"),
			line:   i + 1,
		}
	}
	return lines
}

func keep(kit *steptest.Kit, lines []modelLine) step.Dataset {
	rows := make([][]any, len(lines))
	for i, l := range lines {
		rows[i] = []any{l.key, l.ccy, l.amount, l.day, l.status, l.memo}
	}
	return kit.Dataset(modelSchema, rows...)
}

func (s modelSetup) config(t testing.TB, left, right step.Dataset, memory string) string {
	return config(t, left, right, func(set map[string]any) {
		if s.opposite {
			set["sign"] = "opposite"
		}
		if s.status {
			sideOf(t, set, "left")["status"] = "state"
			sideOf(t, set, "right")["status"] = "state"
			set["status"] = modelAccepts
		}
		if s.cutoff {
			set["cutoff"] = map[string]any{"at": dataset.FormatDate(modelCutoff), "grace": fmt.Sprint(modelGrace, "d")}
		}
		set["limits"] = map[string]any{"memory": memory}
	})
}

// outcomesOf renders what came out as decide does.
func outcomesOf(t testing.TB, kit *steptest.Kit, out step.Output) []string {
	t.Helper()
	var got []string
	for _, r := range kit.Rows(value[step.Dataset](t, out, "matches"), "left_line", "right_line") {
		got = append(got, fmt.Sprintf("matched %s:%s", r[0], r[1]))
	}
	for _, r := range kit.Rows(value[step.Dataset](t, out, "breaks"), "category", "left_line", "right_line", "left_amount") {
		if r[0] == "currency_mismatch" && r[3] == "" {
			continue // its second row
		}
		got = append(got, fmt.Sprintf("%s %s:%s", r[0], r[1], r[2]))
	}
	slices.Sort(got)
	return got
}

func drawSetup(rt *rapid.T) modelSetup {
	return modelSetup{
		opposite: rapid.Bool().Draw(rt, "opposite"),
		status:   rapid.Bool().Draw(rt, "status"),
		cutoff:   rapid.Bool().Draw(rt, "cutoff"),
	}
}

func TestReconcile_AgreesWithANaiveModel(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	rapid.Check(t, func(rt *rapid.T) {
		setup := drawSetup(rt)
		ls := drawLines(rt, "left", []string{"paid", "refunded", "settled"})
		rs := drawLines(rt, "right", []string{"success", "settled", "closed"})
		out, err := kit.Run(Type(), setup.config(t, keep(kit, ls), keep(kit, rs), "64MiB"))
		if err != nil {
			rt.Fatal(err)
		}
		if got, want := outcomesOf(t, kit, out), setup.decide(ls, rs); !slices.Equal(got, want) {
			rt.Fatalf("setup %+v\nleft %+v\nright %+v\n got %q\nwant %q", setup, ls, rs, got, want)
		}
	})
}

// withoutLines renders all outputs but the lines, rows in order.
func withoutLines(t testing.TB, kit *steptest.Kit, out step.Output) []string {
	t.Helper()
	var rows []string
	for _, name := range []string{"matches", "breaks"} {
		d := value[step.Dataset](t, out, name)
		var columns []string
		for _, c := range d.Schema.Names() {
			if c != "left_line" && c != "right_line" {
				columns = append(columns, c)
			}
		}
		for _, r := range kit.Rows(d, columns...) {
			rows = append(rows, name+" "+strings.Join(r, "|"))
		}
	}
	return append(rows, fmt.Sprint(out.Values["summary"]), fmt.Sprint(out.Values["open"]), fmt.Sprint(out.Values["open_count"]), out.Warning)
}

func TestReconcile_DoesNotDependOnTheOrderOfLines(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	rapid.Check(t, func(rt *rapid.T) {
		setup := drawSetup(rt)
		ls := drawLines(rt, "left", []string{"paid", "refunded"})
		rs := drawLines(rt, "right", []string{"success", "settled"})
		first, err := kit.Run(Type(), setup.config(t, keep(kit, ls), keep(kit, rs), "64MiB"))
		if err != nil {
			rt.Fatal(err)
		}
		ls, rs = rapid.Permutation(ls).Draw(rt, "left order"), rapid.Permutation(rs).Draw(rt, "right order")
		second, err := kit.Run(Type(), setup.config(t, keep(kit, ls), keep(kit, rs), "64MiB"))
		if err != nil {
			rt.Fatal(err)
		}
		if got, want := withoutLines(t, kit, second), withoutLines(t, kit, first); !slices.Equal(got, want) {
			rt.Fatalf("shuffled lines gave\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestReconcile_GivesTheSameInPartsAsInMemory(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	rapid.Check(t, func(rt *rapid.T) {
		setup := drawSetup(rt)
		ls := drawLines(rt, "left", []string{"paid", "refunded"})
		rs := drawLines(rt, "right", []string{"success", "settled"})
		for i := range ls { // more keys, so that there is something to cut
			ls[i].key += strconv.Itoa(i % 5)
		}
		for i := range rs {
			rs[i].key += strconv.Itoa(i % 5)
		}
		left, right := keep(kit, ls), keep(kit, rs)
		small, err := kit.Run(Type(), setup.config(t, left, right, "1KiB"))
		if err != nil {
			rt.Fatal(err)
		}
		large, err := kit.Run(Type(), setup.config(t, left, right, "64MiB"))
		if err != nil {
			rt.Fatal(err)
		}
		for _, name := range []string{"matches", "breaks"} {
			if got, want := value[step.Dataset](t, small, name).Digest, value[step.Dataset](t, large, name).Digest; name == "matches" && got != want {
				rt.Fatalf("%s in parts have digest %s, in memory %s", name, got, want)
			}
		}
		got, want := outcomesOf(t, kit, small), outcomesOf(t, kit, large)
		if !slices.Equal(got, want) {
			rt.Fatalf("in parts %q\nin memory %q", got, want)
		}
	})
}

// oneAmount reports whether all lines have the same amount in the same currency.
func oneAmount(lines []*modelLine) bool {
	return !slices.ContainsFunc(lines, func(m *modelLine) bool { return m.ccy != lines[0].ccy || m.amount != lines[0].amount })
}
