package dataset

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

// MaxScale is the largest number of decimals: 10^18 is the largest power of ten
// in an int64.
const MaxScale = 18

// A Fixed is the exact decimal number Mant / 10^Scale. The zero value is 0.
// Scale is 0 to MaxScale; methods panic on any other, which is a bug.
//
// Results of arithmetic keep the decimals of their operands (the larger scale
// for sums, both together for products). Only when that does not fit are zeros
// at the end given up, so that an error means that no Fixed holds the result.
type Fixed struct {
	Mant  int64
	Scale int
}

// pow10 holds the powers of ten up to MaxScale.
var pow10 = [MaxScale + 1]int64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
}

// ParseFixed reads a number of plain ASCII digits with an optional sign in front
// and an optional point, such as "-1234.50", "+7", ".5" or "5."; nothing else: no
// exponent, no separators, no blanks. The scale is the number of decimals
// written, fewer only when zeros at the end would not fit. The error wraps
// ErrSyntax, ErrRange, or ErrInexact for more than MaxScale decimals.
func ParseFixed(text []byte) (Fixed, error) {
	digits, neg := text, false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		digits, neg = text[1:], text[0] == '-'
	}
	mant, scale, err := parseDigits(digits)
	if err == nil && mant > math.MaxInt64 && (!neg || mant > 1<<63) {
		err = ErrRange
	}
	if err != nil {
		return Fixed{}, fmt.Errorf("read number %s: %w", quote(text), err)
	}
	if neg {
		mant = -mant
	}
	return Fixed{Mant: int64(mant), Scale: scale}, nil
}

// parseDigits reads digits with at most one point among them. Zeros after the
// point count only once a digit follows them or the end shows that they fit.
func parseDigits(digits []byte) (mant uint64, scale int, err error) {
	seen, point, zeros := false, false, 0
	for _, c := range digits {
		switch {
		case c == '0' && point:
			zeros++
			seen = true
		case c >= '0' && c <= '9':
			for ; zeros > 0 && err == nil; zeros-- {
				mant, scale, err = pushDigit(mant, scale, 0, point)
			}
			if err == nil {
				mant, scale, err = pushDigit(mant, scale, uint64(c-'0'), point)
			}
			seen = true
		case c == '.' && !point:
			point = true
		default:
			return 0, 0, ErrSyntax
		}
	}
	if !seen {
		return 0, 0, ErrSyntax
	}
	for ; zeros > 0 && err == nil && scale < MaxScale && mant <= math.MaxInt64/10; zeros-- {
		mant, scale = mant*10, scale+1
	}
	return mant, scale, err
}

// pushDigit appends one digit to a mantissa of at most 1<<63.
func pushDigit(mant uint64, scale int, digit uint64, decimal bool) (uint64, int, error) {
	if decimal {
		if scale == MaxScale {
			return 0, 0, ErrInexact
		}
		scale++
	}
	hi, lo := bits.Mul64(mant, 10)
	sum, carry := bits.Add64(lo, digit, 0)
	if hi+carry != 0 || sum > 1<<63 {
		return 0, 0, ErrRange
	}
	return sum, scale, nil
}

// quote returns text in quotes for a message, cut when it is long.
func quote(text []byte) string {
	const most = 40
	if len(text) > most {
		return strconv.Quote(string(text[:most])) + "…"
	}
	return strconv.Quote(string(text))
}

// String returns all decimals of the scale: "-0.50" for Fixed{-50, 2}.
func (f Fixed) String() string {
	var buf [32]byte
	return string(f.Append(buf[:0]))
}

// Append appends what String returns.
func (f Fixed) Append(dst []byte) []byte {
	return appendDecimal(dst, SumOf(f.Mant), f.Scale, f.Scale)
}

// Sign returns -1, 0 or 1.
func (f Fixed) Sign() int { return cmp.Compare(f.Mant, 0) }

// Rescale returns the mantissa of the same number at another scale. The error
// wraps ErrInexact if digits would be lost and ErrRange if it does not fit.
func (f Fixed) Rescale(scale int) (int64, error) { return f.Round(scale, Exact) }

// Neg returns -f, or an error that wraps ErrRange.
func (f Fixed) Neg() (Fixed, error) {
	if f.Mant == math.MinInt64 {
		return Fixed{}, fmt.Errorf("negate %s: %w", f, ErrRange)
	}
	return Fixed{Mant: -f.Mant, Scale: f.Scale}, nil
}

// Cmp returns -1, 0 or 1 as f is less than, equal to or greater than g in value;
// 1.5 and 1.50 are equal.
func (f Fixed) Cmp(g Fixed) int {
	if f.Scale == g.Scale {
		return cmp.Compare(f.Mant, g.Mant)
	}
	scale := max(f.Scale, g.Scale)
	return f.wide(scale).Cmp(g.wide(scale))
}

// Add returns f + g. The error wraps ErrRange or ErrInexact.
func (f Fixed) Add(g Fixed) (Fixed, error) {
	scale := max(f.Scale, g.Scale)
	sum := f.wide(scale)
	sum.AddSum(g.wide(scale))
	r, err := fit(sum, scale)
	if err != nil {
		return Fixed{}, fmt.Errorf("add %s and %s: %w", f, g, err)
	}
	return r, nil
}

// Sub returns f - g. The error wraps ErrRange or ErrInexact.
func (f Fixed) Sub(g Fixed) (Fixed, error) {
	scale := max(f.Scale, g.Scale)
	sum := f.wide(scale)
	sum.SubSum(g.wide(scale))
	r, err := fit(sum, scale)
	if err != nil {
		return Fixed{}, fmt.Errorf("subtract %s from %s: %w", g, f, err)
	}
	return r, nil
}

// Mul returns f × g. The error wraps ErrRange or ErrInexact.
func (f Fixed) Mul(g Fixed) (Fixed, error) {
	r, err := fit(product(f.Mant, g.Mant), f.Scale+g.Scale)
	if err != nil {
		return Fixed{}, fmt.Errorf("multiply %s by %s: %w", f, g, err)
	}
	return r, nil
}

// wide returns the mantissa at a scale that is not smaller, which 128 bits always hold.
func (f Fixed) wide(scale int) Sum {
	if scale == f.Scale {
		return SumOf(f.Mant)
	}
	return product(f.Mant, pow10[scale-f.Scale])
}

// fit returns s / 10^scale as a Fixed, giving up zeros at the end as needed.
func fit(s Sum, scale int) (Fixed, error) {
	for {
		mant, ok := s.Int64()
		if ok && scale <= MaxScale {
			return Fixed{Mant: mant, Scale: scale}, nil
		}
		quo, rem := s.quoRem10()
		if rem != 0 || scale == 0 {
			return Fixed{}, tooLarge(s, scale)
		}
		s, scale = quo, scale-1
	}
}

// tooLarge tells why s / 10^scale is no Fixed: its integer part does not fit, or
// its decimals do not.
func tooLarge(s Sum, scale int) error {
	for range scale {
		s, _ = s.quoRem10()
	}
	if _, ok := s.Int64(); !ok {
		return ErrRange
	}
	return ErrInexact
}
