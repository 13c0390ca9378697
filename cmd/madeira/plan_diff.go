package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"

	"madeira/jobs"
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
	Told      []toldDiff  `json:"told_now,omitempty"`
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

// A limitDiff says that due times could be compared up to an instant only, it included.
type limitDiff struct {
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// A toldDiff says that due times of one entry are told now that could not be told
// before, because its calendars had no data: nobody has had others.
type toldDiff struct {
	Entry string    `json:"entry"`
	After time.Time `json:"after"`
	Until time.Time `json:"until"`
	Count int       `json:"count"`
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
	unsure bool      // the other side does not know what is due then
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

// differs reports whether there is anything to say.
func (d *jobDiff) differs() bool {
	return d.What != "" || len(d.Steps) > 0 || len(d.Settings) > 0 || len(d.Due) > 0 || len(d.Entries) > 0 || len(d.Limits) > 0 || len(d.Told) > 0
}
