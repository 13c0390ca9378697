package engine

import "context"

// executors are the goroutines that attempts run in. One that is through with its
// attempt takes the next: a new one would have to grow its stack again.
type executors struct {
	engine *Engine
	next   chan work
}

type work struct {
	ctx     context.Context
	attempt *attempt
}

func newExecutors(e *Engine) executors { return executors{engine: e, next: make(chan work)} }

// run lets an executor without work take the attempt, or starts one. It never blocks.
func (x executors) run(ctx context.Context, a *attempt) {
	w := work{ctx: ctx, attempt: a}
	select {
	case x.next <- w:
	default:
		go x.loop(w)
	}
}

// loop works until stop is called. A Runner that ends its goroutine takes one
// executor with it.
func (x executors) loop(w work) {
	for ok := true; ok; w, ok = <-x.next {
		x.engine.run(w.ctx, w.attempt)
	}
}

// stop ends the executors as they become idle. Nothing is run after it.
func (x executors) stop() { close(x.next) }
