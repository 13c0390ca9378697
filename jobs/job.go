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
	Commit      string // of git that the file was read from; "" when it was not

	Location    *time.Location // UTC when the file names no zone
	Period      *calendar.Rule // nil: the job has no period
	Schedule    []Entry
	Key         string      // upstream_key with its expressions, checked; "": each run is its own
	Inputs      []InputDecl // in the order of the file
	Priority    int         // smaller runs first; 100 when not given
	Connections []string
	Timeout     time.Duration   // of a run, from its first claim; 0: none
	Overlap     Overlap         // what becomes of a due time while a run of the job is live
	Concurrency *Concurrency    // runs at once under a key, of all jobs; nil: no limit
	Steps       []Step          // in the order of the file
	OnFailure   []Step          // run when one of Steps failed
	Finally     []Step          // run at the end, whatever happened
	Outputs     json.RawMessage // object of what a calling job sees, expressions in their frozen form; nil: nothing
}

// Overlap says what becomes of a due time while a run of the job is live.
type Overlap string

// The ways.
const (
	OverlapQueue Overlap = "queue" // its run waits until the live one is over; the default
	OverlapSkip  Overlap = "skip"  // it is recorded as skipped
	OverlapAllow Overlap = "allow" // both run
)

// An Entry is one line of a schedule.
type Entry struct {
	Name     string // such as the cron expression and the zone: its identity in occurrence rows
	Schedule Schedule
	Catchup  Catchup
	Window   time.Duration // how late a due time may still be caught up; 0: any
	Jitter   time.Duration // runs begin later by a part of it that is always the same for the job; 0: none
}

// A Schedule yields due times.
type Schedule interface {
	// Next returns the first one after t; its zero value means that there is none. An
	// error says that a calendar cannot tell, such as a year that it has no data of.
	Next(t time.Time) (calendar.Due, error)
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
	EachIf  string          // the same for each element of a for_each, where it refers to each; If is "" then
	Retry   Retry
	Timeout time.Duration // 0: none

	Priority    *int         // smaller runs first; nil: that of the job
	Concurrency *Concurrency // nil: none
	RateLimit   *RateLimit   // nil: none
	Connection  string       // that its settings name; "" for none and for state

	ContinueOnError bool            // its failure is a warning, and what needs it goes on
	ForEach         json.RawMessage // a list, an object or a text with one expression, in its frozen form; nil: one task
	MaxParallel     int             // elements at once; 0: no limit of its own
	Call            *Call           // of uses: job; nil for others

	Line   int // where the step begins in the file
	Column int
}

// A Call is a step that runs another job. Expressions are in their frozen form.
type Call struct {
	Job    *Job            // checked
	Inputs json.RawMessage // object; nil: the defaults of that job
	Key    string          // "": the job's own upstream_key
}

// Retry is how a step is tried again; zero fields mean the engine's defaults.
type Retry struct {
	RetryOn     []string // codes or classes of errors that are tried again; nil: all that may be
	NoRetryOn   []string // that are not
	MaxAttempts int
	Delay       time.Duration
	Factor      float64
	MaxDelay    time.Duration
}
