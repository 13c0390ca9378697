package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/scheduler"
)

// A duePlan is one due time with what would become of it.
type duePlan struct {
	Entry   string    `json:"entry"`
	DueAt   time.Time `json:"due_at"` // UTC; of an error, the last due time before it
	Local   string    `json:"local"`  // in the job's zone
	Period  string    `json:"period"`
	Key     string    `json:"upstream_key"`
	Outcome string    `json:"outcome"` // run, skip, queue, repeat, catch_up, miss or error
	Reason  string    `json:"reason"`
	Note    string    `json:"note"` // such as what moved it
}

// A stateView is what the state database says about a job; its zero value says
// nothing.
type stateView struct {
	unasked string // why it was not asked; "": it was
	db      *store.DB
	now     time.Time    // by the clock of the database, as the scheduler reads it
	pauses  []task.Pause // of the job, since the oldest of marks
	marks   map[string]time.Time
	live    []task.Run
	paused  *store.Hold
}

// peek looks into the state database, where there is one, and changes nothing.
func (p *program) peek(ctx context.Context, dir string, job *jobs.Job) (s stateView, done func()) {
	done = func() {}
	cfg, err := loadConfig(ctx, dir, p.database, p.environ)
	if err != nil {
		return stateView{unasked: err.Error()}, done
	}
	if path, sqlite := strings.CutPrefix(cfg.database, "sqlite://"); sqlite {
		if _, err := os.Stat(path); err != nil {
			return stateView{unasked: "there is none at " + displayPath(path)}, done
		}
	}
	db, err := store.Open(ctx, cfg.database, store.Options{MaxConns: 2, TransactionPooler: cfg.pooled})
	if err != nil {
		return stateView{unasked: err.Error()}, done
	}
	done = func() { _ = db.Close() } // nothing was written
	s.db = db
	if err = db.CheckSchema(ctx); err == nil {
		s.now, err = db.Now(ctx)
	}
	if err == nil {
		s.marks, err = db.Watermarks(ctx, job.Name)
	}
	if err == nil && len(s.marks) > 0 {
		oldest := slices.MinFunc(slices.Collect(maps.Values(s.marks)), time.Time.Compare)
		s.pauses, err = db.Pauses(ctx, oldest)
		s.pauses = slices.DeleteFunc(s.pauses, func(p task.Pause) bool { return p.Job != job.Name })
	}
	if err == nil {
		s.live, err = db.Runs(ctx, store.RunFilter{Job: job.Name, Status: []task.RunStatus{task.RunPending, task.RunRunning, task.RunWaiting}, Limit: 10})
	}
	var holds []store.Hold
	if err == nil {
		holds, err = db.Holds(ctx)
	}
	if err != nil {
		return stateView{unasked: err.Error()}, done
	}
	if i := slices.IndexFunc(holds, func(h store.Hold) bool { return h.Gate == "job:"+job.Name }); i >= 0 {
		s.paused = &holds[i]
	}
	return s, done
}

// pastDue returns what came due while no scheduler ran, and would be caught up or
// not when one begins now.
func pastDue(job *jobs.Job, s stateView, now time.Time) []duePlan {
	var list []duePlan
	for _, e := range job.Schedule {
		mark, known := s.marks[e.Name]
		if !known {
			continue
		}
		const most = 1000
		decisions, more, err := scheduler.Due(e, scheduler.Span{After: mark, UpTo: now, Pauses: s.pauses}, most)
		for _, d := range decisions {
			v := duePlan{Entry: e.Name, DueAt: d.DueAt, Local: local(d.DueAt, job.Location), Outcome: pastOutcomes[d.Outcome], Reason: d.Reason}
			v.Period, v.Key, _ = identity(job, nil, d.DueAt) // the next due times say what is wrong
			list = append(list, v)
		}
		if more {
			list = append(list, duePlan{Entry: e.Name, Outcome: "error", Reason: fmt.Sprintf("there are more than %d", most)})
		}
		if err != nil {
			list = append(list, duePlan{Entry: e.Name, Outcome: "error", Reason: err.Error()})
		}
	}
	slices.SortStableFunc(list, func(a, b duePlan) int { return a.DueAt.Compare(b.DueAt) })
	return list
}

var pastOutcomes = map[task.DueOutcome]string{task.DueRan: "run", task.DueCaughtUp: "catch_up", task.DueSkipped: "skip", task.DueMissed: "miss"}

// identity returns the label of the period and the key of the run of a due time.
func identity(job *jobs.Job, inputs map[string]json.RawMessage, at time.Time) (period, key string, err error) {
	run, err := scheduler.Freeze(job, scheduler.Request{Trigger: scheduler.TriggerSchedule, DueAt: at, Inputs: inputs})
	if err != nil {
		var bad *scheduler.RequestError
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return "", "", err
	}
	if run.Run.Period != nil {
		var p calendar.Period
		if err := json.Unmarshal(run.Run.Period, &p); err != nil {
			return "", "", err
		}
		period = p.Label
	}
	return period, run.Run.Key, nil
}

