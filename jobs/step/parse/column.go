package parse

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"madeira/jobs/dataset"
)

// A column is a declared column, compiled: how its values are read.
type column struct {
	set      *columnSetting
	kind     dataset.Kind
	scale    int
	round    dataset.Rounding
	required bool   // an empty value refuses the row
	optional bool   // the header need not have it
	code     string // currency of all amounts; "" when it is in a column or unknown
	named    string // column that names the currency; "" at first: the only one there is
	currency int    // column that names the currency of each amount, or -1
	amount   amountFormat
	moment   *layout
	mapped   map[string][]byte
	bare     bool // values have no wrapping and no text means nothing
	formula  *node
}

// newColumn compiles what a column says by itself; what refers to other columns
// follows.
func newColumn(set *columnSetting, key []string) (column, error) {
	c := column{
		set: set, kind: dataset.Kind(set.Type), round: dataset.Rounding(set.Round), amount: newAmountFormat(set),
		code: set.Currency, named: set.Codes, currency: -1, bare: len(set.Clean)+len(set.Empty) == 0,
	}
	c.required = c.kind == dataset.Money || slices.Contains(key, set.Name)
	if set.Required != nil {
		c.required, c.optional = *set.Required, !*set.Required
	}
	if set.Map != nil {
		c.mapped = make(map[string][]byte, len(set.Map))
		for from, to := range set.Map {
			c.mapped[from] = []byte(to)
		}
	}
	if c.kind.IsDecimal() {
		c.scale = dataset.DefaultScale
		if exponent, ok := dataset.Exponent(c.code); ok {
			c.scale = exponent
		}
		if set.Scale != nil {
			c.scale = *set.Scale
		}
	}
	var err error
	switch {
	case set.Value == "" && !set.From.given() && !set.Plus.given():
		err = errors.New("from, value, or plus and minus is missing")
	case (c.kind == dataset.Date || c.kind == dataset.Timestamp) && set.Value == "":
		c.moment, err = momentLayout(set)
	case c.kind.IsDecimal() && slices.Contains(set.Groups, string(c.amount.decimal)):
		err = fmt.Errorf("decimal and thousands are both %q; declare each as the file has it", string(c.amount.decimal))
	case set.Plus.given():
		err = set.checkTwo(c.kind)
	case c.amount.debit && c.amount.credit:
		err = errors.New("negative: dr and cr cannot both make an amount negative; name the one that does")
	}
	return c, err
}

// checkTwo refuses what makes no sense of an amount that is in two columns.
func (c *columnSetting) checkTwo(kind dataset.Kind) error {
	switch {
	case !kind.IsDecimal():
		return fmt.Errorf("plus and minus make an amount, and the type is %s", kind)
	case c.Plus == c.Minus:
		return fmt.Errorf("plus and minus are both %s, so every amount would be 0; name one column for what comes in and another for what goes out, or write from for amounts that have their sign", c.Plus)
	case c.Sign != nil:
		return errors.New("plus and minus say the sign of an amount; leave sign out")
	case c.Map != nil:
		return errors.New("map replaces a value of one column, not the amount of plus and minus; write the texts that mean no amount under empty")
	}
	return nil
}

// column returns the declaration in the dataset.
func (c *column) column() dataset.Column {
	return dataset.Column{Name: c.set.Name, Kind: c.kind, Scale: c.scale, Currency: c.code}
}

// read appends the value of a record to the vector. On a fault nothing is
// appended, and value is what the fault is about; in says where in the record it
// stands.
func (c *column) read(v *dataset.Vector, b *block, first int, p place, batch *dataset.Batch) (value []byte, in int, wrong fault) {
	if p.plus >= 0 {
		return c.readTwo(v, b, first, p)
	}
	value, wrong = c.readOne(v, b, first, p, batch)
	if wrong == faultSign {
		return value, p.sign, wrong
	}
	return value, p.from, wrong
}

