package reconcile

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"madeira/jobs/dataset"
)

// What the report shows at most; the rest is in breaks and summary.
const (
	shownBreaks = 20
	shownRows   = 100 // of each table
	shownWidth  = 48  // of a line of a key or a note, in columns of a terminal
	shownText   = 500 // of a key or a note, in characters
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
	var lines [][]string
	for _, row := range rows {
		lines = append(lines, wrapRow(row)...)
	}
	widths := make([]int, len(rows[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], columns(cell))
		}
	}
	right := make([]bool, len(widths))
	for _, i := range toRight {
		right[i] = true
	}
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
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

// wrapRow returns the lines of a row whose long cells go on below.
func wrapRow(row []string) [][]string {
	cells := make([][]string, len(row))
	height := 1
	for i, cell := range row {
		cells[i] = wrap(cell, shownWidth)
		height = max(height, len(cells[i]))
	}
	lines := make([][]string, height)
	for n := range lines {
		lines[n] = make([]string, len(row))
		for i, cell := range cells {
			if n < len(cell) {
				lines[n][i] = cell[n]
			}
		}
	}
	return lines
}

// wrap breaks a text into lines of at most so many columns, at a blank where there
// is one in the second half of a line.
func wrap(text string, most int) []string {
	var lines []string
	for columns(text) > most {
		end, used, blank := 0, 0, 0
		for at, r := range text {
			if used += runeColumns(r); used > most {
				if r == ' ' {
					blank = at
				}
				break
			}
			end = at + utf8.RuneLen(r)
			if r == ' ' && used > most/2 {
				blank = at
			}
		}
		if blank > 0 {
			end = blank
		}
		lines = append(lines, text[:end])
		text = strings.TrimPrefix(text[end:], " ")
	}
	return append(lines, text)
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

// clean makes text from a file safe to print: one line, and nothing a terminal would
// obey. Of one that would fill pages it says how much is left out.
func clean(text string) string {
	var s strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > shownText {
			continue
		}
		if !unicode.IsPrint(r) {
			r = '?'
		}
		s.WriteRune(r)
	}
	if n > shownText {
		fmt.Fprintf(&s, " (%s more characters, in the output breaks)", grouped(int64(n-shownText)))
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
