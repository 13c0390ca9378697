package parse

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// A sample is a file of the corpus, the settings a job would have for it, and
// where the sums of its manifest are found in the outputs: "fee=fee" is the sum
// of column fee, "EUR=net/EUR" that in one currency, "in=@in" what control "in" computed.
type sample struct {
	file     string
	settings string
	sums     string
	code     string // of the error, where the manifest expects one
}

var syntheticSamples = []sample{
	{"01_wechat_merchant_bill.csv", "{`csv`: {`prefix`: `\\u0060`}, `header`: {`find`: [`交易时间`, `手续费`]}, `end`: {`match`: `^总交易单数`}, `columns`: {" +
		"`txn`: {`from`: `微信订单号`, `type`: `text`, `clean`: [`backquote`], `required`: true}," +
		"`kind`: {`from`: `交易状态`, `type`: `text`, `clean`: [`backquote`], `map`: {`SUCCESS`: `pay`, `REFUND`: `refund`}}," +
		"`paid_at`: {`from`: `交易时间`, `type`: `timestamp`, `clean`: [`backquote`], `format`: `2006-01-02 15:04:05`, `timezone`: `Asia/Shanghai`}," +
		"`settle`: {`from`: `应结订单金额`, `type`: `money`, `currency`: `CNY`, `clean`: [`backquote`]}," +
		"`refund`: {`from`: `退款金额`, `type`: `money`, `currency`: `CNY`, `clean`: [`backquote`]}," +
		"`fee`: {`from`: `手续费`, `type`: `money`, `currency`: `CNY`, `scale`: 5, `clean`: [`backquote`]}}," +
		"`controls`: [{`name`: `count`, `declared`: {`line`: `^\\u0060\\\\d+,`, `column`: 1}, `computed`: `count()`}," +
		"{`name`: `settle`, `declared`: {`line`: `^\\u0060\\\\d+,`, `column`: 2}, `computed`: `sum(settle)`}," +
		"{`name`: `refund`, `declared`: {`line`: `^\\u0060\\\\d+,`, `column`: 3}, `computed`: `sum(refund)`}," +
		"{`name`: `fee`, `declared`: {`line`: `^\\u0060\\\\d+,`, `column`: 5}, `computed`: `sum(fee)`}]}", "fee=fee;refund=refund;settle=settle", ""},
	{"02_alipay_merchant_gbk.csv", "{`encoding`: `gb18030`, `header`: {`find`: [`账务流水号`]}, `skip_rows`: {`match`: `^#`}, `columns`: {" +
		"`txn`: {`from`: `账务流水号`, `type`: `text`, `clean`: [`tab`], `required`: true}," +
		"`order_no`: {`from`: `业务流水号`, `type`: `text`}," +
		"`in`: {`from`: `收入金额（+元）`, `type`: `money`, `currency`: `CNY`}," +
		"`out`: {`from`: `支出金额（-元）`, `type`: `money`, `currency`: `CNY`}," +
		"`amount`: {`plus`: `收入金额（+元）`, `minus`: `支出金额（-元）`, `signed`: true, `type`: `money`, `currency`: `CNY`}}," +
		"`controls`: [{`name`: `out_count`, `declared`: {`line`: `^#支出合计：(\\\\d+)笔`}, `computed`: `count()`, `where`: `out < 0`}," +
		"{`name`: `out`, `declared`: {`line`: `^#支出合计：.*共(.*)元`}, `computed`: `sum(out)`}," +
		"{`name`: `in_count`, `declared`: {`line`: `^#收入合计：(\\\\d+)笔`}, `computed`: `count()`, `where`: `in > 0`}," +
		"{`name`: `in`, `declared`: {`line`: `^#收入合计：.*共(.*)元`}, `computed`: `sum(in)`}]}", "in=in;out=out", ""},
	{"04_adyen_settlement_detail.csv", "{`columns`: {" +
		"`psp`: {`from`: `Psp Reference`, `type`: `text`}, `kind`: {`from`: `Type`, `type`: `text`}, `ccy`: {`from`: `Net Currency`, `type`: `currency`}," +
		"`net`: {`plus`: `Net Credit (NC)`, `minus`: `Net Debit (NC)`, `type`: `money`, `currency_column`: `ccy`}}," +
		"`controls`: [{`name`: `payout`, `declared`: {`value`: `252.05`}, `computed`: `sum(net)`, `where`: `kind != \"MerchantPayout\"`}]}", "EUR=@payout", ""},
	{"05_paypal_stl.csv", "{`header`: {`find`: [`Transaction ID`, `Fee Amount`]}, `skip_rows`: {`match`: `^\"(RH|FH|SH|CH|SF|SC|RF|RC|FF)\"`}, `columns`: {" +
		"`txn`: {`from`: 2, `type`: `text`, `required`: true}," +
		"`ccy`: {`from`: `Gross Transaction Currency`, `type`: `currency`}, `fee_ccy`: {`from`: `Fee Currency`, `type`: `currency`}," +
		"`gross`: {`from`: `Gross Transaction Amount`, `type`: `money`, `currency_column`: `ccy`, `minor_units`: true, `sign`: {`from`: `Transaction Debit or Credit`, `plus`: [`CR`], `minus`: [`DR`]}}," +
		"`fee`: {`from`: `Fee Amount`, `type`: `money`, `currency_column`: `fee_ccy`, `minor_units`: true, `required`: false, `sign`: {`from`: `Fee Debit or Credit`, `plus`: [`CR`, ``], `minus`: [`DR`]}}}," +
		"`controls`: [{`name`: `count`, `declared`: {`line`: `^\"RC\",(\\\\d+)`}, `computed`: `count()`}," +
		"{`name`: `jpy`, `declared`: {`value`: `11028`}, `computed`: `sum(gross) + sum(fee)`, `where`: `ccy == \"JPY\"`}," +
		"{`name`: `usd`, `declared`: {`value`: `1954.26`}, `computed`: `sum(gross) + sum(fee)`, `where`: `ccy == \"USD\"`}]}", "JPY=@jpy;USD=@usd", ""},
	{"06_stripe_payout_reconciliation.csv", "{`columns`: {" +
		"`txn`: {`from`: `balance_transaction_id`, `type`: `text`, `required`: true}, `kind`: {`from`: `reporting_category`, `type`: `text`}," +
		"`at`: {`from`: `created_utc`, `type`: `timestamp`, `format`: `2006-01-02 15:04:05`, `timezone`: `UTC`}," +
		"`ccy`: {`from`: `currency`, `type`: `currency`}, `net`: {`from`: `net`, `type`: `money`}}," +
		"`controls`: [{`name`: `eur`, `declared`: {`value`: `29.45`}, `computed`: `sum(net)`, `where`: `ccy == \"EUR\" && kind != \"payout\"`}," +
		"{`name`: `jpy`, `declared`: {`value`: `1446`}, `computed`: `sum(net)`, `where`: `ccy == \"JPY\" && kind != \"payout\"`}]}", "EUR=@eur;JPY=@jpy", ""},
	{"07_sap_list_trailing_minus.txt", "{`encoding`: `latin-1`, `csv`: {`separator`: `|`, `quote`: `none`}, `header`: {`find`: [`Belegnr`, `Betrag in HW`]}," +
		"`skip_rows`: {`match`: `^[^|]|^\\\\|St\\\\||^\\\\|\\\\*`}, `columns`: {" +
		"`ref`: {`from`: `Belegnr`, `type`: `text`, `required`: true}, `ccy`: {`from`: `HWähr`, `type`: `currency`}," +
		"`booked`: {`from`: `Belegdatum`, `type`: `date`, `format`: `02.01.2006`}," +
		"`amount`: {`from`: `Betrag in HW`, `type`: `money`, `decimal`: `,`, `thousands`: `.`, `negative`: [`trailing_minus`]}}," +
		"`controls`: [{`name`: `total`, `declared`: {`line`: `^\\\\|\\\\* `, `column`: 8}, `computed`: `sum(amount)`}]}", "EUR=amount/EUR", ""},
	{"08_excel_damaged_ids.csv", "{`encoding`: `gb18030`, `rejects`: {`max`: 3}, `columns`: {`order_no`: {`from`: `订单号`, `type`: `text`, `required`: true}," +
		"`paid_at`: {`from`: `支付时间`, `type`: `timestamp`, `format`: `2006/1/2 15:04`, `timezone`: `Asia/Shanghai`}, `amount`: {`from`: `金额`, `type`: `money`, `currency`: `CNY`}}}", "CNY=amount/CNY", ""},
	{"09_text_prefixed_ids.csv", "{`columns`: {`id`: {`from`: `id`, `type`: `text`, `clean`: [`tab`, `excel_text`, `apostrophe`, `backquote`], `required`: true}, `amount`: {`from`: `amount`, `type`: `money`}}}", "=amount/", ""},
	{"10_multi_member.csv.gz", plainAmount, "=amount/", ""},
	{"11_truncated.csv.gz", plainAmount, "", "archive.corrupt"},
	{"12_parts_and_summary.zip", "{`entry`: `bill/detail_*.csv`, `columns`: {`id`: {`from`: `id`, `type`: `text`}, `amount`: {`from`: `amount`, `type`: `money`}}}", "=amount/", ""},
	{"13_zero_byte.csv", plainAmount, "", "parse.empty"},
	{"14_header_only.csv", plainAmount, "=amount/", ""},
	{"15_negative_styles.csv", "{`csv`: {`separator`: `;`}, `rejects`: {`max`: 2}, `columns`: {`id`: {`from`: `id`, `type`: `text`}, `amount`: {`from`: `amount`, `type`: `money`, `thousands`: [`,`, ` `], `symbols`: [`$`]," +
		"`negative`: [`minus`, `parentheses`, `trailing_minus`, `unicode_minus`, `dr`]}}}", "=amount/", ""},
	{"16_duplicate_header.csv", plainAmount, "", "parse.columns"},
	{"17_gb18030_four_byte.csv", "{`encoding`: `gb18030`, `columns`: {`id`: {`from`: 1, `type`: `text`}, `name`: {`from`: 2, `type`: `text`}, `amount`: {`from`: 3, `type`: `money`}}}", "=amount/", ""},
	{"18_partial_upload.csv", "{`last_line`: `ended`, `columns`: {`id`: {`from`: `id`, `type`: `text`}, `amount`: {`from`: `amount`, `type`: `money`}}}", "", "parse.incomplete"},
	{"19_excel_unicode_text.txt", "{`csv`: {`separator`: `\\t`}, `columns`: {`date`: {`from`: 1, `type`: `date`, `format`: `2006-01-02`}, `amount`: {`from`: 3, `type`: `money`, `thousands`: `,`}}}", "=amount/", ""},
	{"20_long_field.csv", "{`columns`: {`id`: {`from`: 1, `type`: `text`}, `note`: {`from`: 2, `type`: `text`}, `amount`: {`from`: 3, `type`: `money`}}}", "=amount/", ""},
	{"21_one_gbk_line_in_utf8.csv", "{`rejects`: {`max`: 1}, `columns`: {`id`: {`from`: `id`, `type`: `text`}, `name`: {`from`: `name`, `type`: `text`}, `amount`: {`from`: `amount`, `type`: `money`}}}", "=amount/", ""},
	{"22_corrected_v1.csv", corrected, "=amount/", ""},
	{"22_corrected_v2.csv", corrected, "=amount/", ""},
	{"23_recon_left_ledger.csv", "{`columns`: {`ref`: {`from`: `ref`, `type`: `text`}, `booked`: {`from`: `booked`, `type`: `date`, `format`: `2006-01-02`}, `ccy`: {`from`: `ccy`, `type`: `currency`}, `amount`: {`from`: `amount`, `type`: `money`}}}", "CNY=amount/CNY;JPY=amount/JPY;USD=amount/USD", ""},
	{"23_recon_right_settlement.csv", "{`columns`: {`id`: {`from`: `id`, `type`: `text`}, `ref`: {`from`: `ref`, `type`: `text`}, `ccy`: {`from`: `ccy`, `type`: `currency`}, `amount`: {`from`: `amount`, `type`: `money`}}}", "CNY=amount/CNY;EUR=amount/EUR;JPY=amount/JPY", ""},
}

