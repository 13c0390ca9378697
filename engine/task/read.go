package task

import (
	"encoding/json"
	"time"
)

// A Task is the row of a task, as people look at it.
type Task struct {
	ID         int64
	RunID      string // "" for a task enqueued alone
	Step       string // "" for a task that is not a step of its run
	Element    string
	Type       string
	Key        string // upstream_key of a task enqueued alone
	State      State
	Reason     string
	Detail     string
	Priority   int
	Needs      []string // steps
	Attempt    int      // attempts spent, a running one included
	Crashes    int
	Fence      int64
	Worker     string // of the last claim
	RunAt      time.Time
	ClaimedAt  time.Time // the last claim; zero when there was none
	FinishedAt time.Time // zero while it is not over
	Took       time.Duration
	// Took is how long the last attempt ran, on its worker's clock; 0 while there is none.
	Outputs json.RawMessage // object, or nil
	Digest  string          // of what a source has read
	Warning string
	Failure *Failure // of the last attempt, without the stack; nil when it did not fail

	Phase    Phase
	ReusedOf int64 // the task of an earlier run whose outputs these are; 0: its own
	Archived bool
}

// A Move is one row of a task's log. ClaimedAt is set when the task went
// through processing on its way from From to To.
type Move struct {
	TaskID    int64
	Seq       int    // counted from 1, without gaps
	Step      string // with its element, as Name has it
	From, To  State
	Attempt   int
	Fence     int64
	Worker    string
	Reason    string
	Detail    string
	Failure   *Failure
	ClaimedAt time.Time
	Took      time.Duration
	At        time.Time
}

// A Kept artifact is what a task of a run left.
type Kept struct {
	Artifact
	TaskID    int64
	Step      string
	CreatedAt time.Time
}

// A Worker is a process that claims tasks.
type Worker struct {
	ID        string // random for each start of a process
	Host      string
	PID       int
	Version   string
	StartedAt time.Time // by the database's clock, as is SeenAt
	SeenAt    time.Time
}

// A DeadLetter is a task in error.
type DeadLetter struct {
	Task
	Job string    // "" for a task enqueued alone
	At  time.Time // since when it is in error
}

// A Redriven says what came of sending dead letters on again.
type Redriven struct {
	Tasks    int       // dead letters that are pending again
	Reopened int       // tasks that had been skipped because of them, and wait for them again
	Last     time.Time // when the last of them is due; zero when there was none
	Refused  []Refusal
}

// A Refusal says why a dead letter was left as it is.
type Refusal struct {
	TaskID int64
	RunID  string
	Why    string
}

// Archived says what went to the archive, or out of it.
type Archived struct {
	Runs int // of which everything is there, or gone
	Lone int // tasks enqueued alone
	Rows int
}

// Add adds what came of another transaction.
func (a *Archived) Add(b Archived) {
	a.Runs += b.Runs
	a.Lone += b.Lone
	a.Rows += b.Rows
}
