package store

import (
	"context"
	"slices"
	"sync"

	"madeira/engine/task"
)

// A bell is how a database tells other processes that there is work.
type bell interface {
	// ring does not block; what it does not carry is lost.
	ring(n task.News)
	// listen calls heard whenever another process rang, until ctx is done or the
	// database is away.
	listen(ctx context.Context, heard func(task.News)) error
}

// listeners are those of this process.
type listeners struct {
	mu  sync.Mutex
	all []*listener
}

type listener struct{ heard func(task.News) }

func (l *listeners) add(heard func(task.News)) (remove func()) {
	one := &listener{heard: heard}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, one)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = slices.DeleteFunc(l.all, func(x *listener) bool { return x == one })
	}
}

func (l *listeners) tell(n task.News) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		one.heard(n)
	}
}

// Ring implements engine.Bell: it tells other processes, and not the listeners
// of this one, that something became claimable.
func (db *DB) Ring() { db.bell.ring(task.NewsAny) }

// Listen implements engine.Bell. It hears this process too, but not its calls of
// Ring: whatever makes tasks through this DB. Heard must not block.
func (db *DB) Listen(ctx context.Context, heard func(task.News)) error {
	remove := db.listeners.add(heard)
	defer remove()
	return db.bell.listen(ctx, heard)
}

// made is called after each commit that made work of any kind.
func (db *DB) made() {
	db.listeners.tell(task.NewsAny)
	db.bell.ring(task.NewsAny)
}
