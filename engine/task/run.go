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
	JobCommit   string // of git that the job was read from; "" when it was not
	Key         string // "" when the job makes each run its own
	Version     int    // 0 while its sources are compared, and for a repeated run
	Status      RunStatus
	Trigger     string          // "schedule" or "manual"
	DueAt       time.Time       // the scheduled instant, or the instant it was asked for
	Inputs      json.RawMessage `json:",omitempty"` // object
	Period      json.RawMessage `json:",omitempty"` // object {start, end, start_at, end_at, label} or nil
	BaseDir     string          // folder of the job file: relative paths start there
	Connections []string        // those the job may use
	Reason      string          // given with --again
	RepeatedOf  string          // UUID of the run that had done it
	Actor       string          // who asked for it; "" for a schedule
	RerunOf     string          // UUID of the run whose frozen steps and kept outputs it takes; "" for none
	Overrides   json.RawMessage `json:",omitempty"` // what a rerun changed, {step: {setting: value}}; nil for nothing
	ParentTask  int64           // the task that waits for it; 0 for none
	Timeout     time.Duration   // from the first claim; 0: none
	Stopped     string          // "cancelled" or "timeout": nothing but finally runs any more; "" while it may go on

	PreviousPeriod json.RawMessage `json:",omitempty"` // that of the last run of the job, by due time, that ended well; nil: there is none

	CreatedAt  time.Time
	StartedAt  time.Time // zero until a task was claimed
	FinishedAt time.Time // zero while live
}

// A NewRun is a run to be made, with its tasks.
type NewRun struct {
	Run        Run  // ID, Version, Status and times are the store's
	Again      bool // a new version without comparing, for Run.Reason
	Tasks      []NewTask
	Occurrence *Occurrence // the due time that makes it, or nil
	Job        JobVersion

	NotBefore   time.Time // no step begins earlier; zero: at once
	Overlap     Overlap   // of a due time, what becomes of it while a run of the job is live; "" is OverlapAllow
	Concurrency *Limit    // slots for runs at once under a key, one of which it has to get before it begins; nil: none
	Redo        *Redo     `json:",omitempty"` // of a run that a step starts: a rerun asks for it; nil: the key says what becomes of it
}

// Overlap says what becomes of a due time while a run of its job is live that no other run started.
type Overlap string

// The ways.
const (
	OverlapQueue Overlap = "queue" // its run begins when those before it are over
	OverlapSkip  Overlap = "skip"  // it is recorded as skipped, and makes no run
	OverlapAllow Overlap = "allow" // both run
)

// A NewTask is a step, frozen. Steps of on_failure and finally need only steps of
// their own phase.
type NewTask struct {
	Step            string
	Type            string
	Source          bool
	Settings        json.RawMessage `json:",omitempty"`
	Refs            []string
	Condition       string   // of a step with for_each: whether it has elements at all
	Needs           []string // steps
	Retry           Retry
	Timeout         time.Duration
	Priority        int
	Phase           Phase // "" is PhaseMain
	ContinueOnError bool
	ForEach         json.RawMessage `json:",omitempty"` // a list, an object or a text with one expression; nil: one task
	MaxParallel     int             // elements at once; 0: no limit of its own
	EachCondition   string          // of a step with for_each: which elements run; it may refer to each
	Limits          []Limit
	Circuit         string // the downstream it speaks with, with its type in front: "fetch/alipay-sftp"; "" for none
}

// A Phase is a part of a run that begins when the one before is over.
type Phase string

// The phases in their order.
const (
	PhaseMain      Phase = "main"
	PhaseOnFailure Phase = "on_failure" // skipped unless a step of main failed
	PhaseFinally   Phase = "finally"    // always, also after a cancel; a failure here is a warning
)

// A Limit is what a task has to pass before it can be claimed. Either Slots or
// Rate is set.
type Limit struct {
	Key   string  `json:"key"`
	Slots int     `json:"slots,omitempty"` // tasks under the key at once
	Rate  float64 `json:"rate,omitempty"`  // tasks a second
	Burst int     `json:"burst,omitempty"` // tokens the bucket holds; 0: 1
}

// A JobVersion is a checked job as its file stood.
type JobVersion struct {
	Name   string
	Digest string // "sha256:…" of what the job means, not of its comments
	Path   string
	Source []byte // the YAML
	Commit string // of git that the file was read from; "" when it was not
}

// An Occurrence is one due time of one schedule entry.
type Occurrence struct {
	Job     string
	Entry   string // the cron expression and its zone
	DueAt   time.Time
	Outcome DueOutcome
	Reason  string
	RunID   string
	Trigger string // "schedule" or "backfill"; "" is "schedule"

	// Replaces is the run that a backfill has seen on record of the due time, and puts
	// another one in the place of; "": none. It is not kept.
	Replaces string
}

// A Pause keeps a job from beginning anything.
type Pause struct {
	Job    string
	Since  time.Time
	Until  time.Time // zero: it stands
	Actor  string    // who paused it
	Reason string    // "" when none was given
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
	DueWaiting  DueOutcome = "waiting"   // its run is made and waits for its turn; it becomes ran or caught_up
)

// A Created run answers a NewRun.
type Created struct {
	Run      Run        // zero for a due time that makes none
	Existing bool       // the key is live: this is the run that holds it
	Outcome  DueOutcome // of the due time, as recorded; "" when there is none
	Reason   string     // of that outcome
}
