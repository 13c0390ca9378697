package task

import (
	"encoding/json"
	"time"
)

// Internal types of tasks, which no job file can name.
const (
	// TypeCompare is the task that a run without a version gets: it compares the
	// digests of the sources with those of the last version that ended well.
	TypeCompare = "compare"
	// TypeJob is the task that starts another run and waits for it.
	TypeJob = "job"
	// TypeDeliver is the task that a message becomes.
	TypeDeliver = "deliver"
)

// A Hold names one claim of one task; every write to a claimed task carries it.
type Hold struct {
	TaskID int64
	Fence  int64
}

// A Lease is what keeps others from a task while a worker is at it. A worker that
// lives renews it before it runs out.
type Lease struct {
	Step    string // "" for a task that is not a step of its run
	Element string
	Type    string
	Host    string // of the worker; "" where nothing is known of it any more
	PID     int
	Until   time.Time
}

// A Claimed task is what a worker gets: enough to run it, but for the values its
// expressions refer to, which Scope holds.
type Claimed struct {
	Hold
	RunID    string // UUID; "" for a task enqueued alone
	Step     string // "" for a task that is not a step of its run, such as a delivery
	Element  string
	Type     string
	Key      string          // upstream_key of a task enqueued alone
	Settings json.RawMessage // with expressions not yet replaced
	Refs     []string        // steps whose outputs the settings refer to
	NeedsRun bool            // the settings refer to run, period, inputs or schedule; always true for steps
	Attempt  int             // counted from 1, this one included
	Crashes  int             // attempts that ended with their worker
	Retry    Retry
	Timeout  time.Duration // 0: none
	Priority int

	Run             *Run            // its run as of the claim; nil: for Scope to say
	Each            json.RawMessage // of an element of a for_each: {key, value, index}; nil for others
	ForEach         json.RawMessage // of the row that expands and later joins; nil for others
	MaxParallel     int             // elements at once; 0: no limit of its own
	ContinueOnError bool
	Limited         bool   // it holds slots, which its outcome gives back
	Circuit         string // the downstream it speaks with, of which its outcome tells; "" for none
	Woken           string // why it left waiting, a Wake; "" when it has not waited

	At    time.Time     // the claim, by the database's clock
	Lease time.Duration // how long the claim holds without a heartbeat, from At
}

// A Scope is what expressions of a run's tasks can refer to.
type Scope struct {
	Phase   Phase // of the run
	Run     Run
	Steps   map[string]StepResult // the steps asked for
	Failure *RunFailure           // what on_failure and finally see; nil in main, or when nothing failed
	Problem string                // why Steps is not there and never will be; "" where it is
	Earlier map[string]json.RawMessage
	// Earlier holds the outputs of the same step in the last version of the key that ended well; nil where there is none.
	ByHand []Correction // what people have set for the run of a step, the last first
}

// A RunFailure is the first step of main that failed.
type RunFailure struct {
	Step     string
	Error    string
	Attempts int
}

// A StepResult is how a step of the run has ended, or stands.
type StepResult struct {
	State   State
	Reason  string
	Warning string
	Outputs json.RawMessage // a JSON object, or nil; of a step with for_each a list of them
	Error   string
	Excused bool // it failed and what comes after it goes on as if it had not: continue_on_error
}

// An Outcome is how an attempt ended, to be written under its fence.
type Outcome struct {
	Hold
	To        State         // Success, Error, Pending (try again), Waiting, Cancelled
	Reason    string        // of a move to pending: "retry", "released", "infrastructure"; of an error its class
	Unspent   bool          // the attempt does not count
	Delay     time.Duration // of a move to pending: how long from now, by the database's clock; of one to waiting: when it expires, 0 never
	Alone     bool          // the task belongs to no run: nothing waits for it. False where that is not known
	Topmost   bool          // no task waits for its run. False where that is not known
	Ungated   bool          // it holds no slots and speaks with no downstream. False where that is not known
	Limited   bool          // as in Claimed
	Circuit   string        // as in Claimed
	Outputs   json.RawMessage
	Digest    string // of a source
	Warning   string
	Failure   *Failure
	Messages  []Message
	Artifacts []Artifact
	StartedAt time.Duration // from Claimed.At to the call of Run
	Took      time.Duration // of Run, on the worker's monotonic clock
}

