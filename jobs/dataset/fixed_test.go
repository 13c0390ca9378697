package dataset

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"
)

// mantissas draws numbers of all sizes and, more often than chance, the extremes.
func mantissas() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1000, 1000), rapid.SampledFrom([]int64{
		0, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 1e18, -1e18, math.MaxInt64 / 10,
		5, -5, 15, 25, -25, 50, 150,
	}))
}

func fixeds() *rapid.Generator[Fixed] {
	return rapid.Custom(func(t *rapid.T) Fixed {
		return Fixed{Mant: mantissas().Draw(t, "mant"), Scale: rapid.IntRange(0, MaxScale).Draw(t, "scale")}
	})
}

func exact(f Fixed) decimal.Decimal { return decimal.New(f.Mant, int32(-f.Scale)) }

// holds reports whether some Fixed is d.
func holds(d decimal.Decimal) bool {
	for scale := range MaxScale + 1 {
		if m := d.Shift(int32(scale)); m.IsInteger() && m.BigInt().IsInt64() {
			return true
		}
	}
	return false
}

func TestParseFixed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want Fixed
		err  error
	}{
		{"0", Fixed{0, 0}, nil},
		{"-0", Fixed{0, 0}, nil},
		{"-0.00", Fixed{0, 2}, nil},
		{"12.50", Fixed{1250, 2}, nil},
		{"+12.50", Fixed{1250, 2}, nil},
		{"-12.5", Fixed{-125, 1}, nil},
		{".5", Fixed{5, 1}, nil},
		{"5.", Fixed{5, 0}, nil},
		{"000000000000000000000000012.10", Fixed{1210, 2}, nil},
		{"0.000000000000000001", Fixed{1, 18}, nil},
		{"0.0000000000000000001", Fixed{}, ErrInexact},
		{"0.0000000000000000000000", Fixed{0, 18}, nil},
		{"1.00000000000000000000", Fixed{1e18, 18}, nil},
		{"9223372036854775807", Fixed{math.MaxInt64, 0}, nil},
		{"9223372036854775807.00", Fixed{math.MaxInt64, 0}, nil},
		{"-9223372036854775808", Fixed{math.MinInt64, 0}, nil},
		{"-92233720368547758.08", Fixed{math.MinInt64, 2}, nil},
		{"9223372036854775808", Fixed{}, ErrRange},
		{"-9223372036854775809", Fixed{}, ErrRange},
		{"18446744073709551616", Fixed{}, ErrRange},
		{"99999999999999999999999999", Fixed{}, ErrRange},
		{"99999999999999999999999999x", Fixed{}, ErrSyntax},
		{"", Fixed{}, ErrSyntax},
		{"-", Fixed{}, ErrSyntax},
		{".", Fixed{}, ErrSyntax},
		{"+.", Fixed{}, ErrSyntax},
		{"--1", Fixed{}, ErrSyntax},
		{"1.2.3", Fixed{}, ErrSyntax},
		{"1,000", Fixed{}, ErrSyntax},
		{" 1", Fixed{}, ErrSyntax},
		{"1 ", Fixed{}, ErrSyntax},
		{"1e3", Fixed{}, ErrSyntax},
		{"0x10", Fixed{}, ErrSyntax},
		{"１２", Fixed{}, ErrSyntax},
		{"NaN", Fixed{}, ErrSyntax},
		{"1\x00", Fixed{}, ErrSyntax},
	} {
		got, err := ParseFixed([]byte(tc.text))
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("ParseFixed(%q) = %+v, %v, want %+v, %v", tc.text, got, err, tc.want, tc.err)
		}
	}
}

func TestParseFixed_CutsLongTextsInMessages(t *testing.T) {
	t.Parallel()
	_, err := ParseFixed([]byte(strings.Repeat("9", 1000) + "x"))
	if err == nil || len(err.Error()) > 120 {
		t.Errorf("ParseFixed of 1001 bytes fails with %v, want a message under 120 bytes", err)
	}
}

func TestParseFixed_ReadsWhatStringWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := fixeds().Draw(t, "f")
		if want := exact(f).StringFixed(int32(f.Scale)); f.String() != want {
			t.Fatalf("%#v.String() = %s, want %s", f, f, want)
		}
		got, err := ParseFixed([]byte(f.String()))
		if err != nil || got != f {
			t.Fatalf("ParseFixed(%s) = %+v, %v, want %+v", f, got, err, f)
		}
	})
}

