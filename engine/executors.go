package engine

import "sync"

// executors are goroutines for short work, one piece after the other: a new one
// would have to grow its stack again. Who takes a piece while others wait sees to it
// that one more executor is about to run. Pieces that are quickly through are
// therefore worked by a few; as soon as one blocks, the next executor goes on, so
// that none waits for another to return.
type executors struct {
	mu     sync.Mutex
	queue  []func()
	coming bool          // an executor is about to look at the queue
	over   bool          // stop was called
	wake   chan struct{} // received from by executors without work
}

func newExecutors() *executors { return &executors{wake: make(chan struct{})} }

// run lets an executor call fn, in order. It never blocks.
func (x *executors) run(fn func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queue = append(x.queue, fn)
	x.call()
}

// call has an executor without work look at the queue, or starts one, unless that has
// been done. x.mu is held.
func (x *executors) call() {
	if x.coming {
		return
	}
	x.coming = true
	if !x.over {
		select {
		case x.wake <- struct{}{}:
			return
		default:
		}
	}
	go x.loop()
}

// loop works until stop is called. A Runner that ends its goroutine takes one
// executor with it.
func (x *executors) loop() {
	for ok := true; ok; _, ok = <-x.wake {
		for fn := x.take(true); fn != nil; fn = x.take(false) {
			fn()
		}
	}
}

// take returns the first piece of work; nil when there is none. Came says that the
// executor is the one that was called.
func (x *executors) take(came bool) func() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if came {
		x.coming = false
	}
	if len(x.queue) == 0 {
		x.queue = nil
		return nil
	}
	fn := x.queue[0]
	x.queue[0] = nil
	if x.queue = x.queue[1:]; len(x.queue) > 0 {
		x.call()
	}
	return fn
}

// stop ends the executors as they become idle. Nothing may be added after it.
func (x *executors) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	close(x.wake)
}
