package parse

import (
	"bytes"
	"context"
	"fmt"
	"unicode/utf8"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// batchBytes is how much text a batch may hold before it is written.
const batchBytes = 1 << 20

// rows turns records into typed rows. A row is appended column by column; what
// was appended of a row that turns out to be wrong is taken back.
type rows struct {
	plan    *plan
	batch   *dataset.Batch
	out     *output
	tally   *tally
	rejects *rejects
	row     int64   // of the current record, counted from 1
	head    *header // of the current part
	width   int     // fields a row must have
	last    int     // offsets are counted on from here: a place in the text of the block
	offset  int64   // of last in the part
}

func newRows(p *plan, rejects *rejects) *rows {
	return &rows{plan: p, tally: newTally(p), rejects: rejects}
}

// read takes all that the feeder has to give and writes it to w. When it returns
// neither the feeder nor the writer is at work any more.
func (y *rows) read(ctx context.Context, f *feeder, w step.DatasetWriter, progress step.Progress) error {
	y.out = newOutput(w, y.plan.schema, y.plan.set.File.Name)
	y.batch = <-y.out.free
	err := y.readAll(ctx, f, progress)
	if flushErr := y.flush(); err == nil { // the rows before an error are counted too
		err = flushErr
	}
	if writeErr := y.out.finish(); writeErr != nil {
		return writeErr
	}
	return err
}

func (y *rows) readAll(ctx context.Context, f *feeder, progress step.Progress) error {
	ctx, stop := context.WithCancel(ctx)
	go f.run(ctx)
	var err error
	for b := range f.full {
		if err == nil {
			if err = y.take(b); err != nil {
				stop()
			}
		}
		progress.Report(b.read, f.plan.set.File.Size, "bytes")
		f.free <- b
	}
	stop()
	if err != nil {
		return err
	}
	return f.err
}

func (y *rows) take(b *block) error {
	if y.head != b.head {
		y.head, y.width = b.head, b.head.width
	}
	y.last, y.offset = 0, b.offset
	sound := utf8.Valid(b.text)
	if bytes.IndexByte(b.text, 0) >= 0 {
		if at := bytes.Index(b.text, make([]byte, maxZeros)); at >= 0 {
			return step.PermanentCode("parse.nul", fmt.Errorf("%s: byte %d: %d NUL bytes in a row: a hole that a broken upload leaves; fetch it again", b.head.name, y.offsetAt(b, at), maxZeros))
		}
		sound = false
	}
	for i := range b.records {
		if err := y.record(b, i, sound); err != nil {
			return err
		}
	}
	if textBytes(y.batch) > batchBytes {
		return y.flush()
	}
	return nil
}

func textBytes(b *dataset.Batch) int {
	n := 0
	for i := range b.Columns {
		n += len(b.Columns[i].Bytes)
	}
	return n
}

func (y *rows) record(b *block, i int, sound bool) error {
	y.row++
	first, last := b.fieldsOf(i)
	rec := &b.records[i]
	if rec.spoilt > 0 && rec.broken > 0 {
		return rec.hides(b, fmt.Sprintf("text stands behind the closing quote of column %d", rec.spoilt))
	}
	if !sound || rec.spoilt > 0 {
		if one := y.unsound(b, rec); one != nil {
			return y.refuse(b, rec, one)
		}
	}
	if y.width == 0 {
		y.width = y.needed(last - first)
	}
	if n := last - first; n != y.width {
		if y.plan.set.Ragged == "pad" && n < y.width {
			b.fields = append(b.fields, b.fields[first:last]...)
			for range y.width - n {
				b.fields = append(b.fields, span{})
			}
			defer func(length int) { b.fields = b.fields[:length] }(len(b.fields) - y.width)
			first = len(b.fields) - y.width
		} else if y.plan.set.Ragged != "ignore_trailing_empty" || n < y.width || !blankFields(b, first+y.width, last) {
			return y.ragged(b, rec, n)
		}
	}
	return y.typed(b, rec, first)
}

// ragged refuses a record with n fields, and the part when it may hide other rows.
func (y *rows) ragged(b *block, rec *record, n int) error {
	message := fmt.Sprintf("it has %d fields, and there are %d columns", n, y.width)
	if rec.broken > 0 {
		return rec.hides(b, message)
	}
	return y.refuse(b, rec, &reject{rule: "parse.columns", message: message})
}

// needed returns how many fields rows without a header have: as many as the
// first one, and at least as many as the columns ask for.
func (y *rows) needed(fields int) int {
	for _, p := range y.head.places {
		fields = max(fields, p.from+1, p.plus+1, p.minus+1, p.sign+1)
	}
	return fields
}

func blankFields(b *block, first, last int) bool {
	for i := first; i < last; i++ {
		if len(trim(b.field(i))) > 0 {
			return false
		}
	}
	return true
}

// typed appends the row to the batch.
func (y *rows) typed(b *block, rec *record, first int) error {
	batch := y.batch
	for _, i := range y.plan.order {
		c := &y.plan.columns[i]
		if value, in, wrong := c.read(&batch.Columns[i], b, first, y.head.places[i], batch); wrong != fine {
			return y.refuse(b, rec, y.fault(c, in, wrong, value))
		}
	}
	for _, i := range y.plan.formulas {
		c := &y.plan.columns[i]
		if value, wrong := c.calculate(&batch.Columns[i], batch); wrong != fine {
			if value == nil {
				value = []byte(c.set.Value)
			}
			return y.refuse(b, rec, y.fault(c, -1, wrong, value))
		}
	}
	for _, i := range y.plan.priced {
		if c := &y.plan.columns[i]; c.unpriced(&batch.Columns[i], batch, len(batch.Lines)) {
			return y.refuse(b, rec, y.fault(c, max(y.head.places[i].from, y.head.places[i].plus), faultNoCurrency, nil))
		}
	}
	batch.Lines = append(batch.Lines, rec.line)
	if batch.Full() {
		return y.flush()
	}
	return nil
}

// fault says what is wrong with a value of c; in is its field of the record, -1
// when it is of none.
func (y *rows) fault(c *column, in int, wrong fault, value []byte) *reject {
	one := &reject{name: c.set.Name, column: in + 1}
	if one.column > 0 && one.column <= len(y.head.names) {
		one.name = y.head.names[one.column-1]
	}
	one.rule, one.message = c.explain(wrong, value)
	return one
}

// unsound looks for what is wrong with a record as a whole.
func (y *rows) unsound(b *block, rec *record) *reject {
	text := b.text[rec.start:rec.end]
	if at := bytes.IndexByte(text, 0); at >= 0 {
		return &reject{rule: "parse.nul", message: fmt.Sprintf("byte %d of the file is NUL", y.offsetAt(b, int(rec.start)+at))}
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			bad := b.head.ruler.display(text[at:min(at+3, len(text))])
			return &reject{rule: "parse.encoding", message: fmt.Sprintf("byte %d of the file, %s, is not %s", y.offsetAt(b, int(rec.start)+at), bad[:min(len(bad), 4)], b.head.ruler.set.name)}
		}
		at += size
	}
	if rec.spoilt > 0 {
		one := &reject{rule: "parse.quote", column: int(rec.spoilt), message: "text stands behind the closing quote; double a quote that belongs to the value"}
		if one.column <= len(y.head.names) {
			one.name = y.head.names[one.column-1]
		}
		return one
	}
	return nil
}

