package parse

import (
	"bytes"
	"math"

	"madeira/jobs/dataset"
)

// A fault says why a value is refused; fine means that it is not.
type fault uint8

const (
	fine fault = iota
	faultMissing
	faultNeither // both fields of plus and minus are empty
	faultDamaged
	faultMap
	faultCurrency
	faultNoCurrency
	faultInteger
	faultBoolean
	faultAmount
	faultGroups
	faultZeroGroup
	faultDecimals
	faultThousands // the decimals may as well be thousands
	faultRange
	faultSign
	faultSigned
	faultDate
	faultGap
	faultNull
)

// pow10 holds the powers of ten that fit.
var pow10 = [dataset.MaxScale + 1]int64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
}

// An amountFormat says how a column writes numbers. Nothing is guessed: what is
// not declared refuses the row.
type amountFormat struct {
	decimal  byte
	groups   [][]byte // separators of thousands
	symbols  [][]byte // currency signs
	minus    bool     // -1
	unicode  bool     // U+2212 in front
	trailing bool     // 1-
	parens   bool     // (1)
	debit    bool     // 1 DR is negative, 1 CR is not
	credit   bool     // 1 CR is negative, 1 DR is not
}

func newAmountFormat(set *columnSetting) amountFormat {
	f := amountFormat{decimal: '.', minus: set.Negative == nil}
	if set.Decimal != "" {
		f.decimal = set.Decimal[0]
	}
	for _, group := range set.Groups {
		f.groups = append(f.groups, []byte(group))
		if group == " " { // the blanks that word processors and locales put there
			f.groups = append(f.groups, []byte("\u00A0"), []byte("\u202F"), []byte("\u2009"))
		}
	}
	for _, symbol := range set.Symbols {
		f.symbols = append(f.symbols, []byte(symbol))
	}
	for _, style := range set.Negative {
		switch style {
		case "minus":
			f.minus = true
		case "unicode_minus":
			f.unicode = true
		case "trailing_minus":
			f.trailing = true
		case "parentheses":
			f.parens = true
		case "dr":
			f.debit = true
		case "cr":
			f.credit = true
		}
	}
	return f
}

// parse reads an exact number. Most are digits with a point, which takes the
// short way.
func (f *amountFormat) parse(text []byte) (dataset.Fixed, fault) {
	if f.minus && len(text) > 1 && text[0] == '-' {
		if n, ok := f.digits(text[1:]); ok {
			return dataset.Fixed{Mant: -n.Mant, Scale: n.Scale}, fine
		}
	} else if n, ok := f.digits(text); ok {
		return n, fine
	}
	return f.dressed(text)
}

// digits reads up to 18 digits with at most one decimal point among them.
func (f *amountFormat) digits(text []byte) (dataset.Fixed, bool) {
	if len(text) == 0 || len(text) > 18 {
		return dataset.Fixed{}, false
	}
	mant, point := int64(0), -1
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9':
			mant = mant*10 + int64(c-'0')
		case c == f.decimal && point < 0 && i+1 < len(text):
			point = i
		default:
			return dataset.Fixed{}, false
		}
	}
	scale := 0
	if point >= 0 {
		scale = len(text) - 1 - point
	}
	return dataset.Fixed{Mant: mant, Scale: scale}, true
}

// dressed reads a number with signs, symbols or separators around or in it.
func (f *amountFormat) dressed(text []byte) (dataset.Fixed, fault) {
	negative, signs, symbols := false, 0, 0
	for bare := false; !bare; {
		text = trim(text)
		var sign, minus bool
		if text, sign, minus = f.sign(text); sign {
			signs++
			negative = negative || minus
			continue
		}
		bare = true
		for _, symbol := range f.symbols {
			if rest, ok := bytes.CutPrefix(text, symbol); ok {
				text, bare = rest, false
				symbols++
			} else if rest, ok := bytes.CutSuffix(text, symbol); ok {
				text, bare = rest, false
				symbols++
			}
		}
	}
	if signs > 1 || symbols > 1 {
		return dataset.Fixed{}, faultAmount
	}
	var buf [64]byte
	plain, wrong := f.ungroup(buf[:0], text)
	if wrong != fine {
		return dataset.Fixed{}, wrong
	}
	n, err := dataset.ParseFixed(plain)
	if err != nil {
		return dataset.Fixed{}, faultRange
	}
	if negative {
		n.Mant = -n.Mant
	}
	return n, fine
}

