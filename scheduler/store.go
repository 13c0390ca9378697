package scheduler

import (
	"context"
	"time"

	"madeira/engine/task"
)

// A Store is what the scheduler needs of the database. Each method is one
// transaction; on error nothing has changed.
type Store interface {
	// CreateRun makes a run with its tasks and, where given, the occurrence that
	// makes it and the watermark of its entry. A key that is live gives the run
	// that holds it; an occurrence that exists already gives its run. After a run
	// that ended well the new one starts without a version, its leading sources
	// first and a comparison task behind them; after any other end, or with
	// Again, it starts as the next version.
	CreateRun(ctx context.Context, run task.NewRun) (task.Created, error)

	// RecordOccurrence notes a due time that makes no run, and moves the
	// watermark of its entry. A due time already on record stays as it is.
	RecordOccurrence(ctx context.Context, o task.Occurrence) error

	// Watermark returns up to where the due times of an entry are accounted for.
	// For an entry never seen it is now, and is kept.
	Watermark(ctx context.Context, job, entry string) (time.Time, error)

	// SaveJob notes the job as last seen and this meaning of it.
	SaveJob(ctx context.Context, v task.JobVersion) error

	// Now is the database's clock.
	Now(ctx context.Context) (time.Time, error)
}
