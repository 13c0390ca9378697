package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// benchType is the type of the steps that do nothing.
const benchType = "noop"

// idleTime is how long a worker has nothing to do before tasks come.
const idleTime = time.Second

// A benchStep does nothing but note when it began, where the payload says when
// the call began that inserted it.
type benchStep struct {
	program bool // it starts true

	mu    sync.Mutex
	times []time.Duration
}

func (s *benchStep) Run(ctx context.Context, in step.Input) (step.Output, error) {
	now := time.Now()
	var sent struct {
		At int64 `json:"at"` // nanoseconds since 1970
	}
	if err := json.Unmarshal(in.Settings, &sent); err != nil {
		return step.Output{}, err
	}
	if sent.At > 0 {
		s.mu.Lock()
		s.times = append(s.times, now.Sub(time.Unix(0, sent.At)))
		s.mu.Unlock()
	}
	if s.program {
		return step.Output{}, exec.CommandContext(ctx, "true").Run()
	}
	return step.Output{}, nil
}

// taken returns the times noted so far.
func (s *benchStep) taken() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.times...)
}

// starts measures the time from just before an insert until the task begins,
// with a worker that has nothing else to do.
func (b *bench) starts(ctx context.Context, r *benchResult) error {
	var times []time.Duration
	var err error
	if b.options.processes == 2 {
		times, err = b.startsApart(ctx)
	} else {
		err = b.working(ctx, &relay{}, func(ctx context.Context) error {
			err := b.trickle(ctx)
			times = b.step.taken()
			return err
		})
	}
	if err != nil {
		return err
	}
	if want := b.trickled(); len(times) != want {
		return fmt.Errorf("%d of %d tasks were started within %s of the last insert", len(times), want, settleTime)
	}
	r.Latency = quantilesOf(times)
	return nil
}

// trickled is how many tasks trickle inserts.
func (b *bench) trickled() int { return int(b.options.latency.Seconds() * float64(b.options.rate)) }

// settleTime is how long the last tasks may take to be worked.
const settleTime = 20 * time.Second

// trickle inserts tasks evenly, and waits until all are worked.
func (b *bench) trickle(ctx context.Context) error {
	if err := sleep(ctx, idleTime); err != nil {
		return err
	}
	next := time.Now()
	for range b.trickled() {
		if err := sleep(ctx, time.Until(next)); err != nil {
			return err
		}
		next = next.Add(time.Second / time.Duration(b.options.rate))
		payload := fmt.Sprintf(`{"at": %d}`, time.Now().UnixNano())
		if _, err := b.process.db.Enqueue(ctx, []task.Lone{lone(payload)}); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(settleTime); time.Now().Before(deadline); {
		var open int
		read, _ := b.process.db.SQL()
		if err := read.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM task_ready) + (SELECT count(*) FROM task_lease)").Scan(&open); err != nil || open == 0 {
			return err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startsApart is starts with the worker in a process of its own.
func (b *bench) startsApart(ctx context.Context) (times []time.Duration, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	limits := b.process.config.limits
	c := exec.CommandContext(ctx, self, "bench", "worker", "--database", b.process.config.database)
	c.Dir, c.Stderr = b.process.config.root, b.program.stderr
	c.Env = append(append([]string{}, b.program.environ...), fmt.Sprintf("MADEIRA_WORKERS=%d", limits.Workers),
		fmt.Sprintf("MADEIRA_LEASE=%dms", limits.Lease.Milliseconds()), fmt.Sprintf("MADEIRA_POLL=%dms", limits.Poll.Milliseconds()))
	stdin, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	output := bufio.NewReader(stdout)
	_, err = output.ReadString('\n') // it is ready
	if err == nil {
		err = b.trickle(ctx)
	}
	_ = stdin.Close()
	if err == nil {
		err = json.NewDecoder(output).Decode(&times)
	}
	return times, errors.Join(err, c.Wait())
}

// benchWorkerCommand is the other process of bench queue --processes 2.
func (p *program) benchWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker", Hidden: true, Args: arguments(0, 0),
		Short: "Work at the tasks of bench queue until standard input ends",
		RunE:  func(c *cobra.Command, _ []string) error { return p.benchWorker(c.Context()) },
	}
}

func (p *program) benchWorker(ctx context.Context) error {
	cfg, err := loadConfig(ctx, ".", p.database, p.environ)
	if err != nil {
		return err
	}
	if cfg.root, err = os.Getwd(); err != nil {
		return err
	}
	b, err := p.openBench(ctx, &benchPlace{config: cfg}, benchOptions{})
	if err != nil {
		return err
	}
	err = b.working(ctx, &relay{}, func(context.Context) error {
		if _, err := fmt.Fprintln(p.stdout, "ready"); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	})
	if err == nil {
		err = json.NewEncoder(p.stdout).Encode(b.step.taken())
	}
	return errors.Join(err, b.process.close())
}
