package parse

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"madeira/jobs/step"
)

// csvSet returns settings with the defaults of csv, changed by edit.
func csvSet(edit func(*settings)) *settings {
	set := &settings{
		CSV:    csvSettings{Separator: ",", Quote: `"`, Escape: "double"},
		Limits: limitSettings{Field: defaultField, Record: defaultRecord},
	}
	if edit != nil {
		edit(set)
	}
	return set
}

// scanAll returns all records, reading the content in blocks of size bytes; 0
// means as large as usual.
func scanAll(content string, set *settings, size int) (records [][]string, lines []int64, err error) {
	dec := &decoder{r: strings.NewReader(content), name: "bill.csv", set: charsetOf("utf-8")}
	if size > 0 && size < 4096 {
		dec.r = iotest.OneByteReader(dec.r)
	}
	s := newScanner(dec, set, nil, nil, func([]byte) {})
	if size > 0 {
		s.size = size
	}
	b := new(block)
	for {
		if err := s.next(b); errors.Is(err, io.EOF) {
			return records, lines, nil
		} else if err != nil {
			return records, lines, err
		}
		for i := range b.records {
			first, last := b.fieldsOf(i)
			var record []string
			for f := first; f < last; f++ {
				record = append(record, string(b.field(f)))
			}
			if b.records[i].spoilt > 0 {
				record = append(record, fmt.Sprintf("spoilt %d", b.records[i].spoilt))
			}
			records = append(records, record)
			lines = append(lines, b.records[i].line)
		}
	}
}

