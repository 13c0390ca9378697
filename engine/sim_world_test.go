package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"madeira/engine"
	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// A plant is a bug put into a simulation on purpose.
type plant struct {
	outcomes bool // outcomes are written under whatever fence the task has
	effects  bool // steps do not ask whether the lease is still theirs
}

// A sim is one simulated world: a database, workers that come and go, and the
// faults that a seed brings over them.
type sim struct {
	*testing.T
	seed    uint64
	plant   plant
	db      *store.DB
	types   *step.Registry
	scratch string
	log     *slog.Logger

	calm   atomic.Bool  // no more faults
	outage atomic.Bool  // no call reaches the database
	lent   atomic.Int64 // tasks that were claimed by the commit that made them

	mu      sync.Mutex
	workers []*simWorker // those that are alive
	started int
	runs    []string       // those made at the beginning
	gone    sync.WaitGroup // every engine there ever was
}

// simulate lives through one seed and returns what is broken afterwards, and how many
// tasks were claimed by the commit that made them.
func simulate(t *testing.T, template string, seed uint64, p plant) (broken []string, lent int64) {
	s := newSim(t, template, seed, p)
	rng := rand.New(rand.NewPCG(seed, 0))
	s.createRuns(rng)
	for range 2 + rng.IntN(2) {
		s.startWorker()
	}
	s.storm(rng)
	s.calm.Store(true)
	over := s.untilOver()
	s.stopAll()
	broken = s.verdict(t.Context())
	if !over {
		broken = append(broken, "I02 not everything is over "+simPatient.String()+" after the last fault")
	}
	return broken, s.lent.Load()
}

func newSim(t *testing.T, template string, seed uint64, p plant) *sim {
	t.Helper()
	dir := t.TempDir()
	content, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "madeira.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), "sqlite://"+path, store.Options{Now: time.Now, ReadConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	s := &sim{T: t, seed: seed, plant: p, db: db, scratch: dir, log: slog.New(slog.DiscardHandler)}
	s.exec("PRAGMA synchronous = OFF") // nobody pulls the plug on the machine here
	if os.Getenv("MADEIRA_SEED") != "" {
		s.log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s.types, err = step.NewRegistry(step.Type{Name: "work", Runner: runner(nil)}, step.Type{Name: task.TypeDeliver, Runner: runner(nil)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sim) exec(query string, args ...any) {
	s.Helper()
	_, pool := s.db.SQL()
	if _, err := pool.ExecContext(s.Context(), query, args...); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
}

// A simWorker is a process: an engine, and the line to the database on which its
// calls are disturbed. Its fields change while it runs.
type simWorker struct {
	*sim
	name string
	stop context.CancelFunc

	mu     sync.Mutex
	rng    *rand.Rand
	dead   bool          // cut off from the world
	paused chan struct{} // closed when it may go on; nil: it runs
	offset time.Duration // of its clock
}

// startWorker starts a process, which has a name that none had before.
func (s *sim) startWorker() {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	ctx, cancel := context.WithCancel(s.Context())
	w := &simWorker{sim: s, name: fmt.Sprint("w", s.started), stop: cancel, rng: rand.New(rand.NewPCG(s.seed, uint64(s.started)))}
	registry, err := step.NewRegistry(
		step.Type{Name: "work", Runner: runner(w.work)}, step.Type{Name: task.TypeDeliver, Runner: runner(w.deliver)})
	if err != nil {
		s.Fatal(err)
	}
	l := link{to: s.db, of: w}
	e, err := engine.New(engine.Config{
		Queue: l, Flow: l, Door: l, Gates: l, Turns: l, Comparer: s.db, Registry: registry, Artifacts: noFiles{}, Connections: outside{},
		Clock: w.now, Worker: w.name, Scratch: s.scratch, Slots: 1 + w.rng.IntN(3), Lease: simLease, Poll: simPoll,
		Grace: time.Second, Patience: time.Second, Logger: s.log.With("worker", w.name),
	})
	if err != nil {
		s.Fatal(err)
	}
	s.workers = append(s.workers, w)
	s.gone.Go(func() { _ = e.Run(ctx) }) // what it could not hand in runs again
}

func (w *simWorker) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.offset)
}

// kill cuts a process off, as if it were gone: nothing that it does from now on
// reaches anything. Its engine is told to stop only so that the test can end.
func (w *simWorker) kill() {
	w.goOn()
	w.mu.Lock()
	w.dead = true
	w.mu.Unlock()
	w.stop()
}

func (w *simWorker) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused == nil {
		w.paused = make(chan struct{})
	}
}

