package parse

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"madeira/jobs/dataset"
)

func TestAmount(t *testing.T) {
	t.Parallel()
	plain := columnSetting{}
	us := columnSetting{Groups: []string{","}}
	german := columnSetting{Decimal: ",", Groups: []string{"."}}
	blanks := columnSetting{Groups: []string{",", " "}}
	all := columnSetting{Groups: []string{","}, Symbols: []string{"$", "¥", "CNY"}, Negative: []string{"minus", "unicode_minus", "trailing_minus", "parentheses", "dr"}}
	credit := columnSetting{Negative: []string{"cr"}}
	for _, test := range []struct {
		set   columnSetting
		text  string
		want  string
		wrong fault
	}{
		{plain, "12.34", "12.34", fine}, {plain, "-12.34", "-12.34", fine}, {plain, "+7.00", "7.00", fine}, {plain, "0", "0", fine},
		{plain, ".50", "0.50", fine}, {plain, "-0.00", "0.00", fine}, {plain, "000123.40", "123.40", fine},
		{plain, "9999999999.99", "9999999999.99", fine}, {plain, "92233720368547758.07", "92233720368547758.07", fine},
		{plain, "0000000000000000000000001.5", "1.5", fine},
		{plain, "92233720368547758.08", "", faultRange}, {plain, "1.0000000000000000001", "", faultRange},
		{plain, strings.Repeat("1", 70), "", faultRange}, {plain, strings.Repeat("x", 70), "", faultAmount},
		{plain, "5.", "", faultAmount}, {plain, ".", "", faultAmount}, {plain, "-", "", faultAmount}, {plain, "--1", "", faultAmount},
		{plain, "1e5", "", faultAmount}, {plain, "0x10", "", faultAmount}, {plain, "NaN", "", faultAmount}, {plain, "1.2.3", "", faultAmount},
		{plain, "1,234.56", "", faultAmount}, {plain, "1 2", "", faultAmount}, {plain, "１", "", faultAmount}, {plain, "(1.00)", "", faultAmount},
		{plain, "1.00-", "", faultAmount}, {plain, "¥1.00", "", faultAmount}, {plain, "− 1.00", "", faultAmount}, {plain, "1.00 DR", "", faultAmount},
		{us, "1,234.56", "1234.56", fine}, {us, "1,234,567", "1234567", fine}, {us, "-1,234.56", "-1234.56", fine}, {us, "123", "123", fine}, {us, "1234.56", "1234.56", fine},
		{us, "1,23", "", faultGroups}, {us, "1234,567", "", faultGroups}, {us, ",123", "", faultGroups}, {us, "1,,234", "", faultGroups}, {us, "1,234,56", "", faultGroups},
		{us, "1.234,56", "", faultAmount}, {us, "1,234.567,8", "", faultAmount},
		{german, "-1.234,56", "-1234.56", fine}, {german, "-1,080", "-1.080", fine}, {german, "12.345.678,90", "12345678.90", fine}, {german, "1,234.56", "", faultAmount}, {german, "1.08", "", faultGroups},
		{german, "0.123", "", faultZeroGroup}, {german, "0.500", "", faultZeroGroup}, {german, "-00.500", "", faultZeroGroup}, {german, "000.000.001", "", faultZeroGroup}, {german, "012.345,67", "", faultZeroGroup}, {german, "0.12", "", faultZeroGroup},
		{german, "0,50", "0.50", fine}, {german, "0", "0", fine}, {german, "00123", "123", fine}, {german, "0,500", "0.500", fine}, {german, "100.000", "100000", fine},
		{us, "0,123", "", faultZeroGroup}, {us, "0.123", "0.123", fine}, {blanks, "0 123", "", faultZeroGroup}, {blanks, "0\u202F123", "", faultZeroGroup}, {all, "($0,123.00)", "", faultZeroGroup},
		{columnSetting{Groups: []string{"'", "’", "_"}}, "0'123", "", faultZeroGroup}, {columnSetting{Groups: []string{"'", "’", "_"}}, "01’234", "", faultZeroGroup}, {columnSetting{Groups: []string{"'", "’", "_"}}, "0_123", "", faultZeroGroup},
		{blanks, "1 234.50", "1234.50", fine}, {blanks, "1\u00A0234.50", "1234.50", fine}, {blanks, "1\u202F234\u202F567", "1234567", fine}, {blanks, "1,234 567", "", faultGroups},
		{all, "$ (1,234.56)", "-1234.56", fine}, {all, "($1,234.56)", "-1234.56", fine}, {all, "1,234.56-", "-1234.56", fine}, {all, "\u2212 12.00", "-12.00", fine},
		{all, "45.00 DR", "-45.00", fine}, {all, "45.00CR", "45.00", fine}, {all, "45.00 Dr", "-45.00", fine}, {all, "¥28.16", "28.16", fine}, {all, "CNY 5", "5", fine}, {all, "5 CNY", "5", fine}, {all, "-$5", "-5", fine},
		{all, "-5-", "", faultAmount}, {all, "(-5)", "", faultAmount}, {all, "$$5", "", faultAmount}, {all, "€5", "", faultAmount}, {all, "()", "", faultAmount}, {all, "DR", "", faultAmount},
		{credit, "1.00 CR", "-1.00", fine}, {credit, "1.00 DR", "1.00", fine}, {credit, "-1.00", "", faultAmount},
	} {
		f := newAmountFormat(&test.set)
		n, wrong := f.parse([]byte(test.text))
		if wrong != test.wrong || wrong == fine && n.String() != test.want {
			t.Errorf("%q with %+v: got %s, fault %d, want %s, fault %d", test.text, test.set, n, wrong, test.want, test.wrong)
		}
	}
}

