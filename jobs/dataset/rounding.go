package dataset

import "fmt"

// A Rounding says what becomes of decimals that a scale has no room for. Its
// values are the words of job files; the zero value allows no rounding.
type Rounding string

// The roundings.
const (
	Exact    Rounding = ""          // refuse to round
	HalfEven Rounding = "half_even" // to the nearest, a half to the even neighbour
	HalfUp   Rounding = "half_up"   // to the nearest, a half away from zero
	HalfDown Rounding = "half_down" // to the nearest, a half towards zero
	Up       Rounding = "up"        // away from zero
	Down     Rounding = "down"      // towards zero
	Ceiling  Rounding = "ceiling"   // towards positive infinity
	Floor    Rounding = "floor"     // towards negative infinity
)

// Valid reports whether r is one of the roundings, Exact among them.
func (r Rounding) Valid() bool {
	switch r {
	case Exact, HalfEven, HalfUp, HalfDown, Up, Down, Ceiling, Floor:
		return true
	}
	return false
}

// Round returns the mantissa at another scale, rounded where digits are lost.
// The error wraps ErrRange, or ErrInexact where the rounding is Exact or none of
// the constants.
func (f Fixed) Round(scale int, r Rounding) (int64, error) {
	switch {
	case scale < 0 || scale > MaxScale:
		return 0, fmt.Errorf("write %s with %d decimals: %w", f, scale, ErrRange)
	case scale == f.Scale || f.Mant == 0:
		return f.Mant, nil
	case scale > f.Scale:
		mant, ok := f.wide(scale).Int64()
		if !ok {
			return 0, fmt.Errorf("write %s with %d decimals: %w", f, scale, ErrRange)
		}
		return mant, nil
	}
	unit := pow10[f.Scale-scale]
	quo, rem := f.Mant/unit, f.Mant%unit
	if rem == 0 {
		return quo, nil
	}
	if r == Exact || !r.Valid() {
		return 0, fmt.Errorf("write %s with %d decimals: %w", f, scale, ErrInexact)
	}
	if r.away(quo, rem, unit) {
		quo += sign(rem)
	}
	return quo, nil
}

// away reports whether quo + rem/unit, with rem not zero, is rounded away from
// zero rather than towards it.
func (r Rounding) away(quo, rem, unit int64) bool {
	half := sign(rem)*rem - (unit - sign(rem)*rem) // negative below a half, 0 at it
	switch r {
	case HalfEven:
		return half > 0 || half == 0 && quo%2 != 0
	case HalfUp:
		return half >= 0
	case HalfDown:
		return half > 0
	case Up:
		return true
	case Ceiling:
		return rem > 0
	case Floor:
		return rem < 0
	}
	return false
}

// sign returns 1, or -1 for negative numbers.
func sign(n int64) int64 {
	if n < 0 {
		return -1
	}
	return 1
}
