package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine"
	"madeira/engine/task"
)

// handBell is rung by a test.
type handBell chan task.News

func (handBell) Ring() {}

func (b handBell) Listen(ctx context.Context, heard func(task.News)) error {
	for {
		select {
		case n := <-b:
			heard(n)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// countedGates counts the looks at what gates hold.
type countedGates struct {
	engine.Gates
	looks *atomic.Int64
}

func (g countedGates) Admit(ctx context.Context, limit int) (int, time.Duration, error) {
	g.looks.Add(1)
	return g.Gates.Admit(ctx, limit)
}

func TestListen_WhatIsOnlyReadyIsClaimedWithoutALookAtTheGates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		w := newWorld(t, map[string]runner{"work": noting(d, 0)})
		bell := make(handBell)
		var looks atomic.Int64
		cfg := w.lending(d)
		cfg.Door, cfg.Bell, cfg.Gates = nil, bell, countedGates{Gates: w.db, looks: &looks}
		w.start(w.engine(cfg))
		time.Sleep(time.Second)
		before := looks.Load()
		w.enqueue("work")
		bell <- task.NewsReady
		time.Sleep(time.Second)
		w.wantRows("success 1/1/0")
		if n := looks.Load() - before; n != 0 {
			t.Errorf("%d looks at the gates after a ring for what is ready, want none", n)
		}
		bell <- task.NewsAny
		time.Sleep(time.Second)
		if looks.Load() == before {
			t.Error("no look at the gates after a ring for anything")
		}
	})
}
