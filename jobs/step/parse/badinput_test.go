package parse

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"
)

// refused fails the test unless the file is refused with the code and text, and
// nothing but its rejects was kept.
func refused(t *testing.T, name, content, settings, code, text string) {
	t.Helper()
	kit, out, err := parse(t, name, content, settings)
	wantPermanent(t, err, code, text)
	if out.Values["rows"] != nil {
		t.Errorf("%s: rows were kept: %v", name, out.Values["rows"])
	}
	if n, err := kit.Files.Count(); err != nil || n > 2 {
		t.Errorf("%s: %d files are visible, error %v; want the file and its rejects", name, n, err)
	}
}

func gz(t *testing.T, parts ...string) string {
	t.Helper()
	var out bytes.Buffer
	for _, part := range parts {
		w := gzip.NewWriter(&out)
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestBadInput_B60_RaggedRows(t *testing.T) {
	t.Parallel()
	const content = "id,note,amount\n1,,1.00\n2,1.00\n3,x,3.00,,\n4,x,4.00,y\n"
	const columns = "`columns`: {`id`: {`from`: `id`, `type`: `text`}, `amount`: {`from`: `amount`, `type`: `money`, `required`: false}}}"
	refused(t, "bill.csv", content, "{"+columns, "parse.rejects", "bill.csv: line 3 (row 2): it has 2 fields, and there are 3 columns. Row refused (3 of at most 0 allowed)")
	for ragged, want := range map[string][][]string{
		"reject":                {{"1", "1.00"}},
		"pad":                   {{"1", "1.00"}, {"2", ""}},
		"ignore_trailing_empty": {{"1", "1.00"}, {"3", "3.00"}},
	} {
		kit, out, err := parse(t, "bill.csv", content, "{`rejects`: {`max`: 3}, `ragged`: `"+ragged+"`,"+columns)
		wantRows(t, kit, out, err, want...)
	}
}

func TestBadInput_B60_AnOpenQuoteRefusesTheFile(t *testing.T) {
	t.Parallel()
	refused(t, "bill.csv", "id,amount\n1,1.00\n2,\"2.00\n3,3.00\n", "{"+idAmount, "parse.quote", "bill.csv: line 3, column 2: the quote that opens here is not closed before the file ends")
	refused(t, "bill.csv", "id,amount\n1,1.00\n\"2,2.00\n"+strings.Repeat("3,3.00\n", 300_000), "{"+idAmount, "parse.quote", "line 3, column 1: the quote that opens here is not closed within 1048576 bytes")
	kit, out, err := parse(t, "bill.csv", "id,amount\n\"1,1.00\n", "{`csv`: {`quote`: `none`},"+idAmount)
	wantRows(t, kit, out, err, []string{`"1`, "1.00"})
	refused(t, "bill.csv", "id,amount\n\"1\"x,1.00\n", "{"+idAmount, "parse.rejects", `line 2 (row 1), column 1 "id": text stands behind the closing quote`)
}

func TestBadInput_B60_AStrayQuoteThatHidesRowsRefusesTheFile(t *testing.T) {
	t.Parallel()
	const settings = "{`rejects`: {`max`: 9}, `columns`: {`id`: {`from`: `id`, `type`: `integer`}, `note`: {`from`: `note`, `type`: `text`}, `amount`: {`from`: `amount`, `type`: `money`}}}"
	for content, want := range map[string]string{
		"1,\"abc,10\n2,def,20\n3,\"ghi\",30\n4,x,40\n":            "line 2, column 2: the quote that opens here makes one record of lines 2 to 4, and text stands behind the closing quote of column 2",
		"1,a,10\r\n2,\"d,20\r\n3,e,30\r\n4,\",40,x\r\n5,x,50\r\n": "line 3, column 2: the quote that opens here makes one record of lines 3 to 5, and it has 4 fields, and there are 3 columns",
		"1,\"a,10\n2,b,20\n3,c\"\n4,x,40\n":                       "line 2, column 2: the quote that opens here makes one record of lines 2 to 4, and it has 2 fields",
		"\"1\n\",  \"abc,10\n2,\"x\",20\n":                        "line 3, column 2: the quote that opens here makes one record of lines 2 to 4, and text stands",
		"\"1\"x,\"a\nb\",10\n":                                    "line 2, column 2: the quote that opens here makes one record of lines 2 to 3, and text stands behind the closing quote of column 1",
		"1,\"\xFF,10\n2,b,20\n3,\"c\",30\n":                       "line 2, column 2: the quote that opens here makes one record of lines 2 to 4",
	} {
		refused(t, "bill.csv", "id,note,amount\n"+content, settings, "parse.quote", "bill.csv: "+want)
	}
	// A record of several lines that is whole refuses itself only.
	kit, out, err := parse(t, "bill.csv", "id,note,amount\n1,\"a\nb\",x\n2,\"c\nd\",20\n3,\"e\"f,30\n", settings)
	wantRows(t, kit, out, err, []string{"2", "c\nd", "20.00"})
}

func TestBadInput_B61_LongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70<<10)
	kit, out, err := parse(t, "bill.csv", "id,amount\n"+long+",1.00\n", "{"+idAmount)
	wantRows(t, kit, out, err, []string{long, "1.00"})
	refused(t, "bill.csv", "id,amount\n1,1.00\n"+strings.Repeat("x", 2<<20)+",1.00\n", "{"+idAmount, "parse.line_too_long", "bill.csv: line 3: field 1 has")
	refused(t, "bill.csv", "id,amount\n"+strings.Repeat(strings.Repeat("x", 1000)+",", 17_000)+"\n", "{"+idAmount, "parse.line_too_long", "line 2: the record has")
}

