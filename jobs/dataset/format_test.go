package dataset

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestExponent(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{"EUR": 2, "CNY": 2, "JPY": 0, "KRW": 0, "BHD": 3, "KWD": 3, "CLF": 4, "UYW": 4, "XCG": 2, "BGN": 2, "BYR": 0} {
		if got, ok := Exponent(code); got != want || !ok {
			t.Errorf("Exponent(%s) = %d, %v, want %d", code, got, ok, want)
		}
	}
	for _, code := range []string{"", "eur", "XAU", "XXX", "EURO", "ABC", "人民币"} {
		if got, ok := Exponent(code); ok {
			t.Errorf("Exponent(%q) = %d, want none", code, got)
		}
	}
}

func TestExponent_TableHasEveryCodeOnce(t *testing.T) {
	t.Parallel()
	count := map[int8]int{}
	for code, e := range exponents {
		count[e]++
		if len(code) != 3 || !KnownCurrency(code) {
			t.Errorf("code %q is not known", code)
		}
	}
	// The current ones, and 1 and 9 withdrawn ones.
	want := map[int8]int{0: 17 + 1, 2: 139 + 9, 3: 7, 4: 2, noMinorUnit: 13}
	if fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("codes by decimals = %v, want %v", count, want)
	}
}

func TestFormatMoney(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mant     int64
		scale    int
		currency string
		want     string
	}{
		{123450, 2, "EUR", "1234.50"},
		{12345000, 4, "EUR", "1234.50"},
		{-5, 2, "EUR", "-0.05"},
		{0, 4, "EUR", "0.00"},
		{0, 0, "EUR", "0.00"},
		{7, 0, "EUR", "7.00"},
		{15, 1, "EUR", "1.50"},
		{125, 5, "CNY", "0.00125"},
		{12500, 5, "CNY", "0.125"},
		{1234, 0, "JPY", "1234"},
		{12340000, 4, "JPY", "1234"},
		{12345000, 4, "JPY", "1234.5"},
		{0, 4, "JPY", "0"},
		{1, 3, "BHD", "0.001"},
		{1000, 3, "BHD", "1.000"},
		{1, 0, "CLF", "1.0000"},
		{10000, 4, "", "1.00"},
		{10000, 4, "XAU", "1.00"},
		{-9223372036854775808, 18, "EUR", "-9.223372036854775808"},
		{-9223372036854775808, 0, "EUR", "-9223372036854775808.00"},
	} {
		if got := FormatMoney(tc.mant, tc.scale, tc.currency); got != tc.want {
			t.Errorf("FormatMoney(%d, %d, %q) = %s, want %s", tc.mant, tc.scale, tc.currency, got, tc.want)
		}
		if got := SumOf(tc.mant).Money(tc.scale, tc.currency); got != tc.want {
			t.Errorf("SumOf(%d).Money(%d, %q) = %s, want %s", tc.mant, tc.scale, tc.currency, got, tc.want)
		}
	}
}

func TestDates_AgreeWithTheStandardLibrary(t *testing.T) {
	t.Parallel()
	first, last := DateOf(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)), DateOf(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	for d := first; d <= last; d++ {
		at := time.Unix(d*86400, 0).UTC()
		text := FormatDate(d)
		if want := at.Format(time.DateOnly); text != want {
			t.Fatalf("FormatDate(%d) = %s, want %s", d, text, want)
		}
		if got, err := ParseDate([]byte(text)); got != d || err != nil {
			t.Fatalf("ParseDate(%s) = %d, %v, want %d", text, got, err, d)
		}
		if got := DateOf(at); got != d {
			t.Fatalf("DateOf(%s) = %d, want %d", at, got, d)
		}
	}
}

func TestDateOf_IsTheDayInTheZoneOfTheTime(t *testing.T) {
	t.Parallel()
	shanghai := time.FixedZone("CST", 8*3600)
	at := time.Date(2026, 10, 31, 23, 0, 0, 0, time.UTC)
	if got := FormatDate(DateOf(at.In(shanghai))); got != "2026-11-01" {
		t.Errorf("day in Shanghai = %s, want 2026-11-01", got)
	}
}

func TestParseDate_Refuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "2026-02-29", "1900-02-29", "2026-13-01", "2026-00-10", "2026-04-31", "2026-01-00", "0000-01-01",
		"2026-1-01", "26-01-01", "2026/01/01", "20260101", "2026-01-01T", "+026-01-01", "2026-01-1 ", "-001-01-01",
	} {
		if got, err := ParseDate([]byte(text)); !errors.Is(err, ErrSyntax) {
			t.Errorf("ParseDate(%q) = %d, %v, want %v", text, got, err, ErrSyntax)
		}
	}
	if _, err := ParseDate([]byte("2000-02-29")); err != nil {
		t.Errorf("ParseDate(2000-02-29): %v", err)
	}
}