func (c *column) readOne(v *dataset.Vector, b *block, first int, p place, batch *dataset.Batch) (value []byte, wrong fault) {
	if p.from >= 0 {
		value = c.clean(b.field(first + p.from))
	}
	if c.mapped != nil {
		to, ok := c.mapped[string(value)]
		if !ok && len(value) > 0 && c.set.Else != "keep" {
			return value, faultMap
		}
		if ok {
			value = to
		}
	}
	if len(value) == 0 {
		if c.required {
			return value, faultMissing
		}
		v.AppendNull()
		return nil, fine
	}
	if c.kind == dataset.Text {
		if c.set.Damaged != "keep" && damaged(value) {
			return value, faultDamaged
		}
		v.AppendText(value)
		return nil, fine
	}
	return value, c.convert(v, value, b, first, p, batch)
}

// convert appends a value of any kind but text.
func (c *column) convert(v *dataset.Vector, value []byte, b *block, first int, p place, batch *dataset.Batch) fault {
	var n int64
	var wrong fault
	switch c.kind {
	case dataset.Currency:
		return readCurrency(v, value)
	case dataset.Integer:
		n, wrong = c.amount.parseInteger(value)
	case dataset.Boolean:
		n, wrong = readBoolean(value)
	case dataset.Date:
		n, wrong = c.moment.date(value)
	case dataset.Timestamp:
		n, wrong = c.moment.instant(value)
	default:
		n, wrong = c.readAmount(value, batch)
		if wrong == fine && p.sign >= 0 {
			n, wrong = c.signed(n, trim(b.field(first+p.sign)))
		}
	}
	if wrong == fine {
		v.AppendInt(n)
	}
	return wrong
}

// readAmount reads an exact number at the scale of the column.
func (c *column) readAmount(value []byte, batch *dataset.Batch) (int64, fault) {
	n, wrong := c.amount.parse(value)
	if wrong != fine {
		return 0, wrong
	}
	if n.Scale > c.scale && c.round == "" && mayBeThousands(n) {
		return 0, faultThousands
	}
	if c.set.Minor {
		code := c.code
		if c.currency >= 0 {
			v := &batch.Columns[c.currency]
			code = string(v.Text(v.Len() - 1))
		}
		exponent, ok := dataset.Exponent(code)
		switch {
		case code == "":
			return 0, faultNoCurrency
		case !ok:
			return 0, faultCurrency
		}
		if n.Scale += exponent; n.Scale > dataset.MaxScale {
			return 0, faultRange
		}
	}
	return fit(n, c.scale, c.round)
}

// signed takes the sign from a column of its own; the amount must not have one.
func (c *column) signed(n int64, sign []byte) (int64, fault) {
	switch {
	case slices.Contains(c.set.Sign.Plus, string(sign)):
		return n, fine
	case !slices.Contains(c.set.Sign.Minus, string(sign)):
		return 0, faultSign
	case n < 0:
		return 0, faultSigned
	}
	return -n, fine
}

// readTwo reads an amount that is in one column when it comes in and in another
// when it goes out. Whether the second one has a minus of its own is declared.
func (c *column) readTwo(v *dataset.Vector, b *block, first int, p place) (value []byte, in int, wrong fault) {
	plus, minus := c.clean(b.field(first+p.plus)), c.clean(b.field(first+p.minus))
	if len(plus)+len(minus) == 0 {
		if c.required {
			return nil, p.plus, faultNeither
		}
		v.AppendNull()
		return nil, p.plus, fine
	}
	var incoming, outgoing int64
	if len(plus) > 0 {
		if incoming, wrong = c.readAmount(plus, nil); wrong != fine {
			return plus, p.plus, wrong
		}
	}
	if len(minus) > 0 {
		if outgoing, wrong = c.readAmount(minus, nil); wrong != fine {
			return minus, p.minus, wrong
		}
	}
	switch {
	case incoming < 0:
		return plus, p.plus, faultSigned
	case c.set.Signed && outgoing > 0, !c.set.Signed && outgoing < 0:
		return minus, p.minus, faultSigned
	case outgoing > 0:
		outgoing = -outgoing
	}
	v.AppendInt(incoming + outgoing)
	return nil, p.plus, fine
}

