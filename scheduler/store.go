package scheduler

import (
	"context"
	"time"

	"madeira/engine/task"
)

// A Store is what the scheduler needs of the database. Each method is one
// transaction, FollowEntries one for each few hundred; on error nothing has changed.
type Store interface {
	// CreateRun makes a run with its tasks and, where given, the occurrence that
	// makes it and the watermark of its entry. A key that is live gives the run
	// that holds it; an occurrence that exists already gives its run. After a run
	// that ended well the new one starts without a version, its leading sources
	// first and a comparison task behind them; after any other end, or with
	// Again, it starts as the next version.
	CreateRun(ctx context.Context, run task.NewRun) (task.Created, error)

	// Account notes due times with what becomes of them, makes their runs as CreateRun
	// does, and moves the watermarks of their entries, all in one transaction. A due
	// time already on record stays as it is. It answers in the order of the due times,
	// with nothing for those that make no run.
	Account(ctx context.Context, due []task.Accounted) ([]task.Created, error)

	// FollowEntries returns up to where the due times of entries are accounted for, in
	// their order. For an entry never seen it is now, and is kept.
	FollowEntries(ctx context.Context, entries []task.EntryID) ([]time.Time, error)

	// NoteProblem keeps why an entry cannot be followed, for those who ask; "" that it
	// can.
	NoteProblem(ctx context.Context, e task.EntryID, problem string) error

	// Pauses returns the pauses of all jobs that stand now or have ended after an instant.
	Pauses(ctx context.Context, after time.Time) ([]task.Pause, error)

	// SaveJob notes the job as last seen and this meaning of it.
	SaveJob(ctx context.Context, v task.JobVersion) error

	// Now is the database's clock.
	Now(ctx context.Context) (time.Time, error)
}
