package store

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/jackc/pgx/v5"

	"madeira/engine/task"
)

// claimOver claims over the connection that has just heard of work, for a worker that
// has none: the connection is at hand, and the server's process behind it awake. It
// reports false when there may be more to claim, or nobody could.
func (db *DB) claimOver(ctx context.Context, conn *pgx.Conn, p *postgres) bool {
	loan, ok := db.lenders.borrow(nil)
	if !ok {
		return false
	}
	with := &borrowing{Loan: loan, claim: rand.Int64()}
	// What is claimed has to be known, also by a process that is told to stop.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loan.Want.Lease)
	defer cancel()
	var a answer
	err := errInterrupted
	defer func() { db.repay(with, a.claimed, err) }()
	var send pgx.Batch
	p.queueClaims(&send, batch{worker: loan.Worker, want: loan.Want, claim: with.claim}, &a)
	if err = conn.SendBatch(ctx, &send).Close(); err != nil {
		a = answer{}
	}
	return err == nil && allClaimed(loan.Want, a.claimed)
}

// allClaimed reports whether a claim left nothing that it could have claimed with more
// slots: of each kind there were some, and some of them stayed free.
func allClaimed(w task.Want, claimed []task.Claimed) bool {
	heavy := 0
	for _, c := range claimed {
		if slices.Contains(w.HeavyTypes, c.Type) {
			heavy++
		}
	}
	light := len(claimed) - heavy
	return (len(w.Types) == 0 || light < w.N) && (len(w.HeavyTypes) == 0 || heavy < w.Heavy)
}