func (w *simWorker) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused != nil {
		close(w.paused)
		w.paused = nil
	}
}

var errKilled = errors.New("this process is dead")

// gate is passed by everything that a process does: it waits while the process
// stands still, and fails once it is dead.
func (w *simWorker) gate() error {
	for {
		w.mu.Lock()
		dead, paused := w.dead, w.paused
		w.mu.Unlock()
		if dead {
			return errKilled
		}
		if paused == nil {
			return nil
		}
		<-paused
	}
}

// chance is true once in so many times, and never when the faults are over.
func (w *simWorker) chance(once int) bool {
	if w.calm.Load() {
		return false
	}
	return w.roll(once) == 0
}

func (w *simWorker) roll(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// upTo is a random time.
func (w *simWorker) upTo(d time.Duration) time.Duration { return time.Duration(w.roll(int(d))) }

// storm brings faults over the workers until the horizon, and then mends all.
func (s *sim) storm(rng *rand.Rand) {
	s.Helper()
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	var healing sync.WaitGroup
	later := func(d time.Duration, heal func()) {
		healing.Go(func() {
			time.Sleep(d)
			heal()
		})
	}
	for end := time.Now().Add(simHorizon); time.Now().Before(end); time.Sleep(upTo(5 * time.Second)) {
		s.enqueue(rng)
		s.mu.Lock()
		i := rng.IntN(max(len(s.workers), 1))
		if len(s.workers) == 0 {
			s.mu.Unlock()
			continue
		}
		w := s.workers[i]
		switch fault := rng.IntN(10); {
		case fault < 3:
			s.workers = append(s.workers[:i:i], s.workers[i+1:]...)
			w.kill()
			later(upTo(4*time.Second), s.startWorker)
		case fault < 7:
			w.pause()
			later(upTo(3*simLease), w.goOn)
		case fault < 8:
			s.outage.Store(true)
			later(upTo(2*simLease), func() { s.outage.Store(false) })
		case fault < 9:
			w.mu.Lock()
			w.offset += upTo(20*time.Minute) - 10*time.Minute
			w.mu.Unlock()
		case len(s.runs) > 1:
			s.cancel(s.runs[rng.IntN(len(s.runs))])
		}
		s.mu.Unlock()
	}
	healing.Wait()
}

// untilOver waits until no task has anything left to do.
func (s *sim) untilOver() bool {
	read, _ := s.db.SQL()
	for end := time.Now().Add(simPatient); time.Now().Before(end); time.Sleep(simPoll) {
		var open int
		err := read.QueryRowContext(s.Context(), "SELECT count(*) FROM task_queue WHERE state IN ('blocked', 'pending', 'processing', 'waiting')").Scan(&open)
		if err != nil {
			s.Fatal(err)
		}
		if open == 0 {
			return true
		}
	}
	return false
}

func (s *sim) stopAll() {
	s.mu.Lock()
	for _, w := range s.workers {
		w.stop()
	}
	s.mu.Unlock()
	s.gone.Wait()
	time.Sleep(simDeaf) // the steps that no engine waited for
}

// noFiles is where steps that keep no files keep them.
type noFiles struct{}

func (noFiles) Create(context.Context) (engine.ArtifactWriter, error) {
	return nil, errors.New("there are no files here")
}

func (noFiles) Open(context.Context, string) (engine.ArtifactReader, int64, error) {
	return nil, 0, errors.New("there are no files here")
}
