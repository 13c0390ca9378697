package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// lookEvery is how often a listener looks whether the file was written to: a look
// takes microseconds.
const lookEvery = 5 * time.Millisecond

// A liteBell has nothing to ring with: those who listen look at the counter that
// moves with every commit of another connection. Commits of this process move it
// too, which costs it a look for work that it would have made a little later.
type liteBell struct{ pool *bun.DB }

func (liteBell) ring(task.News) {}

func (b liteBell) listen(ctx context.Context, heard func(task.News)) error {
	conn, err := b.pool.DB.Conn(ctx)
	if err != nil {
		return fmt.Errorf("watch the database: %w", err)
	}
	defer func() { _ = conn.Close() }()
	look, err := conn.PrepareContext(ctx, "PRAGMA data_version")
	if err != nil {
		return fmt.Errorf("watch the database: %w", err)
	}
	defer func() { _ = look.Close() }()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last int64
	for {
		var version int64
		// Without a context that ends, the driver needs no goroutine for it.
		if err := look.QueryRowContext(context.WithoutCancel(ctx)).Scan(&version); err != nil {
			return fmt.Errorf("watch the database: %w", err)
		}
		if version != last {
			last = version
			heard(task.NewsAny)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
