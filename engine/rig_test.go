package engine_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"madeira/engine"
	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// The proportions of tests that wait for real: the shortest lease there is.
const (
	rigLease = 3 * time.Second
	rigPoll  = 100 * time.Millisecond
	rigTime  = 2 * time.Minute // for what takes seconds on a machine that has nothing else to do
)

// A rig is a database with workers in this process that run in real time, and a
// witness of what their steps have done.
type rig struct {
	*testing.T
	url  string
	db   *store.DB // of the test itself, not disturbed
	logs safeBuffer
}

// notRaced leaves a test to the pass of make check that is without the race
// detector: it makes SQLite, which is Go here, ten times as slow, and with it
// leases run out that would not.
func notRaced(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("runs without the race detector, under which its workers are too slow for their leases")
	}
}

func newRig(t *testing.T, url string) *rig {
	t.Helper()
	notRaced(t)
	r := &rig{T: t, url: url, db: storetest.Open(t, url, store.Options{})}
	makeWitness(t, r.db)
	return r
}

// makeWitness makes the table that an effect may be in once, and the witness
// that sees every one and has no constraint that could hide a second.
func makeWitness(t *testing.T, db *store.DB) {
	t.Helper()
	at := "timestamptz NOT NULL DEFAULT clock_timestamp()"
	read, pool := db.SQL()
	if read != pool {
		at = "integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))"
	}
	for _, query := range []string{
		"CREATE TABLE target (task_id bigint PRIMARY KEY)",
		"CREATE TABLE witness (task_id bigint NOT NULL, fence bigint NOT NULL, fresh bigint NOT NULL, at " + at + ")",
	} {
		if _, err := pool.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
}

// commit is what a step does to the world: one row under the key of the task, in
// a transaction that its lease guards.
func commit(ctx context.Context, db *store.DB, t step.Task, before, after func()) error {
	_, pool := db.SQL()
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return step.Infrastructure(err)
	}
	defer func() { _ = tx.Rollback() }()
	fresh, err := tx.ExecContext(ctx, "INSERT INTO target (task_id) VALUES ($1) ON CONFLICT DO NOTHING", t.ID)
	if err != nil {
		return step.Infrastructure(err)
	}
	n, err := fresh.RowsAffected()
	if err != nil {
		return step.Infrastructure(err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO witness (task_id, fence, fresh) VALUES ($1, $2, $3)", t.ID, t.Fence, n); err != nil {
		return step.Infrastructure(err)
	}
	if err := db.Guard(task.Hold{TaskID: t.ID, Fence: t.Fence})(ctx, tx); err != nil {
		if errors.Is(err, step.ErrLeaseLost) {
			return err
		}
		return step.Infrastructure(err)
	}
	before()
	if err := tx.Commit(); err != nil {
		return step.Infrastructure(err)
	}
	after()
	return nil
}

func nop() {}

// open opens the database once more, for a worker of its own.
func (r *rig) open(url string, o store.Options) *store.DB {
	r.Helper()
	return storetest.Open(r.T, url, o)
}

// worker is the configuration of a worker on a database that knows the types.
func (r *rig) worker(name string, db *store.DB, types map[string]runner) engine.Config {
	r.Helper()
	var list []step.Type
	for name, run := range types {
		list = append(list, step.Type{Name: name, Runner: run})
	}
	registry, err := step.NewRegistry(list...)
	if err != nil {
		r.Fatal(err)
	}
	return engine.Config{
		Queue: db, Comparer: db, Registry: registry, Artifacts: noFiles{}, Connections: outside{},
		Clock: time.Now, Worker: name, Scratch: r.TempDir(), Slots: 4, Lease: rigLease, Poll: rigPoll,
		Grace: time.Second, Patience: time.Second, Logger: slog.New(slog.NewTextHandler(&r.logs, nil)),
	}
}

// steady is the type of steps that do one thing and succeed.
func steady(db *store.DB) map[string]runner {
	return map[string]runner{"work": func(ctx context.Context, in step.Input) (step.Output, error) {
		return step.Output{}, commit(ctx, db, in.Task, nop, nop)
	}}
}

// start starts a worker; the function that is returned ends it.
func (r *rig) start(cfg engine.Config) (e *engine.Engine, stop func()) {
	r.Helper()
	e, err := engine.New(cfg)
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.Errorf("worker %s ended with: %v", cfg.Worker, err)
		}
	})
	r.Cleanup(stop)
	return e, stop
}

// create makes a run; the error is for tests in which the database is not there.
func (r *rig) create(ctx context.Context, key string, steps ...task.NewTask) (task.Run, error) {
	for i := range steps {
		if steps[i].Settings == nil {
			steps[i].Settings = json.RawMessage(`{}`)
		}
		if steps[i].Type == "" {
			steps[i].Type = "work"
		}
		if steps[i].Priority == 0 {
			steps[i].Priority = 100
		}
	}
	made, err := r.db.CreateRun(ctx, task.NewRun{
		Run:   task.Run{Job: "job", JobDigest: "sha256:job", Key: key, Trigger: "manual", DueAt: time.Now(), Inputs: json.RawMessage(`{}`)},
		Job:   task.JobVersion{Name: "job", Digest: "sha256:job", Path: "job.yaml", Source: []byte("name: job\n")},
		Tasks: steps,
	})
	return made.Run, err
}

func (r *rig) mustCreate(key string, steps ...task.NewTask) task.Run {
	r.Helper()
	run, err := r.create(r.Context(), key, steps...)
	if err != nil {
		r.Fatal(err)
	}
	return run
}