func FuzzParseDate(f *testing.F) {
	f.Add([]byte("2026-10-31"))
	f.Add([]byte("2024-02-29"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseDate(text)
		at, err2 := time.Parse(time.DateOnly, string(text))
		if (err == nil) != (err2 == nil && at.Year() > 0) || err == nil && got != at.Unix()/86400 {
			t.Errorf("ParseDate(%q) = %d, %v, want %s, %v", text, got, err, at, err2)
		}
	})
}

func TestFormatTimestamp_AgreesWithTheStandardLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.Int64Range(-62135596800_000_000, 253402300799_999_999).Draw(t, "micros")
		if want := time.UnixMicro(micros).UTC().Format(time.RFC3339Nano); FormatTimestamp(micros) != want {
			t.Fatalf("FormatTimestamp(%d) = %s, want %s", micros, FormatTimestamp(micros), want)
		}
	})
	for micros, want := range map[int64]string{0: "1970-01-01T00:00:00Z", -1: "1969-12-31T23:59:59.999999Z", 1_500_000: "1970-01-01T00:00:01.5Z"} {
		if got := FormatTimestamp(micros); got != want {
			t.Errorf("FormatTimestamp(%d) = %s, want %s", micros, got, want)
		}
	}
}

func TestColumn_Format(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		column Column
		n      int64
		want   string
	}{
		{Column{Kind: Integer}, -7, "-7"},
		{Column{Kind: Boolean}, 1, "true"},
		{Column{Kind: Boolean}, 0, "false"},
		{Column{Kind: Money, Scale: 4, Currency: "EUR"}, 15000, "1.50"},
		{Column{Kind: Money, Scale: 0, Currency: "JPY"}, 15000, "15000"},
		{Column{Kind: Money, Scale: 4}, 15001, "1.5001"},
		{Column{Kind: Decimal, Scale: 4}, 15000, "1.5000"},
		{Column{Kind: Decimal}, 3, "3"},
		{Column{Kind: Date}, 20757, "2026-10-31"},
		{Column{Kind: Timestamp}, 20757 * microsPerDay, "2026-10-31T00:00:00Z"},
	} {
		v := Vector{Kind: tc.column.Kind}
		v.AppendInt(tc.n)
		v.AppendNull()
		if got := tc.column.Format(&v, 0); got != tc.want {
			t.Errorf("%+v formats %d as %q, want %q", tc.column, tc.n, got, tc.want)
		}
		if got := tc.column.Format(&v, 1); got != "" {
			t.Errorf("%+v formats a null as %q, want nothing", tc.column, got)
		}
	}
	v := Vector{Kind: Text}
	v.AppendString("订单")
	v.AppendNull()
	if got := (Column{Kind: Text}).Format(&v, 0) + "|" + (Column{Kind: Text}).Format(&v, 1); got != "订单|" {
		t.Errorf("texts format as %q, want %q", got, "订单|")
	}
}

func TestAppendFormat_DoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 64)
	for _, c := range []Column{{Kind: Money, Scale: 4, Currency: "EUR"}, {Kind: Decimal, Scale: 9}, {Kind: Date}, {Kind: Timestamp}, {Kind: Integer}} {
		v := Vector{Kind: c.Kind}
		v.AppendInt(-1234567890123)
		if n := testing.AllocsPerRun(100, func() { buf = c.AppendFormat(buf[:0], &v, 0) }); n != 0 {
			t.Errorf("AppendFormat of %s allocates %v times, want 0", c.Kind, n)
		}
	}
	text, date := []byte("-1234.50"), []byte("2026-10-31")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := ParseFixed(text); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseDate(date); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("ParseFixed and ParseDate allocate %v times, want 0", n)
	}
}

func ExampleFormatMoney() {
	fmt.Println(FormatMoney(123450, 2, "EUR"), FormatMoney(1234, 0, "JPY"), FormatMoney(125, 5, "CNY"))
	// Output: 1234.50 1234 0.00125
}

func ExampleParseFixed() {
	f, err := ParseFixed([]byte("19.995"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = f.Rescale(2)
	fmt.Println(err)
	mant, err := f.Round(2, HalfEven)
	fmt.Println(Fixed{Mant: mant, Scale: 2}, err)
	// Output:
	// write 19.995 with 2 decimals: more decimals than the scale allows
	// 20.00 <nil>
}
