package parse

import (
	"bytes"
	"encoding/binary"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/transform"
)

// A charset is one encoding that a file may be in.
type charset struct {
	name   string
	coding encoding.Encoding     // nil: UTF-8 and UTF-16, which are decoded here
	dec    transform.Transformer // of coding
	unit   int                   // bytes of an ASCII character
	order  binary.ByteOrder      // of UTF-16
	pairs  *pairTable            // of GB18030; nil otherwise
}

// charsetOf returns the charset of a name that the schema allows. GBK is read as
// GB18030, of which it is a part: files that say GBK hold four-byte characters.
func charsetOf(name string) charset {
	switch name {
	case "utf-16le":
		return charset{name: name, unit: 2, order: binary.LittleEndian}
	case "utf-16be":
		return charset{name: name, unit: 2, order: binary.BigEndian}
	case "gb18030", "gbk":
		c := legacy(name, simplifiedchinese.GB18030)
		c.pairs = gbPairs()
		return c
	case "big5":
		return legacy(name, traditionalchinese.Big5)
	case "shift_jis":
		return legacy(name, japanese.ShiftJIS)
	case "euc-jp":
		return legacy(name, japanese.EUCJP)
	case "euc-kr":
		return legacy(name, korean.EUCKR)
	case "latin-1":
		return legacy(name, charmap.ISO8859_1)
	case "cp1250":
		return legacy(name, charmap.Windows1250)
	case "cp1251":
		return legacy(name, charmap.Windows1251)
	case "cp1252":
		return legacy(name, charmap.Windows1252)
	}
	return charset{name: "utf-8", unit: 1}
}

func legacy(name string, coding encoding.Encoding) charset {
	return charset{name: name, coding: coding, dec: coding.NewDecoder().Transformer, unit: 1}
}

type markedCharset struct {
	charset
	mark []byte
}

// byteOrderMark returns the charset whose mark the text begins with.
func byteOrderMark(text []byte) (markedCharset, bool) {
	for mark, name := range map[string]string{"\xEF\xBB\xBF": "utf-8", "\xFF\xFE": "utf-16le", "\xFE\xFF": "utf-16be"} {
		if bytes.HasPrefix(text, []byte(mark)) {
			return markedCharset{charset: charsetOf(name), mark: []byte(mark)}, true
		}
	}
	return markedCharset{}, false
}

// A pairTable holds the characters of two bytes, 0 where there is none. Looking
// one up is several times faster than the general decoder, and nearly all
// Chinese text is made of them.
type pairTable [126 * 191]uint16

// rune returns the character of two bytes, or 0.
func (t *pairTable) rune(lead, trail byte) rune {
	l, r := int(lead)-0x81, int(trail)-0x40
	if l < 0 || l >= 126 || r < 0 || r >= 191 {
		return 0
	}
	return rune(t[l*191+r])
}

// gbPairs fills the table from the general decoder, once.
var gbPairs = sync.OnceValue(func() *pairTable {
	t := new(pairTable)
	dec := simplifiedchinese.GB18030.NewDecoder()
	var out [8]byte
	for i := range t {
		pair := []byte{byte(i/191 + 0x81), byte(i%191 + 0x40)}
		n, read, err := dec.Transform(out[:], pair, true)
		r, size := utf8.DecodeRune(out[:n])
		if err == nil && read == 2 && size == n && r != utf8.RuneError && r <= 0xFFFF {
			t[i] = uint16(r)
		}
	}
	return t
})
