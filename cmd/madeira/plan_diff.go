package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"

	"madeira/jobs"
	"madeira/jobs/calendar"
)

// A jobDiff is what became of one job from one version of the files to another.
type jobDiff struct {
	Job       string      `json:"job"`
	File      string      `json:"file"`
	What      string      `json:"what"` // new, gone, changed, broken, or "" when only its due times differ
	DigestWas string      `json:"digest_was"`
	Digest    string      `json:"digest"`
	Steps     []stepDiff  `json:"steps"`
	Settings  []string    `json:"settings"`    // keys of the job that mean another thing
	Due       []moveDiff  `json:"occurrences"` // by time
	Limits    []limitDiff `json:"compared_until"`
	Entries   []entryDiff `json:"schedule"`
}

// A stepDiff is a step that is new, gone or changed.
type stepDiff struct {
	Step string `json:"step"`
	What string `json:"what"`
}

// An entryDiff is a line of the schedule that became another; "" is none.
type entryDiff struct {
	Was string `json:"was"`
	Now string `json:"now"`
}

// A limitDiff says that due times could be compared up to an instant only.
type limitDiff struct {
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// A moveDiff is a due time that changes.
type moveDiff struct {
	What   string    `json:"what"` // lost, new, moved or changed
	Was    *dueDiff  `json:"was"`
	Now    *dueDiff  `json:"now"`
	Reason string    `json:"reason"` // why it is lost, where a calendar says so
	at     time.Time // by which it is sorted
}

// A dueDiff is a due time on one side.
type dueDiff struct {
	Entry  string    `json:"entry"`
	DueAt  time.Time `json:"due_at"`
	Local  string    `json:"local"`
	Period string    `json:"period"`
	Key    string    `json:"upstream_key"`
}

// A span is from when until when due times are compared.
type span struct {
	from, until   time.Time
	sameCalendars bool // both sides have the same: entries of one name are due at the same times
}

// compareJob says what changes between two versions of a job, one of which may be
// nil.
func compareJob(was, now *jobs.Job, s span) jobDiff {
	d := jobDiff{Steps: []stepDiff{}, Settings: []string{}, Due: []moveDiff{}, Limits: []limitDiff{}, Entries: []entryDiff{}}
	switch {
	case was == nil:
		d.Job, d.File, d.What, d.Digest = now.Name, now.Path, "new", now.Digest
	case now == nil:
		d.Job, d.File, d.What, d.DigestWas = was.Name, was.Path, "gone", was.Digest
	default:
		d.Job, d.File, d.Digest, d.DigestWas = now.Name, now.Path, now.Digest, was.Digest
		d.Steps, d.Settings = compareSteps(was, now), compareSettings(was, now)
		if was.Digest != now.Digest {
			d.What = "changed"
		}
	}
	d.compareTimes(was, now, s)
	return d
}

func compareSteps(was, now *jobs.Job) []stepDiff {
	old, fresh := stepTexts(was), stepTexts(now)
	list := []stepDiff{}
	for _, id := range slices.Sorted(maps.Keys(fresh)) {
		switch before, there := old[id]; {
		case !there:
			list = append(list, stepDiff{id, "new"})
		case !bytes.Equal(before, fresh[id]):
			list = append(list, stepDiff{id, "changed"})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(old)) {
		if _, there := fresh[id]; !there {
			list = append(list, stepDiff{id, "gone"})
		}
	}
	return list
}

// stepTexts are the steps by id, in a form that can be compared. Of a called job
// counts what it does.
func stepTexts(job *jobs.Job) map[string][]byte {
	texts := map[string][]byte{}
	for phase, steps := range map[string][]jobs.Step{"": job.Steps, "on_failure": job.OnFailure, "finally": job.Finally} {
		for _, s := range steps {
			call := ""
			if s.Call != nil && s.Call.Job != nil {
				called := *s.Call
				call, called.Job = called.Job.Digest, nil
				s.Call = &called
			}
			s.Line, s.Column = 0, 0
			texts[s.ID], _ = json.Marshal([]any{phase, call, s}) // plain values, all of them
		}
	}
	return texts
}

// compareSettings names the keys of a job, other than its steps, that mean another
// thing.
func compareSettings(was, now *jobs.Job) []string {
	list := []string{}
	for _, c := range []struct {
		key  string
		same bool
	}{
		{"timezone", was.Location.String() == now.Location.String()},
		{"period", reflect.DeepEqual(was.Period, now.Period)},
		{"upstream_key", was.Key == now.Key},
		{"inputs", reflect.DeepEqual(was.Inputs, now.Inputs)},
		{"overlap", was.Overlap == now.Overlap},
		{"concurrency", reflect.DeepEqual(was.Concurrency, now.Concurrency)},
		{"connections", slices.Equal(was.Connections, now.Connections)},
		{"timeout", was.Timeout == now.Timeout},
		{"priority", was.Priority == now.Priority},
		{"outputs", bytes.Equal(was.Outputs, now.Outputs)},
		{"catchup", slices.Equal(policies(was), policies(now))},
	} {
		if !c.same {
			list = append(list, c.key)
		}
	}
	return list
}

// policies are what the entries say beside their times.
func policies(job *jobs.Job) []string {
	list := make([]string, len(job.Schedule))
	for i, e := range job.Schedule {
		list[i] = string(e.Catchup) + " " + e.Window.String() + " " + e.Jitter.String()
	}
	return list
}

// maxCompared bounds how many due times of one entry are compared.
const maxCompared = 200_000

// dueTimes are the due times of an entry that make a run, the others with their
// reasons, and up to where this is known.
type dueTimes struct {
	entry   string
	at      []time.Time
	skipped map[int64]string // by Unix time
	until   time.Time
	reason  string // why until is not the end; "": it is
}

func listDue(e jobs.Entry, loc *time.Location, s span) dueTimes {
	d := dueTimes{entry: e.Name, skipped: map[int64]string{}, until: s.until}
	at := s.from
	for range maxCompared {
		due, err := e.Schedule.Next(at.In(loc))
		if err != nil {
			d.until, d.reason = at, err.Error()
			return d
		}
		if due.IsZero() || !due.At.Before(s.until) {
			return d
		}
		if at = due.At.UTC(); due.Skipped != "" {
			d.skipped[at.Unix()] = due.Skipped
		} else {
			d.at = append(d.at, at)
		}
	}
	d.until, d.reason = at, "there are too many due times to compare them all"
	return d
}

// pairEntries puts the entries of two versions together: those of one name, then
// the rest in their order.
func pairEntries(was, now []jobs.Entry) (pairs [][2]*jobs.Entry) {
	byName := map[string]*jobs.Entry{}
	for i := range now {
		byName[now[i].Name] = &now[i]
	}
	var rest []*jobs.Entry
	taken := map[string]bool{}
	for i := range was {
		if n := byName[was[i].Name]; n != nil {
			pairs, taken[n.Name] = append(pairs, [2]*jobs.Entry{&was[i], n}), true
			continue
		}
		rest = append(rest, &was[i])
	}
	for i := range now {
		if taken[now[i].Name] {
			continue
		}
		pair := [2]*jobs.Entry{nil, &now[i]}
		if len(rest) > 0 {
			pair[0], rest = rest[0], rest[1:]
		}
		pairs = append(pairs, pair)
	}
	for _, e := range rest {
		pairs = append(pairs, [2]*jobs.Entry{e, nil})
	}
	return pairs
}

// compareTimes finds what is lost, new, moved and changed of two versions of a job.
func (d *jobDiff) compareTimes(was, now *jobs.Job, s span) {
	var before, after []jobs.Entry
	if was != nil {
		before = was.Schedule
	}
	if now != nil {
		after = now.Schedule
	}
	var lost, fresh []dueDiff
	reasons := map[int64]string{}
	differ := was != nil && now != nil && identitiesDiffer(was, now)
	for _, pair := range pairEntries(before, after) {
		if s.sameCalendars && !differ && pair[0] != nil && pair[1] != nil && pair[0].Name == pair[1].Name {
			continue
		}
		var old, new dueTimes
		compared := s
		if pair[0] != nil {
			old = listDue(*pair[0], was.Location, s)
			compared.until = earlier(compared.until, old.until)
		}
		if pair[1] != nil {
			new = listDue(*pair[1], now.Location, s)
			compared.until = earlier(compared.until, new.until)
		}
		if reason := cmp.Or(new.reason, old.reason); reason != "" {
			d.Limits = append(d.Limits, limitDiff{compared.until.UTC(), reason})
		}
		if old.entry != new.entry && was != nil && now != nil {
			d.Entries = append(d.Entries, entryDiff{old.entry, new.entry})
		}
		maps.Copy(reasons, new.skipped)
		lost = append(lost, missing(old, new, was, compared.until)...)
		fresh = append(fresh, missing(new, old, now, compared.until)...)
		if differ {
			d.compareIdentity(old, new, was, now)
		}
	}
	d.match(lost, fresh, reasons, was, now)
	slices.SortStableFunc(d.Due, func(a, b moveDiff) int { return a.at.Compare(b.at) })
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// missing returns the due times of one side that the other does not have.
func missing(of, in dueTimes, job *jobs.Job, until time.Time) (list []dueDiff) {
	there := map[int64]bool{}
	for _, at := range in.at {
		there[at.Unix()] = true
	}
	for _, at := range of.at {
		if !there[at.Unix()] && at.Before(until) {
			list = append(list, describeDue(of.entry, at, job))
		}
	}
	return list
}

func describeDue(entry string, at time.Time, job *jobs.Job) dueDiff {
	v := dueDiff{Entry: entry, DueAt: at.UTC(), Local: local(at, job.Location)}
	v.Period, v.Key, _ = identity(job, nil, at) // one that cannot be told is ""
	if v.Period == "" && job.Period != nil {
		if p, err := job.Period.At(at, job.Location); err == nil {
			v.Period = p.Label
		}
	}
	return v
}

// identitiesDiffer reports whether the same due time may be for another period or key.
func identitiesDiffer(was, now *jobs.Job) bool {
	return was.Key != now.Key || !reflect.DeepEqual(was.Period, now.Period) || !reflect.DeepEqual(was.Inputs, now.Inputs) ||
		(was.Period != nil && was.Location.String() != now.Location.String())
}

// compareIdentity notes due times of both sides that are for another period or key.
func (d *jobDiff) compareIdentity(old, new dueTimes, was, now *jobs.Job) {
	there := map[int64]bool{}
	for _, at := range new.at {
		there[at.Unix()] = true
	}
	for _, at := range old.at {
		if !there[at.Unix()] {
			continue
		}
		a, b := describeDue(old.entry, at, was), describeDue(new.entry, at, now)
		if a.Period != b.Period || a.Key != b.Key {
			d.Due = append(d.Due, moveDiff{What: "changed", Was: &a, Now: &b, at: at})
		}
	}
}

// match makes moves of what is lost and what is new: on the same local day, else in
// the same period, or the same month of a job without one that is longer than a day.
func (d *jobDiff) match(lost, fresh []dueDiff, reasons map[int64]string, was, now *jobs.Job) {
	groups := []func(dueDiff, *jobs.Job) string{
		func(v dueDiff, _ *jobs.Job) string { return v.DueAt.String() }, // it went from one entry to another
		func(v dueDiff, j *jobs.Job) string { return v.DueAt.In(j.Location).Format(time.DateOnly) },
		func(v dueDiff, j *jobs.Job) string {
			if j.Period != nil && j.Period.Every != calendar.Day && v.Period != "" {
				return v.Period
			}
			return v.DueAt.In(j.Location).Format("2006-01")
		},
	}
	for i, group := range groups {
		waiting := map[string][]int{}
		for n, v := range fresh {
			key := group(v, now)
			waiting[key] = append(waiting[key], n)
		}
		taken := map[int]bool{}
		var left []dueDiff
		for _, v := range lost {
			key := group(v, was)
			if len(waiting[key]) == 0 {
				left = append(left, v)
				continue
			}
			to := fresh[waiting[key][0]]
			taken[waiting[key][0]], waiting[key] = true, waiting[key][1:]
			if i > 0 {
				d.Due = append(d.Due, moveDiff{What: "moved", Was: &v, Now: &to, at: v.DueAt})
			}
		}
		lost = left
		var open []dueDiff
		for n, v := range fresh {
			if !taken[n] {
				open = append(open, v)
			}
		}
		fresh = open
	}
	for _, v := range lost {
		d.Due = append(d.Due, moveDiff{What: "lost", Was: &v, Reason: reasons[v.DueAt.Unix()], at: v.DueAt})
	}
	for _, v := range fresh {
		d.Due = append(d.Due, moveDiff{What: "new", Now: &v, at: v.DueAt})
	}
}

// differs reports whether there is anything to say.
func (d *jobDiff) differs() bool {
	return d.What != "" || len(d.Steps) > 0 || len(d.Settings) > 0 || len(d.Due) > 0 || len(d.Entries) > 0 || len(d.Limits) > 0
}