// unpriced reports whether row i has an amount whose currency is empty.
func (c *column) unpriced(v *dataset.Vector, batch *dataset.Batch, i int) bool {
	return batch.Columns[c.currency].Null(i) && !v.Null(i)
}

func readCurrency(v *dataset.Vector, value []byte) fault {
	if len(value) != 3 {
		return faultCurrency
	}
	var code [3]byte
	for i, c := range value {
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c < 'A' || c > 'Z' {
			return faultCurrency
		}
		code[i] = c
	}
	v.AppendText(code[:])
	return fine
}

func readBoolean(value []byte) (int64, fault) {
	var lower [5]byte
	if len(value) > len(lower) {
		return 0, faultBoolean
	}
	for i, c := range value {
		lower[i] = c | 0x20 // digits have the bit already
	}
	switch string(lower[:len(value)]) {
	case "true", "yes", "y", "1":
		return 1, fine
	case "false", "no", "n", "0":
		return 0, fine
	}
	return 0, faultBoolean
}

// clean takes blanks off, then whatever wrapping the column declares, and returns
// nothing for the texts that mean nothing.
func (c *column) clean(value []byte) []byte {
	value = trim(value)
	if c.bare || len(value) == 0 {
		return value
	}
	for _, rule := range c.set.Clean {
		switch rule {
		case "backquote":
			value = bytes.Trim(value, "`")
		case "apostrophe":
			value = bytes.Trim(value, "'")
		case "excel_text":
			if inner, ok := bytes.CutPrefix(value, []byte(`="`)); ok && bytes.HasSuffix(inner, []byte(`"`)) {
				value = inner[:len(inner)-1]
			}
		}
		value = trim(value)
	}
	for _, nothing := range c.set.Empty {
		if string(value) == nothing {
			return nil
		}
	}
	return value
}

// trim takes spaces, tabs, no-break and ideographic spaces off both ends.
func trim(b []byte) []byte {
	if n := len(b); n > 0 { // most values begin and end with bytes that no blank has
		first, last := b[0], b[n-1]
		if first > ' ' && first != 0xC2 && first != 0xE3 && last > ' ' && last != 0x80 && last != 0xA0 {
			return b
		}
	}
	return trimBlanks(b)
}

func trimBlanks(b []byte) []byte {
	for len(b) > 0 && blankAt(b) > 0 {
		b = b[blankAt(b):]
	}
	for len(b) > 0 {
		n := 1
		if last := b[len(b)-1]; last >= utf8.RuneSelf {
			if _, n = utf8.DecodeLastRune(b); n < 2 {
				break
			}
		}
		if blankAt(b[len(b)-n:]) == 0 {
			break
		}
		b = b[:len(b)-n]
	}
	return b
}

// blankAt returns the length of the blank that b begins with, or 0.
func blankAt(b []byte) int {
	switch c := b[0]; {
	case c == ' ' || c == '\t':
		return 1
	case c == 0xC2 && len(b) > 1 && b[1] == 0xA0:
		return 2
	case c == 0xE3 && len(b) > 2 && b[1] == 0x80 && b[2] == 0x80:
		return 3
	}
	return 0
}

// damaged reports whether a text is what a spreadsheet leaves of a long number,
// 4.20000E+27, or of a formula that failed, #REF!.
func damaged(text []byte) bool {
	if text[0] == '#' {
		last := text[len(text)-1]
		return len(text) > 2 && (last == '!' || last == '?' || string(text) == "#N/A") && len(text) < 10
	}
	if len(text) < 4 || !isDigit(text[0]) || text[1] != '.' && text[1] != 'E' && text[1] != 'e' {
		return false
	}
	i := 1
	if text[i] == '.' {
		for i++; i < len(text) && isDigit(text[i]); i++ {
		}
		if i == 2 {
			return false
		}
	}
	if i+2 >= len(text) || text[i]|0x20 != 'e' || text[i+1] != '+' {
		return false
	}
	for i += 2; i < len(text); i++ {
		if !isDigit(text[i]) {
			return false
		}
	}
	return true
}