func TestExplain_NamesTheLimitOfDigits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		c    column
		want string
	}{
		{column{kind: dataset.Money, scale: 4}, `"1" has more digits than fit: 18 at most, decimals included, of which the column keeps 4`},
		{column{kind: dataset.Integer}, `"1" has more digits than fit: 18 at most, decimals included`},
	} {
		if rule, got := test.c.explain(faultRange, []byte("1")); rule != "parse.range" || got != test.want {
			t.Errorf("%s scale %d: got %s %s, want %s", test.c.kind, test.c.scale, rule, got, test.want)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n     dataset.Fixed
		scale int
		round dataset.Rounding
		want  int64
		wrong fault
	}{
		{dataset.Fixed{Mant: 12, Scale: 1}, 2, "", 120, fine}, {dataset.Fixed{Mant: 1200, Scale: 3}, 2, "", 120, fine},
		{dataset.Fixed{Mant: 1205, Scale: 3}, 2, "", 0, faultDecimals}, {dataset.Fixed{Mant: 1205, Scale: 3}, 2, "half_even", 120, fine},
		{dataset.Fixed{Mant: 1205, Scale: 3}, 2, "half_up", 121, fine}, {dataset.Fixed{Mant: -1205, Scale: 3}, 2, "half_up", -121, fine},
		{dataset.Fixed{Mant: math.MaxInt64, Scale: 2}, 3, "", 0, faultRange}, {dataset.Fixed{Mant: math.MinInt64, Scale: 2}, 3, "", 0, faultRange},
	} {
		if got, wrong := fit(test.n, test.scale, test.round); got != test.want || wrong != test.wrong {
			t.Errorf("fit(%v, %d, %q) = %d, fault %d, want %d, fault %d", test.n, test.scale, test.round, got, wrong, test.want, test.wrong)
		}
	}
}