func TestBadInput_B62_AByteOrderMarkIsNoPartOfTheHeader(t *testing.T) {
	t.Parallel()
	kit, out, err := parse(t, "bill.csv", "\uFEFFid,amount\n1,1.00\n", "{"+idAmount)
	wantRows(t, kit, out, err, []string{"1", "1.00"})
}

func TestBadInput_B66_ACutFile(t *testing.T) {
	t.Parallel()
	const controls = "{`end`: {`match`: `^#`}, `controls`: [{`name`: `count`, `declared`: {`line`: `^#(\\\\d+)`}, `computed`: `count()`}]," + idAmount
	refused(t, "bill.csv", "id,amount\n1,1.00\n3,", controls, "parse.incomplete", "control count: no line declares it; the file may be cut")
	refused(t, "bill.csv", "id,amount\n1,1.00\n2,2.00\n#3\n", controls, "parse.incomplete", "control count: declared 3, computed 2: they differ")
	refused(t, "bill.csv", "id,amount\n1,1.00\n2,2.00\n#1\n", controls, "parse.control", "control count: declared 1, computed 2: they differ")
	kit, out, err := parse(t, "bill.csv", "id,amount\n1,1.00\n2,2.00\n#2", controls)
	wantRows(t, kit, out, err, []string{"1", "1.00"}, []string{"2", "2.00"})
	refused(t, "bill.csv", "id,amount\n1,1.00\n2,2.0", "{`last_line`: `ended`,"+idAmount, "parse.incomplete", "bill.csv: its last line, 3, has no line end")
	_, out, err = parse(t, "bill.csv", "id,amount\n1,1.00\n2,2.0", "{"+idAmount)
	if err != nil || !strings.Contains(out.Report, "its last line has no line end") {
		t.Errorf("error %v, report:\n%s\nwant a notice", err, out.Report)
	}
}

