package query

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"madeira/jobs/calendar"
	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A collector turns rows of text into a dataset and a digest.
type collector struct {
	ctx      context.Context
	schema   dataset.Schema
	zone     *time.Location
	batch    *dataset.Batch
	writer   step.DatasetWriter
	progress step.Progress
	rows     int64
	digest   multiset
	row      []byte // the canonical form of the row, for the digest
}

func newCollector(ctx context.Context, in step.Input, columns []dataset.Column, zone *time.Location) (*collector, error) {
	schema := dataset.Schema{Columns: columns}
	w, err := in.Datasets.Create(ctx, schema)
	if err != nil {
		return nil, err
	}
	return &collector{ctx: ctx, schema: schema, zone: zone, batch: dataset.NewBatch(schema), writer: w, progress: in.Progress}, nil
}

func (c *collector) discard() { c.writer.Discard() }

func (c *collector) commit(ctx context.Context) (step.Dataset, error) {
	if err := c.flush(); err != nil {
		return step.Dataset{}, err
	}
	return c.writer.Commit(ctx)
}

func (c *collector) flush() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if err := c.writer.Write(c.batch); err != nil {
		return err
	}
	c.batch.Reset()
	c.progress.Report(c.rows, 0, "rows")
	return nil
}

// add takes one row; text(i) is the value of declared column i as the database
// writes it, nil for null.
func (c *collector) add(text func(i int) []byte) error {
	c.rows++
	c.row = c.row[:0]
	for i := range c.schema.Columns {
		value := text(i)
		if value == nil {
			c.batch.Columns[i].AppendNull()
			c.row = append(c.row, 0)
			continue
		}
		if err := c.value(i, value); err != nil {
			return step.PermanentCode("query.value", fmt.Errorf("row %d, column %q: %w", c.rows, c.schema.Columns[i].Name, err))
		}
	}
	c.batch.Lines = append(c.batch.Lines, c.rows)
	c.digest.add(c.row)
	if c.batch.Full() {
		return c.flush()
	}
	return nil
}

// value appends one value to the batch, and to the canonical row its kind's own
// form, so that 1.50 and 1.5 are equal and so are the databases.
func (c *collector) value(i int, text []byte) error {
	vector, column := &c.batch.Columns[i], c.schema.Columns[i]
	if column.Kind == dataset.Currency {
		code, ok := currency(text)
		if !ok {
			return fmt.Errorf("%q is not the three letters of a currency", text)
		}
		text = code[:]
	}
	if column.Kind.IsText() {
		vector.AppendText(text)
		c.row = append(binary.AppendUvarint(append(c.row, 1), uint64(len(text))), text...)
		return nil
	}
	n, err := integer(column, text, c.zone)
	if err != nil {
		return err
	}
	vector.AppendInt(n)
	c.row = binary.AppendVarint(append(c.row, 2), n)
	return nil
}

// currency returns the code in capitals, without the blanks around it.
func currency(text []byte) (code [3]byte, ok bool) {
	text = bytes.TrimSpace(text)
	if len(text) != len(code) {
		return code, false
	}
	for i, letter := range text {
		if letter >= 'a' && letter <= 'z' {
			letter -= 'a' - 'A'
		}
		if letter < 'A' || letter > 'Z' {
			return code, false
		}
		code[i] = letter
	}
	return code, true
}

func integer(column dataset.Column, text []byte, zone *time.Location) (int64, error) {
	switch column.Kind {
	case dataset.Money, dataset.Decimal:
		f, err := dataset.ParseFixed(text)
		if errors.Is(err, dataset.ErrRange) {
			return 0, tooLong(column, err)
		}
		if err != nil {
			return 0, err
		}
		n, err := f.Rescale(column.Scale)
		if errors.Is(err, dataset.ErrRange) {
			return 0, tooLong(column, fmt.Errorf("%s at %d decimals: %w", text, column.Scale, err))
		}
		if err != nil {
			return 0, fmt.Errorf("%s at %d decimals: %w; declare a scale", text, column.Scale, err)
		}
		return n, nil
	case dataset.Date:
		return dataset.ParseDate(text)
	case dataset.Timestamp:
		return instant(string(text), zone)
	case dataset.Boolean:
		switch string(text) {
		case "t", "true", "1":
			return 1, nil
		case "f", "false", "0":
			return 0, nil
		}
		return 0, fmt.Errorf("%q is neither true nor false", text)
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no whole number of 64 bits", text)
	}
	return n, nil
}

// tooLong adds to an error how many digits an amount may have.
func tooLong(column dataset.Column, err error) error {
	return fmt.Errorf("%w; a number has at most %d digits, and with %d decimals at most %d before the point",
		err, dataset.MaxScale, column.Scale, dataset.MaxScale-column.Scale)
}

// instant reads a timestamp as PostgreSQL or SQLite writes it. One without an
// offset is local time of the zone: the first pass of one that came twice.
func instant(text string, zone *time.Location) (int64, error) {
	iso := strings.Replace(text, " ", "T", 1)
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z07"} {
		if at, err := time.Parse(layout, iso); err == nil {
			return at.UnixMicro(), nil
		}
	}
	wall, err := time.Parse("2006-01-02T15:04:05", iso)
	if err != nil {
		return 0, fmt.Errorf("%q is no timestamp such as 2026-10-31 23:59:59+08", text)
	}
	at, ok := calendar.Local(wall, zone)
	if !ok {
		return 0, fmt.Errorf("%q did not exist in %s: clocks were put forward over it", text, zone)
	}
	return at.UnixMicro(), nil
}

// A multiset is a digest of rows in any order: the sum of the SHA-256 of each,
// modulo 2^256, so that a row that comes twice counts twice.
type multiset [4]uint64

func (m *multiset) add(row []byte) {
	sum := sha256.Sum256(row)
	carry := uint64(0)
	for i := range m {
		m[i], carry = bits.Add64(m[i], binary.LittleEndian.Uint64(sum[i*8:]), carry)
	}
}

// String returns the digest in the form of artifacts' digests.
func (m *multiset) String() string {
	var b [32]byte
	for i, w := range m {
		binary.LittleEndian.PutUint64(b[i*8:], w)
	}
	return "rows:" + hex.EncodeToString(b[:])
}