func FuzzAmount(f *testing.F) {
	for _, seed := range []string{"1.00", "-1,234.56", "(0.01)", "$ 5", "1,23", "9223372036854775807", "5.", "\u2212 1"} {
		f.Add(seed)
	}
	dressed := newAmountFormat(&columnSetting{Groups: []string{","}, Symbols: []string{"$"}, Negative: []string{"minus", "parentheses", "unicode_minus", "trailing_minus", "dr"}})
	plain := newAmountFormat(&columnSetting{})
	f.Fuzz(func(t *testing.T, text string) {
		n, wrong := plain.parse([]byte(text))
		if wrong == fine {
			want, ok := new(big.Rat).SetString(string(trim([]byte(text))))
			if got, _ := new(big.Rat).SetString(n.String()); !ok || got.Cmp(want) != 0 {
				t.Fatalf("%q: got %s, want %v", text, n, want)
			}
			if m, wrong := dressed.parse([]byte(text)); wrong != fine || m != n {
				t.Fatalf("%q: got %s, and %s (fault %d) where more is allowed", text, n, m, wrong)
			}
		}
		if m, wrong := dressed.parse([]byte(text)); wrong == fine { // what is read is read the same when it is written plainly
			if again, wrong := dressed.parse([]byte(m.String())); wrong != fine || again.Cmp(m) != 0 {
				t.Fatalf("%q: got %s, which reads as %s (fault %d)", text, m, again, wrong)
			}
		}
	})
}

func moment(t *testing.T, kind, format, zone string) *layout {
	t.Helper()
	l, err := momentLayout(&columnSetting{Type: kind, Format: format, Timezone: zone})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestBadInput_B65_Dates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		format, text, want string // "" is refused
	}{
		{"2006-01-02", "2026-10-31", "2026-10-31"}, {"2006-01-02", "2024-02-29", "2024-02-29"}, {"2006-01-02", "1969-12-31", "1969-12-31"}, {"2006-01-02", "0001-01-01", "0001-01-01"}, {"2006-01-02", "0000-01-01", ""}, {"2006-01-02", "0000-12-31", ""}, {"2006/1/2", "0000/1/1", ""},
		{"2006-01-02", "2026-02-29", ""}, {"2006-01-02", "2026-02-30", ""}, {"2006-01-02", "31/01/2026", ""}, {"2006-01-02", "45000", ""}, {"2006-01-02", "2026-13-01", ""},
		{"2006-01-02", "2026-00-10", ""}, {"2006-01-02", "2026-10-00", ""}, {"2006-01-02", "2026-1-02", ""}, {"2006-01-02", "2026-10-02x", ""}, {"2006-01-02", "2026/10/02", ""}, {"2006-01-02", "2O26-10-02", ""}, {"2006-01-02", "", ""},
		{"02.01.2006", "31.10.2026", "2026-10-31"}, {"01/02/2006", "05/01/2023", "2023-05-01"}, {"2006/1/2", "2018/10/1", "2018-10-01"}, {"2006/1/2", "2018/1/31", "2018-01-31"}, {"20060102", "20240103", "2024-01-03"},
		{"2006年01月02日", "2026年10月01日", "2026-10-01"}, {"02 Jan 2006", "05 oct 2026", "2026-10-05"}, {"January 2, 2006", "February 3, 2026", "2026-02-03"}, {"Mon, 02 Jan 2006", "Sat, 31 Oct 2026", "2026-10-31"},
		{"02/01/06", "31/10/26", "2026-10-31"}, {"_2.1.2006", " 1.2.2026", "2026-02-01"}, {"2006-01-02T15:04:05Z07:00", "2026-10-31T23:59:59Z", "2026-10-31"},
	} {
		l := moment(t, "date", test.format, "")
		for range 2 { // the second time a remembered date may answer
			days, wrong := l.date([]byte(test.text))
			got := ""
			if wrong == fine {
				got = dataset.FormatDate(days)
			}
			if got != test.want {
				t.Errorf("%q as %s: got %q (fault %d), want %q", test.text, test.format, got, wrong, test.want)
			}
		}
	}
}