func TestBadInput_B67_EmptyFiles(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"nothing": "", "a mark": "\uFEFF", "blank lines": "\n \n\n", "gzip of nothing": gz(t, "")} {
		refused(t, "bill.csv", content, "{"+idAmount, "parse.empty", "if an empty file is right, say empty: ok")
		kit, out, err := parse(t, "bill.csv", content, "{`empty`: `ok`,"+idAmount)
		if err != nil || out.Values["row_count"] != int64(0) || len(rowsIn(t, kit, out)) != 0 {
			t.Errorf("%s: %v rows, error %v, want none", name, out.Values["row_count"], err)
		}
	}
	refused(t, "bill.csv", "\uFEFF", "{"+idAmount, "parse.empty", "bill.csv: it has a byte order mark and nothing else;")
	refused(t, "bill.csv", "\xFF\xFE", "{"+idAmount, "parse.empty", "bill.csv: it has a byte order mark and nothing else;")
	refused(t, "bill.csv", "", "{"+idAmount, "parse.empty", "bill.csv: it has no bytes;")
	kit, out, err := parse(t, "bill.csv", "id,amount\n", "{"+idAmount)
	if err != nil || len(rowsIn(t, kit, out)) != 0 || out.Warning != "" || !strings.Contains(out.Report, "it has no rows") {
		t.Errorf("header only: error %v, warning %q, report %s; want a notice", err, out.Warning, out.Report)
	}
	if got := out.Values["sums"]; !reflect.DeepEqual(got, map[string]map[string]string{"amount": {"CNY": "0.00"}}) {
		t.Errorf("sums = %v, want 0.00 CNY", got)
	}
	refused(t, "bill.csv", "amount\n", "{"+idAmount, "parse.columns", `it lacks "id"; it has "amount"`)
}

func TestBadInput_B68_DamagedArchives(t *testing.T) {
	t.Parallel()
	whole := gz(t, "id,amount\n", "1,1.00\n")
	kit, out, err := parse(t, "bill.csv.gz", whole, "{"+idAmount)
	wantRows(t, kit, out, err, []string{"1", "1.00"})
	kit, out, err = parse(t, "wrong_extension.csv", whole, "{"+idAmount)
	wantRows(t, kit, out, err, []string{"1", "1.00"})
	broken := []byte(gz(t, "id,amount\n1,1.00\n"))
	broken[len(broken)-6] ^= 1
	const early, behind = "unpack bill.csv.gz: the archive ends early; nothing", "unpack bill.csv.gz: bytes that are no gzip follow its last member; nothing"
	for name, test := range map[string]struct{ content, text string }{
		"without its trailer": {whole[:len(whole)-8], early}, "cut": {whole[:len(whole)-12], early}, "cut in a later header": {whole + whole[:5], early}, "a header alone": {whole[:5], early},
		"with something behind it": {whole + "id,amount\n", behind}, "with little behind it": {whole + "x", behind}, "with zeros behind it": {whole + strings.Repeat("\x00", 512), behind},
		"with a wrong digest": {string(broken), "checksum"}, "of a wrong name": {"id,amount\n1,1.00\n", "its first bytes do not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, "bill.csv.gz", test.content, "{"+idAmount, "archive.corrupt", test.text)
			if _, _, err := parse(t, "bill.csv.gz", test.content, "{"+idAmount); strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line", err)
			}
		})
	}
	kit, out, err = parse(t, "bill.csv.gz", gz(t, "", "id,amount\n", "", "", "1,1.00\n", ""), "{"+idAmount)
	wantRows(t, kit, out, err, []string{"1", "1.00"})
}

