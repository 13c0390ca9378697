package parse

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// idAmount reads the columns id and amount; what a test adds comes in front of it.
const idAmount = "`columns`: {`id`: {`from`: `id`, `type`: `text`, `required`: true}, `amount`: {`from`: `amount`, `type`: `money`, `currency`: `CNY`}}}"

// parse runs the step on a file of the given content.
func parse(t *testing.T, name, content, settings string) (*steptest.Kit, step.Output, error) {
	t.Helper()
	kit := steptest.New(t)
	out, err := kit.Run(Type(), withFile(t, kit, name, []byte(content), settings))
	return kit, out, err
}

// rowsIn reads the rows that a run kept.
func rowsIn(t *testing.T, kit *steptest.Kit, out step.Output) [][]string {
	t.Helper()
	d, ok := out.Values["rows"].(step.Dataset)
	if !ok {
		t.Fatalf("rows = %v, want a dataset; report: %s", out.Values["rows"], out.Report)
	}
	return kit.Rows(d)
}

func rejectsIn(t *testing.T, kit *steptest.Kit, out step.Output) [][]string {
	t.Helper()
	r, err := kit.Files.Open(t.Context(), out.Values["rejects"].(step.File))
	if err != nil {
		t.Fatal(err)
	}
	all, err := csv.NewReader(r).ReadAll()
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return all[1:]
}

func wantRows(t *testing.T, kit *steptest.Kit, out step.Output, err error, want ...[]string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if got := rowsIn(t, kit, out); !reflect.DeepEqual(got, want) {
		t.Errorf("rows = %q, want %q", got, want)
	}
}

func TestParse_ReadsWhatTheDesignShows(t *testing.T) {
	t.Parallel()
	content, err := simplifiedchinese.GB18030.NewEncoder().String("渠道账单\n总笔数：2\n总金额：1,234.56\n交易号,类型,金额,服务费,完成时间,备注\n" +
		"2026100100001\t,交易,\"1,234.56\",0.73333,2026-10-01 00:15:00,\"a,b\"\n# 注释\n2026100200002\t,退款,(20.00),0.00,2026-10-02 08:00:00,\n总计,2\n")
	if err != nil {
		t.Fatal(err)
	}
	kit, out, err := parse(t, "bill.csv", content, "{`encoding`: `gb18030`, `header`: {`find`: [`交易号`, `金额`], `within`: 10}, `skip_rows`: {`match`: `^#`}, `end`: {`match`: `^总计`}, `columns`: {"+
		"`order_no`: {`from`: `交易号`, `type`: `text`, `clean`: [`tab`], `required`: true},"+
		"`amount`: {`from`: `金额`, `type`: `money`, `currency`: `CNY`, `thousands`: `,`, `negative`: [`minus`, `parentheses`]},"+
		"`fee`: {`from`: `服务费`, `type`: `money`, `currency`: `CNY`, `scale`: 5},"+
		"`net`: {`type`: `money`, `value`: `amount - fee`},"+
		"`paid_at`: {`from`: `完成时间`, `type`: `timestamp`, `format`: `2006-01-02 15:04:05`, `timezone`: `Asia/Shanghai`},"+
		"`upstream_key`: {`type`: `text`, `value`: `\\\"alipay/\\\" + order_no + \\\"/\\\" + kind`},"+
		"`kind`: {`from`: `类型`, `type`: `text`, `map`: {`交易`: `pay`, `退款`: `refund`}, `else`: `reject`}},"+
		"`controls`: [{`name`: `count`, `declared`: {`line`: `^总笔数[:：](\\\\d+)`}, `computed`: `count()`},"+
		"{`name`: `total`, `declared`: {`line`: `^总金额[:：]([\\\\d.,]+)`}, `computed`: `sum(amount)`, `where`: `kind == \\\"pay\\\"`, `else`: `warn`}]}")
	wantRows(t, kit, out, err,
		[]string{"2026100100001", "1234.56", "0.73333", "1233.82667", "2026-09-30T16:15:00Z", "alipay/2026100100001/pay", "pay"},
		[]string{"2026100200002", "-20.00", "0.00", "-20.00", "2026-10-02T00:00:00Z", "alipay/2026100200002/refund", "refund"})
	const want = `bill.csv: 2 rows read, 0 refused
  bill.csv: gb18030 (declared), header in line 4, columns not kept: "备注"
  bill.csv: lines that skip_rows passes over: 1
  control count: declared 2, computed 2: agrees
  control total: declared 1,234.56, computed 1234.56: agrees
  sum of amount: 1214.56 CNY
  sum of fee: 0.73333 CNY
  sum of net: 1213.82667 CNY`
	if out.Report != want || out.Warning != "" {
		t.Errorf("report:\n%s\nwarning %q, want none and\n%s", out.Report, out.Warning, want)
	}
	if got := out.Values["rows"].(step.Dataset).Schema.Columns[3]; got != (dataset.Column{Name: "net", Kind: dataset.Money, Scale: 5, Currency: "CNY"}) {
		t.Errorf("net is %+v, want five decimals and CNY", got)
	}
}

