package parse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"madeira/jobs/step"
)

// blocks is how many blocks there are: one is being filled, one read, one waits.
const blocks = 3

// A feeder unpacks, decodes and scans the parts of a file in a goroutine of its
// own and hands over blocks of records. Its other fields may be read once full
// is closed.
type feeder struct {
	plan     *plan
	unpacker *unpacker
	full     chan *block // closed at the end
	free     chan *block
	declared *declared
	notes    []string // for the report
	cut      error    // the first part without the line that ends its rows; nil: none
	err      error    // why it ended; nil: at the end of the last part
}

func newFeeder(p *plan, u *unpacker) *feeder {
	f := &feeder{plan: p, unpacker: u, full: make(chan *block, blocks), free: make(chan *block, blocks), declared: newDeclared(p)}
	for range blocks {
		f.free <- new(block)
	}
	return f
}

// run feeds until the end, an error, or the end of ctx. It is the goroutine.
func (f *feeder) run(ctx context.Context) {
	defer close(f.full)
	defer func() {
		if p := recover(); p != nil {
			f.err = fmt.Errorf("parse %s: panic: %v\n%s", f.plan.set.File.Name, p, debug.Stack())
		}
	}()
	f.err = f.feed(ctx)
}

func (f *feeder) feed(ctx context.Context) error {
	parts, err := f.unpacker.parts()
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := f.part(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (f *feeder) part(ctx context.Context, p part) (err error) {
	r, err := p.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	set := f.plan.set
	dec, err := newDecoder(r, p.name, set.Encoding, set.Fallback)
	if err != nil {
		return err
	}
	if dec.empty() {
		if dec.offset > 0 {
			return f.nothing(p, "it has a byte order mark and nothing else")
		}
		return f.nothing(p, "it has no bytes")
	}
	var s *scanner
	s = newScanner(dec, set, f.plan.skip, f.plan.end, func(line []byte) { f.declared.look(s, line) })
	head := &header{name: p.name}
	if !set.Header.None {
		head, err = s.header(set.Header.Find, set.Header.Within)
		if errors.Is(err, errNoHeader) {
			return f.nothing(p, "it has blank lines only")
		}
		if err != nil {
			return err
		}
		head.width = len(head.names)
	}
	if head.places, err = head.locate(f.plan.columns); err != nil {
		return err
	}
	head.ruler = newRuler(dec.set)
	rows, err := f.scan(ctx, s, head)
	f.note(s, head, rows)
	if err == nil && s.unended && set.LastLine == "ended" {
		err = step.PermanentCode("parse.incomplete", fmt.Errorf("%s: its last line, %d, has no line end; the upload may be cut", p.name, s.line-1))
	}
	if end := set.End; err == nil && f.cut == nil && end != nil && end.Required && s.ended == 0 {
		f.cut = step.PermanentCode("parse.incomplete", fmt.Errorf("%s: no line matches end, %q; the last one read is %d, and the file may be cut: fetch it again, or say end: {match: …, required: false} if whole files can lack that line", p.name, end.Match, max(head.line, s.line-1)))
	}
	return err
}

// scan hands over the records of one part.
func (f *feeder) scan(ctx context.Context, s *scanner, head *header) (rows int64, err error) {
	for {
		var b *block
		select {
		case b = <-f.free:
		case <-ctx.Done():
			return rows, context.Cause(ctx)
		}
		b.head = head
		if err := s.next(b); errors.Is(err, io.EOF) {
			f.free <- b
			return rows, nil
		} else if err != nil {
			return rows, err
		}
		rows += int64(len(b.records))
		b.read = min(f.unpacker.packed.count, f.unpacker.ref.Size) // a zip reads its list of entries twice
		f.full <- b
	}
}

// nothing decides what a part without text is.
func (f *feeder) nothing(p part, why string) error {
	if f.plan.set.Empty != "ok" {
		return step.PermanentCode("parse.empty", fmt.Errorf("%s: %s; if an empty file is right, say empty: ok", p.name, why))
	}
	f.notes = append(f.notes, fmt.Sprintf("%s: %s", p.name, why))
	return nil
}

// note tells what was decided about a part, and what may surprise.
func (f *feeder) note(s *scanner, head *header, rows int64) {
	where := "no header"
	if head.names != nil {
		where = fmt.Sprintf("header in line %d", head.line)
		if unused := head.unused(head.places); len(unused) > 0 {
			where += fmt.Sprintf(", columns not kept: %s", quoted(unused))
		}
	}
	f.notes = append(f.notes, fmt.Sprintf("%s: %s (%s), %s", s.name, s.dec.set.name, s.dec.said, where))
	if rows == 0 {
		f.notes = append(f.notes, s.name+": it has no rows")
	}
	if s.skipped > 0 {
		f.notes = append(f.notes, fmt.Sprintf("%s: lines that skip_rows passes over: %d", s.name, s.skipped))
	}
	if s.beyond > 0 {
		f.notes = append(f.notes, fmt.Sprintf("%s: line %d ends the rows; lines behind it, which are none: %d", s.name, s.ended, s.beyond))
	}
	if s.unended {
		f.notes = append(f.notes, s.name+": its last line has no line end")
	}
}
