//go:build soak && linux

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

const (
	stormVariable = "MADEIRA_TEST_STORM" // how long a storm lasts, such as 4m; "": stormTime
	seedVariable  = "MADEIRA_TEST_SEED"  // repeats the events of an earlier storm; "": those of a new one

	stormTime  = 30 * time.Minute
	stormLease = 6 * time.Second  // on a machine that is busy with two storms
	stormPause = 4 * time.Second  // between two events, at most
	stormDisk  = 600              // MB, which nobody fills but the storm
	stormDrain = 10 * time.Minute // for what takes a minute on a machine that has nothing else to do
)

// TestSoak_F74 brings everything at once over four workers, two of which also
// follow schedules: they are killed, stopped and replaced, the database restarts or
// is held by another, its disk is full for a minute, clocks step, and the upstream
// of the steps is slow and flaky. Afterwards the rows have to tell a story without
// a gap.
func TestSoak_F74_EverythingAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		file, dir := storetest.SQLite(t), stormFolder(t)
		if dir != "" {
			file = "sqlite://" + filepath.Join(dir, "madeira.db")
		}
		newStorm(t, newRig(t, file), nil, dir).live()
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		c, r := server(t)
		dir := stormFolder(t)
		if dir != "" {
			r.moveTo(dir)
		}
		newStorm(t, r, c, dir).live()
	})
}

// stormFolder is where a disk is mounted that may be filled; "" where that is not
// allowed.
func stormFolder(t *testing.T) string {
	t.Helper()
	dir, err := mountDisk(t, stormDisk)
	if err != nil {
		t.Logf("the disk is never full: %v", err)
	}
	return dir
}

// A storm is a team of processes on one database, and what is brought over them. Its
// fields are of the goroutine of the test; others only wait for the end of a fault.
type storm struct {
	*rig
	seed    uint64
	rng     *rand.Rand
	lasts   time.Duration
	cluster *storetest.Cluster // nil: on SQLite
	disk    string             // that may be filled; "": none may
	other   *store.DB          // of somebody who is no worker
	up      *upstream
	folder  string // of artifacts
	began   time.Time

	team   [4]*child // the first two follow the schedules, and every other one has a wrong clock
	all    []*child  // whoever was in the team
	died   map[string]time.Time
	ending sync.WaitGroup // faults that are not over yet
	writes sync.Mutex     // held by another writer

	mu     sync.Mutex
	still  map[*child]bool // stopped, and will go on
	full   bool            // the disk is
	counts map[string]int
	story  []string
}

func newStorm(t *testing.T, r *rig, c *storetest.Cluster, disk string) *storm {
	t.Helper()
	seed, lasts := rand.Uint64N(1<<53), stormTime
	var err, err2 error
	if text := os.Getenv(seedVariable); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
	}
	if text := os.Getenv(stormVariable); text != "" {
		lasts, err2 = time.ParseDuration(text)
	}
	if err := errors.Join(err, err2); err != nil {
		t.Fatalf("%s or %s: %v", seedVariable, stormVariable, err)
	}
	t.Logf("%s=%d", seedVariable, seed)
	s := &storm{
		rig: r, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), lasts: lasts, cluster: c, disk: disk, other: r.open(r.url, store.Options{}),
		up: newUpstream(t, seed), folder: t.TempDir(), died: map[string]time.Time{}, still: map[*child]bool{}, counts: map[string]int{},
	}
	t.Cleanup(s.report)
	return s
}

// live goes through the storm, lets everything come to its end, and judges.
func (s *storm) live() {
	s.Helper()
	s.began = time.Now()
	for i := range s.team {
		s.hire(i, true)
	}
	orders := s.order()
	s.blow()
	s.ending.Wait()
	s.note("calm", "")
	s.up.well.Store(true)
	acked := orders.stop()
	s.drain()
	s.verdict(acked)
}

// note puts something into the story.
func (s *storm) note(what, whom string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
	s.story = append(s.story, fmt.Sprintf("%8.2f %s %s", time.Since(s.began).Seconds(), what, whom))
}