func TestParse_DeclaresWhatItReturns(t *testing.T) {
	t.Parallel()
	_, out, err := parse(t, "bill.csv", "id,amount\n1,2.00\n", "{"+idAmount)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Type().Outputs {
		if _, ok := out.Values[f.Name]; !ok && f.Name != "report" {
			t.Errorf("output %s is declared and not returned", f.Name)
		}
	}
	raw, err := json.Marshal(out.Values["controls"])
	if err != nil || string(raw) != "[]" {
		t.Errorf("controls = %s, error %v, want an empty list", raw, err)
	}
}

func TestParse_SaysWhereARowIsWrong(t *testing.T) {
	t.Parallel()
	content := "订单,金额\nA1,1.00\nA2,\"1.234,56\"\n\"A\n3\",x\nA4,2.00\n"
	settings := "{`encoding`: `gb18030`, %s `columns`: {`id`: {`from`: `订单`, `type`: `text`}, `amount`: {`from`: `金额`, `type`: `money`}}}"
	gbk, err := simplifiedchinese.GB18030.NewEncoder().String(content)
	if err != nil {
		t.Fatal(err)
	}
	kit, out, err := parse(t, "alipay_2026-10.csv", gbk, fmt.Sprintf(settings, ""))
	wantPermanent(t, err, "parse.rejects", `alipay_2026-10.csv: line 3 (row 2), column 2 "金额": "1.234,56" is not an amount with "." as decimal point. Row refused (2 of at most 0 allowed). See rejects.csv`)
	if out.Values["rows"] != nil || out.Values["reject_count"] != int64(2) || !strings.Contains(out.Report, "2 rows readable, none kept, 2 refused") {
		t.Errorf("got %v and report %s, want no rows and two rejects", out.Values, out.Report)
	}
	want := [][]string{
		{"alipay_2026-10.csv", "3", "2", "18", "2", "金额", "parse.amount", `"1.234,56" is not an amount with "." as decimal point`, "A2,\"1.234,56\""},
		{"alipay_2026-10.csv", "4", "3", "32", "2", "金额", "parse.amount", `"x" is not an amount with "." as decimal point`, "\"A\n3\",x"},
	}
	if got := rejectsIn(t, kit, out); !reflect.DeepEqual(got, want) {
		t.Errorf("rejects.csv = %q, want %q", got, want)
	}
	kit, out, err = parse(t, "alipay_2026-10.csv", gbk, fmt.Sprintf(settings, "`rejects`: {`max`: 2},"))
	wantRows(t, kit, out, err, []string{"A1", "1.00"}, []string{"A4", "2.00"})
	if out.Warning != "alipay_2026-10.csv: 2 rows were refused, see rejects.csv" {
		t.Errorf("warning = %q", out.Warning)
	}
}

func TestParse_RefusedRowsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	content := "id,note,amount\n"
	var want [][]string
	for i := range 200 { // the last column is wrong after the others were appended, nulls among them
		if note := strings.Repeat("n", i%3); i%2 == 0 {
			content += fmt.Sprintf("A%d,%s,bad\n", i, note)
		} else {
			content += fmt.Sprintf("A%d,%s,%d\n", i, note, i)
			want = append(want, []string{fmt.Sprintf("A%d", i), note, fmt.Sprintf("%d.00", i)})
		}
	}
	kit, out, err := parse(t, "bill.csv", content, "{`rejects`: {`max`: 100}, `columns`: {`id`: {`from`: `id`, `type`: `text`}, `note`: {`from`: `note`, `type`: `text`}, `amount`: {`from`: `amount`, `type`: `money`}}}")
	wantRows(t, kit, out, err, want...)
	if !strings.Contains(out.Report, "refused: 80 more, see rejects.csv") {
		t.Errorf("report does not count what it leaves out:\n%s", out.Report)
	}
}

