package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"madeira/engine/task"
)

const (
	// flightRows is the size from which a list flies alone, and a commit takes no
	// further call: it would keep others waiting, and has nothing to gain.
	flightRows = 1000

	// flightTime is what one commit and what it takes to repeat it may last.
	flightTime = 30 * time.Second
)

// A knock is one call of Enqueue, until it is answered.
type knock struct {
	rows   []loneRow
	answer []task.Enqueued
	err    error
	done   chan struct{} // closed when answer or err is set
}

func (k *knock) end(answer []task.Enqueued, err error) {
	k.answer, k.err = answer, err
	close(k.done)
}

// keyed reports whether every task has a key, so that asking again is safe.
func keyed(rows []loneRow) bool {
	return !slices.ContainsFunc(rows, func(r loneRow) bool { return r.key == nil })
}

// A door gathers calls of Enqueue: the first goes on at once, and what comes
// while a commit is on its way shares the next. One at a time is the fastest:
// commits side by side wait for each other's turn to sync, with fewer tasks each.
type door struct {
	mu      sync.Mutex
	waiting []*knock
	flying  bool
	idle    sync.WaitGroup // of what is flying
	large   sync.Mutex     // held by the list that flies alone
}

// queue lines up a call and reports whether the caller has to start a flight.
func (d *door) queue(k *knock) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, k)
	if d.flying {
		return false
	}
	d.flying = true
	d.idle.Add(1)
	return true
}

// withdraw takes a call back, and reports false when it is on its way already.
func (d *door) withdraw(k *knock) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.waiting, k)
	if i < 0 {
		return false
	}
	d.waiting = slices.Delete(d.waiting, i, i+1)
	return true
}

// board returns the calls for the next commit. None ends the flight.
func (d *door) board() []*knock {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, rows := 0, 0
	for n < len(d.waiting) && rows < flightRows {
		rows += len(d.waiting[n].rows)
		n++
	}
	if n == 0 {
		d.flying = false
		d.idle.Done()
		return nil
	}
	group := d.waiting[:n:n]
	d.waiting = d.waiting[n:]
	return group
}

// alone commits a list by itself, one list at a time: the connections are those of
// claims and heartbeats, and a list may have to wait for somebody who holds its keys.
// Close waits for it.
func (db *DB) alone(k *knock) {
	defer db.door.idle.Done()
	db.door.large.Lock()
	defer db.door.large.Unlock()
	db.commit([]*knock{k})
}

// fly makes commits until nobody waits for one. It ends by itself, and Close waits for it.
func (db *DB) fly() {
	for group := db.door.board(); group != nil; group = db.door.board() {
		db.commit(group)
		runtime.Gosched() // whoever got an answer and asks again shares the next commit
	}
}

// commit writes the tasks of several calls at once.
func (db *DB) commit(group []*knock) {
	ctx, cancel := context.WithTimeout(context.Background(), flightTime)
	defer cancel()
	open := group
	defer func() {
		if p := recover(); p != nil {
			for _, k := range open {
				k.end(nil, fmt.Errorf("panicked: %v\n%s", p, debug.Stack()))
			}
		}
	}()
	answer, err := db.enter(ctx, rowsOf(group))
	for len(open) > 0 {
		k := open[0]
		mine, mineErr := []task.Enqueued(nil), err
		switch {
		case err == nil:
			mine, answer = answer[:len(k.rows):len(k.rows)], answer[len(k.rows):]
		case len(group) > 1 && db.worthAlone(k, err):
			mine, mineErr = db.enter(ctx, k.rows)
		}
		open = open[1:]
		k.end(mine, mineErr)
	}
}

func rowsOf(group []*knock) []loneRow {
	if len(group) == 1 {
		return group[0].rows
	}
	var rows []loneRow
	for _, k := range group {
		rows = append(rows, k.rows...)
	}
	return rows
}

// worthAlone reports whether a call may succeed by itself after the group has failed:
// where the database refused a task or waited too long, perhaps for that of another
// call, or did not answer and asking again makes nothing twice.
func (db *DB) worthAlone(k *knock, err error) bool {
	f := db.dialect.fails(err)
	return f == refused || f == blocked || f == unsure && keyed(k.rows)
}

// enter writes tasks, again where that helps and cannot make them twice, and tells
// of those that are there to be claimed. Slots are borrowed for the first try alone.
func (db *DB) enter(ctx context.Context, rows []loneRow) ([]task.Enqueued, error) {
	loan := db.borrow(rows)
	for try := 1; ; try++ {
		e, err := db.enqueueWith(ctx, rows, loan)
		loan = nil
		if err == nil {
			db.entered(e, newsOf(rows))
			return e.answer, nil
		}
		f := db.dialect.fails(err)
		again := f == victim || f == unsure && keyed(rows)
		if !again && f == unsure {
			return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		if !again || try == tries || pause(ctx, try) != nil {
			return nil, err
		}
	}
}

// enqueueWith writes tasks and repays the loan, also when it panics.
func (db *DB) enqueueWith(ctx context.Context, rows []loneRow, loan *borrowing) (e entrance, err error) {
	err = errInterrupted
	defer func() { db.repay(loan, e.claimed, err) }()
	return db.hot.enqueue(ctx, rows, loan)
}

// errInterrupted is how a claim with lent slots ended that panicked: nobody knows what
// became of it.
var errInterrupted = errors.New("interrupted")

// entered tells of tasks that are there to be claimed.
func (db *DB) entered(e entrance, n task.News) {
	if e.whole() {
		return
	}
	db.listeners.tell(n)
	if !e.rung {
		db.bell.ring(n)
	}
}

// newsOf says what there is to tell of tasks that were made.
func newsOf(rows []loneRow) task.News {
	if slices.ContainsFunc(rows, func(r loneRow) bool { return r.limits != nil }) {
		return task.NewsAny
	}
	return task.NewsReady
}
