package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"madeira/engine/task"
)

// A share is what one entry has in a batch.
type share struct {
	*entry
	due  []task.Accounted
	more bool  // there are further due times
	err  error // of the schedule, behind these
}

// A batch is what is written in one transaction.
type batch struct {
	now                time.Time // the entries were looked at
	shares             []share
	runs, notes, bytes int
	done               chan error // its transaction's; nil: it has not begun
}

func (b *batch) add(part share) {
	b.shares = append(b.shares, part)
	for _, d := range part.due {
		if d.Run == nil {
			b.notes++
			continue
		}
		b.runs++
		for _, t := range d.Run.Tasks {
			b.bytes += 1<<10 + len(t.Settings) + len(t.ForEach)
		}
	}
}

func (b *batch) full() bool {
	return b.runs >= maxBatch || b.notes >= 10*maxBatch || b.bytes >= maxBytes
}

func (b *batch) all() []task.Accounted {
	all := make([]task.Accounted, 0, b.runs+b.notes)
	for _, part := range b.shares {
		all = append(all, part.due...)
	}
	return all
}

// A writing is batches on their way into the database: while one is written, the next is
// made up.
type writing struct {
	*Scheduler
	under []batch // way, the oldest first
}

// maxUnderWay is how many batches are under way: one that is written, and one that waits
// for it at the database.
const maxUnderWay = 2

// write begins to write a batch. The error is that of an earlier one.
func (w *writing) write(ctx context.Context, b batch) error {
	if len(b.shares) == 0 {
		return nil
	}
	if len(w.under) == maxUnderWay {
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	b.done = make(chan error, 1)
	w.under = append(w.under, b)
	go func() { b.done <- w.record(ctx, b.all()) }()
	return nil
}

// finish waits until all batches are written. The error is that of the first that was not.
func (w *writing) finish(ctx context.Context) error {
	var first error
	for len(w.under) > 0 {
		if err := w.settle(ctx); first == nil {
			first = err
		}
	}
	return first
}

// settle waits for the oldest batch. Where the database refused the whole, each entry is
// on its own, and one that fails rests.
func (w *writing) settle(ctx context.Context) error {
	b := w.under[0]
	w.under = w.under[1:]
	if err := <-b.done; err != nil {
		var p panicked
		if _, gone := w.store.Now(ctx); gone != nil || errors.As(err, &p) {
			return err
		}
		w.apart(ctx, b.shares)
	}
	for _, part := range b.shares {
		w.settled(ctx, part, b.now)
	}
	return nil
}

// apart writes each due time on its own, up to the first of an entry that fails.
func (w *writing) apart(ctx context.Context, shares []share) {
	for i, part := range shares {
		for n, d := range part.due {
			if err := w.record(ctx, []task.Accounted{d}); err != nil {
				shares[i].due, shares[i].err = part.due[:n], err
				break
			}
		}
	}
}

// record notes due times, and tells workers of their runs.
func (s *Scheduler) record(ctx context.Context, due []task.Accounted) (err error) {
	defer recovered(&err)
	if len(due) == 0 {
		return nil
	}
	created, err := s.store.Account(ctx, due)
	if err != nil {
		return err
	}
	runs := false
	for i, d := range due {
		if d.Run == nil {
			continue
		}
		runs = true
		s.log.LogAttrs(ctx, slog.LevelInfo, "due", slog.String("job", d.Occurrence.Job), slog.Time("due_at", d.Occurrence.DueAt),
			slog.String("outcome", string(d.Occurrence.Outcome)), slog.String("run_id", created[i].Run.ID))
	}
	if runs {
		s.wake()
	}
	return nil
}
