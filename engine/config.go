package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// Config says what an Engine works with. Fields without a zero meaning are
// required.
type Config struct {
	Queue       Queue
	Comparer    Comparer // nil: comparisons are left to other workers
	Flow        Flow     // nil: phases, for_each and runs of runs are left to other workers
	Bell        Bell     // nil: work that other processes make is found by polling
	Door        Door     // nil: tasks that this process makes are claimed like any others
	Gates       Gates    // nil: limits, pauses and circuits are left to other workers
	Turns       Turns    // nil: runs that wait for their turn are left to other workers
	Registry    *step.Registry
	Artifacts   Artifacts
	Connections Connections

	// CheckInputs checks inputs that a step hands to the run it starts and that were
	// not known when that was frozen; nil: they are taken as they are.
	CheckInputs func(job string, declared, inputs json.RawMessage) error

	// Archiver moves away what has been over for ArchiveAfter, and drops it for good
	// after ArchiveKeep; 0: never. nil: other workers do.
	Archiver     Archiver
	ArchiveAfter time.Duration
	ArchiveKeep  time.Duration

	// Clock reads the monotonic clock of this machine, normally time.Now. Only
	// differences are used: instants are the database's.
	Clock func() time.Time

	Worker  string   // names this process and no other, ever: a new random id at each start
	Scratch string   // an existing folder of this process alone
	RunID   string   // claim only tasks of this run, of those it starts, and their deliveries; "": any
	Types   []string // claim only tasks of these types; nil: of all that the registry knows

	Slots      int           // tasks at once of types that take a processor or much memory; 0: one for each processor
	LightSlots int           // tasks at once of light types, which mostly wait for others; 0: 100
	Lease      time.Duration // how long a claim holds without a heartbeat; 0: 15 s
	Poll       time.Duration // how often the queue is asked without a reason, with jitter; 0: 1 s
	Grace      time.Duration // how long running tasks may finish after the end was asked for; 0: 25 s
	Patience   time.Duration // how long a cancelled Runner may take to return before its slot counts as stuck; 0: 5 s
	Memory     int64         // bytes an attempt may hold; 0: 64 MiB

	Logger         *slog.Logger             // nil: nothing is logged
	Observer       Observer                 // nil: nobody looks, and failed attempts are logged
	CircuitChanged func(task.CircuitChange) // is told of each change that this process makes, and must not block; nil: nobody is
	Secrets        Secrets                  // nil: there are none
	Mask           Mask                     // nil: text is kept as it is
}

// A Mask hides secrets in text that is kept: those that were found when the process
// began, and the ones given, which an attempt has found since.
type Mask func(text string, secrets ...string) string

// An Observer is told what becomes of attempts. It is called from several
// goroutines at once and must not block.
type Observer interface {
	// Started is called when a task was claimed.
	Started(c task.Claimed)

	// Ended is called when the outcome is in the database. It is not called when
	// the lease was lost.
	Ended(c task.Claimed, o task.Outcome)
}

// minLease leaves room for three heartbeats a second apart.
const minLease = 3 * time.Second

func (c Config) withDefaults() Config {
	c.Slots = cmp.Or(c.Slots, runtime.GOMAXPROCS(0))
	c.LightSlots = cmp.Or(c.LightSlots, 100)
	c.Lease = cmp.Or(c.Lease, 15*time.Second)
	c.Poll = cmp.Or(c.Poll, time.Second)
	c.Grace = cmp.Or(c.Grace, 25*time.Second)
	c.Patience = cmp.Or(c.Patience, 5*time.Second)
	c.Memory = cmp.Or(c.Memory, 64<<20)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observer == nil {
		c.Observer = blind{}
	}
	if c.CircuitChanged == nil {
		c.CircuitChanged = func(task.CircuitChange) {}
	}
	if c.Mask == nil {
		c.Mask = func(text string, _ ...string) string { return text }
	}
	return c
}

// check returns everything that is wrong at once.
func (c Config) check() error {
	var errs []error
	need := func(ok bool, field string) {
		if !ok {
			errs = append(errs, fmt.Errorf("engine: Config.%s is required", field))
		}
	}
	need(c.Queue != nil, "Queue")
	need(c.Registry != nil, "Registry")
	need(c.Artifacts != nil, "Artifacts")
	need(c.Connections != nil, "Connections")
	need(c.Clock != nil, "Clock")
	need(c.Worker != "", "Worker")
	need(c.Scratch != "", "Scratch")
	if c.Slots < 0 || c.LightSlots < 0 || c.Memory < 0 {
		errs = append(errs, fmt.Errorf("engine: slots (%d), light slots (%d) and memory (%d bytes) must not be negative", c.Slots, c.LightSlots, c.Memory))
	}
	if c.Lease < minLease {
		errs = append(errs, fmt.Errorf("engine: a lease of %s is too short; give it at least %s", c.Lease, minLease))
	}
	if c.Poll < 0 || c.Grace < 0 || c.Patience < 0 {
		errs = append(errs, fmt.Errorf("engine: poll (%s), grace (%s) and patience (%s) must not be negative", c.Poll, c.Grace, c.Patience))
	}
	for _, name := range c.Types {
		if c.Registry == nil || !slices.Contains(c.Registry.Names(), name) {
			errs = append(errs, fmt.Errorf("engine: Config.Types has %q, which the registry does not know", name))
		}
	}
	return errors.Join(errs...)
}

// claims returns the types of tasks to claim: those that mostly wait for others,
// and those that take a processor or much memory. Types that only move rows are
// light, and not a matter of where a worker stands.
func (c Config) claims() (light, heavy []string) {
	types := c.Types
	if types == nil {
		types = c.Registry.Names()
	}
	for _, name := range types {
		if t, _ := c.Registry.Lookup(name); t.Light {
			light = append(light, name)
		} else {
			heavy = append(heavy, name)
		}
	}
	if c.Comparer != nil {
		light = append(light, task.TypeCompare)
	}
	if c.Flow != nil {
		light = append(light, task.TypeJob)
	}
	return light, heavy
}

type blind struct{}

func (blind) Started(task.Claimed)             {}
func (blind) Ended(task.Claimed, task.Outcome) {}
