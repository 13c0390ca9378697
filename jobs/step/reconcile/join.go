package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// How the memory of a step is shared out. The rest is what the writers of the
// two outputs and the garbage collector take.
const (
	tableShare = 6  // of it for the two tables
	breakShare = 16 // of it for breaks that wait to be sorted
	spillShare = 16 // of it for the buffers of one spill

	leastTable = 4 << 10
	mostTable  = 2 << 30 // texts are addressed with 32 bits

	// What the tables should take even if there is memory for more. Lines are met
	// in the order of their hashes, that is at random, which costs a miss of the
	// cache for each value of a large table: more than spilling it.
	cachedTable = 8 << 20

	// What the buffers of a spill should take even if there is memory for more:
	// their memory must come from the system first, and leaves the cache.
	mostBuffer = 8 << 20
)

// The most partitions that rows are spilled to at once.
const maxBits = 8

// A joiner brings lines of equal keys together in bounded memory.
type joiner struct {
	ctx    context.Context
	in     step.Input
	plan   *plan
	limit  int64 // bytes of both tables
	buffer int64 // bytes of the buffers of a spill
	matcher
	ledger  *ledger
	measure measure
	dir     string // for spills; "" until needed
	done    int64  // rows read and compared, for progress
}

func newJoiner(ctx context.Context, in step.Input, p *plan, memory int64) (*joiner, error) {
	j := &joiner{
		ctx: ctx, in: in, plan: p,
		limit:  min(max(memory/tableShare, leastTable), mostTable),
		buffer: min(memory/spillShare, mostBuffer),
	}
	j.matcher.plan = p
	j.out = &outcomes{plan: p, left: &j.left, right: &j.right}
	var err error
	if j.out.matches, err = newMatchWriter(ctx, &j.matcher, in.Datasets); err != nil {
		return nil, err
	}
	if j.out.breaks, err = newBreakList(ctx, p, in.Datasets, memory/breakShare); err != nil {
		j.out.matches.writer.Discard()
		return nil, err
	}
	j.restart()
	return j, nil
}

// restart forgets what was counted.
func (j *joiner) restart() {
	j.ledger = newLedger(j.plan)
	j.out.ledger = j.ledger
	j.done = 0
}

func (j *joiner) discard() {
	j.out.matches.writer.Discard()
	j.out.breaks.writer.Discard()
}

// errTooLarge says that the rows do not fit into the tables.
var errTooLarge = errors.New("the rows do not fit into memory")

// join compares everything, in memory if it fits and else part by part.
func (j *joiner) join() error {
	bits := j.bitsFor(estimate(&j.plan.left) + estimate(&j.plan.right))
	if bits == 0 {
		err := j.inMemory()
		if !errors.Is(err, errTooLarge) {
			return err
		}
		j.restart()
		bits = 2
	}
	return j.inParts(bits)
}

// inParts spills both sides, cut by so many bits of the hash, and compares them
// part by part.
func (j *joiner) inParts(bits int) error {
	left, err := j.spillInput(onLeft, &j.plan.left, bits)
	if err != nil {
		return err
	}
	defer left.close()
	right, err := j.spillInput(onRight, &j.plan.right, bits)
	if err != nil {
		return err
	}
	defer right.close()
	if err := j.parts(left, right, bits); err != nil {
		return err
	}
	return j.out.flush()
}

// estimate returns about how many bytes the rows of a side take in a table.
func estimate(s *side) int64 { return s.data.Rows*rowBytes(s.schema) + s.data.Size }

// bitsFor returns how many bits of the hash cut so many bytes into parts that fit
// into memory and, if possible, into the cache.
func (j *joiner) bitsFor(bytes int64) int {
	size := min(j.limit, cachedTable)
	if bytes <= size {
		return 0
	}
	return min(bits.Len64(uint64(bytes/size))+1, maxBits) // half full on average, as no part is
}

// inMemory compares everything at once, or returns errTooLarge.
func (j *joiner) inMemory() error {
	for which, s := range []*side{&j.plan.left, &j.plan.right} {
		t := j.table(which)
		t.reset(s)
		t.reserve(s.data.Rows)
		err := j.read(which, s, func(b *dataset.Batch) error {
			t.add(b, &j.measure)
			if j.tooLarge() {
				return errTooLarge
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := j.compare(0); err != nil {
		return err
	}
	return j.out.flush()
}

func (j *joiner) table(which int) *table {
	if which == onLeft {
		return &j.left
	}
	return &j.right
}

func (j *joiner) tooLarge() bool {
	n := j.left.bytes()
	if j.right.side != nil {
		n += j.right.bytes()
	}
	return n > j.limit
}

// compare decides about what is in the tables.
func (j *joiner) compare(used int) error {
	n := int64(j.left.rows.Len() + j.right.rows.Len())
	if err := j.matcher.compare(used); err != nil {
		return err
	}
	j.progress(n)
	j.out.matches.gather()
	if j.out.breaks.full() {
		return j.out.breaks.flush()
	}
	return nil
}

// read reads a side, checks and counts its rows, and passes each batch on with
// j.measure filled.
func (j *joiner) read(which int, s *side, use func(*dataset.Batch) error) error {
	r, err := j.in.Datasets.Open(j.ctx, s.data)
	if err != nil {
		return fmt.Errorf("read the %s side: %w", s.name, err)
	}
	defer func() { _ = r.Close() }() // only read from
	return j.batches(r, s, func(b *dataset.Batch) error {
		if err := s.check(b); err != nil {
			return err
		}
		if err := j.measure.of(j.plan, s, b, 0); err != nil {
			return err
		}
		if err := j.ledger.reading(which, s, b, &j.measure); err != nil {
			return err
		}
		j.progress(int64(b.Len()))
		return use(b)
	})
}

// A batchReader is a dataset or a part of a spill.
type batchReader interface {
	Next() (*dataset.Batch, error)
}

func (j *joiner) batches(r batchReader, s *side, use func(*dataset.Batch) error) error {
	for {
		if err := j.ctx.Err(); err != nil {
			return context.Cause(j.ctx)
		}
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the %s side: %w", s.name, err)
		}
		if err := use(b); err != nil {
			return err
		}
	}
}

// progress counts rows: each is read once and compared once.
func (j *joiner) progress(rows int64) {
	j.done += rows
	j.in.Progress.Report(j.done, 2*(j.plan.left.data.Rows+j.plan.right.data.Rows), "rows")
}
