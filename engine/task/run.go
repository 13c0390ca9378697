package task

import (
	"encoding/json"
	"time"
)

// A Run is the row of one job for one key in one version.
type Run struct {
	ID          string // UUIDv7
	Job         string
	JobDigest   string
	Key         string // "" when the job makes each run its own
	Version     int    // 0 while its sources are compared, and for a repeated run
	Status      RunStatus
	Trigger     string          // "schedule" or "manual"
	DueAt       time.Time       // the scheduled instant, or the instant it was asked for
	Inputs      json.RawMessage // object
	Period      json.RawMessage // object {start, end, start_at, end_at, label} or nil
	BaseDir     string          // folder of the job file: relative paths start there
	Connections []string        // those the job may use
	Reason      string          // given with --again
	RepeatedOf  string          // UUID of the run that had done it
	CreatedAt   time.Time
	StartedAt   time.Time // zero until a task was claimed
	FinishedAt  time.Time // zero while live
}

// A NewRun is a run to be made, with its tasks.
type NewRun struct {
	Run        Run  // ID, Version, Status and times are the store's
	Again      bool // a new version without comparing, for Run.Reason
	Tasks      []NewTask
	Occurrence *Occurrence // the due time that makes it, or nil
	Job        JobVersion
}

// A NewTask is a step, frozen.
type NewTask struct {
	Step      string
	Type      string
	Source    bool
	Settings  json.RawMessage
	Refs      []string
	Condition string
	Needs     []string // steps
	Retry     Retry
	Timeout   time.Duration
	Priority  int
}

// A JobVersion is a checked job as its file stood.
type JobVersion struct {
	Name   string
	Digest string // "sha256:…" of what the job means, not of its comments
	Path   string
	Source []byte // the YAML
}

// An Occurrence is one due time of one schedule entry.
type Occurrence struct {
	Job     string
	Entry   string // the cron expression and its zone
	DueAt   time.Time
	Outcome DueOutcome
	Reason  string
	RunID   string
}

// DueOutcome says what became of a due time.
type DueOutcome string

// What can become of a due time.
const (
	DueRan      DueOutcome = "ran"       // on time
	DueCaughtUp DueOutcome = "caught_up" // after its time, within the window
	DueSkipped  DueOutcome = "skipped"   // on purpose; the reason says which
	DueRepeated DueOutcome = "repeated"  // its key was live or done
	DueMissed   DueOutcome = "missed"    // outside the window
)

// A Created run answers a NewRun.
type Created struct {
	Run      Run
	Existing bool // the key is live: this is the run that holds it
}
