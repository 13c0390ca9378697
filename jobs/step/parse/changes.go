package parse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// shownChanges is how many changes the report shows; all are in the dataset.
const shownChanges = 20

// shownLength is how much of a change the report shows, in characters.
const shownLength = 400

// diffMemory is what comparing two versions may hold at most.
const diffMemory = 32 << 20

// changesSchema is that of the dataset of changes: a row for every value that
// differs, one for every row that came or went.
func changesSchema() dataset.Schema {
	return dataset.Schema{Columns: []dataset.Column{
		{Name: "change", Kind: dataset.Text}, // changed, added or removed
		{Name: "key", Kind: dataset.Text},
		{Name: "line", Kind: dataset.Integer}, // in this version; null for a removed row
		{Name: "old_line", Kind: dataset.Integer},
		{Name: "column", Kind: dataset.Text}, // null for an added or a removed row
		{Name: "old", Kind: dataset.Text},
		{Name: "new", Kind: dataset.Text},
	}}
}

// A comparison is what two versions of the rows differ in.
type comparison struct {
	counts dataset.DiffCounts
	kept   step.Dataset
	shown  []string // the first changes, for the report
}

// compare compares the rows with those of the version before; nil when there was none.
func compare(ctx context.Context, in step.Input, key []string, rows step.Dataset) (_ *comparison, err error) {
	var before *step.Dataset
	if raw := in.Previous["rows"]; raw != nil {
		if err := json.Unmarshal(raw, &before); err != nil {
			return nil, fmt.Errorf("read the rows of the version before: %w", err)
		}
	}
	if before == nil || before.Digest == "" {
		return nil, nil
	}
	for _, name := range key {
		if before.Schema.Index(name) < 0 { // the version before knew other columns
			key = nil
		}
	}
	old, err := in.Datasets.Open(ctx, *before)
	if err != nil {
		return nil, fmt.Errorf("open the rows of the version before: %w", err)
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	now, err := in.Datasets.Open(ctx, rows)
	if err != nil {
		return nil, fmt.Errorf("open the rows: %w", err)
	}
	defer func() { err = errors.Join(err, now.Close()) }()
	dir, err := in.Files.Scratch(ctx)
	if err != nil {
		return nil, fmt.Errorf("make room to compare versions: %w", err)
	}
	out, err := in.Datasets.Create(ctx, changesSchema())
	if err != nil {
		return nil, err
	}
	defer out.Discard()
	c := &changeWriter{out: out, batch: dataset.NewBatch(changesSchema())}
	options := dataset.DiffOptions{Old: old, New: now, Key: key, Dir: dir, Memory: min(in.Memory, diffMemory)}
	counts, err := dataset.Diff(ctx, options, c.add)
	if err != nil {
		return nil, fmt.Errorf("compare with the version before: %w", err)
	}
	if err := c.flush(); err != nil {
		return nil, err
	}
	kept, err := out.Commit(ctx)
	if err != nil {
		return nil, err
	}
	return &comparison{counts: counts, kept: kept, shown: c.shown}, nil
}

// A changeWriter keeps changes as rows, and the first of them as text.
type changeWriter struct {
	out   step.DatasetWriter
	batch *dataset.Batch
	shown []string
}

func (w *changeWriter) add(c dataset.Change) error {
	if len(w.shown) < shownChanges {
		w.shown = append(w.shown, shorten([]byte(changeText(c)), shownLength))
	}
	if c.Kind != dataset.Changed {
		return w.row(c, nil)
	}
	for i := range c.Columns {
		if err := w.row(c, &c.Columns[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *changeWriter) row(c dataset.Change, of *dataset.ColumnChange) error {
	columns := w.batch.Columns
	columns[0].AppendString(string(c.Kind))
	columns[1].AppendString(strings.Join(c.Key, " "))
	for i, line := range []int64{c.NewLine, c.OldLine} {
		if line == 0 {
			columns[2+i].AppendNull()
		} else {
			columns[2+i].AppendInt(line)
		}
	}
	texts := []*string{nil, nil, nil}
	if of != nil {
		texts[0] = &of.Name
		if !of.OldNull {
			texts[1] = &of.Old
		}
		if !of.NewNull {
			texts[2] = &of.New
		}
	}
	for i, text := range texts {
		if text == nil {
			columns[4+i].AppendNull()
		} else {
			columns[4+i].AppendString(*text)
		}
	}
	w.batch.Lines = append(w.batch.Lines, max(c.NewLine, c.OldLine))
	if w.batch.Full() {
		return w.flush()
	}
	return nil
}

func (w *changeWriter) flush() error {
	if w.batch.Len() == 0 {
		return nil
	}
	err := w.out.Write(w.batch)
	w.batch.Reset()
	return err
}

// changeText is what a person reads about one change.
func changeText(c dataset.Change) string {
	key := ""
	if len(c.Key) > 0 {
		key = fmt.Sprintf(" (%s)", shorten([]byte(strings.Join(c.Key, " ")), 80))
	}
	switch c.Kind {
	case dataset.Added:
		return fmt.Sprintf("line %d%s: added: %s", c.NewLine, key, sideText(c.Columns, false))
	case dataset.Removed:
		return fmt.Sprintf("old line %d%s: removed: %s", c.OldLine, key, sideText(c.Columns, true))
	}
	list := make([]string, len(c.Columns))
	for i, of := range c.Columns {
		list[i] = fmt.Sprintf("%s %s → %s", of.Name, valueText(of.Old, of.OldNull), valueText(of.New, of.NewNull))
	}
	return fmt.Sprintf("line %d%s: %s", c.NewLine, key, strings.Join(list, ", "))
}

// sideText lists the values of a row that came or went.
func sideText(columns []dataset.ColumnChange, old bool) string {
	list := make([]string, 0, len(columns))
	for _, of := range columns {
		value, null := of.New, of.NewNull
		if old {
			value, null = of.Old, of.OldNull
		}
		if !null {
			list = append(list, of.Name+" "+valueText(value, false))
		}
	}
	return strings.Join(slices.Clip(list), ", ")
}

func valueText(value string, null bool) string {
	if null {
		return "(empty)"
	}
	return shorten([]byte(value), 40)
}
