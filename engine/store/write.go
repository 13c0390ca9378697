package store

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"
)

// tries is how often a transaction is begun before its error counts.
const tries = 5

// txn is a transaction on rows, with the instant they are stamped with.
type txn struct {
	bun.Tx
	dialect  dialect
	now      instant
	made     *made // counts what is readied; nil: nobody asks
	circuits Circuits
}

// made counts the tasks that a transaction has made claimable or put under a limit.
type made struct{ ready, held int }

// write runs fn in a transaction and commits it. What died for the sake of
// another transaction runs again; so does what broke without an answer, hence fn
// has to find out by itself that its work is there already.
func (db *DB) write(ctx context.Context, fn func(ctx context.Context, tx txn) error) error {
	return db.again(ctx, func() error {
		return db.bun.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			now, err := db.dialect.now(ctx, tx)
			if err != nil {
				return err
			}
			return fn(ctx, txn{Tx: tx, dialect: db.dialect, now: now, circuits: db.circuits})
		})
	})
}

// again calls fn until it succeeds, or fails in a way that repeating does not mend.
func (db *DB) again(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if err == nil || try == tries {
			return err
		}
		if f := db.dialect.fails(err); f != victim && f != unsure {
			return err
		}
		if pause(ctx, try) != nil {
			return err
		}
	}
}

// pause waits before a transaction is tried again: up to 20 ms after the first
// try, doubled for each further one, at random so that two that met part.
func pause(ctx context.Context, try int) error { return rest(ctx, rand.N(10*time.Millisecond<<try)) }

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
