package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A copyReader writes rows in the text format of COPY, batch by batch.
type copyReader struct {
	ctx      context.Context
	rows     step.DatasetReader
	plan     *plan
	skip     bitmap // rows that are not sent
	total    int64
	progress step.Progress

	row    int64
	buffer []byte
	sent   int
	err    error // what stopped it, other than the end
}

// Read fills p with whole or partial lines.
func (c *copyReader) Read(p []byte) (int, error) {
	for c.sent == len(c.buffer) {
		b, err := c.rows.Next()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err == nil {
			err = c.ctx.Err()
		}
		if err == nil {
			err = c.encode(b)
		}
		if err != nil {
			c.err = err
			return 0, err
		}
		c.progress.Report(c.row, c.total, "rows")
	}
	n := copy(p, c.buffer[c.sent:])
	c.sent += n
	return n, nil
}

func (c *copyReader) encode(b *dataset.Batch) error {
	c.buffer, c.sent = c.buffer[:0], 0
	for i := range b.Len() {
		if !c.skip.has(c.row + int64(i)) {
			if err := c.line(b, i); err != nil {
				return err
			}
		}
	}
	c.row += int64(b.Len())
	return nil
}

func (c *copyReader) line(b *dataset.Batch, i int) error {
	c.buffer = strconv.AppendInt(c.buffer, c.row+int64(i), 10)
	c.buffer = append(c.buffer, '\t')
	c.buffer = strconv.AppendInt(c.buffer, b.Lines[i], 10)
	for _, col := range c.plan.columns {
		c.buffer = append(c.buffer, '\t')
		v := &b.Columns[col.source]
		switch {
		case v.Null(i):
			c.buffer = append(c.buffer, `\N`...)
		case col.Kind.IsText():
			var ok bool
			if c.buffer, ok = appendEscaped(c.buffer, v.Text(i)); !ok {
				return refused(b.Lines[i], fmt.Errorf("column %q has a zero byte, which PostgreSQL cannot hold", col.target))
			}
		default:
			c.buffer = col.AppendFormat(c.buffer, v, i)
		}
	}
	c.buffer = append(c.buffer, '\n')
	return nil
}

// appendEscaped appends a text for COPY. It is false for a zero byte.
func appendEscaped(dst, text []byte) ([]byte, bool) {
	start := 0
	for i, b := range text {
		var letter byte
		switch b {
		case '\\':
			letter = '\\'
		case '\t':
			letter = 't'
		case '\n':
			letter = 'n'
		case '\r':
			letter = 'r'
		case 0:
			return dst, false
		default:
			continue
		}
		dst = append(append(dst, text[start:i]...), '\\', letter)
		start = i + 1
	}
	return append(dst, text[start:]...), true
}
