package parse

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/transform"

	"madeira/jobs/step"
)

// sampleSize is how much of a file is looked at before it is read.
const sampleSize = 1 << 20

// readSize is how many bytes are decoded at a time.
const readSize = 128 << 10

// maxZeros is how many NUL bytes in a row are taken for a hole: storage that was
// allocated and never written, as a broken upload leaves it.
const maxZeros = 64

// escaped marks a byte that does not decode: escaped, 0x80 + its high and 0x80 +
// its low four bits. None of the three occurs in UTF-8 in such a place, so the
// row is found to be damaged, and none is a separator, so the rest of it is
// still scanned as it was meant.
const escaped = 0xFE

// A decoder reads one part and appends it as UTF-8. It never invents a character:
// a byte that does not decode stays recognisable. UTF-8 passes as it is.
type decoder struct {
	r       io.Reader
	name    string // of the part
	set     charset
	said    string // how the encoding was found, for the report
	buf     []byte // what src lies in
	src     []byte // read and not yet decoded
	offset  int64  // in the part, of what comes out next
	done    bool   // r is at its end
	invalid bool   // the sample is not the encoding it is read as
	scratch [16]byte
}

// newDecoder reads a sample and settles the encoding: a byte order mark, else
// the declared one; auto is UTF-8 when the sample is, else the fallback. It
// refuses what is no text of rows at all.
func newDecoder(r io.Reader, name, declared, fallback string) (*decoder, error) {
	d := &decoder{r: r, name: name}
	if err := d.sample(); err != nil {
		return nil, err
	}
	mark, marked := byteOrderMark(d.src)
	text := d.src[len(mark.mark):]
	switch {
	case marked:
		d.set, d.said = mark.charset, "byte order mark"
		d.src, d.offset = text, int64(len(mark.mark))
	case declared != "auto":
		d.set, d.said = charsetOf(declared), "declared"
	case validSample(text, d.done) || fallback == "":
		d.set, d.said = charsetOf("utf-8"), "found"
	default:
		d.set, d.said = charsetOf(fallback), "fallback"
	}
	d.invalid = d.set.name == "utf-8" && !validSample(text, d.done)
	return d, d.sniff()
}

func (d *decoder) sample() error {
	for !d.done && len(d.src) < sampleSize {
		if err := d.read(); err != nil {
			return err
		}
	}
	return nil
}

// read adds to src, whose bytes it moves to the front of their buffer first.
func (d *decoder) read() error {
	if cap(d.src)-len(d.src) < readSize {
		if cap(d.buf) < len(d.src)+readSize {
			d.buf = make([]byte, max(2*cap(d.buf), 2*readSize))
		}
		d.src = d.buf[:copy(d.buf, d.src)]
	}
	n, err := d.r.Read(d.src[len(d.src):cap(d.src)])
	d.src = d.src[:len(d.src)+n]
	if errors.Is(err, io.EOF) {
		d.done = true
		return nil
	}
	return err
}

// validSample reports whether the sample is UTF-8; its last character may be cut.
func validSample(text []byte, whole bool) bool {
	if whole {
		return utf8.Valid(text)
	}
	for cut := range min(utf8.UTFMax, len(text)+1) {
		if utf8.Valid(text[:len(text)-cut]) {
			return true
		}
	}
	return false
}

// sniff refuses files that hold something else than rows.
func (d *decoder) sniff() error {
	head := bytes.ToLower(bytes.TrimLeft(d.src[:min(len(d.src), 512)], " \t\r\n"))
	for start, what := range map[string]string{
		"<!doctype": "an HTML page", "<html": "an HTML page", "<?xml": "XML", "<xml": "XML", "<error": "XML",
		"{\"": "JSON", "[{": "JSON", "%pdf-": "a PDF document", "\xd0\xcf\x11\xe0": "an old Excel workbook",
	} {
		if bytes.HasPrefix(head, []byte(start)) {
			return step.PermanentCode("parse.content", fmt.Errorf("%s: it holds %s instead of rows: %s; an error page in place of the file?", d.name, what, shorten(d.src, 80)))
		}
	}
	if n := bytes.Count(d.src, []byte{0}); !d.wide() && n > 0 && n >= len(d.src)/8 {
		return step.PermanentCode("parse.nul", fmt.Errorf("%s: %d of its first %d bytes are NUL: either it is UTF-16, then declare encoding: utf-16le, or its upload broke, then fetch it again", d.name, n, len(d.src)))
	}
	return nil
}

func (d *decoder) wide() bool { return d.set.unit == 2 }

// empty reports whether the part has no bytes but a byte order mark.
func (d *decoder) empty() bool { return d.done && len(d.src) == 0 }

// more appends the next stretch of text to dst; io.EOF comes alone, after all of it.
func (d *decoder) more(dst []byte) ([]byte, error) {
	if len(d.src) == 0 {
		if d.done {
			return dst, io.EOF
		}
		if d.set.coding == nil && !d.wide() {
			d.buf, d.src = nil, nil // the sample is through
			return d.pass(dst)
		}
	}
	for !d.done && len(d.src) < readSize/2 {
		if err := d.read(); err != nil {
			return dst, err
		}
	}
	dst, n := d.decode(dst, d.src)
	d.offset += int64(n)
	d.src = d.src[n:]
	return dst, nil
}

// pass reads UTF-8 to where it is needed, without a copy.
func (d *decoder) pass(dst []byte) ([]byte, error) {
	n, err := d.r.Read(dst[len(dst):cap(dst)])
	d.offset += int64(n)
	if errors.Is(err, io.EOF) {
		d.done = true
		err = nil
		if n == 0 {
			err = io.EOF
		}
	}
	return dst[:len(dst)+n], err
}

