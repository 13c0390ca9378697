package store

import (
	"context"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
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
	var send pgx.Batch
	p.queueClaims(&send, batch{worker: loan.Worker, want: loan.Want, claim: with.claim}, &a)
	err := conn.SendBatch(ctx, &send).Close()
	if err != nil {
		a = answer{}
	}
	db.repay(with, a.claimed, err)
	return err == nil && len(a.claimed) < loan.Want.N+loan.Want.Heavy
}