// mixed is a chain, a diamond and a fan of n steps in turn, of type work.
func mixed(i, n int) []task.NewTask {
	steps := make([]task.NewTask, n)
	for j := range steps {
		steps[j] = task.NewTask{Step: fmt.Sprint("s", j), Type: "work", Retry: task.Retry{MaxAttempts: 3, Delay: 50 * time.Millisecond}}
		switch {
		case j > 0 && i%3 == 0:
			steps[j].Needs = []string{fmt.Sprint("s", j-1)}
		case j > 0 && j < n-1 && i%3 == 1:
			steps[j].Needs = []string{"s0"}
		case j == n-1 && i%3 == 1:
			for before := 1; before < j; before++ {
				steps[j].Needs = append(steps[j].Needs, fmt.Sprint("s", before))
			}
		}
	}
	return steps
}

// number returns the single number of a query.
func (r *rig) number(ctx context.Context, query string, args ...any) (int, error) {
	read, _ := r.db.SQL()
	var n int
	err := read.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

func (r *rig) count(query string, args ...any) int {
	r.Helper()
	n, err := r.number(r.Context(), query, args...)
	if err != nil {
		r.Fatalf("%s: %v", query, err)
	}
	return n
}

func (r *rig) exec(query string) {
	r.Helper()
	_, pool := r.db.SQL()
	if _, err := pool.ExecContext(r.Context(), query); err != nil {
		r.Fatalf("%s: %v", query, err)
	}
}

// eventually polls until a condition holds that goroutines or processes bring
// about which share nothing with the test but the database.
func (r *rig) eventually(what string, holds func(ctx context.Context) (bool, error)) {
	r.Helper()
	r.within(rigTime, what, holds)
}

// within is eventually with a limit of its own.
func (r *rig) within(limit time.Duration, what string, holds func(ctx context.Context) (bool, error)) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := holds(ctx)
		if done {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.Fatalf("%s: not within %s (last error: %v)\n%s", what, limit, err, r.logs.String())
		}
	}
}

const openTasks = "SELECT count(*) FROM task_queue WHERE state IN ('blocked', 'pending', 'processing', 'waiting')"

// untilOver waits until every run has ended.
func (r *rig) untilOver() {
	r.Helper()
	r.eventually("the end of all runs", func(ctx context.Context) (bool, error) {
		open, err := r.number(ctx, openTasks)
		return err == nil && open == 0, err
	})
}

// holds waits until a worker holds n tasks.
func (r *rig) holds(worker string, n int) {
	r.Helper()
	r.eventually(fmt.Sprintf("%s at work on %d tasks", worker, n), func(ctx context.Context) (bool, error) {
		held, err := r.number(ctx, "SELECT count(*) FROM task_lease WHERE worker = $1", worker)
		return held >= n, err
	})
}

// wantSound holds the rows against the invariants, and the witness against the rows.
func (r *rig) wantSound() {
	r.Helper()
	broken, err := storetest.Check(r.Context(), r.db)
	if err != nil {
		r.Fatal(err)
	}
	for _, line := range broken {
		r.Error(line)
	}
	if n := r.count(`SELECT count(*) FROM witness w JOIN task_log l ON l.task_id = w.task_id AND l.fence > w.fence
		AND l.claimed_at IS NOT NULL AND l.claimed_at < w.at`); n != 0 {
		r.Errorf("I09: %d effects were committed after a later claim of their task", n)
	}
	if n := r.count("SELECT count(*) FROM (SELECT task_id FROM witness WHERE fresh = 1 GROUP BY task_id HAVING count(*) > 1) AS twice"); n != 0 {
		r.Errorf("I03: %d tasks have had their effect twice", n)
	}
	if n := r.count(`SELECT count(*) FROM task_queue t WHERE t.state = 'success' AND t.type = 'work'
		AND NOT EXISTS (SELECT 1 FROM witness w WHERE w.task_id = t.id AND w.fence = t.fence)`); n != 0 {
		r.Errorf("%d tasks succeeded without their effect", n)
	}
}

// wantAll checks that all tasks have ended well, and that nothing was spent on it
// but one attempt each.
func (r *rig) wantAll() {
	r.Helper()
	if n := r.count("SELECT count(*) FROM task_queue WHERE state <> 'success'"); n != 0 {
		r.Errorf("%d tasks have not succeeded", n)
	}
	if n := r.count("SELECT count(*) FROM task_queue WHERE attempt <> 1 OR crashes <> 0"); n != 0 {
		r.Errorf("%d tasks took more than one attempt\n%s", n, r.logs.String())
	}
}

// alone is an answer to the question whether one row is there.
func (r *rig) text(query string, args ...any) string {
	r.Helper()
	read, _ := r.db.SQL()
	var s sql.NullString
	if err := read.QueryRowContext(r.Context(), query, args...).Scan(&s); err != nil {
		r.Fatalf("%s: %v", query, err)
	}
	return s.String
}

// away is how often the log says that the database does not answer.
func (r *rig) away() int { return strings.Count(r.logs.String(), "does not answer") }

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if asked := askedSeed(t); asked != 0 {
		seed = asked
	}
	t.Logf("MADEIRA_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// held is the type of steps that work until they are let go.
func held(let <-chan struct{}, db *store.DB) map[string]runner {
	return map[string]runner{"work": func(ctx context.Context, in step.Input) (step.Output, error) {
		select {
		case <-let:
			return step.Output{}, commit(ctx, db, in.Task, nop, nop)
		case <-ctx.Done():
			return step.Output{}, ctx.Err()
		}
	}}
}
