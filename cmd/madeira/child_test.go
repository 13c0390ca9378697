package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// childTime is how long a child may take for what takes a second on a machine
// that has nothing else to do.
const childTime = 2 * time.Minute

// A child is madeira as a process of its own.
type child struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer // to be read when the child has ended
	stderr *printed
	ended  chan struct{}
}

// A printed text can be read while it grows.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// start starts madeira in a folder. A child that a failed test leaves behind is
// killed.
func start(t *testing.T, dir string, env []string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(self, args...), stderr: &printed{}, ended: make(chan struct{})}
	c.cmd.Dir = dir
	c.cmd.Env = append(append(cleanEnviron(), childVariable+"=1"), env...)
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, c.stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait() // ProcessState says how it ended
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it has ended, unless the test failed
		<-c.ended
		if t.Failed() {
			t.Logf("madeira %v said:\n%s", args, c.stderr)
		}
	})
	return c
}

func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("send %s to process %d: %v", s, c.cmd.Process.Pid, err)
	}
}

// wait waits for the end and returns the exit code, -1 after a deadly signal.
func (c *child) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-c.ended:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(childTime):
		t.Fatalf("process %d has not ended within %s", c.cmd.Process.Pid, childTime)
		return 0
	}
}

// holds waits until the child works at a step. What an earlier process
// left behind does not count.
func (c *child) holds(t *testing.T, db *sql.DB, step string) {
	t.Helper()
	eventually(t, childTime, "a claim of step "+step, func(ctx context.Context) (bool, error) {
		if c.over() {
			t.Fatalf("process %d ended before it claimed anything:\n%s", c.cmd.Process.Pid, c.stderr)
		}
		return c.held(ctx, db, step)
	})
}

// held reports whether the child works at a step; "" is any.
func (c *child) held(ctx context.Context, db *sql.DB, step string) (bool, error) {
	found, err := rows(ctx, db, `SELECT q.step FROM task_lease l JOIN task_queue q ON q.id = l.task_id JOIN worker w ON w.id = l.worker
		WHERE w.pid = $1 AND ($2 = '' OR q.step = $3)`, c.cmd.Process.Pid, step, step)
	return len(found) > 0, err
}

// serving waits until the child has reached its engine.
func (c *child) serving(t *testing.T, db *sql.DB) {
	t.Helper()
	eventually(t, childTime, "a worker of the child", func(ctx context.Context) (bool, error) {
		if c.over() {
			t.Fatalf("process %d ended before it served:\n%s", c.cmd.Process.Pid, c.stderr)
		}
		found, err := rows(ctx, db, "SELECT id FROM worker WHERE pid = $1", c.cmd.Process.Pid)
		return len(found) > 0, err
	})
}

func (c *child) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}
