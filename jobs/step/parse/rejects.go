package parse

import (
	"bufio"
	"context"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

const (
	rejectsName = "rejects.csv"

	// keptTexts is how many messages are kept for the report; all are in rejects.csv.
	keptTexts = 20
)

// rejects writes every refused row, as it is, with its reason.
type rejects struct {
	file  step.FileWriter
	buf   *bufio.Writer
	csv   *csv.Writer
	count int64
	texts []string
}

// A reject is one refused row.
type reject struct {
	part    string
	line    int64
	row     int64  // counted from 1, refused rows included
	offset  int64  // of the row in the part, in bytes
	column  int    // position in the file, counted from 1; 0: the row as a whole
	name    string // of the column
	rule    string
	message string
	raw     []byte
}

func newRejects(ctx context.Context, files step.Files) (*rejects, error) {
	file, err := files.Create(ctx, rejectsName, "")
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", rejectsName, err)
	}
	r := &rejects{file: file, buf: bufio.NewWriter(file)}
	r.csv = csv.NewWriter(r.buf)
	return r, r.csv.Write([]string{"file", "line", "row", "byte_offset", "column", "name", "rule", "message", "raw"})
}

// String is the message that a person can act on.
func (r *reject) String() string {
	at := ""
	if r.column > 0 {
		at = fmt.Sprintf(", column %d", r.column)
	}
	if r.name != "" {
		at += fmt.Sprintf(" %q", r.name)
		if r.column == 0 {
			at = ", column" + at[1:]
		}
	}
	return fmt.Sprintf("%s: line %d (row %d)%s: %s", r.part, r.line, r.row, at, r.message)
}

func (r *rejects) add(one *reject) error {
	r.count++
	if len(r.texts) < keptTexts {
		r.texts = append(r.texts, one.String())
	}
	column := ""
	if one.column > 0 {
		column = strconv.Itoa(one.column)
	}
	err := r.csv.Write([]string{
		one.part, strconv.FormatInt(one.line, 10), strconv.FormatInt(one.row, 10), strconv.FormatInt(one.offset, 10),
		column, one.name, one.rule, one.message, harmless(string(one.raw)),
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", rejectsName, err)
	}
	return nil
}

// harmless keeps a spreadsheet from taking a cell for a formula.
func harmless(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}

func (r *rejects) commit(ctx context.Context) (step.File, error) {
	r.csv.Flush()
	if err := r.csv.Error(); err != nil {
		return step.File{}, fmt.Errorf("write %s: %w", rejectsName, err)
	}
	if err := r.buf.Flush(); err != nil {
		return step.File{}, fmt.Errorf("write %s: %w", rejectsName, err)
	}
	f, err := r.file.Commit(ctx)
	if err != nil {
		return step.File{}, fmt.Errorf("keep %s: %w", rejectsName, err)
	}
	return f, nil
}

// explain says which rule a value breaks and how, in words that name the value.
func (c *column) explain(wrong fault, value []byte) (rule, message string) {
	text := `"` + shorten(value, 60) + `"`
	switch wrong {
	case faultMissing:
		return "parse.required", "it is empty"
	case faultNeither:
		return "parse.required", fmt.Sprintf("it is empty, and so is %s", c.set.Minus)
	case faultNull:
		return "parse.required", fmt.Sprintf("a part of %s is empty", c.set.Value)
	case faultDamaged:
		return "parse.damaged", text + " is what a spreadsheet leaves of a long number or a failed formula; was the file opened and saved in Excel? Ask for it again"
	case faultMap:
		return "parse.map", text + " is not in map"
	case faultCurrency:
		return "parse.currency", text + " is not the three letters of a currency"
	case faultNoCurrency:
		return "parse.currency", fmt.Sprintf("an amount needs its currency, and %s is empty", c.named)
	case faultInteger:
		return "parse.integer", text + " is not a whole number"
	case faultBoolean:
		return "parse.boolean", text + " is neither true nor false"
	case faultDate:
		return "parse.date", fmt.Sprintf("%s is not a %s like %s", text, c.kind, c.set.Format)
	case faultGap:
		return "parse.date", fmt.Sprintf("%s did not exist in %s: clocks were put forward over it", text, c.set.Timezone)
	}
	return c.explainAmount(wrong, text)
}

func (c *column) explainAmount(wrong fault, text string) (rule, message string) {
	what := "a number"
	if c.kind == dataset.Money {
		what = "an amount"
	}
	switch wrong {
	case faultGroups:
		return "parse.amount", fmt.Sprintf("%s is not %s: separators of thousands must stand before groups of three digits; the decimal sign is declared as %q", text, what, string(c.amount.decimal))
	case faultZeroGroup:
		return "parse.amount", fmt.Sprintf("%s is not %s: no separator of thousands stands behind a group that begins with 0; the decimal sign is declared as %q", text, what, string(c.amount.decimal))
	case faultDecimals:
		return "parse.decimals", fmt.Sprintf("%s has more than %d decimals; declare a larger scale, or round", text, c.scale)
	case faultThousands:
		return "parse.decimals", fmt.Sprintf("%s has more than %d decimals, or its separator is one of thousands; declare decimal and thousands as the file has them, or a larger scale, or round", text, c.scale)
	case faultRange:
		return "parse.range", fmt.Sprintf("%s has more digits than fit: %d at most, decimals included%s", text, dataset.MaxScale, c.padding())
	case faultSign:
		return "parse.sign", text + ": the column with its sign holds neither of the declared signs"
	case faultSigned:
		return "parse.sign", text + " has a sign of its own that its column does not allow; if the file writes outgoing amounts with a minus, declare signed: true"
	}
	return "parse.amount", fmt.Sprintf("%s is not %s with %q as decimal point", text, what, string(c.amount.decimal))
}

// padding says how many of the digits that fit are decimals of the column.
func (c *column) padding() string {
	if c.scale == 0 {
		return ""
	}
	return fmt.Sprintf(", of which the column keeps %d", c.scale)
}

// shorten cuts a text to at most n characters and makes control characters and
// damaged bytes visible.
func shorten(text []byte, n int) string {
	var out strings.Builder
	for i := 0; i < len(text); n-- {
		if n == 0 {
			out.WriteString("…")
			break
		}
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02X`, text[i])
		case !strconv.IsPrint(r):
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		default:
			out.WriteRune(r)
		}
		i += size
	}
	return out.String()
}