// refuse takes back what was appended of the row and writes it to the rejects.
func (y *rows) refuse(b *block, rec *record, one *reject) error {
	n := y.batch.Len()
	for i := range y.batch.Columns {
		truncate(&y.batch.Columns[i], n)
	}
	one.part, one.line, one.row = b.head.name, rec.line, y.row
	one.offset = y.offsetAt(b, int(rec.start))
	one.raw = b.head.ruler.display(b.text[rec.start:rec.end])
	return y.rejects.add(one)
}

// truncate drops the values from n on.
func truncate(v *dataset.Vector, n int) {
	if v.Len() <= n {
		return
	}
	if n>>6 < len(v.Nulls) {
		v.Nulls[n>>6] &^= 1 << (n & 63)
	}
	if !v.Kind.IsText() {
		v.Ints = v.Ints[:n]
		return
	}
	v.Ends = v.Ends[:n]
	end := uint32(0)
	if n > 0 {
		end = v.Ends[n-1]
	}
	v.Bytes = v.Bytes[:end]
}

// offsetAt returns where in the part a byte of the block's text comes from. It
// counts on from the place before, so that many refused rows stay cheap.
func (y *rows) offsetAt(b *block, at int) int64 {
	if at < y.last {
		y.last, y.offset = 0, b.offset
	}
	y.offset += b.head.ruler.sourceLen(b.text[y.last:at])
	y.last = at
	return y.offset
}

// flush counts and writes the batch.
func (y *rows) flush() error {
	if y.batch.Len() == 0 {
		return nil
	}
	y.tally.add(y.batch)
	var err error
	y.batch, err = y.out.write(y.batch)
	return err
}
