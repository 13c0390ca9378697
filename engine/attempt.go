package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// Why the context of an attempt is cancelled.
var (
	errLeaseLost = errors.New("the lease of the task is lost: another attempt owns it, or its run was cancelled")
	errUnrenewed = errors.New("the lease of the task could not be renewed in time: the state database did not answer, or this machine is overloaded")
	errTimeout   = errors.New("the step took longer than its timeout")
	errStopped   = errors.New("the run of the task was cancelled, or is out of time")
	errShutdown  = errors.New("the worker is shutting down")
)

// An attempt is a claimed task in this process, from the claim until its outcome
// is written or dropped.
type attempt struct {
	task.Claimed
	began    time.Time // by the clock of the engine
	cancel   context.CancelCauseFunc
	deadline *time.Timer // until when the lease is trusted
	progress progress
	heavy    bool // it holds a slot for types that take a processor
	ended    bool // its outcome is handed in: no longer cancelled, still renewed
	stuck    bool // its Runner has not returned although it was cancelled

	secrets   atomic.Pointer[[]string] // that its settings refer to; nil for none
	concluded atomic.Bool              // somebody has taken it on to say how it ended
}

// Running is what an attempt looks like from outside.
type Running struct {
	task.Claimed
	Done  int64  // units that are through
	Total int64  // 0: not known
	Unit  string // a plural; "" before the first report
	Stuck bool   // it was cancelled and does not return
}

// A board lists what this process holds and what has ended and is not handed in.
type board struct {
	mu       sync.Mutex
	slots    ask
	busy     ask // slots whose Runner has not returned
	stuck    ask // of those, cancelled and given up
	closed   bool
	attempts map[task.Hold]*attempt
	done     []task.Outcome
	enough   int           // outcomes of which the dispatcher wants to know; 0: of each
	changed  chan struct{} // so many outcomes came in, or a slot became free without one
}

// An ask counts slots of both kinds.
type ask struct{ light, heavy int }

func (n *ask) total() int { return n.light + n.heavy }

// add counts more slots of a kind, or fewer.
func (n *ask) add(heavy bool, by int) {
	if heavy {
		n.heavy += by
	} else {
		n.light += by
	}
}

func (n ask) plus(m ask) ask { return ask{light: n.light + m.light, heavy: n.heavy + m.heavy} }

func (n ask) minus(m ask) ask { return ask{light: n.light - m.light, heavy: n.heavy - m.heavy} }

func newBoard(slots ask) board {
	return board{slots: slots, attempts: map[task.Hold]*attempt{}, changed: make(chan struct{}, 1)}
}

// add enters a claimed task, which takes a slot.
func (b *board) add(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts[a.Hold] = a
	b.busy.add(a.heavy, 1)
}

// end takes the outcome of an attempt; its lease is renewed until it is written. Its
// slot is free unless its Runner has not returned.
func (b *board) end(a *attempt, o task.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.ended = true
	a.deadline.Stop()
	o.Alone, o.Ungated = a.RunID == "", !a.Limited && a.Circuit == ""
	o.Topmost = a.Run != nil && a.Run.ParentTask == 0
	b.done = append(b.done, o)
	b.vacate(a)
	if len(b.done) >= b.enough {
		nudge(b.changed)
	}
}

// vacate gives the slot of an attempt back unless its Runner has not returned. b.mu
// is held.
func (b *board) vacate(a *attempt) {
	if !a.stuck {
		b.busy.add(a.heavy, -1)
	}
}

// drop forgets an attempt whose result nobody wants.
func (b *board) drop(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.deadline.Stop()
	delete(b.attempts, a.Hold)
	b.vacate(a)
	nudge(b.changed)
}

// giveUp marks an attempt whose Runner ignores its cancellation.
func (b *board) giveUp(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.stuck = true
	b.stuck.add(a.heavy, 1)
}

// free gives the slot of an attempt back that was given up: its Runner has
// returned after all.
func (b *board) free(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy.add(a.heavy, -1)
	b.stuck.add(a.heavy, -1)
	nudge(b.changed)
}

// take returns the outcomes that came in since the last call, and the free slots.
func (b *board) take() (done []task.Outcome, free ask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	done, b.done, b.enough = b.done, nil, 0
	return done, ask{light: b.slots.light - b.busy.light, heavy: b.slots.heavy - b.busy.heavy}
}

// await has the dispatcher told only when so many outcomes are there, until it takes
// them.
func (b *board) await(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enough = n
	if len(b.done) >= n {
		nudge(b.changed)
	}
}

// written forgets an attempt whose outcome has been answered for, and returns it.
func (b *board) written(h task.Hold) *attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.attempts[h]
	delete(b.attempts, h)
	return a
}

// open returns how many attempts are not answered for, or hold a slot that is
// not given up.
func (b *board) open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(len(b.attempts), b.busy.total()-b.stuck.total())
}

// held returns every hold whose lease has to be renewed.
func (b *board) held() []task.Hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Keys(b.attempts), func(x, y task.Hold) int { return cmp.Compare(x.TaskID, y.TaskID) })
}

// lose cancels an attempt that is no longer ours. One that has ended is left
// alone: its outcome is on the way, and the fence decides.
func (b *board) lose(h task.Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.attempts[h]; ok && !a.ended {
		a.cancel(errLeaseLost)
		a.deadline.Stop()
	}
}

// stop cancels an attempt whose run was stopped. The lease is still ours: how it
// ended is handed in.
func (b *board) stop(h task.Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.attempts[h]; ok && !a.ended {
		a.cancel(errStopped)
	}
}

// extend trusts leases for d from now. A deadline that has passed stays passed.
func (b *board) extend(held []task.Hold, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range held {
		if a, ok := b.attempts[h]; ok && !a.ended && a.deadline.Stop() {
			a.deadline.Reset(d)
		}
	}
}

func (b *board) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

func (b *board) ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closed && b.stuck.heavy < b.slots.heavy && b.stuck.light < b.slots.light
}

func (b *board) running() []Running {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Running
	for _, a := range b.attempts {
		if !a.ended {
			r := Running{Claimed: a.Claimed, Stuck: a.stuck}
			r.Done, r.Total, r.Unit = a.progress.read()
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(x, y Running) int { return cmp.Compare(x.TaskID, y.TaskID) })
	return list
}

// A progress keeps the last report of an attempt for whoever looks, as often as
// they look.
type progress struct {
	mu          sync.Mutex
	done, total int64
	unit        string
}

var _ step.Progress = (*progress)(nil)

func (p *progress) Report(done, total int64, unit string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total, p.unit = done, total, unit
}

func (p *progress) read() (done, total int64, unit string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done, p.total, p.unit
}
