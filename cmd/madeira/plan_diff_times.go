package main

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"madeira/jobs"
	"madeira/jobs/calendar"
)

// maxCompared bounds how many due times of one entry are compared.
const maxCompared = 200_000

// dueTimes are the due times of an entry that make a run, the others with their
// reasons, and up to where this is known, that instant included.
type dueTimes struct {
	entry   string
	at      []time.Time
	skipped map[int64]string // by Unix time
	until   time.Time
	reason  string // why until is not the end; "": it is
	no      bool   // it is not the end because a calendar has no data
}

func listDue(e jobs.Entry, loc *time.Location, s span) dueTimes {
	d := dueTimes{entry: e.Name, skipped: map[int64]string{}, until: s.until}
	at := s.from
	for range maxCompared {
		due, err := e.Schedule.Next(at.In(loc))
		if err != nil {
			var missing *calendar.YearError
			d.until, d.reason, d.no = at, err.Error(), errors.As(err, &missing)
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
	d.until, d.reason = at, "there are too many due times to compare them all; an earlier --until ends before them"
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
	var lost, fresh, lostLater, freshLater []dueDiff
	reasons := map[int64]string{}
	differ := was != nil && now != nil && identitiesDiffer(was, now)
	for _, pair := range pairEntries(before, after) {
		if s.sameCalendars && !differ && pair[0] != nil && pair[1] != nil && pair[0].Name == pair[1].Name {
			continue
		}
		var old, new dueTimes
		until, reason := s.until, ""
		if pair[0] != nil {
			old = listDue(*pair[0], was.Location, s)
			until, reason = old.until, old.reason
		}
		if pair[1] != nil {
			new = listDue(*pair[1], now.Location, s)
			if reason == "" || new.reason != "" && !new.until.After(until) {
				until, reason = new.until, new.reason
			}
		}
		limit := limitDiff{until.UTC(), reason}
		if told, ok := toldNow(old, new); ok {
			d.Told = append(d.Told, told)
			limit = limitDiff{new.until.UTC(), new.reason}
		}
		if limit.Reason != "" {
			d.Limits = append(d.Limits, limit)
		}
		if old.entry != new.entry && was != nil && now != nil {
			d.Entries = append(d.Entries, entryDiff{old.entry, new.entry})
		}
		maps.Copy(reasons, new.skipped)
		known, later := missing(old, new, was, until)
		lost, lostLater = append(lost, known...), append(lostLater, later...)
		known, later = missing(new, old, now, until)
		fresh, freshLater = append(fresh, known...), append(freshLater, later...)
		if differ {
			d.compareIdentity(old, new, was, now)
		}
	}
	d.match(slices.Concat(lost, lostLater), slices.Concat(fresh, freshLater), reasons, was, now)
	slices.SortStableFunc(d.Due, func(a, b moveDiff) int { return a.at.Compare(b.at) })
}

// toldNow returns what is told of one and the same entry now and was not before: its
// calendars have got more data. Up to where both are known they are compared.
func toldNow(old, new dueTimes) (toldDiff, bool) {
	if old.entry == "" || old.entry != new.entry || !old.no || !new.until.After(old.until) {
		return toldDiff{}, false
	}
	t := toldDiff{Entry: new.entry, After: old.until.UTC(), Until: new.until.UTC()}
	for _, at := range new.at {
		if at.After(old.until) {
			t.Count++
		}
	}
	return t, true
}

// missing returns the due times of one side that the other does not have, and
// those that it may have for all that is known: they are later than until.
func missing(of, in dueTimes, job *jobs.Job, until time.Time) (known, later []dueDiff) {
	there := map[int64]bool{}
	for _, at := range in.at {
		there[at.Unix()] = true
	}
	for _, at := range of.at {
		switch {
		case there[at.Unix()]:
		case at.After(until):
			v := describeDue(of.entry, at, job)
			v.unsure = true
			later = append(later, v)
		default:
			known = append(known, describeDue(of.entry, at, job))
		}
	}
	return known, later
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
// What is not sure to be lost or new can only be where a sure one moves from or to.
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
			if i > 0 && (!v.unsure || !to.unsure) {
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
	unsure := func(v dueDiff) bool { return v.unsure }
	for _, v := range slices.DeleteFunc(lost, unsure) {
		d.Due = append(d.Due, moveDiff{What: "lost", Was: &v, Reason: reasons[v.DueAt.Unix()], at: v.DueAt})
	}
	for _, v := range slices.DeleteFunc(fresh, unsure) {
		d.Due = append(d.Due, moveDiff{What: "new", Now: &v, at: v.DueAt})
	}
}

// firstLimit returns the earliest of the limits; there is one.
func (d *jobDiff) firstLimit() limitDiff {
	return slices.MinFunc(d.Limits, func(a, b limitDiff) int { return a.Until.Compare(b.Until) })
}
