package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
)

// TriggerBackfill makes runs of due times that somebody asks for afterwards.
const TriggerBackfill = "backfill"

// MaxBackfill is how many due times a backfill may have.
const MaxBackfill = 10_000

// A Ledger is what a backfill needs to know of the past.
type Ledger interface {
	// KeyStates returns how the last runs of keys stand, by key. A key that has had
	// none is not in it.
	KeyStates(ctx context.Context, job string, keys []string) (map[string]task.KeyState, error)

	// DueRuns returns the runs of due times of a job from one instant to another,
	// both included. A due time that made none is not in it.
	DueRuns(ctx context.Context, job string, from, to time.Time) (map[task.DueTime]task.KeyState, error)
}

// What a backfill does with a due time.
const (
	FillRun     = "run"     // makes its run
	FillGood    = "good"    // leaves it: it has ended well already
	FillLive    = "live"    // leaves it: its run is at work, or somebody has just made it
	FillSkipped = "skipped" // leaves it: it makes no run, whoever asks
)

// A Fill is one due time of a backfill.
type Fill struct {
	Entry  string
	DueAt  time.Time // in UTC
	Key    string    // of its run; "": each run is its own
	Action string    // FillRun, FillGood, FillLive or FillSkipped
	Reason string    // "" for a gap
	RunID  string    // that it has, or that was made for it

	recorded string // the run on record of the due time; "": none
}

// A Backfill asks for the runs of due times that have passed.
type Backfill struct {
	From, To time.Time // both included
	Again    string    // why those that are good already are made again; "": they are left
	Actor    string
	Reason   string // why at all; may be ""
}

// PlanBackfill says what a backfill would do, oldest first, and writes nothing. A
// schedule that cannot tell is a *RequestError: filling a part in silence would look
// whole. Other errors are the database's.
func PlanBackfill(ctx context.Context, l Ledger, job *jobs.Job, b Backfill) ([]Fill, error) {
	fills, err := dueTimes(job, b)
	if err != nil {
		return nil, &RequestError{Job: job.Name, Field: "schedule", Err: err}
	}
	var keys []string
	for i := range fills {
		if fills[i].Action == FillSkipped {
			continue
		}
		run, err := Freeze(job, Request{Trigger: TriggerBackfill, DueAt: fills[i].DueAt})
		if err != nil {
			return nil, fmt.Errorf("due at %s: %w", fills[i].DueAt.Format(time.RFC3339), err)
		}
		if fills[i].Key = run.Run.Key; fills[i].Key != "" {
			keys = append(keys, fills[i].Key)
		}
	}
	states, err := l.KeyStates(ctx, job.Name, keys)
	if err != nil {
		return nil, err
	}
	runs, err := l.DueRuns(ctx, job.Name, b.From, b.To)
	if err != nil {
		return nil, err
	}
	first := map[string]time.Time{}
	for i := range fills {
		f := &fills[i]
		if f.Action == FillSkipped {
			continue
		}
		state, had := runs[task.DueTime{Entry: f.Entry, DueAt: f.DueAt}]
		f.recorded = state.RunID
		if f.Key != "" {
			if state, had = states[f.Key]; !had {
				state = task.KeyState{}
			}
			if at, twice := first[f.Key]; twice {
				f.Action, f.Reason = FillSkipped, "its key is that of "+at.Format(time.RFC3339)+", which comes before it"
				continue
			}
			first[f.Key] = f.DueAt
		}
		f.decide(state, had, b.Again)
	}
	return fills, nil
}

// decide says what becomes of a due time whose run stands so.
func (f *Fill) decide(state task.KeyState, had bool, again string) {
	f.RunID = state.RunID
	good := state.Status.EndedWell() || state.Status == task.RunRepeated || state.Status == ""
	switch {
	case !had:
		f.Action = FillRun
	case state.Status.Live():
		f.Action, f.Reason = FillLive, "its run is "+string(state.Status)
	case good && again == "":
		f.Action, f.Reason = FillGood, "its run ended as "+string(state.Status)
		if state.Status == "" {
			f.Reason = "it had a run, which retention has dropped"
		}
	case good:
		f.Action, f.Reason = FillRun, "again: "+again
	default:
		f.Action, f.Reason = FillRun, "its run ended as "+string(state.Status)
	}
}

// dueTimes lists the due times of all entries, oldest first, those that make no run too.
func dueTimes(job *jobs.Job, b Backfill) ([]Fill, error) {
	var fills []Fill
	for _, e := range job.Schedule {
		at, err := next(e, b.From.Add(-time.Nanosecond))
		for err == nil && !at.IsZero() && !at.At.After(b.To) {
			if len(fills) == MaxBackfill {
				return nil, fmt.Errorf("there are more than %d due times from %s to %s; ask for a shorter time", MaxBackfill, b.From.UTC().Format(time.RFC3339), b.To.UTC().Format(time.RFC3339))
			}
			f := Fill{Entry: e.Name, DueAt: at.At}
			if at.Skipped != "" {
				f.Action, f.Reason = FillSkipped, at.Skipped
			}
			fills = append(fills, f)
			at, err = next(e, at.At)
		}
		if err != nil {
			return nil, fmt.Errorf("list the due times of %s: %w", e.Name, err)
		}
	}
	slices.SortStableFunc(fills, func(a, b Fill) int { return a.DueAt.Compare(b.DueAt) })
	return fills, nil
}

// Fill makes the run of one due time, or finds that somebody has made it meanwhile;
// then the Fill says so. The run keeps to the job's limits, and waits for others of
// the job unless overlap allows both.
func (s *Scheduler) Fill(ctx context.Context, job *jobs.Job, b Backfill, f Fill) (Fill, error) {
	if f.Action != FillRun {
		return f, errors.New("nothing is to be made of this due time")
	}
	run, err := Freeze(job, Request{Trigger: TriggerBackfill, DueAt: f.DueAt, Again: b.Again, Actor: b.Actor})
	if err != nil {
		return f, err
	}
	run.Overlap = task.OverlapQueue
	if job.Overlap == jobs.OverlapAllow {
		run.Overlap = task.OverlapAllow
	}
	why := "backfill by " + b.Actor
	if reason := join(b.Reason, b.Again); reason != "" {
		why += ": " + reason
	}
	run.Occurrence = &task.Occurrence{Job: job.Name, Entry: f.Entry, DueAt: f.DueAt, Outcome: task.DueCaughtUp, Reason: why, Trigger: TriggerBackfill, Replaces: f.recorded}
	created, err := s.store.CreateRun(ctx, run)
	if err != nil {
		return f, fmt.Errorf("due at %s: %w", f.DueAt.Format(time.RFC3339), err)
	}
	f.RunID = created.Run.ID
	if created.Existing {
		f.Action, f.Reason = met(created)
		return f, nil
	}
	s.wake()
	return f, nil
}

// met says what is left of a due time that somebody else was faster with.
func met(c task.Created) (action, reason string) {
	switch status := c.Run.Status; {
	case c.Run.ID == "":
		return FillSkipped, "somebody else has accounted for it meanwhile: it is " + string(c.Outcome)
	case status.EndedWell() || status == task.RunRepeated:
		return FillGood, "somebody else has made its run meanwhile, which ended as " + string(status)
	case !status.Live():
		return FillLive, "somebody else has made its run meanwhile, which ended as " + string(status)
	default:
		return FillLive, "somebody else has just made its run"
	}
}