const (
	plainAmount = "{`columns`: {`id`: {`from`: `id`, `type`: `text`}, `date`: {`from`: `date`, `type`: `date`, `format`: `2006-01-02`, `required`: false}, `amount`: {`from`: `amount`, `type`: `money`}}}"
	corrected   = "{`end`: {`match`: `^#TRAILER`}, `columns`: {`upstream_key`: {`from`: `txn`, `type`: `text`}, `date`: {`from`: `date`, `type`: `date`, `format`: `2006-01-02`}, `amount`: {`from`: `amount`, `type`: `money`}}," +
		"`controls`: [{`name`: `count`, `declared`: {`line`: `^#TRAILER,(\\\\d+),`}, `computed`: `count()`}, {`name`: `total`, `declared`: {`line`: `^#TRAILER,\\\\d+,(.*)$`}, `computed`: `sum(amount)`}]}"
	abc = "{`columns`: {`a`: {`from`: 1, `type`: `money`}, `b`: {`from`: 2, `type`: `text`}, `c`: {`from`: 3, `type`: `text`}}}"
)

var devSamples = []sample{
	{"01_wechat_personal.csv", "{`header`: {`find`: [`交易时间`, `金额(元)`]}, `columns`: {" +
		"`txn`: {`from`: `交易单号`, `type`: `text`, `clean`: [`tab`], `required`: true}, `direction`: {`from`: `收/支`, `type`: `text`}," +
		"`at`: {`from`: `交易时间`, `type`: `timestamp`, `format`: `2006-01-02 15:04:05`, `timezone`: `Asia/Shanghai`}," +
		"`amount`: {`from`: `金额(元)`, `type`: `money`, `currency`: `CNY`, `symbols`: [`¥`]}}," +
		"`controls`: [{`name`: `neutral`, `declared`: {`line`: `^中性交易：\\\\d+笔 ([\\\\d.]+)元`}, `computed`: `sum(amount)`, `where`: `direction == \"/\"`}," +
		"{`name`: `out`, `declared`: {`line`: `^支出：\\\\d+笔 ([\\\\d.]+)元`}, `computed`: `sum(amount)`, `where`: `direction == \"支出\"`}," +
		"{`name`: `in`, `declared`: {`line`: `^收入：\\\\d+笔 ([\\\\d.]+)元`}, `computed`: `sum(amount)`, `where`: `direction == \"收入\"`}," +
		"{`name`: `count`, `declared`: {`line`: `^共(\\\\d+)笔记录`}, `computed`: `count()`}]}", "/=@neutral;支出=@out;收入=@in", "parse.control"},
	{"02_icbc_debit_v2_footer_total.csv", "{`header`: {`find`: [`交易日期`, `记账金额(收入)`]}, `end`: {`match`: `^人民币合计`}, `ragged`: `ignore_trailing_empty`, `columns`: {" +
		"`date`: {`from`: `交易日期`, `type`: `date`, `format`: `2006-01-02`}," +
		"`in`: {`from`: `记账金额(收入)`, `type`: `money`, `currency`: `CNY`, `thousands`: `,`, `required`: false}," +
		"`out`: {`from`: `记账金额(支出)`, `type`: `money`, `currency`: `CNY`, `thousands`: `,`, `required`: false}}," +
		"`controls`: [{`name`: `in`, `declared`: {`line`: `^人民币合计`, `column`: 10}, `computed`: `sum(in)`}, {`name`: `out`, `declared`: {`line`: `^人民币合计`, `column`: 11}, `computed`: `sum(out)`}]}", "in=in;out=out", "parse.control"},
	{"03_abc_ragged_plus_sign.csv", "{`ragged`: `pad`, `columns`: {`date`: {`from`: `交易日期`, `type`: `date`, `format`: `20060102`}, `amount`: {`from`: `交易金额`, `type`: `money`, `currency`: `CNY`}}}", "CNY=amount", ""},
	{"04_boc_debit_banner.csv", "{`header`: {`find`: [`记账日期`]}, `columns`: {`date`: {`from`: `记账日期`, `type`: `date`, `format`: `2006-01-02`}, `branch`: {`from`: `网点名称`, `type`: `text`, `empty`: [`-------------------`]}, `amount`: {`from`: `金额`, `type`: `money`, `currency`: `CNY`, `thousands`: `,`}}}", "CNY=amount", ""},
	{"05_td_no_header_blank_tail.csv", "{`header`: `none`, `columns`: {`date`: {`from`: 1, `type`: `date`, `format`: `01/02/2006`}, `out`: {`from`: 3, `type`: `money`, `required`: false}, `in`: {`from`: 4, `type`: `money`, `required`: false}, `net`: {`plus`: 4, `minus`: 3, `type`: `money`}}}", "in=in;out=out", ""},
	{"17_utf16be_bom.csv", abc, "=a/", ""},
	{"18_ragged_rows.csv", "{`rejects`: {`max`: 2}, `columns`: {`a`: {`from`: `column_a`, `type`: `money`}}}", "=a/", ""},
	{"19_cr_only.csv", "{`columns`: {`a`: {`from`: 1, `type`: `text`}, `b`: {`from`: 2, `type`: `money`}}}", "=b/", ""},
	{"20_mufg_sjis.csv", "{`encoding`: `shift_jis`, `columns`: {`date`: {`from`: `日付`, `type`: `date`, `format`: `2006/1/2`}, `out`: {`from`: `支払い金額`, `type`: `money`, `currency`: `JPY`, `thousands`: `,`, `required`: false}, `in`: {`from`: `預かり金額`, `type`: `money`, `currency`: `JPY`, `thousands`: `,`, `required`: false}}}", "in=in;out=out", ""},
	{"21_goldpoint_sjis_footer.csv", "{`encoding`: `shift_jis`, `header`: `none`, `skip_rows`: {`match`: `様,`}, `end`: {`match`: `^,,,,,\\\\d`}, `columns`: {`date`: {`from`: 1, `type`: `date`, `format`: `2006/1/2`}, `amount`: {`from`: 6, `type`: `money`, `currency`: `JPY`}}," +
		"`controls`: [{`name`: `total`, `declared`: {`line`: `^,,,,,(\\\\d+)`}, `computed`: `sum(amount)`}]}", "JPY=amount", ""},
	{"22_european_semicolon_backslash.csv", "{`csv`: {`separator`: `;`, `escape`: `backslash`}, `columns`: {`model`: {`from`: `Model`, `type`: `text`}, `price`: {`from`: `Price`, `type`: `money`, `decimal`: `,`}}}", "=price/", ""},
	{"23_decimal_comma_thousands_dot.csv", "{`csv`: {`separator`: `;`}, `columns`: {`ccy`: {`from`: `CCY`, `type`: `currency`}, `amount`: {`from`: `Betrag`, `type`: `money`, `decimal`: `,`, `thousands`: `.`}}}", "EUR=amount/EUR", ""},
	{"24_newline_in_quotes_crlf.csv", "{`columns`: {`a`: {`from`: 1, `type`: `text`}, `b`: {`from`: 2, `type`: `money`}}}", "=b/", ""},
	{"25_paypal_activity_ja.csv", "{`columns`: {`txn`: {`from`: `取引ID`, `type`: `text`, `required`: true}, `ccy`: {`from`: `通貨`, `type`: `currency`}, `gross`: {`from`: `合計`, `type`: `money`}}}", "JPY=gross/JPY", ""},
	{"26_utf8_bom.csv", "{`columns`: {`foo`: {`from`: `foo`, `type`: `money`}}}", "=foo/", ""},
	{"27_mixed_line_ends.csv", "{`columns`: {`foo`: {`from`: `Foo`, `type`: `text`, `required`: true}, `bar`: {`from`: `Bsr`, `type`: `text`, `required`: true}, `baz`: {`from`: `Baz`, `type`: `text`, `required`: true}}," +
		"`controls`: [{`name`: `cells`, `declared`: {`value`: `6`}, `computed`: `count() + count() + count()`}]}", "=@cells", ""},
	{"28_split_debit_credit.csv", "{`csv`: {`separator`: `;`}, `columns`: {`ccy`: {`from`: `CCY`, `type`: `currency`}, `in`: {`from`: `Credit`, `type`: `money`, `decimal`: `,`, `required`: false}, `out`: {`from`: `Debit`, `type`: `money`, `decimal`: `,`, `required`: false}, `net`: {`plus`: `Credit`, `minus`: `Debit`, `type`: `money`, `decimal`: `,`}}}", "EUR in=in/EUR;EUR out=out/EUR", ""},
	{"29_psql_copy_tsv.tsv", "{`header`: `none`, `csv`: {`separator`: `\\t`, `quote`: `none`}, `columns`: {`n`: {`from`: 1, `type`: `money`}, `d`: {`from`: 4, `type`: `text`, `empty`: [`\\\\N`]}}}", "=n/", ""},
	{"30_gzip_single.csv.gz", abc, "=a/", ""},
}