// hire fills a place in the team.
func (s *storm) hire(place int, follows bool) {
	s.Helper()
	o := order{Worker: fmt.Sprint("w", len(s.all)), Lease: stormLease, Folder: s.folder, Upstream: s.up.URL, Schedules: follows && place < 2}
	if place%2 == 1 {
		o.ClockSeed = s.seed + uint64(len(s.all))
	}
	s.team[place] = s.launch(o)
	s.all = append(s.all, s.team[place])
}

// attend fills the places of those who ended by themselves, which only who could
// not begin may do.
func (s *storm) attend() {
	s.Helper()
	for i, c := range s.team {
		select {
		case <-c.ended:
		default:
			continue
		}
		if code := c.cmd.ProcessState.ExitCode(); code != exitUnstarted {
			s.Errorf("worker %s has ended by itself, with %d", c.name, code)
		}
		s.note("could not begin", c.name)
		s.hire(i, true)
	}
}

// blow brings one event after the other until the time is over.
func (s *storm) blow() {
	s.Helper()
	whenFull := s.began.Add(s.lasts/4 + time.Duration(s.rng.Int64N(int64(s.lasts/4))))
	if s.disk == "" {
		whenFull = s.began.Add(2 * s.lasts)
	}
	next := s.began
	for end := s.began.Add(s.lasts); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		s.attend()
		if time.Now().After(whenFull) {
			whenFull = end.Add(s.lasts)
			s.fill(min(time.Minute, s.lasts/8))
		}
		if time.Now().After(next) {
			s.event()
			next = time.Now().Add(time.Duration(s.rng.Int64N(int64(stormPause))))
		}
	}
}

// event draws what happens, to whom and for how long, whether or not it can happen
// now: a seed gives the same draws whatever the moments are.
func (s *storm) event() {
	s.Helper()
	kind, place, part := s.rng.IntN(100), s.rng.IntN(len(s.team)), s.rng.Float64()
	c := s.team[place]
	switch {
	case kind < 30:
		s.kill(c, time.Duration(part*float64(50*time.Millisecond)))
		s.hire(place, true)
	case kind < 50:
		s.freeze(c, time.Duration(part*float64(2*stormLease)))
	case kind < 60:
		s.note("told to leave", c.name)
		s.signal(c, syscall.SIGTERM)
		s.ending.Go(func() { s.left(c) })
		s.hire(place, true)
	case kind < 80:
		s.cancelOne()
	case s.cluster == nil:
		s.occupy(time.Duration(part * float64(8*time.Second)))
	default:
		s.restart()
	}
}

// kill ends a process in a way that leaves no time, d after it was seen at work,
// where it is within a second.
func (s *storm) kill(c *child, d time.Duration) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	for ctx.Err() == nil {
		held, err := s.number(ctx, "SELECT count(*) FROM task_lease WHERE worker = $1", c.name)
		if err == nil && held > 0 {
			break
		}
		_ = idle(ctx, 10*time.Millisecond)
	}
	_ = idle(s.Context(), d)
	s.note("kill", c.name)
	s.signal(c, syscall.SIGKILL)
	_ = s.wait(c)
	s.died[c.name] = time.Now()
}

// freeze stops a process for a while, if it runs.
func (s *storm) freeze(c *child, d time.Duration) {
	s.Helper()
	s.mu.Lock()
	stopped := s.still[c]
	s.still[c] = true
	s.mu.Unlock()
	if stopped {
		return
	}
	s.note("stop", fmt.Sprint(c.name, " for ", d))
	s.signal(c, syscall.SIGSTOP)
	s.ending.Go(func() {
		_ = idle(s.Context(), d) // it goes on in any case
		_ = c.cmd.Process.Signal(syscall.SIGCONT)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.still, c)
	})
}

