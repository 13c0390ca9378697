package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"madeira/engine"
	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs/step"
	"madeira/jobs/step/command"
)

// childVariable makes the test binary a worker. It holds an order as JSON.
const childVariable = "MADEIRA_TEST_CHILD"

// An order is what a test asks of a worker that is a process of its own.
type order struct {
	URL     string
	Worker  string
	RunID   string // claim only of this run
	Scratch string
	Point   string // where to die by SIGKILL; "": nowhere
	Memory  uint64 // bytes of address space; 0: no limit
	Makes   bool   // it makes tasks itself, one after the other, and claims them with their commit

	Lease     time.Duration // 0: rigLease
	Folder    string        // of artifacts: it is a whole worker that also runs programs; "": it only works
	Schedules bool          // it follows the schedules of stormJobs
	Upstream  string        // URL that steps call
	ClockSeed uint64        // decides how its clock steps; 0: it is right
}

// What a step of a child does beside its effect.
type chores struct {
	Milliseconds int  // it takes, in two halves
	Fails        int  // its first attempts that fail
	Bad          bool // it fails for good
	Busy         bool // it computes meanwhile, and looks neither left nor right
	Bloat        bool // it takes memory until its process dies
	Calls        bool // it calls the upstream
	Deaf         bool // it does not notice that it is cancelled
}

// A childWorker carries out an order.
type childWorker struct {
	order
	db *store.DB

	mu  sync.Mutex
	fat [][]byte

	lent sync.Map // ids of tasks that were claimed by the commit that made them
}

func childMain(text string) int {
	c := &childWorker{}
	if err := json.Unmarshal([]byte(text), &c.order); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := c.serve(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	switch {
	case errors.Is(err, errUnstarted):
		return exitUnstarted
	case err != nil:
		return 1
	}
	return 0
}

// exitUnstarted is what a child ends with that could not begin: whoever started it
// starts it again.
const exitUnstarted = 3

var errUnstarted = errors.New("the database did not let this worker begin")

func (c *childWorker) serve(ctx context.Context) (err error) {
	if c.Memory > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: c.Memory, Max: c.Memory}); err != nil {
			return err
		}
	}
	db, err := store.Open(ctx, c.URL, store.Options{MaxConns: 6})
	if err != nil {
		return errors.Join(errUnstarted, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c.db = db
	types := []step.Type{{Name: "work", Runner: runner(c.work)}}
	cfg := engine.Config{
		Queue: relay{Queue: db, before: c.before, after: c.after}, Comparer: db, Artifacts: noFiles{}, Connections: outside{},
		Clock: time.Now, Worker: c.Worker, RunID: c.RunID, Scratch: c.Scratch, Slots: 4, Lease: cmp.Or(c.Lease, rigLease), Poll: rigPoll,
		Grace: 5 * time.Second, Patience: time.Second, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if c.Folder != "" {
		files, err := c.complete(ctx, &cfg)
		if err != nil {
			return err
		}
		defer func() { _ = files.Close() }()
		types = append(types, command.Type())
	}
	if cfg.Registry, err = step.NewRegistry(types...); err != nil {
		return err
	}
	cfg.Door = doorman{Door: db, repay: func(repay func([]task.Claimed, error), claimed []task.Claimed, err error) {
		if len(claimed) > 0 {
			c.point("claimed with its enqueue")
		}
		for _, t := range claimed {
			c.lent.Store(t.TaskID, true)
		}
		repay(claimed, err)
	}}
	e, err := engine.New(cfg)
	if err != nil {
		return err
	}
	if err := db.RegisterWorker(ctx, task.Worker{ID: c.Worker, Host: "h", PID: os.Getpid(), Version: "1"}); err != nil {
		return errors.Join(errUnstarted, err)
	}
	if c.Schedules {
		defer c.follow(ctx, e)()
	}
	if c.Makes {
		var making sync.WaitGroup
		making.Go(func() { c.make(ctx) })
		defer making.Wait()
	}
	return e.Run(ctx)
}

// make makes a task now and then, as a process does that works at them as well.
func (c *childWorker) make(ctx context.Context) {
	for i := 0; idle(ctx, 20*time.Millisecond) == nil; i++ {
		key := fmt.Sprint(c.Worker, "/", i)
		if _, err := c.db.Enqueue(ctx, []task.Lone{{Type: "work", Key: key, Payload: json.RawMessage(`{}`)}}); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// pointOf is a point that a task reaches; of a process that makes its own tasks, one
// that was claimed by the commit that made it.
func (c *childWorker) pointOf(id int64, name string) {
	if _, lent := c.lent.Load(id); lent || !c.Makes {
		c.point(name)
	}
}

// point is where a child may be ordered to die.
func (c *childWorker) point(name string) {
	if name == c.Point {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

func (c *childWorker) before(call string) error {
	c.point("before " + call)
	return nil
}

func (c *childWorker) after(call string) error {
	c.point("after " + call)
	return nil
}

func (c *childWorker) work(ctx context.Context, in step.Input) (step.Output, error) {
	c.pointOf(in.Task.ID, "step begins")
	var do chores
	if err := json.Unmarshal(in.Settings, &do); err != nil {
		return step.Output{}, step.Permanent(err)
	}
	if do.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	half := time.Duration(do.Milliseconds) * time.Millisecond / 2
	for i := range 2 {
		if err := c.spend(ctx, half, do); err != nil {
			return step.Output{}, err
		}
		if i == 0 {
			c.pointOf(in.Task.ID, "step in the middle")
		}
	}
	switch {
	case do.Bad:
		return step.Output{}, step.Permanent(errors.New("column missing"))
	case in.Task.Attempt <= do.Fails:
		return step.Output{}, errors.New("the upstream answers 503")
	}
	if do.Calls {
		if err := c.call(ctx, in.Task); err != nil {
			return step.Output{}, err
		}
	}
	err := commit(ctx, c.db, in.Task, func() { c.pointOf(in.Task.ID, "effect before its commit") }, func() { c.pointOf(in.Task.ID, "effect after its commit") })
	return step.Output{}, err
}

// spend takes time, and processor and memory if that is asked for.
func (c *childWorker) spend(ctx context.Context, d time.Duration, do chores) error {
	if !do.Busy {
		if err := idle(ctx, d); err != nil {
			return err
		}
	}
	for began := time.Now(); do.Busy && time.Since(began) < d; {
	}
	for do.Bloat {
		c.mu.Lock()
		c.fat = append(c.fat, make([]byte, 64<<20))
		c.mu.Unlock()
	}
	return nil
}
