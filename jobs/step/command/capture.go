package command

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	// defaultOutput bounds what a program may print: a step that makes more of it
	// writes a file where it wants to have it.
	defaultOutput = 64 << 20
	// maxText is how much of it is an output by itself; outputs hold 256 KiB together.
	maxText = 64 << 10
)

// A capture keeps what a program prints, up to a limit.
type capture struct {
	to   io.Writer
	most int64 // bytes
	full func()
	size int64
	head []byte // the first maxText + 1 bytes
	err  error  // of to
}

func newCapture(to io.Writer, most int64) *capture {
	if most == 0 {
		most = defaultOutput
	}
	return &capture{to: to, most: most}
}

func (c *capture) Write(b []byte) (int, error) {
	if c.size += int64(len(b)); c.size > c.most {
		c.full()
		return 0, errOutput
	}
	if room := maxText + 1 - len(c.head); room > 0 {
		c.head = append(c.head, b[:min(room, len(b))]...)
	}
	n, err := c.to.Write(b)
	if err != nil {
		c.err = err
		c.full()
	}
	return n, err
}

// text returns all of it without the last line break, or nil where it is too long
// or no text.
func (c *capture) text() *string {
	if c.size > maxText || !utf8.Valid(c.head) {
		return nil
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(c.head), "\n"), "\r")
	return &text
}

// reportBytes is how much of it a person reads in a report.
const reportBytes = 8 << 10

// report is what the program printed, or how much that was.
func (c *capture) report() string {
	text := c.text()
	if text == nil || len(*text) > reportBytes {
		return fmt.Sprintf("printed %d bytes, which are kept as a file", c.size)
	}
	return *text
}
