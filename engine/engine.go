package engine

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// An Engine is one worker process. Make it with New.
type Engine struct {
	cfg     Config
	light   []string // what it claims, for slots of their own
	heavy   []string // the same of types that take a processor
	board   board
	away    away
	gates   gatekeeper
	kin     kin
	wake    chan struct{} // the dispatcher should ask for work
	due     chan struct{} // a task was put off: ask when the next is due
	decide  chan struct{} // a blocked task waits for a decision
	turns   usher
	written chan struct{} // outcomes were written: the run may be over

	unrescued bool // the last look for leases that have run out failed; of the rescuer alone
}

// New returns an engine, or everything that is wrong with the configuration.
func New(cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, board: newBoard(ask{light: cfg.LightSlots, heavy: cfg.Slots}),
		away: away{clock: cfg.Clock, log: cfg.Logger}, gates: gatekeeper{nudge: make(chan struct{}, 1)}, turns: usher{nudge: make(chan struct{}, 1)},
		wake: make(chan struct{}, 1), due: make(chan struct{}, 1), decide: make(chan struct{}, 1), written: make(chan struct{}, 1),
	}
	e.light, e.heavy = cfg.claims()
	return e, nil
}

// Wake makes the engine ask for work at once. It never blocks. Whoever makes
// tasks in this process calls it after the commit.
func (e *Engine) Wake() {
	nudge(e.wake)
	nudge(e.gates.nudge)
	nudge(e.turns.nudge)
}

// Ready reports whether the engine could take a task: it is not shutting down
// and of neither kind every slot is held by a Runner that ignores its cancellation.
func (e *Engine) Ready() bool { return e.board.ready() }

// Running returns what is being worked at, by task.
func (e *Engine) Running() []Running { return e.board.running() }

// Run works until ctx is done. Then it claims no more, lets running tasks finish
// for Config.Grace, cancels and releases the rest without spending an attempt,
// and returns. An unreachable database never ends it; the error says which
// outcomes could not be written before it gave up on the way out.
func (e *Engine) Run(ctx context.Context) error {
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	var services sync.WaitGroup
	services.Go(func() { e.serve(live, service{name: "heartbeat", once: e.heartbeat}) })
	services.Go(func() { e.serve(ctx, service{name: "rescue", once: e.rescue}) })
	services.Go(func() { e.serve(ctx, service{name: "promote", once: e.promote, nudge: e.due}) })
	if e.cfg.Bell != nil {
		services.Go(func() { e.serve(ctx, service{name: "listen", once: e.listen}) })
	}
	services.Go(func() { e.serve(ctx, service{name: "advance", once: e.advance, nudge: e.decide}) })

	if e.cfg.Gates != nil {
		services.Go(func() { e.serve(ctx, service{name: "gates", once: e.gate, nudge: e.gates.nudge}) })
	}

	if e.cfg.Turns != nil {
		services.Go(func() { e.serve(ctx, service{name: "turn", once: e.turn, nudge: e.turns.nudge}) })
	}
	if e.cfg.Flow != nil {
		services.Go(func() { e.serve(ctx, service{name: "expire", once: e.expire}) })
	}
	if e.cfg.Archiver != nil {
		services.Go(func() { e.serve(ctx, service{name: "archive", once: e.archive}) })
	}

	err := e.dispatch(ctx)

	stop()
	services.Wait()
	return err
}

// nudge signals without blocking; signals that nobody has taken yet are one.
func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// jitter returns d, give or take a quarter, so that processes that were started
// together do not ask together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}
