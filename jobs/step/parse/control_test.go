package parse

import (
	"strings"
	"testing"
)

// controlled reads a and b of a file and controls what is computed of them
// against the line that begins with #.
func controlled(t *testing.T, content, columns, computed string) (verdict, error) {
	t.Helper()
	_, out, err := parse(t, "bill.csv", content, "{`end`: {`match`: `^#`}, `controls`: [{`name`: `total`, `declared`: {`line`: `^# (.*)`}, `computed`: `"+computed+"`}], `columns`: {"+columns+"}}")
	list, _ := out.Values["controls"].([]verdict)
	if len(list) != 1 {
		return verdict{}, err
	}
	return list[0], err
}

func TestControls_DoNotAddAmountsOfDifferentCurrencies(t *testing.T) {
	t.Parallel()
	const a, b = "`a`: {`from`: `a`, `type`: `money`, `required`: false, ", "`b`: {`from`: `b`, `type`: `money`, `required`: false, "
	const ccy, ccy2 = "`ccy`: {`from`: `ccy`, `type`: `currency`, `required`: false}", "`ccy2`: {`from`: `ccy2`, `type`: `currency`, `required`: false}"
	const one = a + "`scale`: 2}," + b + "`scale`: 2}," + ccy
	const two = a + "`currency_column`: `ccy`}," + b + "`currency_column`: `ccy2`}," + ccy + "," + ccy2
	const fixed = a + "`currency`: `CNY`}," + b + "`currency_column`: `ccy`}," + ccy
	const mixed = "amounts of several currencies cannot be added"
	for _, test := range []struct{ name, content, columns, computed, want string }{
		{"two columns of one currency each", "a,b\n100,40\n# 140\n", a + "`currency`: `CNY`}," + b + "`currency`: `USD`}", "sum(a)+sum(b)", "a and b are not in the same currency"},
		{"one of an unknown currency", "a,b\n100,40\n# 140\n", a + "`currency`: `CNY`}," + b + "`scale`: 2}", "max(a)-min(b)", "a and b are not in the same currency"},
		{"the same currency", "a,b\n100,40\n# 140\n", a + "`currency`: `CNY`}," + b + "`currency`: `CNY`}", "sum(a)+sum(b)", ""},
		{"one column of currencies, each term in one of its own", "a,b,ccy\n100,,CNY\n,40,USD\n# 140\n", one, "sum(a)+sum(b)", mixed},
		{"one column of currencies, all the same", "a,b,ccy\n100,,CNY\n,40,CNY\n# 140\n", one, "sum(a)+sum(b)", ""},
		{"two columns of currencies that differ", "a,b,ccy,ccy2\n100,40,CNY,USD\n# 140\n", two, "sum(a)+sum(b)", mixed},
		{"two columns of currencies that agree", "a,b,ccy,ccy2\n100,40,USD,USD\n# 140\n", two, "sum(a)+sum(b)", ""},
		{"two columns of currencies, one without amounts", "a,b,ccy,ccy2\n140,,USD,CNY\n# 140\n", two, "sum(a)+sum(b)", ""},
		{"a currency and a column of others", "a,b,ccy\n100,40,USD\n# 140\n", fixed, "sum(a)+sum(b)", mixed},
		{"a currency and a column of the same", "a,b,ccy\n100,40,CNY\n# 140\n", fixed, "sum(a)+sum(b)", ""},
		{"a currency without amounts and a column of others", "a,b,ccy\n,140,USD\n# 140\n", fixed, "sum(a)+sum(b)", ""},
	} {
		v, err := controlled(t, test.content, test.columns, test.computed)
		if test.want == "" && (err != nil || !v.OK) || test.want != "" && (v.OK || err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %+v, error %v, want %q", test.name, v, err, test.want)
		}
	}
}

func TestControls_ReadTheirLineInMinorUnitsAsTheColumnIs(t *testing.T) {
	t.Parallel()
	const fen = "`a`: {`from`: `a`, `type`: `money`, `currency`: `CNY`, `minor_units`: true}"
	const named = "`a`: {`from`: `a`, `type`: `money`, `minor_units`: true}, `ccy`: {`from`: `ccy`, `type`: `currency`}"
	for _, test := range []struct{ name, content, columns, computed, want string }{
		{"fen", "a\n12345\n# 12345\n", fen, "sum(a)", ""},
		{"fen in groups", "a\n1234500\n# 1,234,500\n", fen, "sum(a)", ""},
		{"yuan where rows have fen", "a\n12345\n# 123.45\n", fen, "sum(a)", "declared 123.45, computed 123.45: they differ; the declared number is read in minor units"},
		{"another number", "a\n12345\n# 12346\n", fen, "sum(a)", "declared 12346, computed 123.45: they differ"},
		{"no rows", "a\n# 0\n", fen, "sum(a)", ""},
		{"yen", "a,ccy\n12345,JPY\n# 12345\n", named, "sum(a)", ""},
		{"dinars", "a,ccy\n12345,KWD\n1,KWD\n# 12346\n", named, "sum(a)", ""},
		{"no rows and no currency", "a,ccy\n# 0\n", named, "sum(a)", ""},
		{"rows", "a,ccy\n12345,KWD\n1,KWD\n# 2\n", named, "count()", ""},
		{"fen and yuan", "a,b\n100,1\n# 200\n", fen + ", `b`: {`from`: `b`, `type`: `money`, `currency`: `CNY`}", "sum(a)+sum(b)", "only one of a and b has minor_units"},
		{"a column of yuan beside it", "a,b\n100,1\n# 1.00\n", fen + ", `b`: {`from`: `b`, `type`: `money`, `currency`: `CNY`}", "sum(b)", ""},
		{"too many decimals", "a\n0\n# 0.00000000000000001\n", fen, "sum(a)", "the declared number has too many decimals"},
	} {
		v, err := controlled(t, test.content, test.columns, test.computed)
		if test.want == "" && (err != nil || !v.OK) || test.want != "" && (v.OK || err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %+v, error %v, want %q", test.name, v, err, test.want)
		}
	}
	// A value comes from another step or an input, where money is in whole units.
	_, _, err := parse(t, "bill.csv", "a\n12345\n", "{`controls`: [{`name`: `total`, `declared`: {`value`: `123.45`}, `computed`: `sum(a)`}], `columns`: {"+fen+"}}")
	if err != nil {
		t.Errorf("a value in yuan: %v", err)
	}
}