func TestBadInput_B65_Timestamps(t *testing.T) {
	t.Parallel()
	const usual = "2006-01-02 15:04:05"
	for _, test := range []struct {
		format, zone, text, want string
		wrong                    fault
	}{
		{usual, "Asia/Shanghai", "2026-10-01 00:15:00", "2026-09-30T16:15:00Z", fine},
		{usual, "Asia/Shanghai", "1991-06-01 12:00:00", "1991-06-01T03:00:00Z", fine}, // China had summer time
		{usual, "Asia/Shanghai", "2026-10-01 24:00:00", "", faultDate},
		{usual, "Asia/Shanghai", "2026-10-01 23:60:00", "", faultDate},
		{usual, "Asia/Shanghai", "2026-10-01 23:59:60", "", faultDate},
		{usual, "Asia/Shanghai", "2026-10-01T23:59:00", "", faultDate},
		{usual, "America/New_York", "2026-03-08 01:59:59", "2026-03-08T06:59:59Z", fine},
		{usual, "America/New_York", "2026-03-08 02:30:00", "", faultGap},
		{usual, "America/New_York", "2026-03-08 03:00:00", "2026-03-08T07:00:00Z", fine},
		{usual, "America/New_York", "2026-11-01 01:30:00", "2026-11-01T05:30:00Z", fine}, // twice: the first
		{usual, "America/New_York", "2026-11-01 02:00:00", "2026-11-01T07:00:00Z", fine},
		{usual, "Australia/Lord_Howe", "2026-10-04 02:15:00", "", faultGap},
		{usual, "Pacific/Apia", "2011-12-30 12:00:00", "", faultGap},
		{usual, "Africa/Cairo", "2026-04-24 00:30:00", "", faultGap},
		{"2006/1/2 15:04", "Asia/Shanghai", "2026/10/2 9:05", "2026-10-02T01:05:00Z", fine},
		{"2006-01-02 15:04:05 -0700", "", "2026-10-31 00:00:17 -0700", "2026-10-31T07:00:17Z", fine},
		{"2006-01-02T15:04:05.999Z07:00", "", "2026-10-31T00:00:17.250+08:00", "2026-10-30T16:00:17.25Z", fine},
		{"2006-01-02T15:04:05.999Z07:00", "", "2026-10-31T00:00:17Z", "2026-10-31T00:00:17Z", fine},
		{"2006-01-02 15:04:05.000", "UTC", "2026-10-31 00:00:17.123456789", "2026-10-31T00:00:17.123456Z", fine},
		{"2006-01-02 15:04:05.000", "UTC", "2026-10-31 00:00:17", "", faultDate},
		{"01/02/2006 03:04 PM", "UTC", "10/31/2026 12:05 am", "2026-10-31T00:05:00Z", fine},
		{"01/02/2006 3:04pm", "UTC", "10/31/2026 1:05pm", "2026-10-31T13:05:00Z", fine},
		{"01/02/2006 03:04 PM", "UTC", "10/31/2026 13:05 PM", "", faultDate},
	} {
		l := moment(t, "timestamp", test.format, test.zone)
		micros, wrong := l.instant([]byte(test.text))
		got := ""
		if wrong == fine {
			got = time.UnixMicro(micros).UTC().Format(time.RFC3339Nano)
		}
		if got != test.want || wrong != test.wrong {
			t.Errorf("%q in %s: got %q (fault %d), want %q (fault %d)", test.text, test.zone, got, wrong, test.want, test.wrong)
		}
	}
}

func TestLayout_RefusesWhatDoesNotSayWhen(t *testing.T) {
	t.Parallel()
	for _, set := range []columnSetting{
		{Type: "timestamp", Format: "2006-01-02 15:04:05"},
		{Type: "timestamp", Format: "2006-01-02 15:04:05 MST", Timezone: "UTC"},
		{Type: "timestamp", Format: "2006-01-02", Timezone: "Asia/Peking"},
	} {
		if l, err := momentLayout(&set); err == nil {
			t.Errorf("%+v: got %+v, want an error", set, l)
		}
	}
}

