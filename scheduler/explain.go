package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
)

// A Record is what is on record about a due time.
type Record struct {
	task.Occurrence
	RecordedAt time.Time
	RunStatus  task.RunStatus // "" without a run, or when retention has dropped it
	RepeatedOf string
}

// A Followed entry is what is on record about an entry of a schedule. The zero value
// says that nobody has followed it.
type Followed struct {
	Watermark  time.Time
	KnownSince time.Time // zero: not noted
	Problem    string    // why it cannot be followed; "": it can
}

// A Past is what is on record about a job.
type Past struct {
	Now     time.Time // by the database's clock
	Records []Record  // of the time that is asked about
	Entries map[string]Followed
	Pauses  []task.Pause // of the job
}

// An Explanation is what became, or will become, of a due time, in one sentence.
type Explanation struct {
	Record            // its Outcome is "" while there is none
	Why        string // the sentence
	Unrecorded bool
}

// Explain says what became of all due times of a job from one instant to another,
// both included, oldest first. With none it says why there is none: the one before
// and the next. Job is nil where only records are known.
func Explain(job *jobs.Job, name string, from, to time.Time, p Past) []Explanation {
	var list []Explanation
	seen := map[task.DueTime]bool{}
	for _, r := range p.Records {
		seen[task.DueTime{Entry: r.Entry, DueAt: r.DueAt.UTC()}] = true
		list = append(list, Explanation{Record: r, Why: r.told(job)})
	}
	var broken []Explanation
	if job != nil {
		for _, e := range job.Schedule {
			at, err := next(e, from.Add(-time.Nanosecond))
			for n := 0; err == nil && !at.IsZero() && !at.At.After(to) && n < MaxBackfill; n++ {
				if !seen[task.DueTime{Entry: e.Name, DueAt: at.At}] {
					x := Explanation{Record: Record{Occurrence: task.Occurrence{Job: name, Entry: e.Name, DueAt: at.At}}, Unrecorded: true}
					x.Why = p.untold(name, e, at)
					list = append(list, x)
				}
				at, err = next(e, at.At)
			}
			if err != nil {
				broken = append(broken, Explanation{Record: Record{Occurrence: task.Occurrence{Job: name, Entry: e.Name}}, Unrecorded: true,
					Why: fmt.Sprintf("the schedule %s cannot tell what is due: %v", e.Name, err)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Explanation) int { return a.DueAt.Compare(b.DueAt) })
	if list = append(list, broken...); len(list) == 0 {
		list = append(list, Explanation{Record: Record{Occurrence: task.Occurrence{Job: name}}, Unrecorded: true, Why: nothingDue(job, name, from, to)})
	}
	return list
}

// told says what became of a due time that is on record.
func (r Record) told(job *jobs.Job) string {
	why := r.Reason
	if why != "" {
		why = " (" + why + ")"
	}
	var s string
	switch r.Outcome {
	case task.DueRan:
		s = "ran at its time" + why
	case task.DueCaughtUp:
		s = "ran late, at " + r.RecordedAt.UTC().Format(time.RFC3339) + why
	case task.DueWaiting:
		s = "its run is made and waits" + why
	case task.DueRepeated:
		s = "made no run of its own" + why
	case task.DueSkipped:
		return "was skipped: " + r.Reason + r.gone(job)
	case task.DueMissed:
		return "was missed: it " + r.Reason + r.gone(job)
	default:
		s = string(r.Outcome) + why
	}
	switch {
	case r.RunID == "":
	case r.RepeatedOf != "":
		s += "; run " + r.RunID + " found nothing new and repeats run " + r.RepeatedOf
	case r.RunStatus == "":
		s += "; retention has dropped run " + r.RunID
	default:
		s += "; run " + r.RunID + " is " + string(r.RunStatus)
	}
	return s + r.gone(job)
}

// gone notes that the job has the entry no more.
func (r Record) gone(job *jobs.Job) string {
	if job == nil || slices.ContainsFunc(job.Schedule, func(e jobs.Entry) bool { return e.Name == r.Entry }) {
		return ""
	}
	return "; the job file has this line of the schedule no more"
}

// untold says why there is no record of a due time.
func (p Past) untold(job string, e jobs.Entry, at calendar.Due) string {
	known, followed := p.Entries[e.Name]
	if at.At.After(p.Now) {
		return p.ahead(job, e, at)
	}
	backfill := fmt.Sprintf("madeira backfill %s --from %[2]s --to %[2]s --yes makes it", job, at.At.UTC().Format(time.RFC3339))
	switch {
	case at.Skipped != "" && (!followed || !at.At.After(known.Watermark)):
		return "would have been skipped: " + at.Skipped
	case !followed:
		return "no scheduler has followed this line of the schedule so far: start madeira serve, or " + backfill
	case known.Problem != "":
		return "the schedule cannot be followed: " + known.Problem
	case at.At.After(known.Watermark):
		return fmt.Sprintf("came due %s ago and is not on record: no scheduler has come to it since %s; the next one decides by catchup: %s",
			round(p.Now.Sub(at.At)), known.Watermark.UTC().Format(time.RFC3339), e.Catchup)
	case !known.KnownSince.IsZero() && !at.At.After(known.KnownSince):
		return fmt.Sprintf("came due before this line of the schedule was followed, which began at %s; %s", known.KnownSince.UTC().Format(time.RFC3339), backfill)
	}
	return "came due before this line of the schedule was followed, or its record was removed; " + backfill
}

// ahead says what will become of a due time that is to come.
func (p Past) ahead(job string, e jobs.Entry, at calendar.Due) string {
	s := "due in " + round(at.At.Sub(p.Now))
	if at.Skipped != "" {
		return s + ", and will be skipped: " + at.Skipped
	}
	if at.Note != "" {
		s += "; " + at.Note
	}
	if offset := Offset(job, e); offset > 0 {
		s += fmt.Sprintf("; jitter lets its run begin %s later", round(offset))
	}
	for _, pause := range p.Pauses {
		if pause.Until.IsZero() {
			return s + "; it will be skipped unless somebody resumes the job before: " + Paused(pause)
		}
	}
	if known, ok := p.Entries[e.Name]; ok && known.Problem != "" {
		return s + "; the schedule cannot be followed: " + known.Problem
	}
	if _, ok := p.Entries[e.Name]; !ok {
		s += "; no scheduler has followed this line of the schedule so far"
	}
	return s
}

// nothingDue says what is due around a time without due times.
func nothingDue(job *jobs.Job, name string, from, to time.Time) string {
	if job == nil {
		return "nothing is on record of " + name + " then, and there is no file of this job here that could tell more"
	}
	if len(job.Schedule) == 0 {
		return name + " has no schedule: it runs when somebody asks for it"
	}
	var before, after time.Time
	for _, e := range job.Schedule {
		if at := last(e, Span{After: from.AddDate(-2, 0, 0), UpTo: from.Add(-time.Nanosecond)}, 1); at.After(before) {
			before = at
		}
		if at, err := next(e, to); err == nil && !at.IsZero() && (after.IsZero() || at.At.Before(after)) {
			after = at.At
		}
	}
	s := append([]string{name + " has no due time then"}, rolled(job, from)...)
	if !before.IsZero() {
		s = append(s, "the one before is "+before.In(job.Location).Format("Mon 2006-01-02 15:04 -07:00"))
	}
	if !after.IsZero() {
		s = append(s, "the next is "+after.In(job.Location).Format("Mon 2006-01-02 15:04 -07:00"))
	}
	return strings.Join(s, "; ")
}

// rolled says to which due times the day of an instant was moved.
func rolled(job *jobs.Job, at time.Time) (list []string) {
	for _, e := range job.Schedule {
		t, ok := e.Schedule.(interface {
			RolledTo(day calendar.Date) (to calendar.Date, why string, moved bool)
		})
		if !ok {
			continue
		}
		to, why, moved := t.RolledTo(calendar.DateOf(at, job.Location))
		if !moved {
			continue
		}
		day := time.Date(to.Year, to.Month, to.Day, 0, 0, 0, 0, job.Location)
		if due, err := next(e, day.Add(-time.Nanosecond)); err == nil && !due.IsZero() {
			list = append(list, why+", so it is rolled to "+due.At.In(job.Location).Format("Mon 2006-01-02 15:04 -07:00"))
		}
	}
	return list
}

// round writes a duration as people say it: "3h12m", "2d4h", "45s".
func round(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Minute:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	default:
		return d.Round(time.Second).String()
	}
}