// decode appends what src holds and says how much of it that was; an incomplete
// character at its end waits for more.
func (d *decoder) decode(dst, src []byte) ([]byte, int) {
	switch {
	case d.wide():
		return d.decodeWide(dst, src[:min(len(src), readSize)])
	case d.set.coding == nil:
		n := min(len(src), cap(dst)-len(dst))
		return append(dst, src[:n]...), n
	}
	src = src[:min(len(src), readSize)]
	last := d.done && len(src) == len(d.src)
	done := 0
	for done < len(src) {
		n := asciiPrefix(src[done:])
		dst = append(dst, src[done:done+n]...)
		done += n
		if done == len(src) {
			break
		}
		var ok bool
		if dst, n, ok = d.char(dst, src[done:], last); !ok {
			break
		}
		done += n
	}
	return dst, done
}

// char decodes the characters at the start of src: by the table of GB18030 where
// there is one, else with the decoder of the encoding, byte by byte until a
// character is whole. ok is false when more bytes are needed.
func (d *decoder) char(dst, src []byte, last bool) (_ []byte, n int, ok bool) {
	if d.set.pairs != nil && len(src) >= 2 {
		if r := d.set.pairs.rune(src[0], src[1]); r != 0 {
			return utf8.AppendRune(dst, r), 2, true
		}
	}
	for n = 1; n <= min(len(src), 4); n++ {
		wrote, read, err := d.set.dec.Transform(d.scratch[:], src[:n], last && n == len(src))
		r, size := utf8.DecodeRune(d.scratch[:wrote])
		if read > 0 && (read < n || r == utf8.RuneError && size < wrote) { // the first byte is an error by itself
			return appendEscaped(dst, src[0]), 1, true
		}
		if err == nil && read == n {
			return d.settle(dst, src[:n], d.scratch[:wrote]), n, true
		}
	}
	if !last && len(src) < 4 {
		return dst, 0, false
	}
	return appendEscaped(dst, src[0]), 1, true
}

// settle appends a decoded character, or the bytes it came from when it is the
// decoder's sign for "not a character".
func (d *decoder) settle(dst, src, char []byte) []byte {
	if string(char) != "\uFFFD" || d.set.pairs != nil && len(src) == 4 {
		return append(dst, char...)
	}
	for _, b := range src {
		dst = appendEscaped(dst, b)
	}
	return dst
}

func appendEscaped(dst []byte, b byte) []byte {
	return append(dst, escaped, 0x80|b>>4, 0x80|b&15)
}

// decodeWide reads UTF-16. A surrogate without its other half does not decode.
func (d *decoder) decodeWide(dst, src []byte) ([]byte, int) {
	last := d.done && len(src) == len(d.src)
	i := 0
	for ; i+1 < len(src); i += 2 {
		r := rune(d.set.order.Uint16(src[i:]))
		if utf16.IsSurrogate(r) {
			if i+3 >= len(src) && !last {
				return dst, i
			}
			pair := utf8.RuneError
			if i+3 < len(src) {
				pair = utf16.DecodeRune(r, rune(d.set.order.Uint16(src[i+2:])))
			}
			if pair == utf8.RuneError {
				dst = appendEscaped(appendEscaped(dst, src[i]), src[i+1])
				continue
			}
			r = pair
			i += 2
		}
		dst = utf8.AppendRune(dst, r)
	}
	if last && i < len(src) {
		dst = appendEscaped(dst, src[i])
		i++
	}
	return dst, i
}

// A ruler finds out where in a part decoded text came from. It is used by one
// goroutine.
type ruler struct {
	set     charset
	enc     transform.Transformer
	scratch [8]byte
}

func newRuler(set charset) *ruler {
	r := &ruler{set: set}
	if set.coding != nil {
		r.enc = set.coding.NewEncoder()
	}
	return r
}

// sourceLen returns how many bytes of the part decoded to text.
func (r *ruler) sourceLen(text []byte) int64 {
	wide := r.set.unit == 2
	if r.set.coding == nil && !wide {
		return int64(len(text))
	}
	n := 0
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			n += r.set.unit
			i++
			continue
		}
		char, size := utf8.DecodeRune(text[i:])
		switch {
		case char == utf8.RuneError && size == 1:
			n++
			size = 3
		case wide && char > 0xFFFF:
			n += 4
		case wide:
			n += 2
		default:
			r.enc.Reset()
			wrote, _, _ := r.enc.Transform(r.scratch[:], text[i:min(i+size, len(text))], true)
			n += wrote
		}
		i += size
	}
	return int64(n)
}

// display makes damaged text readable: bytes that did not decode as \xNN.
func (r *ruler) display(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	var out []byte
	for i := 0; i < len(text); {
		char, size := utf8.DecodeRune(text[i:])
		switch {
		case char != utf8.RuneError || size != 1:
			out = append(out, text[i:i+size]...)
		case r.set.name != "utf-8" && text[i] == escaped && i+2 < len(text):
			out = fmt.Appendf(out, `\x%02X`, text[i+1]<<4|text[i+2]&15)
			size = 3
		default:
			out = fmt.Appendf(out, `\x%02X`, text[i])
		}
		i += size
	}
	return out
}

// asciiPrefix returns how many bytes at the start of b are ASCII.
func asciiPrefix(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if binary.LittleEndian.Uint64(b[i:])&0x8080808080808080 != 0 {
			break
		}
	}
	for i < len(b) && b[i] < utf8.RuneSelf {
		i++
	}
	return i
}
