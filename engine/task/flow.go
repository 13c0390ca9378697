package task

import (
	"encoding/json"
	"time"
)

// An Element of a for_each, in the order of its list.
type Element struct {
	Key   string          // of an object its key, of a list its index
	Value json.RawMessage // what each.value gives
}

// Name is how a step, or an element of one, is named everywhere: step or step[element].
func Name(step, element string) string {
	if element == "" {
		return step
	}
	return step + "[" + element + "]"
}

// An ElementResult is how an element of a for_each ended, without its outputs.
type ElementResult struct {
	Key     string
	State   State
	Reason  string
	Warning string
	Digest  string // of what a source has read
	Error   string // of its last attempt, where that failed
}

// A SubJob is what the settings of a task of type job hold. Inputs, Key and Outputs
// may have expressions: the first two see the run that calls, Outputs the steps of
// the run that is called. The run itself is frozen and left as it is, but for the
// keys of one whose inputs are not all known before.
type SubJob struct {
	Inputs   json.RawMessage `json:"inputs,omitempty"`       // object, put over those of the run; nil: nothing
	Key      string          `json:"upstream_key,omitempty"` // "": that of the run
	Outputs  json.RawMessage `json:"outputs,omitempty"`      // object of what the calling job sees
	Declared json.RawMessage `json:"declared,omitempty"`     // of the inputs that come with Inputs, for Config.CheckInputs of the engine; nil: nothing to check
	Late     bool            `json:"late,omitempty"`         // the keys of the run and of its limits have expressions, which see its inputs, period and schedule
	Redo     *Redo           `json:"redo,omitempty"`         // set by a rerun; nil: the key says what becomes of the run
	Run      NewRun          `json:"run"`
}

// MaxDocument is how many bytes of JSON the settings or the outputs of one task may
// have.
const MaxDocument = 1 << 20

// Redo says that the run of a task of type job is done again because the task is.
type Redo struct {
	Reason string `json:"reason"`
	RunID  string `json:"run,omitempty"`    // of which only what failed is done again, as it is frozen there; "": all of it
	Frozen bool   `json:"frozen,omitempty"` // with the steps as RunID has them, not as they are frozen here
}

// What wakes a waiting task.
const (
	WakeJoined   = "joined"   // all its elements are over
	WakeChild    = "child"    // the run it started is over
	WakeAnswered = "answered" // a person answered
	WakeArrived  = "arrived"  // what it waited for is there
	WakeExpired  = "expired"  // its time is over
)

// A CircuitState is where the circuit of a downstream is.
type CircuitState string

// The states of a circuit.
const (
	CircuitClosed   CircuitState = "closed"    // everything goes through
	CircuitOpen     CircuitState = "open"      // nothing does until the cool-down is over
	CircuitHalfOpen CircuitState = "half_open" // up to three probes do
	CircuitRamp     CircuitState = "ramp"      // held tasks go through in growing numbers
)

// A CircuitChange tells that a circuit has changed its state. Of all processes
// one gets it.
type CircuitChange struct {
	Key     string
	From    CircuitState
	To      CircuitState
	Until   time.Time // of an open one: when probes go
	Failure *Failure  // of the attempt that tripped it
}

// An Action is what a person did, for the audit log.
type Action struct {
	Actor   string
	Action  string // "cancel", "redrive", "rerun", "pause", "resume"
	Subject string // "run:ID", "task:ID", "type:NAME", "job:NAME"
	Reason  string
	Detail  json.RawMessage
}
