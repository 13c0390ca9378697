package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// A child is a worker that is a process of its own.
type child struct {
	name   string
	cmd    *exec.Cmd
	stderr safeBuffer
	ended  chan struct{}
}

// spawn starts a child, and tells what it said if the test fails.
func (r *rig) spawn(o order, env ...string) *child {
	r.Helper()
	var c *child
	r.Cleanup(func() {
		if r.Failed() && c != nil {
			r.Logf("worker %s said:\n%s", o.Worker, c.stderr.String())
		}
	})
	c = r.launch(o, env...)
	return c
}

// launch starts a child. One that a failed test leaves behind is killed.
func (r *rig) launch(o order, env ...string) *child {
	r.Helper()
	o.URL, o.Scratch = r.url, r.TempDir()
	text, err := json.Marshal(o)
	if err != nil {
		r.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	c := &child{name: o.Worker, cmd: exec.Command(self), ended: make(chan struct{})}
	c.cmd.Env = append(append(os.Environ(), env...), childVariable+"="+string(text))
	c.cmd.Stderr = &c.stderr
	if err := c.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait() // ProcessState says how it ended
	}()
	r.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it has ended, unless the test failed
		<-c.ended
	})
	return c
}

func (r *rig) signal(c *child, s syscall.Signal) {
	r.Helper()
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.Fatalf("send %s to worker %s: %v", s, c.name, err)
	}
}

// wait waits for the end of a child and returns its exit code, -1 after a deadly signal.
func (r *rig) wait(c *child) int {
	r.Helper()
	select {
	case <-c.ended:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(rigTime):
		r.Fatalf("worker %s has not ended within %s", c.name, rigTime)
		return 0
	}
}

// retire ends a child in good order, once it is at work.
func (r *rig) retire(c *child) {
	r.Helper()
	r.eventually("worker "+c.name, func(ctx context.Context) (bool, error) {
		n, err := r.number(ctx, "SELECT count(*) FROM worker WHERE id = $1", c.name)
		return n == 1, err
	})
	r.signal(c, syscall.SIGTERM)
	if code := r.wait(c); code != 0 {
		r.Errorf("worker %s exits with %d, want 0", c.name, code)
	}
}

// do is the settings of a step.
func do(c chores) json.RawMessage {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // numbers and truth values always marshal
	}
	return text
}

// busyWork is a graph of steps that take time, some of which fail at first.
func busyWork(i int) []task.NewTask {
	steps := mixed(i, 8)
	for j := range steps {
		steps[j].Settings = do(chores{Milliseconds: 20 * (j % 3), Fails: (i + j) % 5 / 4})
	}
	return steps
}

// TestFault_F01 kills one of four workers at random moments and starts another in
// its place at once, while runs are made.
func TestFault_F01_FourWorkersKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) { massacre(t, url, 20) })
}

func massacre(t *testing.T, url string, kills int) {
	r, rng := newRig(t, url), seeded(t)
	var team []*child
	died := map[string]time.Time{}
	hire := func() { team = append(team, r.spawn(order{Worker: fmt.Sprint("w", len(died)+len(team))})) }
	for range 4 {
		hire()
	}
	for i := range kills {
		r.mustCreate(fmt.Sprint("k", i), busyWork(i)...)
		victim := team[rng.IntN(len(team))]
		r.eventually("a worker that holds something", func(ctx context.Context) (bool, error) {
			held, err := r.number(ctx, "SELECT count(*) FROM task_lease WHERE worker = $1", victim.name)
			open, err2 := r.number(ctx, openTasks)
			return held > 0 || open == 0, errors.Join(err, err2)
		})
		time.Sleep(time.Duration(rng.Int64N(int64(30 * time.Millisecond)))) // the moment itself
		r.signal(victim, syscall.SIGKILL)
		if code := r.wait(victim); code != -1 {
			t.Fatalf("worker %s exits with %d before it is killed", victim.name, code)
		}
		died[victim.name] = time.Now()
		team = slices.DeleteFunc(team, func(c *child) bool { return c == victim })
		hire()
	}
	r.untilOver()
	for _, c := range team {
		r.retire(c)
	}
	r.wantRecovery(died)
	if n := r.count("SELECT count(*) FROM task_queue WHERE state <> 'success' AND coalesce(reason, '') NOT IN ('poison', 'needs_failed')"); n != 0 {
		t.Errorf("%d tasks have not succeeded, and no three deaths explain it", n)
	}
	r.wantSound()
}

