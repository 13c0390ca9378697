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
