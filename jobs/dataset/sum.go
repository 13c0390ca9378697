package dataset

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

// A Sum adds up mantissas of one scale in 128 bits, which 2^64 of the largest
// amounts do not fill. The zero value is 0. Sums can be compared with ==.
type Sum struct {
	hi int64 // two's complement of 128 bits with lo
	lo uint64
}

// SumOf returns n as a Sum.
func SumOf(n int64) Sum { return Sum{hi: n >> 63, lo: uint64(n)} }

// Add adds n.
func (s *Sum) Add(n int64) { s.AddSum(SumOf(n)) }

// Sub subtracts n.
func (s *Sum) Sub(n int64) { s.SubSum(SumOf(n)) }

// AddSum adds a sum of the same scale.
func (s *Sum) AddSum(t Sum) {
	lo, carry := bits.Add64(s.lo, t.lo, 0)
	s.hi, s.lo = s.hi+t.hi+int64(carry), lo
}

// SubSum subtracts a sum of the same scale.
func (s *Sum) SubSum(t Sum) {
	lo, borrow := bits.Sub64(s.lo, t.lo, 0)
	s.hi, s.lo = s.hi-t.hi-int64(borrow), lo
}

// IsZero reports whether the sum is 0.
func (s Sum) IsZero() bool { return s == Sum{} }

// Sign returns -1, 0 or 1.
func (s Sum) Sign() int {
	switch {
	case s.hi < 0:
		return -1
	case s.IsZero():
		return 0
	}
	return 1
}

// Neg returns -s.
func (s Sum) Neg() Sum {
	var n Sum
	n.SubSum(s)
	return n
}

// Abs returns s without its sign.
func (s Sum) Abs() Sum {
	if s.hi < 0 {
		return s.Neg()
	}
	return s
}

// Cmp returns -1, 0 or 1 as s is less than, equal to or greater than t.
func (s Sum) Cmp(t Sum) int {
	return cmp.Or(cmp.Compare(s.hi, t.hi), cmp.Compare(s.lo, t.lo))
}

// Int64 returns the sum as a mantissa, or false if it does not fit.
func (s Sum) Int64() (int64, bool) { return int64(s.lo), s.hi == int64(s.lo)>>63 }

// Raise returns the mantissa of the same amount with more decimals: s × 10^decimals,
// decimals from 0 to MaxScale. The error wraps ErrRange.
func (s Sum) Raise(decimals int) (Sum, error) {
	abs, by := s.Abs(), uint64(pow10[decimals])
	high, low := bits.Mul64(uint64(abs.hi), by)
	carry, lo := bits.Mul64(abs.lo, by)
	hi, over := bits.Add64(low, carry, 0)
	if high+over != 0 || hi > math.MaxInt64 {
		return Sum{}, fmt.Errorf("write the sum %s with %d more decimals: %w", s.String(0), decimals, ErrRange)
	}
	r := Sum{hi: int64(hi), lo: lo}
	if s.hi < 0 {
		return r.Neg(), nil
	}
	return r, nil
}

// String returns the sum with all decimals of the scale.
func (s Sum) String(scale int) string {
	var buf [48]byte
	return string(appendDecimal(buf[:0], s, scale, scale))
}

// Money returns the sum as FormatMoney writes an amount.
func (s Sum) Money(scale int, currency string) string {
	var buf [48]byte
	return string(appendDecimal(buf[:0], s, scale, decimals(currency)))
}

// product returns a × b.
func product(a, b int64) Sum {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return Sum{hi: int64(hi) - a>>63&b - b>>63&a, lo: lo}
}

// quoRem10 divides by ten, towards zero.
func (s Sum) quoRem10() (Sum, int64) {
	abs := s.Abs()
	hi, rest := uint64(abs.hi)/10, uint64(abs.hi)%10
	lo, rem := bits.Div64(rest, abs.lo, 10)
	q := Sum{hi: int64(hi), lo: lo}
	if s.hi < 0 {
		return q.Neg(), -int64(rem)
	}
	return q, int64(rem)
}

// appendDecimal appends s / 10^scale with at least least decimals, and more only
// as far as they are not zeros at the end.
func appendDecimal(dst []byte, s Sum, scale, least int) []byte {
	if s.hi < 0 {
		dst = append(dst, '-')
	}
	var buf [40]byte
	digits := appendDigits(buf[:0], s.Abs())
	for ; scale > least && digits[len(digits)-1] == '0'; scale-- {
		if len(digits) > 1 {
			digits = digits[:len(digits)-1]
		}
	}
	whole := len(digits) - scale
	if whole > 0 {
		dst = append(dst, digits[:whole]...)
	} else {
		dst = append(dst, '0')
	}
	if max(scale, least) == 0 {
		return dst
	}
	dst = append(dst, '.')
	dst = appendZeros(dst, -whole)
	dst = append(dst, digits[max(whole, 0):]...)
	return appendZeros(dst, least-scale)
}

// appendDigits appends the digits of a sum that is not negative. The smallest
// possible Sum has no positive counterpart; read without a sign it is right as well.
func appendDigits(dst []byte, s Sum) []byte {
	if s.hi == 0 {
		return strconv.AppendUint(dst, s.lo, 10)
	}
	const chunk = 1e19
	quo, rem := bits.Div64(uint64(s.hi), s.lo, chunk)
	if quo == 0 {
		return strconv.AppendUint(dst, rem, 10)
	}
	dst = strconv.AppendUint(dst, quo, 10)
	var buf [20]byte
	low := strconv.AppendUint(buf[:0], rem, 10)
	dst = appendZeros(dst, 19-len(low))
	return append(dst, low...)
}

// appendZeros appends n zeros, none if n is negative.
func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}