func TestParse_Values(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, column, header, value string
		want, rule                  string // one of them
	}{
		{"a text that is mapped", "`from`: `v`, `type`: `text`, `map`: {`交易`: `pay`}", "v", "交易", "pay", ""},
		{"a text that map does not know", "`from`: `v`, `type`: `text`, `map`: {`交易`: `pay`}", "v", "x", "", "parse.map"},
		{"a text that map does not know and that stays", "`from`: `v`, `type`: `text`, `map`: {`交易`: `pay`}, `else`: `keep`", "v", "x", "x", ""},
		{"an empty text that is mapped", "`from`: `v`, `type`: `text`, `required`: true, `map`: {``: `none`}", "v", `""`, "none", ""},
		{"a key that Excel damaged", "`from`: `v`, `type`: `text`", "v", "4.20000E+27", "", "parse.damaged"},
		{"a remark that only looks so", "`from`: `v`, `type`: `text`, `damaged`: `keep`", "v", "4.20000E+27", "4.20000E+27", ""},
		{"a missing key", "`from`: `v`, `type`: `text`, `required`: true", "v", `" "`, "", "parse.required"},
		{"a text that means nothing", "`from`: `v`, `type`: `money`, `required`: false, `empty`: [`-`]", "v", "-", "", ""},
		{"a missing amount", "`from`: `v`, `type`: `money`", "v", `""`, "", "parse.required"},
		{"a currency in small letters", "`from`: `v`, `type`: `currency`", "v", "eur", "EUR", ""},
		{"a currency that is none", "`from`: `v`, `type`: `currency`", "v", "元", "", "parse.currency"},
		{"a whole number", "`from`: `v`, `type`: `integer`, `thousands`: `,`", "v", `"-1,234"`, "-1234", ""},
		{"no whole number", "`from`: `v`, `type`: `integer`", "v", "1.0", "", "parse.integer"},
		{"yes", "`from`: `v`, `type`: `boolean`", "v", "Yes", "true", ""},
		{"maybe", "`from`: `v`, `type`: `boolean`", "v", "maybe", "", "parse.boolean"},
		{"a rate", "`from`: `v`, `type`: `decimal`, `scale`: 6", "v", "0.0061", "0.006100", ""},
		{"more decimals than the currency has", "`from`: `v`, `type`: `money`, `currency`: `CNY`", "v", "0.06001", "", "parse.decimals"},
		{"more decimals, rounded", "`from`: `v`, `type`: `money`, `currency`: `CNY`, `round`: `half_even`", "v", "0.065", "0.06", ""},
		{"decimals of yen that are zero", "`from`: `v`, `type`: `money`, `currency`: `JPY`", "v", "100.00", "100", ""},
		{"thousands that nobody declared", "`from`: `v`, `type`: `money`, `currency`: `EUR`", "v", "5.000", "", "parse.decimals"},
		{"thousands of yen that nobody declared", "`from`: `v`, `type`: `money`, `currency`: `JPY`", "v", "-250.000", "", "parse.decimals"},
		{"thousands with the other separator", "`from`: `v`, `type`: `money`, `currency`: `EUR`, `decimal`: `,`, `thousands`: `.`", "v", `"1,500"`, "", "parse.decimals"},
		{"zeros that cannot be thousands", "`from`: `v`, `type`: `money`, `currency`: `EUR`", "v", "7.0000", "7.00", ""},
		{"nothing, with zeros", "`from`: `v`, `type`: `money`, `currency`: `EUR`", "v", "0.000", "0.00", ""},
		{"three decimals, rounded", "`from`: `v`, `type`: `money`, `currency`: `EUR`, `round`: `half_even`", "v", "5.000", "5.00", ""},
		{"yen with decimals", "`from`: `v`, `type`: `money`, `currency`: `JPY`", "v", "100.50", "", "parse.decimals"},
		{"an amount too large for 32 bits of cents", "`from`: `v`, `type`: `money`, `currency`: `CNY`", "v", "9999999999.99", "9999999999.99", ""},
		{"an amount with the other decimal sign", "`from`: `v`, `type`: `money`, `decimal`: `,`, `thousands`: `.`", "v", "0.123", "", "parse.amount"},
		{"a whole number grouped behind 0", "`from`: `v`, `type`: `integer`, `thousands`: `,`", "v", `"0,123"`, "", "parse.amount"},
		{"an amount too large for 64 bits", "`from`: `v`, `type`: `money`, `currency`: `CNY`", "v", "99999999999999999999", "", "parse.range"},
		{"cents", "`from`: `v`, `type`: `money`, `currency`: `CNY`, `minor_units`: true", "v", "1234", "12.34", ""},
		{"minor units of yen", "`from`: `v`, `type`: `money`, `currency`: `JPY`, `minor_units`: true", "v", "1234", "1234", ""},
		{"a date in the wrong order", "`from`: `v`, `type`: `date`, `format`: `2006-01-02`", "v", "31/01/2026", "", "parse.date"},
		{"a time that was skipped", "`from`: `v`, `type`: `timestamp`, `format`: `2006-01-02 15:04`, `timezone`: `Europe/Berlin`", "v", "2026-03-29 02:30", "", "parse.date"},
		{"money that came in", "`plus`: `in`, `minus`: `out`, `type`: `money`", "in,out", "5.00,", "5.00", ""},
		{"money that went out", "`plus`: `in`, `minus`: `out`, `type`: `money`", "in,out", "0.00,5.00", "-5.00", ""},
		{"money that went out with a sign nobody declared", "`plus`: `in`, `minus`: `out`, `type`: `money`", "in,out", "0.00,-5.00", "", "parse.sign"},
		{"money that went out with its declared sign", "`plus`: `in`, `minus`: `out`, `signed`: true, `type`: `money`", "in,out", "0.00,-5.00", "-5.00", ""},
		{"money that went out without its declared sign", "`plus`: `in`, `minus`: `out`, `signed`: true, `type`: `money`", "in,out", "0.00,5.00", "", "parse.sign"},
		{"neither in nor out", "`plus`: `in`, `minus`: `out`, `type`: `money`", "in,out", ",", "", "parse.required"},
		{"a debit", "`from`: `v`, `type`: `money`, `sign`: {`from`: `dc`, `plus`: [`贷`], `minus`: [`借`]}", "v,dc", "5.00,借", "-5.00", ""},
		{"a credit", "`from`: `v`, `type`: `money`, `sign`: {`from`: `dc`, `plus`: [`贷`], `minus`: [`借`]}", "v,dc", "5.00,贷", "5.00", ""},
		{"neither debit nor credit", "`from`: `v`, `type`: `money`, `sign`: {`from`: `dc`, `plus`: [`贷`], `minus`: [`借`]}", "v,dc", "5.00,x", "", "parse.sign"},
		{"a debit with a sign of its own", "`from`: `v`, `type`: `money`, `sign`: {`from`: `dc`, `plus`: [`贷`], `minus`: [`借`]}", "v,dc", "-5.00,借", "", "parse.sign"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			kit, out, err := parse(t, "bill.csv", test.header+"\n"+test.value+"\n", "{`rejects`: {`max`: 1}, `columns`: {`v`: {"+test.column+"}}}")
			if err != nil {
				t.Fatal(err)
			}
			if test.rule != "" {
				got := rejectsIn(t, kit, out)
				if len(got) != 1 || got[0][6] != test.rule {
					t.Errorf("rejects = %q, rows %q, want one with %s", got, rowsIn(t, kit, out), test.rule)
				}
				return
			}
			wantRows(t, kit, out, nil, []string{test.want})
		})
	}
}

