package parse

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"
)

// decodeAll decodes content, which comes byte by byte.
func decodeAll(content []byte, declared, fallback string) (text []byte, d *decoder, err error) {
	d, err = newDecoder(iotest.OneByteReader(bytes.NewReader(content)), "bill.csv", declared, fallback)
	if err != nil {
		return nil, nil, err
	}
	for {
		if cap(text)-len(text) < 16 {
			text = append(make([]byte, 0, 2*len(text)+16), text...)
		}
		if text, err = d.more(text); errors.Is(err, io.EOF) {
			return text, d, nil
		} else if err != nil {
			return nil, nil, err
		}
	}
}

func encodeWide(text string, order binary.ByteOrder) []byte {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		var two [2]byte
		order.PutUint16(two[:], unit)
		out = append(out, two[:]...)
	}
	return out
}

func (c charset) encode(t *testing.T, text string) []byte {
	t.Helper()
	switch {
	case c.unit == 2:
		return encodeWide(text, c.order)
	case c.coding == nil:
		return []byte(text)
	}
	out, err := c.coding.NewEncoder().Bytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDecode_ReadsEveryEncoding(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"utf-8": "订单,€ 1,𠀀\n", "gb18030": "订单号,金额€,䶮𠀀ü\n", "gbk": "订单号,金额\n", "big5": "訂單,金額\n",
		"shift_jis": "日付,ｶﾅ,表示\n", "euc-jp": "日付,ｶﾅ\n", "euc-kr": "거래,금액\n", "utf-16le": "订单\t€\t𠀀\n", "utf-16be": "订单\t𠀀\n",
		"latin-1": "Müller & Söhne;1,00\n", "cp1252": "Müller – € 1\n", "cp1251": "Сумма;1,00\n", "cp1250": "Částka;1,00\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := charsetOf(name).encode(t, strings.Repeat(text, 3))
			got, d, err := decodeAll(content, name, "")
			if err != nil || string(got) != strings.Repeat(text, 3) {
				t.Fatalf("got %q, error %v, want %q three times", got, err, text)
			}
			if d.offset != int64(len(content)) || newRuler(d.set).sourceLen(got) != int64(len(content)) {
				t.Errorf("it took %d bytes, measured %d, want %d", d.offset, newRuler(d.set).sourceLen(got), len(content))
			}
		})
	}
}

func TestDecode_SettlesTheEncoding(t *testing.T) {
	t.Parallel()
	gbk := charsetOf("gb18030").encode(t, "订单,金额\n")
	for _, test := range []struct {
		name               string
		content            []byte
		declared, fallback string
		want, said         string
	}{
		{"UTF-8", []byte("订单\n"), "auto", "gb18030", "utf-8", "found"},
		{"a mark outranks what is declared", []byte("\xEF\xBB\xBFa\n"), "gb18030", "", "utf-8", "byte order mark"},
		{"UTF-16 by its mark", append([]byte{0xFF, 0xFE}, encodeWide("a,b\n", binary.LittleEndian)...), "auto", "", "utf-16le", "byte order mark"},
		{"UTF-16 of the other order by its mark", append([]byte{0xFE, 0xFF}, encodeWide("a,b\n", binary.BigEndian)...), "auto", "", "utf-16be", "byte order mark"},
		{"what is not UTF-8 is the fallback", gbk, "auto", "gb18030", "gb18030", "fallback"},
		{"without a fallback it stays UTF-8, and rows are refused", gbk, "auto", "", "utf-8", "found"},
		{"declared", []byte("a\n"), "cp1252", "", "cp1252", "declared"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, d, err := decodeAll(test.content, test.declared, test.fallback)
			if err != nil || d.set.name != test.want || d.said != test.said {
				t.Fatalf("got %s (%s), error %v, want %s (%s)", d.set.name, d.said, err, test.want, test.said)
			}
		})
	}
}

func TestDecode_CutsTheSampleInsideACharacter(t *testing.T) {
	t.Parallel()
	content := append(bytes.Repeat([]byte("a"), sampleSize-1), "订单"...)
	d, err := newDecoder(bytes.NewReader(content), "bill.csv", "auto", "gb18030")
	if err != nil || d.set.name != "utf-8" {
		t.Errorf("got %+v, error %v, want utf-8", d.set.name, err)
	}
}

func TestDecode_NeverInventsACharacter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, encoding, content, shown string }{
		{"a lead byte in front of a separator", "gb18030", "a\xD6,b\n", `a\xD6,b` + "\n"},
		{"a byte that leads nothing", "gb18030", "\xFF1,b\n", `\xFF1,b` + "\n"},
		{"a pair without a character", "gb18030", "\xFE\xFE,b\n", "\\xFE\\xFE,b\n"},
		{"a lead byte at the end", "gb18030", "a,\xD6", `a,\xD6`},
		{"half of four bytes at the end", "gb18030", "a,\x81\x30", `a,\x810`},
		{"a byte without meaning", "cp1252", "a\x81,b\n", `a\x81,b` + "\n"},
		{"a lead byte in Shift JIS", "shift_jis", "\x81,b\n", `\x81,b` + "\n"},
		{"a lone surrogate", "utf-16le", "\x00\xD8,\x00b\x00", `\x00\xD8,b`},
		{"half a character of UTF-16", "utf-16le", "a\x00b", `a\x62`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, d, err := decodeAll([]byte(test.content), test.encoding, "")
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(got, []byte("\uFFFD")) {
				t.Errorf("got %q, which invents U+FFFD", got)
			}
			if shown := string(newRuler(d.set).display(got)); shown != test.shown {
				t.Errorf("shown as %q, want %q", shown, test.shown)
			}
			if n := newRuler(d.set).sourceLen(got); n != int64(len(test.content)) {
				t.Errorf("measured %d bytes, want %d", n, len(test.content))
			}
		})
	}
}

// FuzzDecodeGB18030 compares with the general decoder where it finds no error,
// and measures what was decoded.
func FuzzDecodeGB18030(f *testing.F) {
	f.Add([]byte("\xB6\xA9\xB5\xA5,\x81\x30\x81\x30,a\xFF\n"))
	f.Add([]byte("\x95\x32\xB5\x32\xA2\xE3\xD6"))
	f.Fuzz(func(t *testing.T, content []byte) {
		got, d, err := decodeAll(content, "gb18030", "")
		if err != nil || d.set.name != "gb18030" {
			return // a mark, or no text
		}
		want, err := simplifiedchinese.GB18030.NewDecoder().Bytes(content)
		sound := err == nil && !bytes.Contains(want, []byte("\uFFFD"))
		if sound && !bytes.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", content, got, want)
		}
		if !sound && utf8.Valid(got) && !bytes.Contains(got, []byte("\uFFFD")) {
			t.Fatalf("%q: got %q as if it were sound, want %q", content, got, want)
		}
		if bytes.IndexByte(content, 0x80) < 0 && newRuler(d.set).sourceLen(got) != int64(len(content)) {
			t.Fatalf("%q: measured %d bytes of %q, want %d", content, newRuler(d.set).sourceLen(got), got, len(content))
		}
	})
}
