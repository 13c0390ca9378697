package engine

// executors are goroutines for short work, one piece after the other: a new one
// would have to grow its stack again.
type executors struct{ next chan func() }

func newExecutors() executors { return executors{next: make(chan func())} }

// run lets an executor without work call fn, or starts one. It never blocks.
func (x executors) run(fn func()) {
	select {
	case x.next <- fn:
	default:
		go x.loop(fn)
	}
}

// loop works until stop is called. A Runner that ends its goroutine takes one
// executor with it.
func (x executors) loop(fn func()) {
	for ok := true; ok; fn, ok = <-x.next {
		fn()
	}
}

// stop ends the executors as they become idle. Nothing is run after it.
func (x executors) stop() { close(x.next) }
