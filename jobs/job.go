package jobs

import (
	"encoding/json"
	"time"

	"madeira/jobs/calendar"
)

// A Job is a checked job file: every reference resolves, every expression has
// its type, every default is filled in. Nothing in it is changed afterwards.
type Job struct {
	Name        string
	Description string
	Labels      map[string]string
	Path        string // of the file, as it was given
	Digest      string // "sha256:…" of what a run does: comments, layout, description and schedule do not count
	Source      []byte // the YAML

	Location    *time.Location // UTC when the file names no zone
	Period      *calendar.Rule // nil: the job has no period
	Schedule    []Entry
	Key         string      // upstream_key with its expressions, checked; "": each run is its own
	Inputs      []InputDecl // in the order of the file
	Priority    int         // smaller runs first; 100 when not given
	Connections []string
	Steps       []Step // in the order of the file
}

// An Entry is one line of a schedule.
type Entry struct {
	Name     string // the cron expression and the zone: its identity in occurrence rows
	Schedule Schedule
	Catchup  Catchup
	Window   time.Duration // how late a due time may still be caught up; 0: any
}

// A Schedule yields due times. Next returns the first one after t, in t's
// location, or the zero time when there is none.
type Schedule interface {
	Next(t time.Time) time.Time
}

// Catchup says what happens to due times that passed while nobody looked.
type Catchup string

// The ways to catch up.
const (
	CatchupAll    Catchup = "all"    // every one, oldest first
	CatchupLatest Catchup = "latest" // the last one; earlier ones are recorded as missed
	CatchupNone   Catchup = "none"   // all are recorded as missed
)

// An InputDecl declares one input of a job.
type InputDecl struct {
	Name    string
	Type    string          // "string", "integer", "number", "boolean", "file", …
	Schema  json.RawMessage // JSON Schema the value must meet
	Default json.RawMessage // nil: required
	Doc     string
}

// A Step is one step of a job.
type Step struct {
	ID      string
	Uses    string
	Source  bool            // its type only reads the outside
	With    json.RawMessage // object; expressions stay as text, in the form of expr.Checked.Text
	Refs    []string        // steps whose outputs With or If refer to
	Needs   []string        // steps that must be over before
	If      string          // bare expression, checked; "": success()
	Retry   Retry
	Timeout time.Duration // 0: none

	Priority    *int         // smaller runs first; nil: that of the job
	Concurrency *Concurrency // nil: none
	RateLimit   *RateLimit   // nil: none
	Connection  string       // that its settings name; "" for none and for state

	Line   int // where the step begins in the file
	Column int
}

// Retry is how a step is tried again; zero fields mean the engine's defaults.
type Retry struct {
	MaxAttempts int
	Delay       time.Duration
	Factor      float64
	MaxDelay    time.Duration
}