// sign takes one sign off the text, if it has one.
func (f *amountFormat) sign(text []byte) (rest []byte, found, negative bool) {
	if len(text) < 2 {
		return text, false, false
	}
	last := len(text) - 1
	switch {
	case text[0] == '+':
		return text[1:], true, false
	case text[0] == '-' && f.minus:
		return text[1:], true, true
	case f.unicode && bytes.HasPrefix(text, []byte("\u2212")):
		return text[len("\u2212"):], true, true
	case f.trailing && text[last] == '-':
		return text[:last], true, true
	case f.trailing && text[last] == '+':
		return text[:last], true, false
	case f.parens && text[0] == '(' && text[last] == ')':
		return text[1:last], true, true
	case (f.debit || f.credit) && last > 1 && text[last]|0x20 == 'r':
		side := text[last-1] | 0x20
		if side == 'd' || side == 'c' {
			return text[:last-1], true, f.debit && side == 'd' || f.credit && side == 'c'
		}
	}
	return text, false, false
}

// ungroup appends the digits without their separators of thousands, which must
// all be the same and stand before groups of three; the decimal point becomes ".".
// Nobody groups a number that begins with 0: what looks like it, 0.123 where "."
// groups, is most likely a number with the other decimal sign.
func (f *amountFormat) ungroup(dst, text []byte) ([]byte, fault) {
	whole, decimals := text, []byte(nil)
	if i := bytes.IndexByte(text, f.decimal); i >= 0 {
		whole, decimals = text[:i], text[i+1:]
		if len(decimals) == 0 {
			return dst, faultAmount
		}
	}
	switch {
	case len(whole)+len(decimals) == 0:
		return dst, faultAmount
	case len(text) > cap(dst)-1:
		return dst, f.tooLong(text)
	}
	var group []byte
	run := 0 // digits since the last separator
	for len(whole) > 0 {
		if c := whole[0]; c >= '0' && c <= '9' {
			dst = append(dst, c)
			run++
			whole = whole[1:]
			continue
		}
		sep := f.groupAt(whole)
		switch {
		case sep == nil:
			return dst, faultAmount
		case group == nil && (run == 0 || run > 3), group != nil && (run != 3 || !bytes.Equal(sep, group)):
			return dst, faultGroups
		case group == nil && dst[0] == '0':
			return dst, faultZeroGroup
		}
		group, run, whole = sep, 0, whole[len(sep):]
	}
	if group != nil && run != 3 {
		return dst, faultGroups
	}
	if decimals != nil {
		dst = append(dst, '.')
	}
	for _, c := range decimals {
		if c < '0' || c > '9' {
			return dst, faultAmount
		}
		dst = append(dst, c)
	}
	return dst, fine
}

// tooLong says what is wrong with a text that is too long for a number.
func (f *amountFormat) tooLong(text []byte) fault {
	for _, c := range text {
		if (c < '0' || c > '9') && c != f.decimal {
			return faultAmount
		}
	}
	return faultRange
}

func (f *amountFormat) groupAt(text []byte) []byte {
	for _, group := range f.groups {
		if bytes.HasPrefix(text, group) {
			return group
		}
	}
	return nil
}

// mayBeThousands reports whether a number may as well be one of another convention,
// 5.000 five thousand: a separator with three digits behind it and one to three, not all
// zero, before. What stands before would be lost in silence when the column has fewer
// decimals and those are zero.
func mayBeThousands(n dataset.Fixed) bool {
	const grouped = 1000
	size := max(n.Mant, -n.Mant)
	return n.Scale == 3 && size >= grouped && size < grouped*grouped
}

// fit writes the number with scale decimals.
func fit(n dataset.Fixed, scale int, round dataset.Rounding) (int64, fault) {
	up := scale - n.Scale
	switch {
	case up == 0:
		return n.Mant, fine
	case up > 0:
		if up > dataset.MaxScale || n.Mant > math.MaxInt64/pow10[up] || n.Mant < -math.MaxInt64/pow10[up] {
			return 0, faultRange
		}
		return n.Mant * pow10[up], fine
	}
	mant, err := n.Round(scale, round)
	if err != nil {
		return 0, faultDecimals
	}
	return mant, fine
}

// parseInteger reads a whole number.
func (f *amountFormat) parseInteger(text []byte) (int64, fault) {
	n, wrong := f.parse(text)
	if wrong == fine && n.Scale > 0 {
		wrong = faultInteger
	}
	if wrong == faultAmount {
		wrong = faultInteger
	}
	return n.Mant, wrong
}
