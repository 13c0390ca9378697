package engine

import (
	"context"
	"time"

	"madeira/engine/task"
)

const (
	// archiveEvery is how often is looked for what has been over long enough.
	archiveEvery = 10 * time.Minute

	// archiveBatch is how many rows are moved before the engine pauses, and
	// archivePause for how long, so that a large archive costs those who work little.
	archiveBatch = 5000
	archivePause = 500 * time.Millisecond
)

// An Archiver keeps the tables small that claims work on.
type Archiver interface {
	// Archive moves what was over that long ago to the archive, about limit rows.
	Archive(ctx context.Context, olderThan time.Duration, limit int) (task.Archived, error)

	// Drop removes from the archive what was over that long ago, about limit rows.
	Drop(ctx context.Context, olderThan time.Duration, limit int) (task.Archived, error)
}

// archive moves and drops one batch, and comes back soon while there is more.
func (e *Engine) archive(ctx context.Context) (time.Duration, error) {
	rows := 0
	for _, part := range []struct {
		name string
		age  time.Duration
		once func(context.Context, time.Duration, int) (task.Archived, error)
	}{
		{"archived", e.cfg.ArchiveAfter, e.cfg.Archiver.Archive},
		{"dropped from the archive", e.cfg.ArchiveKeep, e.cfg.Archiver.Drop},
	} {
		if part.age <= 0 {
			continue
		}
		done, err := part.once(ctx, part.age, archiveBatch)
		if err != nil {
			return 0, err
		}
		if done.Runs+done.Lone > 0 {
			e.cfg.Logger.InfoContext(ctx, part.name, "runs", done.Runs, "tasks", done.Lone, "rows", done.Rows)
		}
		rows = max(rows, done.Rows)
	}
	if rows >= archiveBatch {
		return archivePause, nil
	}
	return jitter(archiveEvery), nil
}
