package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// hashBits is how many bits a hash has.
const hashBits = 64

// parts are the rows of one side on disk, cut by some bits of their hash.
type parts struct {
	*dataset.Spill
	side *side
	cut  []extent // of each part
}

// An extent is the smallest and the largest hash of a part.
type extent struct{ least, most uint64 }

func (p *parts) close() { _ = p.Close() } // a file of the scratch folder, which is removed anyway

// partBytes returns how many bytes a part takes in a table, exactly enough: the
// texts are part of what it takes on disk.
func (p *parts) partBytes(part int) int64 {
	return p.Rows(part)*rowBytes(p.side.schema) + p.Bytes(part)
}

// newParts returns empty parts, cut by so many bits of the hash.
func (j *joiner) newParts(s *side, bits int) (*parts, error) {
	if j.dir == "" {
		dir, err := j.in.Files.Scratch(j.ctx)
		if err != nil {
			return nil, err
		}
		j.dir = dir
	}
	spill, err := dataset.NewSpill(j.dir, s.schema, 1<<bits, j.buffer)
	if err != nil {
		return nil, err
	}
	p := &parts{Spill: spill, side: s, cut: make([]extent, 1<<bits)}
	for i := range p.cut {
		p.cut[i] = extent{least: math.MaxUint64}
	}
	return p, nil
}

// add appends a batch whose hashes are measured, where used bits of them are
// taken and the next ones name the part.
func (p *parts) add(b *dataset.Batch, hashes []uint64, used, bits int) error {
	for i, h := range hashes {
		part := int(h << used >> (hashBits - bits))
		cut := &p.cut[part]
		cut.least, cut.most = min(cut.least, h), max(cut.most, h)
		if err := p.Add(part, b, i); err != nil {
			return err
		}
	}
	return nil
}

// spillInput reads a side and spills it.
func (j *joiner) spillInput(which int, s *side, bits int) (*parts, error) {
	p, err := j.newParts(s, bits)
	if err != nil {
		return nil, err
	}
	err = j.read(which, s, func(b *dataset.Batch) error { return p.add(b, j.measure.hashes, 0, bits) })
	if err == nil {
		err = p.Finish()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// parts compares part after part, in the order of the hashes, where the first
// used bits name the part.
func (j *joiner) parts(l, r *parts, used int) error {
	for part := range l.cut {
		if err := j.part(l, r, part, used); err != nil {
			return err
		}
	}
	return nil
}

func (j *joiner) part(l, r *parts, part, used int) error {
	if l.partBytes(part)+r.partBytes(part) > j.limit {
		return j.split(l, r, part, used)
	}
	if err := j.load(&j.left, l, part); err != nil {
		return err
	}
	if err := j.load(&j.right, r, part); err != nil {
		return err
	}
	return j.compare(used)
}

// load reads a part into a table.
func (j *joiner) load(t *table, p *parts, part int) error {
	t.reset(p.side)
	t.reserve(p.Rows(part))
	r, err := p.Open(part)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	for {
		if j.ctx.Err() != nil {
			return context.Cause(j.ctx)
		}
		first := t.rows.Len()
		err := r.AppendTo(&t.rows)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the %s side: %w", p.side.name, err)
		}
		if err := j.measure.of(j.plan, p.side, &t.rows, first); err != nil {
			return err
		}
		t.measured(&j.measure, first)
	}
}

// each passes the batches of a part on, with j.measure filled.
func (j *joiner) each(p *parts, part int, use func(*dataset.Batch) error) error {
	r, err := p.Open(part)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	return j.batches(r, p.side, func(b *dataset.Batch) error {
		if err := j.measure.of(j.plan, p.side, b, 0); err != nil {
			return err
		}
		return use(b)
	})
}

// split cuts a part that is too large into smaller ones.
func (j *joiner) split(l, r *parts, part, used int) error {
	bytes := l.partBytes(part) + r.partBytes(part)
	least, most := min(l.cut[part].least, r.cut[part].least), max(l.cut[part].most, r.cut[part].most)
	if least == most {
		return j.tooManyLines(l, r, part)
	}
	bits := min(j.bitsFor(bytes), hashBits-used)
	left, err := j.cutPart(l, part, used, bits)
	if err != nil {
		return err
	}
	defer left.close()
	right, err := j.cutPart(r, part, used, bits)
	if err != nil {
		return err
	}
	defer right.close()
	return j.parts(left, right, used+bits)
}

func (j *joiner) cutPart(p *parts, part, used, bits int) (*parts, error) {
	smaller, err := j.newParts(p.side, bits)
	if err != nil {
		return nil, err
	}
	err = j.each(p, part, func(b *dataset.Batch) error { return smaller.add(b, j.measure.hashes, used, bits) })
	if err == nil {
		err = smaller.Finish()
	}
	if err != nil {
		smaller.close()
		return nil, err
	}
	return smaller, nil
}

// tooManyLines refuses a key whose lines do not fit into memory together: who is
// the duplicate of whom can only be said with all of them at hand.
func (j *joiner) tooManyLines(l, r *parts, part int) error {
	p := l
	if l.Rows(part) == 0 {
		p = r
	}
	rows, err := p.Open(part)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // only read from
	b, err := rows.Next()
	if err != nil {
		return fmt.Errorf("read the %s side: %w", p.side.name, err)
	}
	need := (l.partBytes(part) + r.partBytes(part)) * tableShare
	return step.PermanentCode("recon.memory", fmt.Errorf("reconcile: the key %q has %d lines on the left and %d on the right, too many to be told apart in the memory of the step; add a column to the keys, or raise limits.memory to at least %d MiB",
		clean(keyText(p.side, b, 0)), l.Rows(part), r.Rows(part), need>>20+1))
}