func FuzzParseFixed(f *testing.F) {
	for _, text := range []string{"1.50", "-.5", "9223372036854775807.000", "0.0000000000000000001", "1e5", "+"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseFixed(text)
		if err != nil {
			if !errors.Is(err, ErrSyntax) && !errors.Is(err, ErrRange) && !errors.Is(err, ErrInexact) {
				t.Errorf("ParseFixed(%q) fails with %v, want a declared error", text, err)
			}
			if errors.Is(err, ErrSyntax) {
				return
			}
			if want, err2 := decimal.NewFromString(string(text)); err2 != nil || holds(want) {
				t.Errorf("ParseFixed(%q) = %v, but the reference says %v, %v", text, err, want, err2)
			}
			return
		}
		want, err := decimal.NewFromString(string(text))
		if err != nil || !want.Equal(exact(got)) {
			t.Errorf("ParseFixed(%q) = %s, want %s, %v", text, got, want, err)
		}
	})
}

func TestFixed_ArithmeticAgreesWithBigDecimals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := fixeds().Draw(t, "a"), fixeds().Draw(t, "b")
		for _, op := range []struct {
			name string
			got  func(Fixed) (Fixed, error)
			want decimal.Decimal
		}{
			{"add", a.Add, exact(a).Add(exact(b))},
			{"sub", a.Sub, exact(a).Sub(exact(b))},
			{"mul", a.Mul, exact(a).Mul(exact(b))},
		} {
			got, err := op.got(b)
			if (err == nil) != holds(op.want) {
				t.Fatalf("%s %s %s: %v, but the result is %s", op.name, a, b, err, op.want)
			}
			if err == nil && !exact(got).Equal(op.want) {
				t.Fatalf("%s %s %s = %s, want %s", op.name, a, b, got, op.want)
			}
			if err != nil && errors.Is(err, ErrRange) != !op.want.Truncate(0).BigInt().IsInt64() {
				t.Fatalf("%s %s %s fails with %v, but the result is %s", op.name, a, b, err, op.want)
			}
		}
		if got, want := a.Cmp(b), exact(a).Cmp(exact(b)); got != want {
			t.Fatalf("%s.Cmp(%s) = %d, want %d", a, b, got, want)
		}
		if got, err := a.Neg(); err == nil && !exact(got).Equal(exact(a).Neg()) || (err != nil) != (a.Mant == math.MinInt64) {
			t.Fatalf("%s.Neg() = %s, %v", a, got, err)
		}
	})
}

func TestFixed_KeepsDecimalsWhereTheyFit(t *testing.T) {
	t.Parallel()
	sum, err := Fixed{100, 2}.Add(Fixed{5, 1})
	if want := (Fixed{150, 2}); sum != want || err != nil {
		t.Errorf("1.00 + 0.5 = %+v, %v, want %+v", sum, err, want)
	}
	product, err := Fixed{150, 2}.Mul(Fixed{20, 1})
	if want := (Fixed{3000, 3}); product != want || err != nil {
		t.Errorf("1.50 × 2.0 = %+v, %v, want %+v", product, err, want)
	}
}

func TestFixed_RoundAgreesWithBigDecimals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f, scale := fixeds().Draw(t, "f"), rapid.IntRange(0, MaxScale).Draw(t, "scale")
		d, places := exact(f), int32(scale)
		for r, want := range map[Rounding]decimal.Decimal{
			HalfEven: d.RoundBank(places), HalfUp: d.Round(places), Up: d.RoundUp(places),
			Down: d.RoundDown(places), Ceiling: d.RoundCeil(places), Floor: d.RoundFloor(places),
			Exact: d.Truncate(places),
		} {
			fits := want.Shift(places).BigInt().IsInt64() && (r != Exact || want.Equal(d))
			got, err := f.Round(scale, r)
			if (err == nil) != fits {
				t.Fatalf("%s.Round(%d, %q): %v, want success %v", f, scale, r, err, fits)
			}
			if err == nil && !exact(Fixed{got, scale}).Equal(want) {
				t.Fatalf("%s.Round(%d, %q) = %d, want %s", f, scale, r, got, want)
			}
		}
	})
}

