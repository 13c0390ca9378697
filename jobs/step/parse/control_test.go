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
