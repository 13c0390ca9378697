package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"madeira/engine/store/storetest"
)

// seedVariable repeats a kill test with the moments of an earlier one.
const seedVariable = "MADEIRA_TEST_SEED"

// killLease is long enough for a worker to keep what it holds on a machine that is
// many times overloaded: a lease lost for want of time counts as a death, too.
const killLease = "8s"

// TestFault_F01_KilledAtRandomMoments kills one of four that serve twenty times
// while a schedule makes a run each second, and then lets them finish.
func TestFault_F01_KilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) { killed(t, url, 20) })
}

func killed(t *testing.T, url string, times int) {
	dir := initFolder(t)
	bigBill(t, dir, 100) // enough for a kill to hit a step in the middle
	edit(t, dir, "madeira.yaml", "channels:", "limits: {lease: "+killLease+", poll: 100ms}\nchannels:")
	want := undisturbed(t, dir, another(t, url))
	quiet, err := os.ReadFile(filepath.Join(dir, "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	everySecond(t, dir)
	ok(t, "migrate", "--database", url)

	k := &killer{t: t, dir: dir, url: url, db: database(t, url), rng: seeded(t)}
	silence := sync.OnceFunc(func() { // for processes that begin later
		write(t, filepath.Join(dir, "job.yaml"), string(quiet))
		k.dismiss()
		k.quiet = true
	})
	for i := range times {
		// Where a run takes longer than the second until the next, runs would pile
		// up without end: without a schedule in the job none is added.
		if runs := mustRows(t, k.db, "SELECT id FROM run"); len(runs) > times+times/4 {
			silence()
		}
		k.kill(i)
	}
	silence()
	k.finish()

	wantEveryInstant(t, k.db)
	if bad := mustRows(t, k.db, "SELECT id, upstream_key, status FROM run WHERE status NOT IN ('success', 'warning')"); len(bad) != 0 {
		t.Errorf("runs have ended badly:\n%s", strings.Join(bad, "\n"))
	}
	wantTargets(t, "after the kills", targets(t, k.db), want)
	wantSound(t, url)
	crashed := mustRows(t, k.db, "SELECT task_id FROM task_log WHERE reason = 'lease_lost'")
	t.Logf("%d kills hit %d attempts of %d runs", times, len(crashed), len(mustRows(t, k.db, "SELECT id FROM run")))
	if len(crashed) == 0 {
		t.Error("no kill has hit an attempt: the test has tested nothing")
	}
}

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("%s=%d", seedVariable, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// openTasks finds what is still to be done.
const openTasks = "SELECT id FROM task_queue WHERE state IN ('blocked', 'pending', 'processing', 'waiting')"

// A killer lets four processes serve a folder and ends one after the other in a
// way that leaves no time.
type killer struct {
	t        *testing.T
	dir, url string
	db       *sql.DB
	rng      *rand.Rand
	team     []*child
	quiet    bool // no more runs are made
}

// hire starts processes until there are four.
func (k *killer) hire() {
	k.t.Helper()
	for len(k.team) < 4 {
		k.team = append(k.team, start(k.t, k.dir, nil, "serve", "--database", k.url))
	}
}

// kill kills one of the team at a random moment and starts another in its place:
// every other time any of them, within a second, else one that was seen to work,
// within a twentieth of one.
func (k *killer) kill(n int) {
	k.t.Helper()
	k.hire()
	c, most := k.team[k.rng.IntN(len(k.team))], time.Second
	c.serving(k.t, k.db)
	if n%2 == 1 {
		eventually(k.t, childTime, "a claim, or the end of all work", func(ctx context.Context) (bool, error) {
			if at, err := k.working(ctx); at != nil || err != nil {
				c = cmp.Or(at, c)
				return err == nil, err
			}
			open, err := rows(ctx, k.db, openTasks)
			return err == nil && len(open) == 0 && k.quiet, err
		})
		most /= 20
	}
	eventually(k.t, childTime, "a moment to kill", func(ctx context.Context) (bool, error) {
		time.Sleep(time.Duration(k.rng.Int64N(int64(most)))) // the moment itself; nothing waits for anything here
		c.signal(k.t, syscall.SIGSTOP)
		spare, err := k.wouldPoison(ctx, c)
		if spare || err != nil {
			c.signal(k.t, syscall.SIGCONT)
			return false, err
		}
		c.signal(k.t, syscall.SIGKILL)
		return true, nil
	})
	if got := c.wait(k.t); got != -1 {
		k.t.Fatalf("the child exits with %d before it is killed", got)
	}
	k.team = slices.DeleteFunc(k.team, func(one *child) bool { return one == c })
	k.hire()
}

// working returns one of the team that works at something, or nil.
func (k *killer) working(ctx context.Context) (*child, error) {
	for _, c := range k.team {
		if held, err := c.held(ctx, k.db, ""); held || err != nil {
			return c, err
		}
	}
	return nil, nil
}

// wouldPoison reports whether the child works at a task over which two workers
// have died: the third makes it an error by design, which is not what is tested
// here. The child stands still meanwhile, so that the answer holds until it is killed.
func (k *killer) wouldPoison(ctx context.Context, c *child) (bool, error) {
	found, err := rows(ctx, k.db, `SELECT q.id FROM task_queue q JOIN task_lease l ON l.task_id = q.id
		JOIN worker w ON w.id = l.worker WHERE q.crashes >= 2 AND w.pid = $1`, c.cmd.Process.Pid)
	return len(found) > 0, err
}

// finish lets a team work until nothing is left and stops it.
func (k *killer) finish() {
	k.t.Helper()
	k.hire()
	eventually(k.t, 3*childTime, "the end of all runs", func(ctx context.Context) (bool, error) {
		open, err := rows(ctx, k.db, openTasks)
		return err == nil && len(open) == 0, err
	})
	k.dismiss()
}

// dismiss stops the team in good order.
func (k *killer) dismiss() {
	k.t.Helper()
	for _, c := range k.team {
		c.serving(k.t, k.db)
		c.signal(k.t, syscall.SIGTERM)
	}
	for _, c := range k.team {
		if got := c.wait(k.t); got != exitOK {
			k.t.Errorf("a child that was told to stop exits with %d, want 0", got)
		}
	}
	k.team = nil
}

// wantEveryInstant checks that every second from the first due time to the
// watermark has one occurrence, that each has made a run, and no run is without.
func wantEveryInstant(t *testing.T, db *sql.DB) {
	t.Helper()
	second := func(column string) string { return column + " / 1000000" }
	if _, err := rows(t.Context(), db, "SELECT "+second("due_at")+" FROM occurrence"); err != nil {
		second = func(column string) string { return "CAST(extract(epoch FROM " + column + ") AS bigint)" }
	}
	due := mustRows(t, db, "SELECT "+second("o.due_at")+" AS at, o.outcome, r.version FROM occurrence o LEFT JOIN run r ON r.id = o.run_id ORDER BY 1")
	mark := mustRows(t, db, "SELECT "+second("watermark")+" AS at FROM schedule_entry")
	if len(due) == 0 || len(mark) != 1 {
		t.Fatalf("there are %d due times and %d watermarks, want some and one", len(due), len(mark))
	}
	var first, last int64
	if _, err := fmt.Sscanf(due[0], "at=%d", &first); err != nil {
		t.Fatalf("%s: %v", due[0], err)
	}
	if _, err := fmt.Sscanf(mark[0], "at=%d", &last); err != nil {
		t.Fatalf("%s: %v", mark[0], err)
	}
	if want := last - first + 1; int64(len(due)) != want {
		t.Errorf("there are %d due times from %d to %d, want %d", len(due), first, last, want)
	}
	for i, line := range due {
		ran, caughtUp := fmt.Sprintf("at=%d outcome=ran version=1 ", first+int64(i)), fmt.Sprintf("at=%d outcome=caught_up version=1 ", first+int64(i))
		if line != ran && line != caughtUp {
			t.Errorf("due time %d is %q, want %q or %q", i, line, ran, caughtUp)
		}
	}
	if runs := mustRows(t, db, "SELECT id FROM run"); len(runs) != len(due) {
		t.Errorf("there are %d runs for %d due times", len(runs), len(due))
	}
}