func TestFixed_Round(t *testing.T) {
	t.Parallel()
	all := []Rounding{HalfEven, HalfUp, HalfDown, Up, Down, Ceiling, Floor}
	for text, want := range map[string][]int64{
		"0.125":  {12, 13, 12, 13, 12, 13, 12},
		"0.135":  {14, 14, 13, 14, 13, 14, 13},
		"-0.125": {-12, -13, -12, -13, -12, -12, -13},
		"-0.135": {-14, -14, -13, -14, -13, -13, -14},
		"0.1251": {13, 13, 13, 13, 12, 13, 12},
		"0.1249": {12, 12, 12, 13, 12, 13, 12},
		"0.12":   {12, 12, 12, 12, 12, 12, 12},
		"0.120":  {12, 12, 12, 12, 12, 12, 12},
		"7":      {700, 700, 700, 700, 700, 700, 700},
	} {
		f, err := ParseFixed([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range all {
			if got, err := f.Round(2, r); got != want[i] || err != nil {
				t.Errorf("%s.Round(2, %s) = %d, %v, want %d", text, r, got, err, want[i])
			}
		}
	}
}

func TestFixed_RoundRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		f     Fixed
		scale int
		r     Rounding
		want  error
	}{
		{Fixed{123, 2}, 1, Exact, ErrInexact},
		{Fixed{123, 2}, 1, "nearest", ErrInexact},
		{Fixed{math.MaxInt64, 0}, 1, HalfUp, ErrRange},
		{Fixed{1, 0}, 19, HalfUp, ErrRange},
		{Fixed{1, 0}, -1, HalfUp, ErrRange},
	} {
		if got, err := tc.f.Round(tc.scale, tc.r); !errors.Is(err, tc.want) {
			t.Errorf("%s.Round(%d, %q) = %d, %v, want %v", tc.f, tc.scale, tc.r, got, err, tc.want)
		}
	}
}

func TestSum_AgreesWithBigIntegers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s, other Sum
		want, wantOther := new(big.Int), new(big.Int)
		for _, n := range rapid.SliceOf(mantissas()).Draw(t, "added") {
			s.Add(n)
			want.Add(want, big.NewInt(n))
		}
		for _, n := range rapid.SliceOf(mantissas()).Draw(t, "taken") {
			s.Sub(n)
			other.Add(n)
			want.Sub(want, big.NewInt(n))
			wantOther.Add(wantOther, big.NewInt(n))
		}
		scale := rapid.IntRange(0, MaxScale).Draw(t, "scale")
		if got, w := s.String(scale), decimal.NewFromBigInt(want, int32(-scale)).StringFixed(int32(scale)); got != w {
			t.Fatalf("String(%d) = %s, want %s", scale, got, w)
		}
		if s.Sign() != want.Sign() || s.IsZero() != (want.Sign() == 0) || s.Cmp(other) != want.Cmp(wantOther) {
			t.Fatalf("%s: Sign %d, IsZero %v, Cmp %d", want, s.Sign(), s.IsZero(), s.Cmp(other))
		}
		if n, ok := s.Int64(); ok != want.IsInt64() || ok && n != want.Int64() {
			t.Fatalf("Int64() = %d, %v, want %s", n, ok, want)
		}
		if got := s.Abs().String(0); got != new(big.Int).Abs(want).String() {
			t.Fatalf("Abs() = %s, want that of %s", got, want)
		}
		checkRaise(t, s, want, scale)
		s.SubSum(s)
		if !s.IsZero() {
			t.Fatalf("a sum less itself is %s, want 0", s.String(0))
		}
	})
}

func checkRaise(t *rapid.T, s Sum, want *big.Int, decimals int) {
	raised := new(big.Int).Mul(want, big.NewInt(pow10[decimals]))
	got, err := s.Raise(decimals)
	if (err == nil) != (raised.BitLen() < 128) {
		t.Fatalf("Raise(%d) of %s: %v, want %s", decimals, want, err, raised)
	}
	if err == nil && got.String(0) != raised.String() {
		t.Fatalf("Raise(%d) of %s = %s, want %s", decimals, want, got.String(0), raised)
	}
}

func TestSum_RaiseRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	s := SumOf(math.MinInt64)
	for range 2 {
		var err error
		if s, err = s.Raise(9); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.String(0); got != "-9223372036854775808"+strings.Repeat("0", 18) {
		t.Errorf("raised by 18 decimals = %s", got)
	}
	if got, err := s.Raise(18); !errors.Is(err, ErrRange) {
		t.Errorf("Raise(18) = %s, %v, want %v", got.String(0), err, ErrRange)
	}
}

func BenchmarkParseTwoAndCompare(b *testing.B) {
	left, right := []byte("-1234567.89"), []byte("-1234567.8900")
	b.ReportAllocs()
	for b.Loop() {
		x, err := ParseFixed(left)
		y, err2 := ParseFixed(right)
		if err != nil || err2 != nil || x.Cmp(y) != 0 {
			b.Fatal(x, y, err, err2)
		}
	}
}

func BenchmarkSum1M(b *testing.B) {
	mants := make([]int64, 1_000_000)
	for i := range mants {
		mants[i] = int64(i) * 7919
	}
	b.ReportAllocs()
	for b.Loop() {
		var s Sum
		for _, m := range mants {
			s.Add(m)
		}
		if s.IsZero() {
			b.Fatal("sum is 0")
		}
	}
}
