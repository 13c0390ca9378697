package store

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"

	"madeira/engine/task"
)

// lenders are the workers of this process, each of which may have slots free.
type lenders struct {
	mu  sync.Mutex
	all []*lender
}

type lender struct {
	lend func(types []string) (task.Loan, bool)
}

// Attend implements engine.Door.
func (db *DB) Attend(lend func(types []string) (task.Loan, bool)) (leave func()) {
	l := &db.lenders
	one := &lender{lend: lend}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, one)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = slices.DeleteFunc(l.all, func(x *lender) bool { return x == one })
	}
}

// borrow returns what the first worker lends that can take all tasks of these types
// that it knows.
func (l *lenders) borrow(types []string) (task.Loan, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if loan, ok := one.lend(types); ok {
			return loan, true
		}
	}
	return task.Loan{}, false
}

// A borrowing is what one commit that makes tasks may claim.
type borrowing struct {
	task.Loan
	claim int64  // random, marks what it claims
	rows  []bool // by their place: which tasks go to the worker
	last  int32  // the largest priority of those: nothing that is ready may come before
}

// An entrance is what came of making tasks.
type entrance struct {
	answer  []task.Enqueued
	claimed []task.Claimed
	rung    bool // other processes were told of it
}

// whole reports whether all tasks that were made are claimed.
func (e entrance) whole() bool {
	fresh := 0
	for _, a := range e.answer {
		if !a.Known {
			fresh++
		}
	}
	return fresh > 0 && fresh == len(e.claimed)
}

// borrow asks for slots for tasks that are due at once and under no limit; nil when
// there are none to be had.
func (db *DB) borrow(rows []loneRow) *borrowing {
	var types []string
	for _, r := range rows {
		if r.ready() {
			types = append(types, r.kind)
		}
	}
	if len(types) == 0 {
		return nil
	}
	loan, ok := db.lenders.borrow(types)
	if !ok {
		return nil
	}
	b := &borrowing{Loan: loan, claim: rand.Int64(), rows: make([]bool, len(rows))}
	first := true
	for i, r := range rows {
		if !r.ready() || !slices.Contains(loan.Want.Types, r.kind) && !slices.Contains(loan.Want.HeavyTypes, r.kind) {
			continue
		}
		b.rows[i] = true
		if first || r.priority > b.last {
			b.last, first = r.priority, false
		}
	}
	return b
}

// ready reports whether the task can be claimed as soon as it is there.
func (r loneRow) ready() bool { return r.runAt == nil && r.delay == 0 && r.limits == nil }

// repay tells the worker what the commit has claimed. Where nobody knows, what it
// may have claimed is given back by the next exchange of the worker. An error with
// claims came after the commit.
func (db *DB) repay(b *borrowing, claimed []task.Claimed, err error) {
	if b == nil {
		return
	}
	if err != nil && (len(claimed) > 0 || db.dialect.fails(err) != unsure) {
		err = nil
	}
	if err != nil {
		db.adopt(batch{worker: b.Worker, want: b.Want}.orphan(b.claim))
	}
	slices.SortFunc(claimed, func(x, y task.Claimed) int {
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(x.TaskID, y.TaskID))
	})
	b.Repay(claimed, err)
}
