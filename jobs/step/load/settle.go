package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// settled is what the keys of the rows alone, and those of the version before,
// tell.
type settled struct {
	repeats bitmap // rows whose key an earlier row of this load has
	origins bitmap // rows whose key later ones repeat
	many    bool   // there are any
	twins   twins
	gone    goneKeys
}

func (s *settled) close() { s.twins.close() }

// goneKeys are those that the previous version loaded and this one does not.
type goneKeys struct {
	known bool
	tally tally
	first []string // some of them, in the order of the rows
}

// settle reads the keys. It fails with load.key_missing unless every row has one.
func (a *attempt) settle(ctx context.Context) error {
	parts := partitions(a.set.Rows.Rows)
	keys := newKeySet(a.scratch, "keys", parts)
	defer keys.close()
	if err := a.collectKeys(ctx, a.set.Rows, a.plan.keyColumn().Name, keys); err != nil {
		return err
	}
	previous, hasKey, err := a.previous()
	if err != nil {
		return err
	}
	before := newKeySet(a.scratch, "before", parts)
	defer before.close()
	a.settled.gone.known = hasKey
	a.settled.gone.tally = newTally(a.plan)
	if hasKey && previous.Digest != a.set.Rows.Digest {
		if err := a.collectKeys(ctx, previous, a.plan.keyColumn().Name, before); err != nil {
			return fmt.Errorf("read what the previous version loaded: %w", err)
		}
	}
	vanished, err := a.compareKeys(ctx, keys, before)
	if err != nil {
		return err
	}
	if len(vanished) > 0 {
		if err := a.sumGone(ctx, previous, vanished); err != nil {
			return fmt.Errorf("read what the previous version loaded: %w", err)
		}
	}
	return a.settleTwins(ctx)
}

// previous returns the rows that the previous version of the key loaded, if it
// loaded any that have the column of the key.
func (a *attempt) previous() (step.Dataset, bool, error) {
	raw, ok := a.in.Previous["rows"]
	if !ok || string(raw) == "null" {
		return step.Dataset{}, false, nil
	}
	var d step.Dataset
	if err := json.Unmarshal(raw, &d); err != nil {
		return step.Dataset{}, false, step.Permanent(fmt.Errorf("read the rows of the previous version: %w", err))
	}
	return d, d.Schema.Index(a.plan.keyColumn().Name) >= 0, nil
}

func (a *attempt) collectKeys(ctx context.Context, d step.Dataset, name string, into *keySet) error {
	var row, missing, firstLine int64
	var text []byte
	err := a.eachBatch(ctx, d, []string{name}, func(b *dataset.Batch) error {
		v, c := &b.Columns[0], b.Schema.Columns[0]
		for i := range b.Len() {
			if v.Null(i) || c.Kind.IsText() && len(v.Text(i)) == 0 {
				if missing++; missing == 1 {
					firstLine = b.Lines[i]
				}
				continue
			}
			text = appendKey(text[:0], c, v, i)
			if err := into.add(fingerprintOf(text), row+int64(i)); err != nil {
				return err
			}
		}
		row += int64(b.Len())
		return nil
	})
	if err == nil && missing > 0 {
		err = keyMissing(fmt.Errorf("%d of %d rows have no %s, which is to be the key; the first one is line %d", missing, row, name, firstLine))
	}
	return err
}

// appendKey appends the form of a key in which equal values are equal bytes.
func appendKey(dst []byte, c dataset.Column, v *dataset.Vector, i int) []byte {
	if !c.Kind.IsDecimal() {
		return c.AppendFormat(dst, v, i)
	}
	dst = dataset.Fixed{Mant: v.Ints[i], Scale: c.Scale}.Append(dst)
	if bytes.IndexByte(dst, '.') >= 0 {
		dst = bytes.TrimSuffix(bytes.TrimRight(dst, "0"), []byte("."))
	}
	return dst
}

// compareKeys finds keys that come more than once and those that vanished.
func (a *attempt) compareKeys(ctx context.Context, keys, before *keySet) (vanished bitmap, err error) {
	var now, then []entry
	for i := range keys.parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if now, err = keys.sorted(i, now); err != nil {
			return nil, err
		}
		if then, err = before.sorted(i, then); err != nil {
			return nil, err
		}
		a.settled.findRepeats(now)
		findVanished(now, then, &vanished)
	}
	return vanished, nil
}

// findRepeats marks rows whose key an earlier row has, and that row.
func (s *settled) findRepeats(sorted []entry) {
	first := 0
	for i := 1; i < len(sorted); i++ {
		if sorted[i].compareKey(sorted[first]) != 0 {
			first = i
			continue
		}
		s.repeats.set(sorted[i].row)
		s.origins.set(sorted[first].row)
		s.many = true
	}
}

// findVanished marks the first row of every key that is only in then.
func findVanished(now, then []entry, vanished *bitmap) {
	i := 0
	for j := range then {
		for i < len(now) && now[i].compareKey(then[j]) < 0 {
			i++
		}
		known := i < len(now) && now[i].compareKey(then[j]) == 0
		again := j > 0 && then[j-1].compareKey(then[j]) == 0
		if !known && !again {
			vanished.set(then[j].row)
		}
	}
}

// sumGone counts the rows of the previous version that are marked. An amount is
// only summed when that version had it at the same scale, with its currency.
func (a *attempt) sumGone(ctx context.Context, previous step.Dataset, marked bitmap) error {
	g := &a.settled.gone
	names := []string{a.plan.keyColumn().Name}
	place := func(name string, kind dataset.Kind, scale int) int {
		c, err := previous.Schema.Column(name)
		if err != nil || c.Kind != kind || c.Scale != scale {
			return -1
		}
		names = append(names, name)
		return len(names) - 1
	}
	for i := range g.tally.columns {
		c := &g.tally.columns[i]
		c.source = place(c.Name, dataset.Money, c.Scale)
		if c.currency < 0 {
			continue
		}
		if c.currency = place(a.plan.read[c.currency], dataset.Currency, 0); c.currency < 0 {
			c.source = -1
		}
	}
	row := int64(0)
	return a.eachBatch(ctx, previous, names, func(b *dataset.Batch) error {
		for i := range b.Len() {
			if !marked.has(row + int64(i)) {
				continue
			}
			g.tally.add(gone, b, i)
			if len(g.first) < shownInReport {
				g.first = append(g.first, b.Schema.Columns[0].Format(&b.Columns[0], i))
			}
		}
		row += int64(b.Len())
		return nil
	})
}

// eachBatch reads the named columns of a dataset.
func (a *attempt) eachBatch(ctx context.Context, d step.Dataset, columns []string, do func(*dataset.Batch) error) error {
	r, err := a.in.Datasets.Open(ctx, d, columns...)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // Nothing was written.
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := do(b); err != nil {
			return err
		}
	}
}
