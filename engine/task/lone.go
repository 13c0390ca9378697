package task

import (
	"encoding/json"
	"time"
)

// A Lone task is one enqueued alone, outside of any run.
type Lone struct {
	Type     string
	Payload  json.RawMessage // what a step would have as its settings; nil: {}
	Key      string          // a key that the type has seen makes no second task; "": always a new one
	RunAt    time.Time       // not before; zero: at once
	Delay    time.Duration   // from RunAt, or from now by the database's clock
	Priority int             // smaller first; 0: 100
	Limits   []Limit
	Circuit  string // the downstream it speaks with; "" for none
	Retry    Retry
	Timeout  time.Duration // 0: none
}

// DefaultPriority is that of tasks which say nothing else.
const DefaultPriority = 100

// An Enqueued task answers a Lone.
type Enqueued struct {
	ID    int64
	Known bool // the key was known: this is the task that has it
}

// News is what is told of work that was made, to those who may take it.
type News int

const (
	// NewsReady tells of tasks that can be claimed as they are.
	NewsReady News = iota + 1

	// NewsAny tells perhaps of tasks that a gate holds, or runs that wait for their turn, too.
	NewsAny
)

// A Loan is slots that a worker without work lends to one commit that makes tasks:
// those that take them are claimed by it from the start.
type Loan struct {
	Worker string
	Want   Want // of it N and Heavy, no more than the tasks take, their types, and Lease

	// Repay is called once, when the commit is over, with what it claimed, in order of
	// priority, then age. After an error nobody knows whether it claimed anything; the
	// next Exchange of the worker gives that back.
	Repay func(claimed []Claimed, err error)
}