func TestParse_FormulasRefuseWhatTheyCannotHold(t *testing.T) {
	t.Parallel()
	const columns = "{`rejects`: {`max`: 9}, `columns`: {`a`: {`from`: `a`, `type`: `money`, `currency`: `CNY`, `required`: false}, `b`: {`from`: `b`, `type`: `decimal`, `scale`: 3}, `note`: {`from`: `note`, `type`: `text`}," +
		"`c`: {`type`: `money`, `currency`: `CNY`, `value`: `a * b`}, `upstream_key`: {`type`: `text`, `value`: `'k/' + note`}}}"
	kit, out, err := parse(t, "bill.csv", "a,b,note\n10.00,0.500,x\n0.01,0.500,x\n,1,x\n1,1,\n92233720368547758.07,2,x\n", columns)
	wantRows(t, kit, out, err, []string{"10.00", "0.500", "x", "5.00", "k/x"})
	var rules []string
	for _, row := range rejectsIn(t, kit, out) {
		rules = append(rules, row[5]+" "+row[6])
	}
	want := []string{"c parse.decimals", "c parse.required", "upstream_key parse.required", "c parse.range"}
	if !reflect.DeepEqual(rules, want) {
		t.Errorf("rejects = %q, want %q", rules, want)
	}
}

func TestParse_ReportsAVersionChangeLineByLine(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	run := func(file string, before map[string]json.RawMessage) step.Output {
		content, err := os.ReadFile("testdata/synthetic/" + file)
		if err != nil {
			t.Fatal(err)
		}
		in := kit.Input(withFile(t, kit, "bill.csv", content, corrected))
		in.Previous = before
		return kit.Repeat(Type(), in, func() any { n, _ := kit.Files.Count(); return n })
	}
	first := run("22_corrected_v1.csv", nil)
	if first.Values["changes"] != nil || strings.Contains(first.Report, "version change") {
		t.Errorf("the first version reports a change: %s", first.Report)
	}
	raw, err := json.Marshal(first.Values["rows"])
	if err != nil {
		t.Fatal(err)
	}
	second := run("22_corrected_v2.csv", map[string]json.RawMessage{"rows": raw, "changes": []byte("null")})
	const want = `version change: 1 changed, 1 added, 1 removed
  old line 4 (T3): removed: upstream_key T3, date 2026-10-03, amount 30.00
  line 3 (T2): amount 20.00 → 20.50
  line 5 (T5): added: upstream_key T5, date 2026-10-31, amount 5.00`
	if !strings.HasSuffix(second.Report, want) {
		t.Errorf("report:\n%s\nwant at its end\n%s", second.Report, want)
	}
	rows := kit.Rows(second.Values["changes"].(step.Dataset))
	if want := [][]string{{"removed", "T3", "", "4", "", "", ""}, {"changed", "T2", "3", "3", "amount", "20.00", "20.50"}, {"added", "T5", "5", "", "", "", ""}}; !reflect.DeepEqual(rows, want) {
		t.Errorf("changes = %q, want %q", rows, want)
	}
	for name, want := range map[string]int64{"changed_count": 1, "added_count": 1, "removed_count": 1} {
		if second.Values[name] != want {
			t.Errorf("%s = %v, want %d", name, second.Values[name], want)
		}
	}
}