// left waits for the end of a process that was told to leave.
func (s *storm) left(c *child) {
	select {
	case <-c.ended:
	case <-time.After(rigTime):
		s.Errorf("worker %s was told to leave and is still there after %s", c.name, rigTime)
		return
	}
	status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch code := c.cmd.ProcessState.ExitCode(); {
	case code == 0:
	case code == exitUnstarted, status.Signaled() && status.Signal() == syscall.SIGTERM && c.stderr.String() == "":
		s.note("left before it had begun", c.name)
	case code == 1 && strings.Contains(c.stderr.String(), "before leaving: the state database did not answer"):
		s.note("left without an answer of the database", c.name)
	default:
		s.Errorf("worker %s was told to leave and exits with %d", c.name, code)
	}
}

// restart restarts the server without a good-bye. With a full disk it could not begin.
func (s *storm) restart() {
	s.Helper()
	s.mu.Lock()
	full := s.full
	s.mu.Unlock()
	if full {
		return
	}
	s.note("restart", "")
	if err := s.cluster.Restart(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// occupy holds the SQLite file as another writer does, unless one does already.
func (s *storm) occupy(d time.Duration) {
	if !s.writes.TryLock() {
		return
	}
	s.ending.Go(func() {
		defer s.writes.Unlock()
		_, pool := s.other.SQL()
		tx, err := pool.BeginTx(s.Context(), nil)
		if err == nil {
			_, err = tx.ExecContext(s.Context(), "UPDATE target SET task_id = task_id WHERE task_id = 0")
		}
		if err != nil {
			s.note("another writer came not to it", err.Error())
			return
		}
		s.note("another writer", d.String())
		_ = idle(s.Context(), d)
		_ = tx.Rollback() // it has changed nothing
	})
}

// fill takes all room of the disk for a while, also what is given back meanwhile.
func (s *storm) fill(d time.Duration) {
	path := filepath.Join(s.disk, "filler")
	f, err := os.Create(path)
	if err != nil {
		s.Fatal(err)
	}
	s.note("disk full", d.String())
	s.mu.Lock()
	s.full = true
	s.mu.Unlock()
	s.ending.Go(func() {
		block := make([]byte, 64<<10)
		for end := time.Now().Add(d); time.Now().Before(end); _ = idle(s.Context(), 20*time.Millisecond) {
			for n, err := 1, error(nil); err == nil && n > 0; {
				n, err = f.Write(block) // the last one in part
			}
		}
		err := errors.Join(f.Close(), os.Remove(path))
		if err != nil {
			s.Errorf("give the disk back: %v", err)
		}
		s.note("disk free", "")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.full = false
	})
}

// cancelOne stops a run that is live, as a person does.
func (s *storm) cancelOne() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), stormLease)
	defer cancel()
	read, _ := s.other.SQL()
	var id string
	err := read.QueryRowContext(ctx, "SELECT CAST(id AS text) FROM run WHERE finished_at IS NULL ORDER BY random() LIMIT 1").Scan(&id)
	if err != nil {
		s.note("nothing to cancel", err.Error())
		return
	}
	var over *store.RunStateError
	_, err = s.other.CancelRun(ctx, id, task.Action{Actor: "storm"})
	switch {
	case err == nil:
		s.note("cancel", id)
	case errors.As(err, &over):
		s.note("cancel too late", id)
	default:
		s.note("cancel without an answer", id+": "+err.Error())
	}
}

// report tells what happened; the whole story and what the workers said only if it
// ended badly.
func (s *storm) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		s.counts[clockSteps] += strings.Count(c.stderr.String(), clockSteps)
	}
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		s.Logf("%5d × %s", s.counts[what], what)
	}
	if !s.Failed() {
		return
	}
	dir, err := os.MkdirTemp("", "madeira-storm-")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "story"), []byte(strings.Join(s.story, "\n")), 0o600)
	}
	for _, c := range s.all {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, c.name), []byte(c.stderr.String()), 0o600)
		}
	}
	s.Logf("the story, and what the workers said, is in %s (%v)", dir, err)
}