// nextDue returns the next due times of all entries, with what would become of each.
func nextDue(ctx context.Context, job *jobs.Job, inputs map[string]json.RawMessage, s stateView, now time.Time, n int) []duePlan {
	type ahead struct {
		entry jobs.Entry
		due   calendar.Due
		last  time.Time
		err   error
		over  bool
	}
	entries := make([]*ahead, len(job.Schedule))
	step := func(a *ahead, after time.Time) {
		a.last = after
		a.due, a.err = a.entry.Schedule.Next(after.In(job.Location))
		a.over = a.err == nil && a.due.IsZero()
	}
	for i, e := range job.Schedule {
		entries[i] = &ahead{entry: e}
		step(entries[i], now)
	}
	when := func(a *ahead) time.Time {
		if a.err != nil {
			return a.last
		}
		return a.due.At
	}
	var list []duePlan
	first, keys := true, map[string]string{}
	for len(list) < n {
		var next *ahead
		for _, a := range entries {
			if !a.over && (next == nil || when(a).Before(when(next))) {
				next = a
			}
		}
		if next == nil {
			break
		}
		if next.err != nil {
			list = append(list, duePlan{Entry: next.entry.Name, DueAt: next.last.UTC(), Local: "after " + local(next.last, job.Location), Outcome: "error", Reason: next.err.Error()})
			next.over = true
			continue
		}
		v := duePlan{Entry: next.entry.Name, DueAt: next.due.At.UTC(), Local: local(next.due.At, job.Location), Note: next.due.Note}
		s.decide(ctx, job, inputs, next.due, first, &v)
		if at, planned := keys[v.Key]; planned && v.Outcome == "run" {
			v.Outcome, v.Reason = "repeat", "the key is that of "+at
		}
		if v.Key != "" && v.Outcome == "run" {
			keys[v.Key] = v.Local
		}
		first = first && next.due.Skipped != ""
		list = append(list, v)
		step(next, next.due.At)
	}
	return list
}

// decide says what would become of a due time. A run that is live now counts for
// the first one only: by the next it is over, as far as anybody knows.
func (s stateView) decide(ctx context.Context, job *jobs.Job, inputs map[string]json.RawMessage, due calendar.Due, first bool, v *duePlan) {
	var err error
	v.Outcome = "run"
	if v.Period, v.Key, err = identity(job, inputs, due.At); err != nil {
		v.Outcome, v.Reason = "skip", err.Error()
	}
	switch {
	case due.Skipped != "":
		v.Outcome, v.Reason = "skip", due.Skipped
	case v.Outcome == "skip":
	case s.paused != nil:
		v.Outcome, v.Reason = "skip", "the job is paused: "+s.paused.Reason
	case s.repeats(ctx, job, v):
	case first && len(s.live) > 0 && job.Overlap == jobs.OverlapSkip:
		v.Outcome, v.Reason = "skip", "if run "+s.live[0].ID+" is live then"
	case first && len(s.live) > 0 && job.Overlap == jobs.OverlapQueue:
		v.Outcome, v.Reason = "queue", "behind run "+s.live[0].ID+" if it is live then"
	}
}

// repeats reports whether the key of a due time is live or done.
func (s stateView) repeats(ctx context.Context, job *jobs.Job, v *duePlan) bool {
	if s.unasked != "" || v.Key == "" {
		return false
	}
	runs, err := s.db.Runs(ctx, store.RunFilter{Job: job.Name, Key: v.Key, Limit: 1})
	if err != nil || len(runs) == 0 {
		return false
	}
	switch r := runs[0]; {
	case r.Status.Live():
		v.Outcome, v.Reason = "repeat", "its key is live as run "+r.ID
	case r.Status == task.RunSuccess || r.Status == task.RunWarning || r.Status == task.RunRepeated:
		v.Outcome, v.Reason = "repeat", "its key is done by run "+r.ID+": it looks at the sources, and does it again if they have changed"
	default:
		return false
	}
	return true
}

// writeDue prints what came due and what is next.
func (plan jobPlan) writeDue(out io.Writer, job *jobs.Job) {
	if len(job.Schedule) == 0 {
		fmt.Fprintln(out, "\nno schedule: it runs when somebody asks")
		return
	}
	fmt.Fprintln(out, "\nschedule")
	var rows [][]string
	for _, e := range job.Schedule {
		policy := "catchup " + string(e.Catchup)
		if e.Window > 0 {
			policy += " within " + asWritten(e.Window)
		}
		if e.Jitter > 0 {
			policy += ", begins up to " + asWritten(e.Jitter) + " later"
		}
		rows = append(rows, []string{"  " + e.Name, policy})
	}
	writeTable(out, rows)
	if len(plan.Past) > 0 {
		fmt.Fprintln(out, "\ncame due while no scheduler ran; if one begins now")
		writeDueTimes(out, plan.Past, len(job.Schedule) > 1)
	}
	if len(plan.Next) > 0 {
		fmt.Fprintln(out, "\nnext")
		writeDueTimes(out, plan.Next, len(job.Schedule) > 1)
	}
	if plan.State != "" {
		fmt.Fprintf(out, "\nthe state database was not asked (%s): live runs, keys that are done and pauses do not show\n", plan.State)
	}
}

func writeDueTimes(out io.Writer, list []duePlan, several bool) {
	rows := [][]string{{"  DUE", "UTC", "PERIOD", "KEY", "OUTCOME", ""}}
	for _, v := range list {
		utc := v.DueAt.UTC().Format("2006-01-02 15:04")
		if v.Outcome == "error" {
			utc = "-"
		}
		about := []string{v.Reason, v.Note}
		if several {
			about = append([]string{v.Entry}, about...)
		}
		about = slices.DeleteFunc(about, func(s string) bool { return s == "" })
		rows = append(rows, []string{"  " + v.Local, utc, dash(v.Period), dash(v.Key), v.Outcome, strings.Join(about, "; ")})
	}
	writeTable(out, rows)
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