// FuzzMoment compares with package time, which accepts more.
func FuzzMoment(f *testing.F) {
	formats := []string{"2006-01-02 15:04:05", "2006/1/2 15:04", "02.01.2006", "Jan _2 2006 03:04:05 PM", "2006-01-02T15:04:05.999Z07:00", "20060102150405 -0700"}
	for i, seed := range []string{"2026-10-31 23:59:59", "2026/1/2 3:04", "29.02.2024", "Oct  1 2026 12:00:00 AM", "2026-10-31T00:00:17.25+08:00", "20261031000017 -0700"} {
		f.Add(i, seed)
	}
	f.Fuzz(func(t *testing.T, which int, text string) {
		format := formats[uint(which)%uint(len(formats))]
		l, err := newLayout(format, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			micros, wrong := l.instant([]byte(text))
			if wrong != fine {
				return
			}
			want, err := time.Parse(format, text)
			if err != nil || want.UnixMicro() != micros {
				t.Fatalf("%q as %s: got %v, want %v, error %v", text, format, time.UnixMicro(micros).UTC(), want, err)
			}
		}
	})
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"4.20000E+27": true, "1.23457E+15": true, "1E+10": true, "4.2e+27": true, "#REF!": true, "#NAME?": true, "#N/A": true, "#DIV/0!": true,
		"SO1002": false, "00123456": false, "4.20": false, "1E5": false, "E+27": false, "4.E+2": false, "1.2E+": false, "#1": false, "#": false, "# a long remark!": false, "12E+3": false, "1": false,
	} {
		if got := damaged([]byte(text)); got != want {
			t.Errorf("damaged(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestColumn_Clean(t *testing.T) {
	t.Parallel()
	all := []string{"backquote", "apostrophe", "excel_text"}
	for _, test := range []struct {
		rules      []string
		text, want string
	}{
		{nil, " \t\u3000a b\u00A0\t", "a b"}, {nil, "`a`", "`a`"}, {nil, "-", ""}, {nil, "\u3000", ""}, {nil, "\xC2", "\xC2"}, {nil, "中\xE3", "中\xE3"},
		{all, `="00123"`, "00123"}, {all, "'00124", "00124"}, {all, "`00125", "00125"}, {all, "00126\t", "00126"}, {all, "` - ", ""}, {all, `="a`, `="a`}, {all, `=""`, ""},
	} {
		c, err := newColumn(&columnSetting{Name: "a", Type: "text", From: source{name: "a"}, Clean: test.rules, Empty: []string{"-"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(c.clean([]byte(test.text))); got != test.want {
			t.Errorf("clean %v of %q = %q, want %q", test.rules, test.text, got, test.want)
		}
	}
}

func TestParse_RefusesAnAmountWithoutItsCurrency(t *testing.T) {
	t.Parallel()
	const content = "id,ccy,amount,minor\n1,,,\n2,EUR,2.00,200\n3,,3.00,\n4,-,4.00,\n5,,,500\n6,JPY,,600\n7, ,0.00,\n"
	const ids = "{`rejects`: {`max`: 9}, `columns`: {`id`: {`from`: `id`, `type`: `integer`}, `amount`: {`from`: `amount`, `type`: `money`, %s `required`: false},"
	const rest = "`minor`: {`from`: `minor`, `type`: `money`, %s `minor_units`: true, `required`: false}, `ccy`: {`from`: `ccy`, `type`: `currency`, `empty`: [`-`]}}}"
	for _, named := range []string{"", "`currency_column`: `ccy`,"} {
		kit, out, err := parse(t, "bill.csv", content, fmt.Sprintf(ids+rest, named, named))
		wantRows(t, kit, out, err, []string{"1", "", "", ""}, []string{"2", "2.00", "2.00", "EUR"}, []string{"6", "", "600.00", "JPY"})
		var got []string
		for _, row := range rejectsIn(t, kit, out) {
			got = append(got, strings.Join([]string{row[1], row[4], row[5], row[6], row[7]}, " "))
		}
		const why = " parse.currency an amount needs its currency, and ccy is empty"
		if want := []string{"4 3 amount" + why, "5 3 amount" + why, "6 4 minor" + why, "8 3 amount" + why}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s rejects = %q, want %q", named, got, want)
		}
	}
	const priced = "{`rejects`: {`max`: 9}, `columns`: {`n`: {`from`: `n`, `type`: `decimal`, `scale`: 2}, `ccy`: {`from`: `ccy`, `type`: `currency`}, `amount`: {`type`: `money`, `value`: `n + n`}}}"
	kit, out, err := parse(t, "bill.csv", "n,ccy\n1,\n2,EUR\n", priced)
	wantRows(t, kit, out, err, []string{"2.00", "EUR", "4.00"})
}