// TestCorpus reads every CSV file of the corpus with the settings a job would
// have, and compares rows, rejects and sums with what its manifest says. -v
// prints the table.
func TestCorpus(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "file\texpected\trows\trejects\tsum\tgot\trows\trejects\tsum")
	runCorpus(t, w, "testdata/synthetic", syntheticSamples)
	if dev := filepath.Join("..", "..", "..", "..", "shared", "corpus", "dev"); exists(dev) {
		runCorpus(t, w, dev, devSamples)
	} else {
		t.Log("the folder shared/corpus/dev is not beside the checkout; its files are left out")
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func runCorpus(t *testing.T, w *tabwriter.Writer, folder string, samples []sample) {
	t.Helper()
	expected := readManifest(t, filepath.Join(folder, "manifest.tsv"))
	for _, s := range samples {
		want, ok := expected[s.file]
		if !ok {
			t.Errorf("%s is not in the manifest", s.file)
			continue
		}
		got := readSample(t, filepath.Join(folder, s.file), s)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.file,
			want["expect"], want["rows"], want["rejects"], want["control_sum"], got.outcome(), got.rows, got.rejects, got.sum)
		got.compare(t, s, want)
	}
}

func readManifest(t *testing.T, path string) map[string]map[string]string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	names := strings.Split(lines[0], "\t")
	all := map[string]map[string]string{}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, value := range strings.Split(line, "\t") {
			row[names[i]] = value
		}
		all[row["file"]] = row
	}
	return all
}