// A Failure is why an attempt ended badly.
type Failure struct {
	Class   Class  `json:"class"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
}

// A Class of failures decides what happens next.
type Class string

// The classes.
const (
	PermanentFailure      Class = "permanent"      // not tried again
	TransientFailure      Class = "transient"      // tried again with full jitter
	InfrastructureFailure Class = "infrastructure" // tried again, no attempt spent
	PoisonFailure         Class = "poison"         // its worker died three times
	TimeoutFailure        Class = "timeout"        // tried again like a transient one
)

// A Message to deliver under a key of its own.
type Message struct {
	Key      string // run key, version, step, element, channel, template
	Channel  string
	Template string
	Payload  json.RawMessage
}

// An Artifact records that a task left a file or dataset.
type Artifact struct {
	Kind   string // "file" or "dataset"
	Name   string
	Digest string
	Size   int64
	Rows   int64  // of a dataset
	Origin string // of a fetched file
}

// A Beat is what came of a heartbeat for the holds whose leases it did not just
// extend. The zero value says that it extended all of them.
type Beat struct {
	Lost    []Hold // of another attempt or over
	Stopped []Hold // still ours, but their run was stopped: they have to end
	Skipped []Hold // not extended, because somebody is writing them: ask again
}

// A Want says what a worker would take.
type Want struct {
	N      int      // free slots; 0 claims nothing
	Types  []string // step types it knows
	RunID  string   // only tasks of this run and its deliveries; "" for any
	Kin    []string // and of these runs, which it started; none without RunID
	Oldest int      // how many of N go to the tasks that wait longest, whatever their priority

	Heavy       int      // free slots for tasks of HeavyTypes, beside N
	HeavyTypes  []string // step types it knows that take a processor or much memory
	HeavyOldest int      // how many of Heavy go to the tasks that wait longest
	Lease       time.Duration

	// Next and HeavyNext are how many of what the outcomes of the same call ready may be
	// claimed with them, of Types and HeavyTypes, whatever their priority: for a worker
	// that has just found nothing else to claim. Where they are given, N and Heavy are 0.
	Next      int
	HeavyNext int
}

// Any reports whether a call may claim anything.
func (w Want) Any() bool { return w.N > 0 || w.Heavy > 0 || w.Next > 0 || w.HeavyNext > 0 }

// Looking asks for the same slots by a look for whatever can be claimed.
func (w Want) Looking() Want {
	w.N, w.Heavy, w.Next, w.HeavyNext = w.N+w.Next, w.Heavy+w.HeavyNext, 0, 0
	return w
}

// Parts returns the claims that make up a Want: one for each kind of slot that is
// free, or none.
func (w Want) Parts() []Want {
	var parts []Want
	if w.N > 0 && len(w.Types) > 0 {
		parts = append(parts, Want{N: w.N, Types: w.Types, RunID: w.RunID, Kin: w.Kin, Lease: w.Lease, Oldest: w.Oldest})
	}
	if w.Heavy > 0 && len(w.HeavyTypes) > 0 {
		parts = append(parts, Want{N: w.Heavy, Types: w.HeavyTypes, RunID: w.RunID, Kin: w.Kin, Lease: w.Lease, Oldest: w.HeavyOldest})
	}
	return parts
}

// An Exchange is the answer to outcomes handed in and slots offered.
type Exchange struct {
	Lost      []Hold    // outcomes that were dropped: another attempt owns the task
	Claimed   []Claimed // in order of priority, then age
	Undecided bool      // some blocked task waits for Decide, or a run for its next phase
	Readied   int       // tasks that became claimable, those in Claimed included
	Held      bool      // a task became due that a limit holds
}

// An Undecided task is blocked, everything it needs has ended, and the store
// cannot say alone what follows: it has a condition, or something failed.
type Undecided struct {
	TaskID    int64
	RunID     string
	Step      string
	Phase     Phase
	Each      json.RawMessage // of an element of a for_each; nil for others
	Condition string          // a bare expression; "" for success()
	Needs     map[string]StepResult
	Scope     Scope
}

// A Decision is what Undecided becomes: Pending or Skipped.
type Decision struct {
	TaskID int64
	To     State
	Reason string // "condition", "needs_failed", "condition_error"
	Detail string // for people: the expression, the step that failed
}

// Reasons of moves and of rows that did not run.
const (
	ReasonRetry          = "retry"
	ReasonReleased       = "released"
	ReasonInfrastructure = "infrastructure"
	ReasonLeaseLost      = "lease_lost"
	ReasonPoison         = "poison"
	ReasonCondition      = "condition"    // skipped by its own "if": counts as success for successors
	ReasonNeedsFailed    = "needs_failed" // skipped because something before it failed: counts as failure
	ReasonRepeated       = "repeated"     // cancelled: the sources had not changed
	ReasonCancelled      = "cancelled"    // a person stopped the run
	ReasonRunTimeout     = "run_timeout"  // the run was out of time
	ReasonRedrive        = "redrive"      // a person sent it on again
	ReasonReused         = "reused"       // a rerun took the outputs of an earlier version
	ReasonLeftOut        = "left_out"     // a rerun of another element has no part for it
	ReasonElements       = "elements"     // waiting for the elements of its for_each
	ReasonWait           = "wait"         // waiting for a person or a thing, as its step said
	ReasonChild          = "child"        // waiting for the run it started
)
