package engine

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"madeira/engine/task"
)

// A lender keeps the slots that a worker without work lends: to commits of its own
// process that make tasks, which saves the way over task_ready and the commit of a
// claim, and to whoever hears of tasks of others, which saves the way to a call.
type lender struct {
	mu     sync.Mutex
	free   ask  // to be lent; none while the dispatcher makes up its mind
	lent   ask  // and not repaid
	missed bool // the dispatcher has found slots lent
	closed bool // the dispatcher is gone

	looked look // the last that lent slots took for whatever is ready
}

// halt lends nothing more for now, and returns what is lent, and looked. Whoever reads
// the free slots of the board after it counts none of them twice: a task that is
// repaid takes its slot there first.
func (l *lender) halt() (lent ask, looked look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free, l.missed = ask{}, l.lent.total() > 0
	return l.lent, l.looked
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

// borrowUpTo takes what is free, of light slots at most so many.
func (l *lender) borrowUpTo(light int) ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := ask{light: max(min(l.free.light, light), 0), heavy: max(l.free.heavy, 0)}
	l.free, l.lent = l.free.minus(n), l.lent.plus(n)
	return n
}

// A lending is slots on their way.
type lending struct {
	ask
	asked time.Time // when they were lent, by the clock of the engine
	looks bool      // for whatever is ready
}

// lend answers whoever is about to make tasks of these types that are due at once,
// or has heard that there are some: nil. It lends slots for all whose type is known
// here, or none.
func (d *dispatcher) lend(types []string) (task.Loan, bool) {
	n := d.borrowFor(types)
	if n.total() == 0 {
		return task.Loan{}, false
	}
	out := lending{ask: n, asked: d.cfg.Clock(), looks: types == nil}
	return task.Loan{
		Worker: d.cfg.Worker,
		Want:   task.Want{N: n.light, Types: d.light, Heavy: n.heavy, HeavyTypes: d.heavy, Lease: d.cfg.Lease},
		Repay:  func(claimed []task.Claimed, err error) { d.repaid(out, claimed, err) },
	}, true
}

func (d *dispatcher) borrowFor(types []string) ask {
	if types == nil {
		return d.lender.borrowUpTo(d.most())
	}
	var n ask
	for _, name := range types {
		heavy := slices.Contains(d.heavy, name)
		if heavy || slices.Contains(d.light, name) {
			n.add(heavy, 1)
		}
	}
	if !d.lender.borrow(n) {
		return ask{}
	}
	return n
}

// repaid begins what was claimed with lent slots, in the goroutine of whoever claimed
// it. What comes when the dispatcher is gone waits for the end of its lease.
func (d *dispatcher) repaid(out lending, claimed []task.Claimed, err error) {
	l := &d.lender
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		if v := recover(); v != nil {
			d.cfg.Logger.ErrorContext(d.calls, "a claim with lent slots could not begin", "error", fmt.Errorf("panicked: %v\n%s", v, debug.Stack()))
		}
		l.lent = l.lent.minus(out.ask)
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
		d.start(c, out.asked)
	}
	if !l.missed {
		l.free = l.free.plus(out.minus(used))
	}
	if out.looks && err == nil {
		l.looked = look{out.asked, out.minus(used)} // what filled all of a kind says nothing of what is left
	}
	if err != nil {
		nudge(d.wake) // the next call gives back what may be claimed
	}
}
