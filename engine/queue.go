package engine

import (
	"context"
	"time"

	"madeira/engine/task"
)

// A Queue is what the engine needs of the database. Its methods are called from
// many goroutines at once. Each is one transaction; on error nothing has changed
// or, where the error came from the commit itself, either all or nothing has.
type Queue interface {
	// Exchange writes outcomes, their log rows and messages, readies what they
	// release, settles the runs they end, and then claims up to want.N tasks, all
	// in one commit. Outcomes whose fence no longer holds are dropped and listed.
	// One bad outcome does not fail the rest. Messages become tasks of type
	// deliver under their keys.
	Exchange(ctx context.Context, worker string, done []task.Outcome, want task.Want) (task.Exchange, error)

	// Heartbeat extends the leases of what the worker holds, by lease from now,
	// and tells of which it could not: see task.Beat.
	Heartbeat(ctx context.Context, worker string, held []task.Hold, lease time.Duration) (task.Beat, error)

	// Rescue moves up to limit tasks whose lease has run out back to pending, or
	// to error as poison at the third crash, and returns how many.
	Rescue(ctx context.Context, limit int) (int, error)

	// Promote makes up to limit tasks claimable whose run_at has come, and
	// returns how many, and how long until the next is due: 0 when none is known.
	Promote(ctx context.Context, limit int) (n int, next time.Duration, err error)

	// Undecided returns up to limit blocked tasks that wait for Decide, with what
	// their conditions can refer to.
	Undecided(ctx context.Context, limit int) ([]task.Undecided, error)

	// Decide moves undecided tasks on and readies or decides what follows from it.
	Decide(ctx context.Context, decisions []task.Decision) error

	// Scope returns what the expressions of a claimed task refer to.
	Scope(ctx context.Context, t task.Claimed) (task.Scope, error)
}

// A Comparer settles a run that was asked for again. It is what a task of type
// compare calls.
type Comparer interface {
	// Compare checks the fence and compares job digest, inputs and the digests of
	// the run's sources with those of the last version of the key that ended
	// well. Equal: the run ends as repeated, pointing at that one, and what was
	// open is cancelled. Different: the run gets the next version, and the task
	// is a success. The task is finished either way.
	Compare(ctx context.Context, h task.Hold, took time.Duration) (repeatedOf string, version int, err error)
}

// Gates is what the engine needs of limits, pauses and circuits.
type Gates interface {
	// Admit moves up to limit held tasks to where they can be claimed: those whose
	// limits have room, and what a circuit lets through. It returns how many, and
	// how long until a rate has room again: 0 when none is waited for.
	Admit(ctx context.Context, limit int) (n int, next time.Duration, err error)

	// Sweep takes aside what became ready under a pause or a circuit that is not
	// closed, and gives back what was held by one that is over. It returns how many
	// became claimable.
	Sweep(ctx context.Context, limit int) (int, error)

	// Judge looks at the circuits that are not closed and at those that attempts
	// spoke with, and opens, half opens, ramps up or closes them. Failed holds the
	// keys of circuits with a failure seen just now; nil stands for all. It returns
	// the changes it made, each of which goes to one process, and how long until a
	// circuit is due: 0 when none is.
	Judge(ctx context.Context, failed map[string]task.Failure) (changes []task.CircuitChange, next time.Duration, err error)
}

// Flow is what the engine needs to run more than a plain graph.
type Flow interface {
	// Expand makes a task for each element of a claimed for_each row, in one
	// transaction that also puts the row into waiting until all are over. A lost
	// fence is step.ErrLeaseLost, elements that cannot be kept are a permanent
	// error.
	Expand(ctx context.Context, h task.Hold, elements []task.Element) error

	// Elements returns how the elements of a for_each row ended, in their order.
	Elements(ctx context.Context, taskID int64) ([]task.ElementResult, error)

	// Spawn makes the run that a claimed task starts, and puts the task into
	// waiting until it is over. A lost fence is step.ErrLeaseLost.
	Spawn(ctx context.Context, h task.Hold, run task.NewRun) (task.Created, error)

	// Child returns the run that a task started last, with the named steps of it.
	Child(ctx context.Context, taskID int64, steps []string) (task.Scope, error)

	// NextPhase begins the following phase of up to limit runs of which one is
	// over, or ends them, and returns how many.
	NextPhase(ctx context.Context, limit int) (int, error)

	// Expire stops up to limit runs that are out of time, and returns how many.
	Expire(ctx context.Context, limit int) (int, error)
}

// A Bell wakes other processes that work on the same database. It is a hint:
// what it does not carry is found by polling.
type Bell interface {
	// Ring tells the others that something became claimable. It does not block;
	// rings in short succession may be one.
	Ring()

	// Listen calls heard whenever another process rang, until ctx is done or the
	// database is away. It may be called again after an error.
	Listen(ctx context.Context, heard func(task.News)) error
}

// A Door is where this process makes tasks that belong to no run.
type Door interface {
	// Attend lets lend be asked by each commit that makes tasks of these types which
	// are due at once, until leave is called. It must not block. The commit claims
	// with the slots that are lent unless something is ready that comes before,
	// paused or held. With nil it is asked by who has heard of tasks that another
	// process has made, and claims whatever can be.
	Attend(lend func(types []string) (loan task.Loan, ok bool)) (leave func())
}