func TestParse_RefusesSettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"{`columns`: {`a`: {`type`: `text`}}}":                                                                                                                                "column a: from, value, or plus and minus is missing",
		"{`columns`: {`a`: {`from`: 1, `type`: `timestamp`, `format`: `2006-01-02`}}}":                                                                                        "column a: timezone is missing",
		"{`columns`: {`a`: {`from`: 1, `type`: `money`, `currency_column`: `b`}}}":                                                                                            `column a: currency_column: "b" is no column of type currency`,
		"{`columns`: {`a`: {`from`: 1, `type`: `money`}, `b`: {`from`: 2, `type`: `currency`}, `c`: {`from`: 3, `type`: `currency`}}}":                                        "there are 2 columns of type currency",
		"{`columns`: {`a`: {`from`: 1, `type`: `money`, `minor_units`: true}}}":                                                                                               "minor_units needs a currency",
		"{`columns`: {`t`: {`from`: 1, `type`: `text`}, `c`: {`type`: `currency`, `value`: `t`}, `a`: {`from`: 2, `type`: `money`, `minor_units`: true}}}":                    "minor_units needs a currency that is read from the file, and c is calculated",
		"{`columns`: {`a`: {`type`: `money`, `value`: `b`}, `b`: {`type`: `money`, `value`: `a`}}}":                                                                           "need one another",
		"{`columns`: {`a`: {`from`: 1, `type`: `money`, `negative`: [`dr`, `cr`]}}}":                                                                                          "column a: negative: dr and cr cannot both make an amount negative",
		"{`columns`: {`a`: {`type`: `text`, `value`: `1`}}}":                                                                                                                  "is a number, and the type of the column is text",
		"{`columns`: {`a`: {`from`: 1, `type`: `money`, `currency`: `CNY`}, `b`: {`from`: 2, `type`: `money`, `currency`: `USD`}, `c`: {`type`: `money`, `value`: `a + b`}}}": "a and b are not in the same currency",
		"{`key`: [`x`], `columns`: {`a`: {`from`: 1, `type`: `text`}}}":                                                                                                       `key: no column "x"`,
		"{`skip_rows`: {`match`: `(`}, `columns`: {`a`: {`from`: 1, `type`: `text`}}}":                                                                                        "skip_rows.match",
		"{`csv`: {`separator`: `；`}, `columns`: {`a`: {`from`: 1, `type`: `text`}}}":                                                                                          "must be a single ASCII character",
		"{`csv`: {`quote`: `,`}, `columns`: {`a`: {`from`: 1, `type`: `text`}}}":                                                                                              "other than the separator",
		"{`limits`: {`field`: `1MB`}, `columns`: {`a`: {`from`: 1, `type`: `text`}}}":                                                                                         `"1MB" is no size`,
		"{`columns`: {`a`: {`from`: 1, `type`: `text`}}, `controls`: [{`name`: `x`, `declared`: {`value`: `1`}, `computed`: `sum(a)`}]}":                                      "sum needs a column of numbers",
		"{`columns`: {`a`: {`from`: 1, `type`: `text`}}, `controls`: [{`name`: `x`, `declared`: {`value`: `1`}, `computed`: `avg(a)`}]}":                                      `unexpected "avg"`,
		"{`columns`: {`a`: {`from`: 1, `type`: `text`}}, `controls`: [{`name`: `x`, `declared`: {`value`: `1`}, `computed`: `count()`, `where`: `a`}]}":                       "is text, not a condition",
		"{`columns`: {`a`: {`plus`: `a`, `minus`: `a`, `type`: `money`}}}":                                                                                                    "column a: plus and minus are both \"a\", so every amount would be 0",
		"{`columns`: {`a`: {`plus`: `a`, `minus`: `b`, `type`: `money`, `map`: {`x`: ``}}}}":                                                                                  "column a: map replaces a value of one column",
		"{`columns`: {`a`: {`plus`: `a`, `minus`: `b`, `type`: `money`, `sign`: {`from`: `c`, `plus`: [`C`], `minus`: [`D`]}}}}":                                              "column a: plus and minus say the sign of an amount; leave sign out",
		"{`columns`: {`a`: {`plus`: `a`, `minus`: `b`, `type`: `decimal`, `minor_units`: true}, `c`: {`from`: 1, `type`: `currency`}}}":                                       "minor_units needs a currency",
	} {
		_, _, err := parse(t, "bill.csv", "a\n1\n", settings)
		wantPermanent(t, err, "parse.settings", want)
	}
}

