package engine

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"madeira/engine/task"
)

// A lender keeps the slots that a worker without work lends to commits of its own
// process that make tasks. What is claimed like that saves the way over task_ready,
// and the commit of a claim.
type lender struct {
	mu     sync.Mutex
	free   ask  // to be lent; none while the dispatcher makes up its mind
	lent   ask  // and not repaid
	missed bool // the dispatcher has found slots lent
	closed bool // the dispatcher is gone
}

// halt lends nothing more for now, and returns what is lent. Whoever reads the free
// slots of the board after it counts none of them twice: a task that is repaid takes
// its slot there first.
func (l *lender) halt() ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free, l.missed = ask{}, l.lent.total() > 0
	return l.lent
}

func (l *lender) offer(free ask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = free
}

func (l *lender) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free, l.closed = ask{}, true
}

// borrow takes slots if there are as many.
func (l *lender) borrow(n ask) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.light > l.free.light || n.heavy > l.free.heavy {
		return false
	}
	l.free, l.lent = l.free.minus(n), l.lent.plus(n)
	return true
}

// lend answers whoever is about to make tasks of these types that are due at once.
// It lends slots for all whose type is known here, or none.
func (d *dispatcher) lend(types []string) (task.Loan, bool) {
	var n ask
	for _, name := range types {
		heavy := slices.Contains(d.heavy, name)
		if heavy || slices.Contains(d.light, name) {
			n.add(heavy, 1)
		}
	}
	if n.total() == 0 || !d.lender.borrow(n) {
		return task.Loan{}, false
	}
	asked := d.cfg.Clock()
	return task.Loan{
		Worker: d.cfg.Worker,
		Want:   task.Want{N: n.light, Types: d.light, Heavy: n.heavy, HeavyTypes: d.heavy, Lease: d.cfg.Lease},
		Repay:  func(claimed []task.Claimed, err error) { d.repaid(n, asked, claimed, err) },
	}, true
}

// repaid begins what was claimed with lent slots, in the goroutine of whoever made
// the tasks. What comes when the dispatcher is gone waits for the end of its lease.
func (d *dispatcher) repaid(n ask, asked time.Time, claimed []task.Claimed, err error) {
	l := &d.lender
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		if v := recover(); v != nil {
			d.cfg.Logger.ErrorContext(d.calls, "a claim that came with its task could not begin", "error", fmt.Errorf("panicked: %v\n%s", v, debug.Stack()))
		}
		l.lent = l.lent.minus(n)
		if l.missed {
			nudge(d.board.changed)
		}
	}()
	if l.closed {
		return
	}
	used := ask{}
	for _, c := range claimed {
		used.add(slices.Contains(d.heavy, c.Type), 1)
		d.start(c, asked)
	}
	if !l.missed {
		l.free = l.free.plus(n.minus(used))
	}
	if err != nil {
		nudge(d.wake) // the next call gives back what may be claimed
	}
}
