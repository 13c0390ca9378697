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