// A found is what parse made of a sample.
type found struct {
	code, rows, rejects, sum string
	err                      error
}

func (f *found) outcome() string {
	switch {
	case f.code != "":
		return f.code
	case f.err != nil:
		return f.err.Error()
	case f.rejects != "0":
		return "reject-rows"
	}
	return "accept"
}

func readSample(t *testing.T, path string, s sample) *found {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kit := steptest.New(t)
	out, err := kit.Run(Type(), withFile(t, kit, s.file, content, s.settings))
	f := &found{err: err, rows: "0", rejects: "0", sum: "0"}
	var permanent *step.PermanentError
	if errors.As(err, &permanent) {
		f.code = permanent.Code
	}
	if f.code != "" && f.code != "parse.control" {
		return f
	}
	f.rows, f.rejects = fmt.Sprint(out.Values["row_count"]), fmt.Sprint(out.Values["reject_count"])
	f.sum = sumsOf(out, s.sums)
	return f
}

// sumsOf collects the sums that a sample names.
func sumsOf(out step.Output, sums string) string {
	var list []string
	for part := range strings.SplitSeq(sums, ";") {
		name, where, _ := strings.Cut(part, "=")
		value := ""
		if control, ok := strings.CutPrefix(where, "@"); ok {
			for _, v := range out.Values["controls"].([]verdict) {
				if v.Name == control {
					value = v.Computed
				}
			}
		} else {
			column, code, given := strings.Cut(where, "/")
			for by, sum := range out.Values["sums"].(map[string]map[string]string)[column] {
				if !given || by == code {
					value = sum
				}
			}
		}
		if name != "" {
			value = name + "=" + value
		}
		list = append(list, value)
	}
	return strings.Join(list, ";")
}

