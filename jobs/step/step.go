package step

import (
	"context"
	"encoding/json"
	"time"
)

// A Type is one kind of step, as listed in a Registry.
type Type struct {
	// Name is what "uses" says, such as "fetch".
	Name string

	// Source marks a type that only reads the outside: when a key is asked for
	// again its sources alone run first, and Output.Digest decides whether
	// anything changed.
	Source bool

	// RunsCode marks a type that can run programs or statements given to it; the
	// public door of the queue is never opened for it.
	RunsCode bool

	// Light marks a type that mostly waits for others and takes little of this
	// machine: many of its tasks may run at once. The others share few slots.
	Light bool

	// Outputs declares what later steps may refer to.
	Outputs []Field

	// Columns says which settings name columns, and which columns the datasets have
	// that the step leaves, so that a job file is checked for them; nil: nothing is
	// known before it runs.
	Columns func(Draft) Columns

	Runner Runner
}

// A Field is one declared output.
type Field struct {
	Name string
	Type ValueType
	Doc  string // one sentence for people and editors
}

// A ValueType names the type of an output in expressions.
type ValueType string

// The types of outputs.
const (
	TextValue    ValueType = "text"
	IntegerValue ValueType = "integer"
	BooleanValue ValueType = "boolean"
	MoneyValue   ValueType = "money" // a JSON string of digits
	DateValue    ValueType = "date"
	InstantValue ValueType = "timestamp"
	FileValue    ValueType = "file"    // a File
	DatasetValue ValueType = "dataset" // a Dataset
	ListValue    ValueType = "list"
	ObjectValue  ValueType = "object"
)

// A Runner does the work of one step type. Run is called from many goroutines
// at once, for different tasks; the same task is never run twice at the same
// time under one fence. It must return soon after ctx is cancelled: the lease is
// then lost or about to be, and whatever it writes later is refused.
type Runner interface {
	Run(ctx context.Context, in Input) (Output, error)
}

// An Input is all that one attempt may use.
type Input struct {
	Task Task

	// Settings is the step's "with", checked against the type's schema and with
	// every expression replaced by its value. Files and datasets are the JSON of
	// File and Dataset.
	Settings json.RawMessage

	// Previous holds the outputs of the same step in the last version of this
	// key that ended well, or nil: what a line-level diff compares with.
	Previous map[string]json.RawMessage

	// ByHand says what people have set for this run beside what its job says, one line
	// each, the last first: who, when, why and which settings, without their values.
	ByHand []string

	// Dir is the folder of the job file, where relative programs are looked for; ""
	// for a task enqueued alone.
	Dir string

	Databases Databases
	Files     Files
	Datasets  Datasets
	Remotes   Remotes
	Channels  Channels
	Progress  Progress

	// Memory is how many bytes the attempt may hold; beyond it spill to
	// Files.Scratch. Never zero.
	Memory int64

	// Now is the instant of the claim by the database's clock.
	Now time.Time
}

// A Task says which task an attempt belongs to.
type Task struct {
	ID      int64
	Run     string // UUID of the run; "" for a task enqueued alone
	Job     string
	Key     string // upstream_key of the run, or of the task enqueued alone
	Version int    // of the run, counted from 1
	Step    string
	Element string // of a for_each; "" otherwise
	Attempt int    // counted from 1
	Fence   int64
	Woken   string // why it left the Wait it asked for: answered, arrived or expired; "" when it has not waited
}

// Identity is the same for every attempt of a task and for no other task: run,
// step and element joined by slashes. It is what idempotency keys are made of.
func (t Task) Identity() string {
	id := t.Run + "/" + t.Step
	if t.Element != "" {
		id += "/" + t.Element
	}
	return id
}

// An Output is what an attempt leaves.
type Output struct {
	// Values are the declared outputs, each marshalled to JSON by the engine: at
	// most 256 KiB together, larger things are files.
	Values map[string]any

	// Report is what a person reads about the step, at most 64 KiB of plain lines
	// without times or ids, so that equal inputs give equal reports. It is also
	// the output "report".
	Report string

	// Digest identifies what a Source has read: equal digests mean that nothing
	// has changed. Empty for other types.
	Digest string

	// Warning says that the step did its work and something in it should be
	// looked at, in one sentence; the run then ends as a warning.
	Warning string

	// Effects happen in the transaction that finishes the task, or not at all.
	Effects []Effect
}

// An Effect is something the store does for a step in the transaction that
// finishes its task. The list of effects is closed.
type Effect interface{ effect() }

// A Message is an Effect: a message to send. The engine delivers it as a task of
// its own under a key of run, step, channel and template, with its retries,
// limits and dead letters; composing the same message twice sends it once.
type Message struct {
	Channel  string          `json:"channel"`
	Template string          `json:"template"`
	Body     json.RawMessage `json:"body"` // what the channel's deliverer reads
}

func (Message) effect() {}

// A Wait is an Effect: the task is not over, and waits for a person or a thing,
// holding no slot and spending no attempt. When that is there, or Expire is over,
// the Runner is called again, with the reason in Task.Woken, and decides what
// follows. What the Output holds besides is kept. With an error there is no wait.
type Wait struct {
	Expire time.Duration // from now; 0: never
}

func (Wait) effect() {}