// recovered is how long it took after each death until the tasks of the dead were
// at work again, the shortest first.
func (r *rig) recovered(died map[string]time.Time) []time.Duration {
	r.Helper()
	read, _ := r.db.SQL()
	at := "CAST(extract(epoch FROM b.claimed_at) * 1000000 AS bigint)"
	if strings.HasPrefix(r.url, "sqlite:") {
		at = "b.claimed_at"
	}
	rows, err := read.QueryContext(r.Context(), "SELECT a.worker, "+at+` FROM task_log a JOIN task_log b ON b.task_id = a.task_id AND b.fence = a.fence + 1
		AND b.claimed_at IS NOT NULL WHERE a.reason = 'lease_lost'`)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var took []time.Duration
	for rows.Next() {
		var worker string
		var again int64
		if err := rows.Scan(&worker, &again); err != nil {
			r.Fatal(err)
		}
		death, ok := died[worker]
		if ok && time.UnixMicro(again).After(death) { // a lease may have been lost before that
			took = append(took, time.UnixMicro(again).Sub(death))
		}
	}
	if err := rows.Err(); err != nil {
		r.Fatal(err)
	}
	slices.Sort(took)
	return took
}

func (r *rig) wantRecovery(died map[string]time.Time) {
	r.Helper()
	took := r.recovered(died)
	if len(took) == 0 {
		r.Error("no kill has hit an attempt: the test has tested nothing")
		return
	}
	p99 := took[len(took)*99/100]
	r.Logf("%d kills hit %d attempts; at work again after: p50 %s, p99 %s (lease %s)", len(died), len(took), took[len(took)/2], p99, rigLease)
	if p99 > 20*time.Second {
		r.Errorf("the tasks of dead workers were at work again after %s, want 20s", p99)
	}
}

// TestFault_F02 kills a worker at each point at which that makes a
// difference, and lets another finish what it has left.
func TestFault_F02_AWorkerMayDieAtEveryPoint(t *testing.T) {
	t.Parallel()
	points := []string{
		"before exchange", "after exchange", "before scope", "after scope", "before heartbeat", "after heartbeat",
		"before promote", "after promote", "before rescue", "after rescue", "before undecided", "after undecided", "before decide", "after decide",
		"step begins", "step in the middle", "effect before its commit", "effect after its commit",
	}
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := newRig(t, url)
		for i, point := range points {
			run := r.mustCreate(fmt.Sprint("k", i),
				task.NewTask{Step: "a", Settings: do(chores{Milliseconds: 20})},
				task.NewTask{Step: "b", Settings: do(chores{Fails: 1}), Needs: []string{"a"}, Refs: []string{"a"}, Retry: task.Retry{MaxAttempts: 3, Delay: time.Millisecond}},
				task.NewTask{Step: "bad", Settings: do(chores{Bad: true})},
				task.NewTask{Step: "c", Settings: do(chores{}), Needs: []string{"b", "bad"}, Condition: "always()"})
			c := r.spawn(order{Worker: fmt.Sprint("dies ", point), RunID: run.ID, Point: point})
			if code := r.wait(c); code != -1 {
				t.Errorf("%s: the worker exits with %d, want it killed there", point, code)
			}
		}
		last := r.spawn(order{Worker: "last"})
		r.untilOver()
		r.retire(last)
		if n := r.count("SELECT count(*) FROM task_queue WHERE state <> CASE step WHEN 'bad' THEN 'error' ELSE 'success' END"); n != 0 {
			t.Errorf("%d tasks have not ended as they must", n)
		}
		if n := r.count("SELECT count(*) FROM target"); n != 3*len(points) {
			t.Errorf("there are %d effects, want %d", n, 3*len(points))
		}
		r.wantSound()
	})
}