func TestScan(t *testing.T) {
	t.Parallel()
	backslash := func(s *settings) { s.CSV.Escape = "backslash" }
	for _, test := range []struct {
		name, content string
		edit          func(*settings)
		want          [][]string
		lines         []int64
	}{
		{"line ends of all kinds", "a,b\r\nc,d\re,f\ng,h", nil, [][]string{{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g", "h"}}, []int64{1, 2, 3, 4}},
		{"blank lines are no rows", "a\n\n  \n\t\nb\n\n", nil, [][]string{{"a"}, {"b"}}, []int64{1, 5}},
		{"empty fields", ",,\n\"\",\"\"\n", nil, [][]string{{"", "", ""}, {"", ""}}, []int64{1, 2}},
		{"separators and line ends in quotes", "\"a,b\",\"c\r\nd\"\ne,f\n", nil, [][]string{{"a,b", "c\r\nd"}, {"e", "f"}}, []int64{1, 3}},
		{"doubled quotes", `"a""b","""","""a""",""""""` + "\n", nil, [][]string{{`a"b`, `"`, `"a"`, `""`}}, []int64{1}},
		{"blanks around quotes", " \"a\" ,\t\"b\"\t,\"c\"\t\n", nil, [][]string{{"a", "b", "c"}}, []int64{1}},
		{"a quote inside an unquoted field is a character", "x \"y\" z,5\" pipe\n", nil, [][]string{{`x "y" z`, `5" pipe`}}, []int64{1}},
		{"blanks without quotes stay", " a , b\n", nil, [][]string{{" a ", " b"}}, []int64{1}},
		{"text behind a closing quote spoils its record only", "\"a\"b,c\nd,e\n", nil, [][]string{{"a", "c", "spoilt 1"}, {"d", "e"}}, []int64{1, 2}},
		{"much text behind a closing quote", "\"a\"bcdefghijk,c\nd,e\n", nil, [][]string{{"a", "c", "spoilt 1"}, {"d", "e"}}, []int64{1, 2}},
		{"backslashes", `"a\"b","c\\",\d` + "\n", backslash, [][]string{{`a"b`, `c\`, `\d`}}, []int64{1}},
		{"a backslash in front of anything else is itself", `"a\nb"` + "\n", backslash, [][]string{{`a\nb`}}, []int64{1}},
		{"no quotes", `"a","b""` + "\n", func(s *settings) { s.CSV.Quote = "none" }, [][]string{{`"a"`, `"b""`}}, []int64{1}},
		{"tabs", "a\t\"b\tc\"\t d\n\t\t\n", func(s *settings) { s.CSV.Separator = "\t" }, [][]string{{"a", "b\tc", " d"}, {"", "", ""}}, []int64{1, 2}},
		{"a separator counts in front of the prefix", "`a,`b,c,`d\n`e,`\n", func(s *settings) { s.CSV.Prefix = "`" }, [][]string{{"`a", "`b,c", "`d"}, {"`e", "`"}}, []int64{1, 2}},
		{"no line end behind the last", "a,b\nc,", nil, [][]string{{"a", "b"}, {"c", ""}}, []int64{1, 2}},
		{"text longer than a word of eight bytes", "aaaaaaaaaaaaaaaa,bbbbbbbb\ncccccccccc\n", nil, [][]string{{"aaaaaaaaaaaaaaaa", "bbbbbbbb"}, {"cccccccccc"}}, []int64{1, 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{0, 1, 2, 3, 5, 8} {
				got, lines, err := scanAll(test.content, csvSet(test.edit), size)
				if err != nil || !reflect.DeepEqual(got, test.want) || !reflect.DeepEqual(lines, test.lines) {
					t.Errorf("blocks of %d bytes: got %q in lines %v, error %v; want %q in lines %v", size, got, lines, err, test.want, test.lines)
				}
			}
		})
	}
}

func TestScan_RefusesFiles(t *testing.T) {
	t.Parallel()
	small := func(s *settings) { s.Limits.Field, s.Limits.Record = 20, 50 }
	for _, test := range []struct {
		name, content string
		edit          func(*settings)
		code, text    string
	}{
		{"B60 a quote that is never closed", "a,b\nc,\"d\ne,f\ng,h\n", nil, "parse.quote", `bill.csv: line 2, column 2: the quote that opens here is not closed before the file ends: "d\ne,f\ng,h\n; close it`},
		{"B60 a quote that swallows more than a field may hold", "a,\"b" + strings.Repeat("\nc,d", 1000), small, "parse.quote", "line 1, column 2: the quote that opens here is not closed within 20 bytes"},
		{"B61 a field that is too long", "a,b\n" + strings.Repeat("x", 21) + ",c\n", small, "parse.line_too_long", "line 2: field 1 has 21 bytes or more"},
		{"B61 a field without end", "a,b\n" + strings.Repeat("x", 500), small, "parse.line_too_long", "line 2: field 1 has"},
		{"B61 a record that is too long", strings.Repeat("abc,", 20) + "\n", small, "parse.line_too_long", "line 1: the record has "},
		{"B61 a quoted field that is too long", "a,\"" + strings.Repeat("x", 25) + "\"\n", small, "parse.", "line 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{0, 1, 7} {
				_, _, err := scanAll(test.content, csvSet(test.edit), size)
				wantPermanent(t, err, test.code, test.text)
			}
		})
	}
}

// wantPermanent fails the test unless err is permanent, its code begins with
// code and its text holds text.
func wantPermanent(t *testing.T, err error, code, text string) {
	t.Helper()
	var permanent *step.PermanentError
	if !errors.As(err, &permanent) || !strings.HasPrefix(permanent.Code, code) || !strings.Contains(err.Error(), text) {
		t.Errorf("error = %#v %v, want code %s and text %q", permanent, err, code, text)
	}
}

// FuzzScan compares with encoding/csv, which accepts less, and with itself when
// the text comes in other pieces.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		"a,b\nc,d\n", "\"a,\"\"b\",c\r\n", "a,\"b\nc\"\n\nd,e", " \"a\" ,b\n", "\"a\"b,c\nd", "a\"b,c\n", "\"", ",,\n", "\r\r\n\n", "a,\"\"\"\",b\n",
		"1,2,3,4,5,6,7,8,9,10,11,12,13\n14,15,16,17", "\xff\x00,\"\x80\"\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		got, lines, err := scanAll(content, csvSet(nil), 4096)
		for _, size := range []int{1, 3, 8} {
			again, againLines, againErr := scanAll(content, csvSet(nil), size)
			same := reflect.DeepEqual(again, got) && reflect.DeepEqual(againLines, lines)
			if (againErr == nil) != (err == nil) || err == nil && !same {
				t.Fatalf("%q in blocks of %d: %q, lines %v, error %v; whole: %q, lines %v, error %v", content, size, again, againLines, againErr, got, lines, err)
			}
		}
		if strings.Contains(strings.ReplaceAll(content, "\r\n", ""), "\r") {
			return // encoding/csv takes a lone carriage return for a character
		}
		r := csv.NewReader(strings.NewReader(content))
		r.FieldsPerRecord = -1
		want, strictErr := r.ReadAll()
		if strictErr != nil {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v, and encoding/csv reads %q", content, err, want)
		}
		if got, want := fmt.Sprintf("%q", rowsOf(got)), fmt.Sprintf("%q", rowsOf(want)); got != want {
			t.Fatalf("%q: got %s, want %s", content, got, want)
		}
	})
}

// rowsOf drops records that are blank and writes every line end as "\n", as
// encoding/csv does.
func rowsOf(records [][]string) [][]string {
	var rows [][]string
	for _, record := range records {
		if len(record) == 1 && strings.Trim(record[0], " \t") == "" {
			continue
		}
		row := make([]string, len(record))
		for i, field := range record {
			row[i] = strings.ReplaceAll(field, "\r\n", "\n")
		}
		rows = append(rows, row)
	}
	return rows
}

func TestScan_DoesNotAllocateForRows(t *testing.T) {
	content := bytes.Repeat([]byte("20261001000000,\"SO1\",\"a \"\"b\"\"\",12.34,2026-10-01\n"), 20_000)
	dec := &decoder{r: bytes.NewReader(content), name: "bill.csv", set: charsetOf("utf-8")}
	s := newScanner(dec, csvSet(nil), nil, nil, func([]byte) {})
	b, rows := new(block), 0
	allocated := testing.AllocsPerRun(1, func() {
		for s.next(b) == nil {
			rows += len(b.records)
		}
	})
	if rows != 20_000 || allocated > 200 {
		t.Errorf("%d rows took %v allocations, want 20000 and at most 200", rows, allocated)
	}
}

// Lines behind the end may be totals, or rows of a second page: nobody reads them, so
// the report says that they are there.
func TestParse_SaysHowManyLinesAreNoRows(t *testing.T) {
	t.Parallel()
	_, out, err := parse(t, "bill.csv", "id,amount\n# page 1\n1,1.00\nsum,1.00\n2,-0.50\n\nsum,0.50\n", "{`end`: {`match`: `^sum`}, `skip_rows`: {`match`: `^#`},"+idAmount)
	for _, want := range []string{"1 rows read, 0 refused", "bill.csv: lines that skip_rows passes over: 1", "bill.csv: line 4 ends the rows; lines behind it, which are none: 2"} {
		if err != nil || !strings.Contains(out.Report, want) {
			t.Errorf("error %v, report:\n%s\nwant %q in it", err, out.Report, want)
		}
	}
}