func (f *found) compare(t *testing.T, s sample, want map[string]string) {
	t.Helper()
	if f.err != nil && f.code != s.code || f.err == nil && s.code != "" {
		t.Errorf("%s: error = %v, want code %q", s.file, f.err, s.code)
		return
	}
	if f.rows != want["rows"] || f.rejects != want["rejects"] {
		t.Errorf("%s: %s rows and %s rejects, want %s and %s", s.file, f.rows, f.rejects, want["rows"], want["rejects"])
	}
	if !sameSums(f.sum, want["control_sum"]) {
		t.Errorf("%s: sums %s, want %s", s.file, f.sum, want["control_sum"])
	}
}

// sameSums compares amounts as numbers: 4.00 is 4.
func sameSums(got, want string) bool {
	left, right := strings.Split(got, ";"), strings.Split(want, ";")
	if len(left) != len(right) {
		return false
	}
	for i := range left {
		// A part without a name is the amount alone, or carries a currency that the file does not.
		gotName, gotSum := cutSum(left[i])
		wantName, wantSum := cutSum(right[i])
		a, err := dataset.ParseFixed([]byte(gotSum))
		b, err2 := dataset.ParseFixed([]byte(wantSum))
		if gotName != wantName || err != nil || err2 != nil || a.Cmp(b) != 0 {
			return false
		}
	}
	return true
}

func cutSum(part string) (name, sum string) {
	if at := strings.LastIndexByte(part, '='); at >= 0 {
		return part[:at], part[at+1:]
	}
	return "", part
}

// withFile keeps content as a file and returns the settings with it. Settings
// may be written with ` instead of ".
func withFile(t *testing.T, kit *steptest.Kit, name string, content []byte, settings string) string {
	t.Helper()
	file, err := kit.Files.Put(name, content)
	if err != nil {
		t.Fatal(err)
	}
	return withRef(t, file, settings)
}

func withRef(t testing.TB, file step.File, settings string) string {
	t.Helper()
	ref, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	settings = strings.ReplaceAll(settings, "\\\"", "\x00")
	settings = strings.ReplaceAll(settings, "\"", `\"`)
	settings = strings.ReplaceAll(settings, "\x00", `\"`)
	settings = strings.ReplaceAll(settings, "`", `"`)
	return `{"file": ` + string(ref) + "," + strings.TrimPrefix(settings, "{")
}