func TestBadInput_B69_ArchivesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	row := []byte("1,1.00\n" + strings.Repeat("\n", 1<<20))
	if _, err := w.Write([]byte("id,amount\n")); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		if _, err := w.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	refused(t, "bill.csv.gz", bomb.String(), "{"+idAmount, "archive.limit", "more than 1000 bytes come out of each packed byte")
	refused(t, "bill.csv.gz", bomb.String(), "{`limits`: {`ratio`: 100000, `unpacked`: `8MiB`},"+idAmount, "archive.limit", "more than 8388608 bytes come out of it")
	inner := gz(t, "id,amount\n")
	refused(t, "bill.csv.gz", gz(t, inner), "{"+idAmount, "archive.limit", "an archive inside an archive; nested archives are not read")
	refused(t, "bill.csv.gz", gz(t, archive(t, entry{"a.csv", "id,amount\n"})), "{"+idAmount, "archive.limit", "nested archives are not read")
	refused(t, "bill.zip", archive(t, entry{"a.csv", inner}), "{"+idAmount, "archive.limit", "an archive inside an archive")
	var many []entry
	for i := range 12_000 {
		many = append(many, entry{fmt.Sprintf("%d.csv", i), ""})
	}
	refused(t, "bill.zip", archive(t, many...), "{"+idAmount, "archive.limit", "it holds 12000 entries")
	for i := range many {
		many[i].name = strings.Repeat("x", 300) + many[i].name
	}
	refused(t, "bill.zip", archive(t, many...), "{"+idAmount, "archive.limit", "its list of entries takes")
}

type entry struct{ name, content string }

