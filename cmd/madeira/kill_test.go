package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// TestFault_F01_KilledAtRandomMoments kills serve twenty times while a schedule
// makes a run each second, and then lets it finish.
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

	k := killer{t: t, dir: dir, url: url, db: database(t, url), rng: seeded(t)}
	for i := range times {
		// Where a run takes longer than the second until the next, runs would pile
		// up without end: without a schedule in the job none is added.
		if runs := mustRows(t, k.db, "SELECT id FROM run"); len(runs) > times+times/4 {
			write(t, filepath.Join(dir, "job.yaml"), string(quiet))
		}
		k.kill(i)
	}
	write(t, filepath.Join(dir, "job.yaml"), string(quiet))
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

// A killer starts serve in a folder and ends it in ways that leave no time.
type killer struct {
	t        *testing.T
	dir, url string
	db       *sql.DB
	rng      *rand.Rand
}

// kill starts serve and kills it at a random moment: every other time within the
// second after it has begun to serve, else within a fifth of one after it was
// seen to work.
func (k killer) kill(n int) {
	k.t.Helper()
	c := start(k.t, k.dir, nil, "serve", "--database", k.url)
	most := time.Second
	c.serving(k.t, k.db)
	if n%2 == 1 {
		eventually(k.t, childTime, "a claim, or the end of all work", func(ctx context.Context) (bool, error) {
			if held, err := c.held(ctx, k.db, ""); held || err != nil {
				return held, err
			}
			open, err := rows(ctx, k.db, openTasks)
			return err == nil && len(open) == 0, err
		})
		most /= 5
	}
	eventually(k.t, childTime, "a moment to kill", func(ctx context.Context) (bool, error) {
		time.Sleep(time.Duration(k.rng.Int64N(int64(most)))) // the moment itself; nothing waits for anything here
		c.signal(k.t, syscall.SIGSTOP)
		spare, err := k.wouldPoison(ctx)
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
}

// wouldPoison reports whether a task runs over which two workers have died: the
// third makes it an error by design, which is not what is tested here. The child
// stands still meanwhile, so that the answer holds until it is killed.
func (k killer) wouldPoison(ctx context.Context) (bool, error) {
	found, err := rows(ctx, k.db, "SELECT q.id FROM task_queue q JOIN task_lease l ON l.task_id = q.id WHERE q.crashes >= 2")
	return len(found) > 0, err
}

// finish lets serve work until nothing is left and stops it.
func (k killer) finish() {
	k.t.Helper()
	c := start(k.t, k.dir, nil, "serve", "--database", k.url)
	eventually(k.t, 3*childTime, "the end of all runs", func(ctx context.Context) (bool, error) {
		open, err := rows(ctx, k.db, openTasks)
		return err == nil && len(open) == 0, err
	})
	c.signal(k.t, syscall.SIGTERM)
	if got := c.wait(k.t); got != exitOK {
		k.t.Errorf("the last child exits with %d, want 0", got)
	}
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
