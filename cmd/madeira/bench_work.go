package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"madeira/engine/task"
)

// A bench is one measurement in a place of its own.
type bench struct {
	program *program
	process *process
	place   *benchPlace
	options benchOptions
	step    *benchStep
}

// A tally is an observer that knows when a number of tasks is in the database as
// ended.
type tally struct {
	left   atomic.Int64
	failed atomic.Pointer[task.Outcome]
	done   chan struct{}
}

func newTally(n int) *tally {
	t := &tally{done: make(chan struct{})}
	t.left.Store(int64(n))
	return t
}

func (t *tally) Started(task.Claimed) {}

func (t *tally) Ended(_ task.Claimed, o task.Outcome) {
	if o.To != task.Success {
		t.failed.CompareAndSwap(nil, &o)
	}
	if t.left.Add(-1) == 0 {
		close(t.done)
	}
}

// wait returns when all have ended, with an error if one did not end well.
func (t *tally) wait(ctx context.Context) error {
	select {
	case <-t.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if o := t.failed.Load(); o != nil {
		return fmt.Errorf("task %d ended as %s: %+v", o.TaskID, o.To, o.Failure)
	}
	return nil
}

// A relay hands what it is told to whichever tally is current.
type relay struct{ current atomic.Pointer[tally] }

func (r *relay) Started(task.Claimed) {}

func (r *relay) Ended(c task.Claimed, o task.Outcome) {
	if t := r.current.Load(); t != nil {
		t.Ended(c, o)
	}
}

// working runs an engine while fn runs.
func (b *bench) working(ctx context.Context, observer *relay, fn func(context.Context) error) error {
	worker, err := b.process.engine(ctx, "", observer)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var ended sync.WaitGroup
	var failure error
	ended.Go(func() { failure = worker.Run(running) })
	err = fn(ctx)
	stop()
	ended.Wait()
	return errors.Join(err, failure)
}

// work works at n tasks that lie ready, and returns how long it took from the
// start of the engine until the last of them was in the database as ended.
func (b *bench) work(ctx context.Context, n int) (time.Duration, error) {
	t := newTally(n)
	observer := &relay{}
	observer.current.Store(t)
	var took time.Duration
	start := time.Now()
	err := b.working(ctx, observer, func(ctx context.Context) error {
		err := t.wait(ctx)
		took = time.Since(start)
		return err
	})
	return took, err
}

// lone is a task that does nothing.
func lone(payload string) task.Lone {
	return task.Lone{Type: benchType, Payload: json.RawMessage(payload)}
}

// bulk inserts tasks in lists, and works at them.
func (b *bench) bulk(ctx context.Context, r *benchResult) error {
	start := time.Now()
	for left := b.options.tasks; left > 0; left -= 1000 {
		list := make([]task.Lone, min(left, 1000))
		for i := range list {
			list[i] = lone(fmt.Sprintf(`{"n": %d, "s": "hello"}`, left-i))
		}
		if _, err := b.process.db.Enqueue(ctx, list); err != nil {
			return err
		}
	}
	r.Inserted = float64(b.options.tasks) / time.Since(start).Seconds()
	if err := b.place.settle(ctx, b.process.db); err != nil {
		return err
	}
	took, err := b.work(ctx, b.options.tasks)
	r.Worked = float64(b.options.tasks) / took.Seconds()
	return err
}

// single inserts tasks one a call from several callers.
func (b *bench) single(ctx context.Context, r *benchResult) error {
	each := max(1, b.options.singles/b.options.clients)
	errs := make([]error, b.options.clients)
	var callers sync.WaitGroup
	start := time.Now()
	for c := range errs {
		callers.Go(func() {
			for i := 0; i < each && errs[c] == nil; i++ {
				_, errs[c] = b.process.db.Enqueue(ctx, []task.Lone{lone(fmt.Sprintf(`{"n": %d, "s": "hello"}`, i))})
			}
		})
	}
	callers.Wait()
	total := each * b.options.clients
	r.Singles = float64(total) / time.Since(start).Seconds()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := b.work(ctx, total) // out of the way of what follows
	return err
}

// queuedRuns makes runs of one step, and works at them.
func (b *bench) queuedRuns(ctx context.Context, r *benchResult) error {
	for range b.options.runs {
		if _, err := b.process.db.CreateRun(ctx, benchRun(1, false)); err != nil {
			return err
		}
	}
	if err := b.place.settle(ctx, b.process.db); err != nil {
		return err
	}
	took, err := b.work(ctx, b.options.runs)
	r.Runs = float64(b.options.runs) / took.Seconds()
	return err
}

// graph makes run after run, and takes the median of the times from just before
// one is made until its end is in the database.
func (b *bench) graph(ctx context.Context, r *benchResult) error {
	kind, n, err := b.options.shape()
	if err != nil {
		return err
	}
	observer := &relay{}
	var times []time.Duration
	err = b.working(ctx, observer, func(ctx context.Context) error {
		for range b.options.repeat + 1 { // the first prepares the statements
			t := newTally(n)
			observer.current.Store(t)
			start := time.Now()
			if _, err := b.process.db.CreateRun(ctx, benchRun(n, kind == "chain")); err != nil {
				return err
			}
			if err := t.wait(ctx); err != nil {
				return err
			}
			times = append(times, time.Since(start))
		}
		return nil
	})
	if err != nil {
		return err
	}
	times = times[1:]
	slices.Sort(times)
	r.DAG = float64(times[len(times)/2].Microseconds()) / 1000
	return nil
}

// benchRun is a run of n steps, one after the other or side by side.
func benchRun(n int, chain bool) task.NewRun {
	run := task.NewRun{
		Run: task.Run{Job: "bench", JobDigest: "sha256:bench", Trigger: "manual", Inputs: json.RawMessage(`{}`)},
		Job: task.JobVersion{Name: "bench", Digest: "sha256:bench", Path: "bench.yaml", Source: []byte("name: bench\n")},
	}
	for i := range n {
		t := task.NewTask{Step: fmt.Sprintf("s%d", i), Type: benchType, Settings: json.RawMessage(`{"n": 1}`), Priority: task.DefaultPriority}
		if chain && i > 0 {
			t.Needs = []string{fmt.Sprintf("s%d", i-1)}
		}
		run.Tasks = append(run.Tasks, t)
	}
	return run
}