func archive(t *testing.T, entries ...entry) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		f, err := w.CreateHeader(&zip.FileHeader{Name: e.name, Method: zip.Deflate, NonUTF8: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestZip_ReadsTheEntriesAskedFor(t *testing.T) {
	t.Parallel()
	detail := func(id string) string { return "id,amount\n" + id + ",1.00\n" }
	gbkName, err := simplifiedchinese.GB18030.NewEncoder().String("账单/2026年10月_明细.csv")
	if err != nil {
		t.Fatal(err)
	}
	one := archive(t, entry{"bill/", ""}, entry{"bill/a.csv", detail("A")}, entry{"__MACOSX/bill/._a.csv", "x"}, entry{"bill/._a.csv", "x"}, entry{"../b.csv", detail("B")}, entry{`..\c.csv`, detail("C")}, entry{"/d.csv", detail("D")})
	kit, out, err := parse(t, "bill.zip", one, "{"+idAmount)
	wantRows(t, kit, out, err, []string{"A", "1.00"})
	refused(t, "bill.zip", one, "{`entry`: `*b.csv`,"+idAmount, "archive.entry", `no entry matches "*b.csv"; there are "bill/a.csv"`)

	refused(t, "bill.zip", archive(t), "{"+idAmount, "archive.entry", "bill.zip: the archive holds no file")
	refused(t, "bill.zip", archive(t, entry{"bill/", ""}), "{`entry`: `*.csv`,"+idAmount, "archive.entry", "bill.zip: the archive holds no file that is read")

	three := archive(t, entry{"bill/detail_2.csv", detail("2")}, entry{gbkName, detail("3")}, entry{"bill/detail_1.csv", detail("1")}, entry{"bill/summary.csv", "count\n2\n"})
	refused(t, "bill.zip", three, "{"+idAmount, "archive.entry", "holds 4 files; say which with entry")
	for pattern, want := range map[string][][]string{
		"detail_?.csv": {{"1", "1.00"}, {"2", "1.00"}}, "bill/detail_1.csv": {{"1", "1.00"}}, "*明细.csv": {{"3", "1.00"}},
	} {
		kit, out, err = parse(t, "bill.zip", three, "{`entry`: `"+pattern+"`,"+idAmount)
		wantRows(t, kit, out, err, want...)
	}
	refused(t, "bill.zip", archive(t, entry{"a.csv", detail("A") + "B,x\n"}), "{"+idAmount, "parse.rejects", `bill.zip: a.csv: line 3 (row 2), column 2 "amount": "x"`)
	refused(t, "bill.csv", detail("A"), "{`entry`: `a.csv`,"+idAmount, "archive.entry", "the file is no zip archive")
}

func TestZip_RefusesWhatItCannotTrust(t *testing.T) {
	t.Parallel()
	whole := archive(t, entry{"a.csv", "id,amount\n1,1.00\n"})
	refused(t, "bill.zip", whole[:len(whole)-10], "{"+idAmount, "archive.corrupt", "the end of the zip archive is missing")
	locked := []byte(whole)
	locked[6] |= 1
	locked[bytes.Index(locked, []byte("PK\x01\x02"))+8] |= 1
	refused(t, "bill.zip", string(locked), "{"+idAmount, "archive.encrypted", "bill.zip: a.csv is encrypted")
	wrong := []byte(whole)
	crc := bytes.Index(wrong, []byte("PK\x01\x02")) + 16
	binary.LittleEndian.PutUint32(wrong[crc:], 1)
	refused(t, "bill.zip", string(wrong), "{"+idAmount, "archive.corrupt", "unpack bill.zip: a.csv")
}

func TestBadInput_NULs(t *testing.T) {
	t.Parallel()
	refused(t, "bill.csv", "id,amount\n1,1.00\n2\x00,2.00\n"+strings.Repeat("3,3.00\n", 50), "{"+idAmount, "parse.rejects", "bill.csv: line 3 (row 2): byte 18 of the file is NUL")
	refused(t, "bill.csv", "id,amount\n"+strings.Repeat("3,3.00\n", 500)+strings.Repeat("\x00", 100)+"\n", "{"+idAmount, "parse.nul", "bill.csv: byte 3510: 64 NUL bytes in a row: a hole")
	refused(t, "bill.csv", "i\x00d\x00,\x00a\x00m\x00\n\x00", "{"+idAmount, "parse.nul", "declare encoding: utf-16le")
}

func TestBadInput_SomethingElseInPlaceOfTheFile(t *testing.T) {
	t.Parallel()
	for content, what := range map[string]string{
		"<!DOCTYPE html>\n<html>": "an HTML page", " \n<HTML><body>502": "an HTML page", "<?xml version='1.0'?>": "XML",
		"<xml><return_code>FAIL</return_code></xml>": "XML", `{"error": "expired"}`: "JSON", `[{"id": 1}]`: "JSON", "%PDF-1.7": "a PDF document",
	} {
		refused(t, "bill.csv", content, "{"+idAmount, "parse.content", "it holds "+what+" instead of rows")
	}
	kit, out, err := parse(t, "bill.csv", "<id>,<amount>\n1,1.00\n", "{`columns`: {`id`: {`from`: `<id>`, `type`: `text`}, `amount`: {`from`: `<amount>`, `type`: `money`}}}")
	wantRows(t, kit, out, err, []string{"1", "1.00"})
}

func TestBadInput_OneLineInAnotherEncoding(t *testing.T) {
	t.Parallel()
	for encoding, test := range map[string]struct{ content, message, raw string }{
		"utf-8":   {"id,amount\n甲,1.00\n\xD2\xD2,2.00\n丙,3.00\n", `byte 19 of the file, \xD2, is not utf-8`, `\xD2\xD2,2.00`},
		"gb18030": {"id,amount\n\xBC\xD7,1.00\n\xE4\xB9\x99,2.00\n\xB1\xFB,3.00\n", `byte 20 of the file, \x99, is not gb18030`, `涔\x99,2.00`},
	} {
		kit, out, err := parse(t, "bill.csv", test.content, "{`encoding`: `"+encoding+"`, `rejects`: {`max`: 1},"+idAmount)
		wantRows(t, kit, out, err, []string{"甲", "1.00"}, []string{"丙", "3.00"})
		if got := rejectsIn(t, kit, out); len(got) != 1 || got[0][6] != "parse.encoding" || got[0][7] != test.message || got[0][8] != test.raw {
			t.Errorf("%s: rejects = %q, want %q and %q", encoding, got, test.message, test.raw)
		}
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	const find = "{`header`: {`find`: [`id`, `amount`], `within`: 5},"
	for _, test := range []struct{ name, content, settings string }{
		{"behind a banner", "Bill of October\n\n# note\nid,amount\n1,1.00\n", find + idAmount},
		{"behind a banner with an odd quote", "\"Bill\n\"of October, 5\"\nid,amount\n1,1.00\n", find + idAmount},
		{"with blanks around the names", " id\t,\u3000amount \n1,1.00\n", find + idAmount},
		{"in quotes, over two lines", "Bill\n\"id\",\"amount\",\"net\namount\"\n1,1.00,\n", find + idAmount},
		{"the first line that is not skipped", "\n# Bill\nid,amount\n1,1.00\n", "{`skip_rows`: {`match`: `^#`}," + idAmount},
		{"in another order", "amount,x,id\n1.00,,1\n", "{" + idAmount},
		{"by position", "a,b\n1,1.00\n", "{`columns`: {`id`: {`from`: 1, `type`: `text`}, `amount`: {`from`: 2, `type`: `money`}}}"},
		{"none", "1,1.00\n", "{`header`: `none`, `columns`: {`id`: {`from`: 1, `type`: `text`}, `amount`: {`from`: 2, `type`: `money`}}}"},
		{"the second of a name", "id,amount,amount\n1,9.00,1.00\n", "{`columns`: {`id`: {`from`: `id`, `type`: `text`}, `amount`: {`from`: `amount[2]`, `type`: `money`}}}"},
		{"a name that ends like a position", "id,amount[2]\n1,1.00\n", "{`columns`: {`id`: {`from`: `id`, `type`: `text`}, `amount`: {`from`: `amount[2]`, `type`: `money`}}}"},
		{"without a column that need not be there", "id\n1\n", "{`columns`: {`id`: {`from`: `id`, `type`: `text`}, `amount`: {`from`: `amount`, `type`: `money`, `required`: false}}}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			kit, out, err := parse(t, "bill.csv", test.content, test.settings)
			amount := "1.00"
			if !strings.Contains(test.content, "1.00") {
				amount = ""
			}
			wantRows(t, kit, out, err, []string{"1", amount})
		})
	}
	refused(t, "bill.csv", strings.Repeat("x\n", 5)+"id,amount\n1,1.00\n", find+idAmount, "parse.header", `none of lines 1 to 5 is a header with "id", "amount"`)
	refused(t, "bill.csv", "x\nid,amuont\n", find+idAmount, "parse.header", `line 2 comes closest, it lacks "amount" and has "id", "amuont"`)
	refused(t, "bill.csv", "\xBD\xF0,amount\n1,1\n", find+idAmount, "parse.header", "the file is not UTF-8: declare its encoding")
	refused(t, "bill.csv", "a,b,amount,amount\n", "{"+idAmount, "parse.columns", `bill.csv: line 1: the header does not fit: it lacks "id"; it has "a", "b", "amount", "amount"; "amount" stands there 2 times; say "amount[1]" or "amount[2]", or a position`)
	refused(t, "bill.csv", "a,b\n", "{`columns`: {`a`: {`from`: 3, `type`: `text`}}}", "parse.columns", `it lacks 3; it has "a", "b"`)
	refused(t, "bill.csv", "1,1.00\n", "{`header`: `none`,"+idAmount, "parse.columns", "it has no header, so columns need positions")
}

func TestControls(t *testing.T) {
	t.Parallel()
	const content = "count 2, total 1,003.00 CNY\nid,ccy,amount\n1,CNY,1000.00\n2,USD,2.00\n3,CNY,3.00\n"
	control := func(computed, where, otherwise string) string {
		return "{`header`: {`find`: [`id`]}, `controls`: [{`name`: `total`, `declared`: {`line`: `total ([0-9.,]+) CNY`}, `computed`: `" + computed + "`, `where`: `" + where + "`, `else`: `" + otherwise + "`}]," +
			"`columns`: {`id`: {`from`: `id`, `type`: `integer`}, `ccy`: {`from`: `ccy`, `type`: `currency`}, `amount`: {`from`: `amount`, `type`: `money`}}}"
	}
	for _, test := range []struct{ computed, where, otherwise, declared, got, warning string }{
		{"sum(amount)", "ccy == 'CNY'", "fail", "1,003.00", "1003.00", ""},
		{"max(amount) + min(amount)", "ccy == 'CNY'", "fail", "1,003.00", "1003.00", ""},
		{"sum(amount) - sum(amount) + sum(amount)", "ccy == 'CNY'", "fail", "1,003.00", "1003.00", ""},
		{"sum(id)", "true", "warn", "1,003.00", "6", "bill.csv: control total: declared 1,003.00, computed 6: they differ"},
		{"count()", "ccy == 'USD'", "ignore", "1,003.00", "1", ""},
		{"sum(amount)", "true", "warn", "1,003.00", "1005.00", "amounts of several currencies cannot be added; choose one with where"},
	} {
		_, out, err := parse(t, "bill.csv", content, control(test.computed, test.where, test.otherwise))
		if err != nil {
			t.Errorf("%s: %v", test.computed, err)
			continue
		}
		v := out.Values["controls"].([]verdict)[0]
		ok := test.otherwise == "fail"
		if *v.Declared != test.declared || v.Computed != test.got || v.OK != ok || v.Else != test.otherwise || !strings.Contains(out.Warning, test.warning) || test.warning == "" && out.Warning != "" {
			t.Errorf("%s where %s: %+v and warning %q, want %+v", test.computed, test.where, v, out.Warning, test)
		}
	}
	refused(t, "bill.csv", content, control("sum(amount)", "ccy == 'USD'", "fail"), "parse.control", "control total: declared 1,003.00, computed 2.00: they differ")
	_, out, err := parse(t, "bill.csv", "id,amount\n1,1\n", "{`controls`: [{`name`: `count`, `declared`: {`value`: 10000000}, `computed`: `count()`, `else`: `ignore`}],"+idAmount)
	if err != nil || *out.Values["controls"].([]verdict)[0].Declared != "10000000" {
		t.Errorf("a number from another step: controls %+v, error %v", out.Values["controls"], err)
	}
	_, out, err = parse(t, "bill.csv", "id,ccy,amount\n", control("sum(amount)", "true", "warn"))
	if err != nil || !strings.Contains(out.Warning, "declared nothing, computed 0.00: the file does not say it; it may be cut") {
		t.Errorf("a control without its line: warning %q, error %v", out.Warning, err)
	}
}

func TestControls_SayWhichDecimalSignIsExpected(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]string{
		"1234.56": `declared 1234.56, computed 1234.56: "1234.56" is not a number: separators of thousands must stand before groups of three digits; the decimal sign is declared as ","`,
		"x":       `"x" is not a number with "," as decimal point`,
		"0.123":   `no separator of thousands stands behind a group that begins with 0; the decimal sign is declared as ","`,
	} {
		refused(t, "bill.csv", "id;amount\n1;1.234,56\n", "{`csv`: {`separator`: `;`}, `controls`: [{`name`: `total`, `declared`: {`value`: `"+declared+"`}, `computed`: `sum(amount)`}],"+
			"`columns`: {`amount`: {`from`: `amount`, `type`: `money`, `currency`: `EUR`, `decimal`: `,`, `thousands`: `.`}}}", "parse.control", want)
	}
}

func TestLineMatcher_KnowsHowItsLinesBegin(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{ // the first bytes it may match; "any": it cannot say
		`^#`: "#", `^总计`: "总"[:1], `^(RH|FH)`: "FR", `^"(RH|FH)"`: `"`, `^[0-2]x`: "012", `^a+b`: "a", `^a?b`: "any", `总计`: "any", `^`: "any", `^(?i)a`: "any", `^.*x`: "any", `^a|b`: "any", `^a|^b`: "ab",
	} {
		m, err := newLineMatcher("skip_rows", &matchSetting{Match: expression})
		if err != nil {
			t.Fatal(err)
		}
		got := "any"
		if m.first != nil {
			got = ""
			for b, may := range m.first {
				if may {
					got += string([]byte{byte(b)})
				}
			}
		}
		if got != want {
			t.Errorf("%s begins with %q, want %q", expression, got, want)
		}
	}
}