func TestParse_EndsSoonAfterItIsCancelled(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	in := kit.Input(withFile(t, kit, "bill.csv", bill(200_000), billSettings))
	ctx, cancel := context.WithCancel(t.Context())
	in.Progress = cancelling{cancel}
	_, err := Type().Runner.Run(ctx, in)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want that of the context", err)
	}
}

// cancelling cancels at the first sign of progress.
type cancelling struct{ cancel func() }

func (c cancelling) Report(_, _ int64, _ string) { c.cancel() }

func TestFault_WritersAndReadersThatFailAreTriedAgain(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	kit := steptest.New(t)
	for name, change := range map[string]func(*step.Input){
		"reading": func(in *step.Input) { in.Files = failingFiles{Files: in.Files, err: broken} },
		"writing": func(in *step.Input) { in.Datasets = failingDatasets{Datasets: in.Datasets, err: broken} },
	} {
		in := kit.Input(withFile(t, kit, "bill.csv", bill(50_000), billSettings))
		change(&in)
		_, err := Type().Runner.Run(t.Context(), in)
		var permanent *step.PermanentError
		if !errors.Is(err, broken) || errors.As(err, &permanent) {
			t.Errorf("%s: error = %v, want the cause, and not permanent", name, err)
		}
	}
}

type failingFiles struct {
	step.Files
	err error
}

func (f failingFiles) Open(ctx context.Context, file step.File) (step.FileReader, error) {
	r, err := f.Files.Open(ctx, file)
	return &failingReader{FileReader: r, err: f.err}, err
}

// failingReader fails after a megabyte.
type failingReader struct {
	step.FileReader
	read int
	err  error
}

func (r *failingReader) Read(p []byte) (int, error) {
	if r.read > sampleSize {
		return 0, r.err
	}
	n, err := r.FileReader.Read(p)
	r.read += n
	return n, err
}

type failingDatasets struct {
	step.Datasets
	err error
}

func (d failingDatasets) Create(ctx context.Context, s dataset.Schema) (step.DatasetWriter, error) {
	w, err := d.Datasets.Create(ctx, s)
	return failingWriter{DatasetWriter: w, err: d.err}, err
}

type failingWriter struct {
	step.DatasetWriter
	err error
}

func (w failingWriter) Write(*dataset.Batch) error { return w.err }