func TestFault_F03_AStoppedProcessDropsItsResultWhenItGoesOn(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := newRig(t, url)
		first := r.spawn(order{Worker: "first"})
		r.mustCreate("k", task.NewTask{Step: "a", Settings: do(chores{Milliseconds: 2000})})
		r.holds("first", 1)
		time.Sleep(time.Second) // half of the step
		r.signal(first, syscall.SIGSTOP)
		second := r.spawn(order{Worker: "second"})
		r.untilOver()
		r.signal(first, syscall.SIGCONT)
		r.eventually("the first worker's word that its lease is lost", func(context.Context) (bool, error) {
			return strings.Contains(first.stderr.String(), "lease lost"), nil
		})
		r.retire(first)
		r.retire(second)
		if n := strings.Count(first.stderr.String(), "lease lost"); n != 1 {
			t.Errorf("lease lost is in the log %d times, want once\n%s", n, first.stderr.String())
		}
		if n := r.count("SELECT count(*) FROM task_log WHERE to_state = 'success'"); n != 1 {
			t.Errorf("%d successes, want one", n)
		}
		r.wantSound()
	})
}

// TestFault_F07 computes for two leases on the only processor that its process may use.
func TestFault_F07_AStepThatComputesDoesNotStarveItsHeartbeat(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := newRig(t, url)
		lonely := r.spawn(order{Worker: "lonely"}, "GOMAXPROCS=1")
		r.mustCreate("k", task.NewTask{Step: "a", Settings: do(chores{Milliseconds: int(2 * rigLease / time.Millisecond), Busy: true})})
		r.holds("lonely", 1)
		other := r.spawn(order{Worker: "other"})
		r.untilOver()
		r.retire(lonely)
		r.retire(other)
		if n := r.count("SELECT count(*) FROM task_log WHERE to_state = 'success'"); n != 1 {
			t.Errorf("%d successes, want one", n)
		}
		r.wantSound()
	})
}

// TestFault_F11 gives a step less memory than it takes, which ends its process.
func TestFault_F11_AStepThatEndsItsProcessThreeTimesIsPoison(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		r := newRig(t, url)
		retry := task.Retry{MaxAttempts: 10}
		r.mustCreate("k",
			task.NewTask{Step: "bloat", Settings: do(chores{Milliseconds: 1000, Bloat: true}), Retry: retry},
			task.NewTask{Step: "good", Settings: do(chores{}), Retry: retry},
			task.NewTask{Step: "better", Settings: do(chores{Milliseconds: 100}), Retry: retry})
		for i := range 3 {
			c := r.spawn(order{Worker: fmt.Sprint("w", i), Memory: 3 << 30})
			if code := r.wait(c); code != 2 {
				t.Fatalf("the worker exits with %d, want 2, as the runtime does without memory", code)
			}
		}
		last := r.spawn(order{Worker: "last"})
		r.untilOver()
		r.retire(last)
		if got := r.text("SELECT state || ' ' || reason || ' after ' || fence FROM task_queue WHERE step = 'bloat'"); got != "error poison after 3" {
			t.Errorf("the step is %q, want an error, poison, after 3 claims", got)
		}
		if n := r.count("SELECT count(*) FROM task_queue WHERE step <> 'bloat' AND state = 'success' AND fence = 1"); n != 2 {
			t.Errorf("%d of the 2 tasks beside it succeeded at once", n)
		}
		r.wantSound()
	})
}
