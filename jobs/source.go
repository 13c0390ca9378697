package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"unicode/utf8"
)

// maxFile is how large a file may be before it is looked at: a job of a thousand
// steps has half of it, and no parser has to be trusted with more.
const maxFile = 256 << 10

// readFile reads a file of at most maxFile bytes.
func readFile(fsys fs.FS, name string) ([]byte, *Problem) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, &Problem{Code: "file.unreadable", Message: fmt.Sprintf("cannot be read: %v", err)}
	}
	var b bytes.Buffer
	if info, err := f.Stat(); err == nil {
		b.Grow(int(min(max(info.Size(), 0), maxFile)) + bytes.MinRead)
	}
	_, err = b.ReadFrom(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, &Problem{Code: "file.unreadable", Message: fmt.Sprintf("cannot be read: %v", err)}
	}
	return b.Bytes(), nil
}

// checkText checks that bytes are text that people and programs read the same
// way: UTF-8, no control characters, none that reorder what is shown. It returns
// the text without a byte order mark.
func checkText(text []byte) ([]byte, []Problem) {
	if len(text) > maxFile {
		return nil, []Problem{{Line: 1, Column: 1, Code: "yaml.too_large",
			Message: fmt.Sprintf("the file is larger than %d KiB; split it", maxFile>>10)}}
	}
	if bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) {
		return nil, []Problem{{Line: 1, Column: 1, Code: "yaml.encoding",
			Message: "the file is UTF-16; save it as UTF-8"}}
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	var ps []Problem
	line, column := 1, 1
	for i := 0; i < len(text); {
		if b := text[i]; b >= ' ' && b <= '~' {
			i, column = i+1, column+1
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if p := checkRune(r, size, text[i]); p != nil && len(ps) < maxTextProblems {
			p.Line, p.Column = line, column
			ps = append(ps, *p)
		}
		i += size
		column++
		if r == '\n' || r == '\r' && (i == len(text) || text[i] != '\n') {
			line, column = line+1, 1
		}
	}
	return text, ps
}

// maxTextProblems is how many bad characters are reported: a file in another
// encoding has thousands.
const maxTextProblems = 10

func checkRune(r rune, size int, b byte) *Problem {
	switch {
	case r == utf8.RuneError && size == 1:
		return &Problem{Code: "yaml.encoding",
			Message: fmt.Sprintf("byte 0x%02x is not UTF-8; save the file as UTF-8", b)}
	case r == '\t' || r == '\n' || r == '\r':
		return nil
	case r < ' ' || r >= 0x7f && r < 0xa0:
		return &Problem{Code: "yaml.control_char",
			Message: fmt.Sprintf(`control character U+%04X; remove it, or write it as "\x%02X" in double quotes`, r, r)}
	case hidden(r):
		return &Problem{Code: "yaml.control_char",
			Message: fmt.Sprintf("U+%04X changes the order in which text is shown; remove it", r)}
	case r == 0x2028 || r == 0x2029 || r == 0xfeff:
		return &Problem{Code: "yaml.control_char",
			Message: fmt.Sprintf("U+%04X is invisible; remove it", r)}
	}
	return nil
}
