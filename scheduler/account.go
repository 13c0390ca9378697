package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
)

// follow accounts for due times of the entries up to now. Of what came while no
// scheduler ran it does a batch, and leaves the rest for the next time.
func (s *Scheduler) follow(ctx context.Context, w *writing, list []*entry, now time.Time) error {
	marks, err := s.marks(ctx, list)
	if err != nil {
		return fmt.Errorf("read the watermarks: %w", err)
	}
	oldest := now
	for i, e := range list {
		e.mark = marks[i]
		if e.mark.Before(oldest) {
			oldest = e.mark
		}
	}
	pauses, err := s.pauses(ctx, oldest)
	if err != nil {
		return err
	}
	b, full := batch{now: now}, false
	for _, e := range list {
		if full && e.lagging {
			s.await(e, e.at)
			continue
		}
		b.add(s.decide(ctx, e, Span{After: e.mark, UpTo: now, Pauses: pauses[e.job.Name], Lagging: e.lagging, Since: s.since}))
		if b.full() {
			if err := w.write(ctx, b); err != nil {
				return err
			}
			b, full = batch{now: now}, true
		}
	}
	return w.write(ctx, b)
}

// pauses returns the pauses that go on after an instant, by job.
func (s *Scheduler) pauses(ctx context.Context, after time.Time) (map[string][]task.Pause, error) {
	list, err := s.store.Pauses(ctx, after)
	if err != nil {
		return nil, fmt.Errorf("read which jobs are paused: %w", err)
	}
	byJob := map[string][]task.Pause{}
	for _, p := range list {
		byJob[p.Job] = append(byJob[p.Job], p)
	}
	return byJob, nil
}

// decide decides about the due times of an entry. What a schedule panics with is an
// error of that entry.
func (s *Scheduler) decide(ctx context.Context, e *entry, span Span) (part share) {
	part.entry = e
	defer recovered(&part.err)
	decisions, more, err := Due(e.Entry, span, maxRuns)
	part.more, part.err = more, err
	for _, d := range decisions {
		part.due = append(part.due, s.expand(ctx, e, d))
	}
	return part
}

// expand gives a due time its run, or says why it has none.
func (s *Scheduler) expand(ctx context.Context, e *entry, d Decision) task.Accounted {
	a := task.Accounted{Occurrence: task.Occurrence{Job: e.job.Name, Entry: e.Name, DueAt: d.DueAt, Outcome: d.Outcome, Reason: d.Reason}}
	if !d.makesRun() {
		return a
	}
	run, err := dueRun(e.job, e.Entry, d.DueAt)
	if err != nil {
		s.failed(ctx, "skip a due time", err, slog.String("job", e.job.Name), slog.Time("due_at", d.DueAt))
		a.Occurrence.Outcome, a.Occurrence.Reason = task.DueSkipped, shorten(err.Error())
		return a
	}
	a.Run = &run
	return a
}

// dueRun returns the run of a due time. The run is for that instant, also where it
// begins later.
func dueRun(job *jobs.Job, e jobs.Entry, due time.Time) (task.NewRun, error) {
	run, err := Freeze(job, Request{Trigger: TriggerSchedule, DueAt: due})
	run.Overlap = task.Overlap(job.Overlap)
	if offset := Offset(job.Name, e); offset > 0 {
		run.NotBefore = due.Add(offset)
	}
	return run, err
}

// Offset returns how long after their due times the runs of an entry with a jitter
// begin: a part of it that is always the same, and spreads jobs evenly.
func Offset(job string, e jobs.Entry) time.Duration {
	if e.Jitter <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(job + "\x00" + e.Name))
	return time.Duration(binary.BigEndian.Uint64(sum[:]) % uint64(e.Jitter))
}

// settled finds out when an entry has to be looked at again.
func (s *Scheduler) settled(ctx context.Context, part share, now time.Time) {
	e, err := part.entry, part.err
	if n := len(part.due); n > 0 {
		e.mark = part.due[n-1].Occurrence.DueAt
	}
	if err == nil {
		e.lagging = part.more
		err = e.find(now)
	}
	if err != nil {
		s.rest(ctx, e, now, err)
		s.await(e, e.at)
		return
	}
	s.works(ctx, e)
	if part.more && part.due[len(part.due)-1].Run != nil {
		e.at = now.Add(catchUpSleep)
	}
	s.await(e, e.at)
}

// shorten keeps the reason of an occurrence to what a table shows.
func shorten(s string) string {
	const limit = 500
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return s
}
