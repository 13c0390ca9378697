package reconcile

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"madeira/jobs/dataset"
)

// What the report shows at most; the rest is in breaks and summary.
const (
	shownBreaks = 20
	shownRows   = 100 // of each table
	shownWidth  = 48  // of a key or a note, in columns of a terminal
)

// report returns what a person reads.
func (l *ledger) report(first [][]string, breakRows int64) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s left and %s right lines: %s pairs match, %s breaks\n", grouped(l.plan.left.data.Rows),
		grouped(l.plan.right.data.Rows), grouped(l.matchedCount()), grouped(l.openCount()))
	s.WriteString("\n")
	writeTable(&s, []int{1, 2}, append([][]string{{"matched", "count", "amount"}}, l.matchedRows()...))
	if rows := l.categoryRows(); len(rows) > 0 {
		s.WriteString("\n")
		writeTable(&s, []int{2, 3, 4, 5}, append([][]string{{"breaks", "currency", "count", "left", "right", "delta"}}, rows...))
		s.WriteString("\n")
		writeTable(&s, []int{1, 2}, append([][]string{{"open", "net", "gross"}}, l.openRows()...))
	}
	s.WriteString("\n")
	for _, t := range l.sorted() {
		s.WriteString(l.proofLine(t))
	}
	if len(first) == 0 {
		return s.String()
	}
	s.WriteString("\n")
	if n := int64(len(first)); n < breakRows {
		fmt.Fprintf(&s, "The first %d of %s breaks:\n", n, grouped(breakRows))
	}
	head := []string{"category", "currency", "left", "right", "delta", "left line", "right line", "key", "note"}
	writeTable(&s, []int{2, 3, 4, 5, 6}, append([][]string{head}, first...))
	return s.String()
}

func (l *ledger) matchedRows() [][]string {
	var rows [][]string
	for _, t := range l.sorted() {
		rows = append(rows, []string{clean(t.currency), grouped(t.matched.count), group(l.money(t, t.matched.left))})
	}
	return rows
}

func (l *ledger) categoryRows() [][]string {
	var rows [][]string
	for c := range categories {
		for _, t := range l.sorted() {
			b := t.breaks[c]
			if b.count == 0 {
				continue
			}
			rows = append(rows, []string{c.String(), clean(t.currency), grouped(b.count),
				group(l.money(t, b.left)), group(l.money(t, b.right)), group(l.money(t, b.delta))})
		}
	}
	return rows
}

func (l *ledger) openRows() [][]string {
	var rows [][]string
	for _, o := range l.open() {
		rows = append(rows, []string{clean(o.Currency), group(o.Net), group(o.Gross)})
	}
	return rows
}

// proofLine shows that nothing was lost: both sides as they were read, and the
// breaks. It is only printed when it holds.
func (l *ledger) proofLine(t *tally) string {
	operator := "-"
	if l.plan.sign == opposite {
		operator = "+"
	}
	return fmt.Sprintf("proof  %s  left %s %s right %s = %s = breaks %s  ok\n", clean(t.currency),
		group(l.money(t, t.read[onLeft].sum)), operator, group(l.money(t, t.read[onRight].sum)),
		group(l.money(t, l.difference(t))), group(l.money(t, t.net())))
}

// breakLine returns the cells of one break in the report.
func (p *plan) breakLine(b *dataset.Batch, i int) []string {
	text := func(c int) string { return clean(string(b.Columns[c].Text(i))) }
	amount := func(c int) string {
		if b.Columns[c].Null(i) {
			return ""
		}
		return group(dataset.FormatMoney(b.Columns[c].Ints[i], p.scale, string(b.Columns[breakCurrency].Text(i))))
	}
	number := func(c int) string {
		if b.Columns[c].Null(i) {
			return ""
		}
		return strconv.FormatInt(b.Columns[c].Ints[i], 10)
	}
	return []string{
		text(breakCategory), text(breakCurrency),
		amount(breakLeftAmount), amount(breakRightAmount), amount(breakDelta),
		number(breakLeftLine), number(breakRightLine),
		text(breakKey), text(len(b.Columns) - 1),
	}
}

// writeTable writes rows with aligned columns, the named ones to the right.
func writeTable(s *strings.Builder, toRight []int, rows [][]string) {
	if hidden := len(rows) - shownRows - 1; hidden > 0 {
		rows = append(rows[:shownRows+1:shownRows+1], []string{fmt.Sprintf("(%d more)", hidden)})
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], columns(cell))
		}
	}
	right := make([]bool, len(widths))
	for _, i := range toRight {
		right[i] = true
	}
	for _, row := range rows {
		var text strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-columns(cell))
			if right[i] {
				text.WriteString(pad + cell)
			} else {
				text.WriteString(cell + pad)
			}
			text.WriteString("  ")
		}
		s.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
}

// columns returns how many columns of a terminal a text takes: Chinese takes two
// for each character.
func columns(text string) int {
	n := 0
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch k := width.LookupRune(r).Kind(); {
	case unicode.Is(unicode.Mn, r):
		return 0
	case k == width.EastAsianWide || k == width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// clean makes text from a file safe to print: one line, nothing a terminal would
// obey, and not too long.
func clean(text string) string {
	var s strings.Builder
	used := 0
	for _, r := range text {
		if !unicode.IsPrint(r) {
			r = '?'
		}
		if used += runeColumns(r); used > shownWidth {
			s.WriteString("...")
			break
		}
		s.WriteRune(r)
	}
	return s.String()
}

// grouped returns a count with commas between the thousands.
func grouped(n int64) string { return group(strconv.FormatInt(n, 10)) }

// group puts commas between the thousands of a number.
func group(digits string) string {
	sign := ""
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		sign, digits = "-", rest
	}
	whole, decimals := digits, ""
	if i := strings.IndexByte(digits, '.'); i >= 0 {
		whole, decimals = digits[:i], digits[i:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + decimals
}
