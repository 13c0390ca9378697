package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"madeira/engine"
	"madeira/engine/artifact"
	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs/step"
)

var (
	_ engine.Queue     = (*store.DB)(nil)
	_ engine.Comparer  = (*store.DB)(nil)
	_ engine.Flow      = (*store.DB)(nil)
	_ engine.Watcher   = (*store.DB)(nil)
	_ engine.Artifacts = (*artifact.Folder)(nil)
)

// A runner is a step type made of a function.
type runner func(ctx context.Context, in step.Input) (step.Output, error)

func (r runner) Run(ctx context.Context, in step.Input) (step.Output, error) { return r(ctx, in) }

// A world is a real SQLite database, a real artifact folder and step types made
// of functions. It is made inside the bubble of a test.
type world struct {
	*testing.T
	db    *store.DB
	files *artifact.Folder
	types map[string]runner
	logs  safeBuffer
}

func newWorld(t *testing.T, types map[string]runner) *world {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), "sqlite://"+filepath.Join(dir, "madeira.db"), store.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := artifact.Open(filepath.Join(dir, "artifacts"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := files.Close(); err != nil {
			t.Errorf("close the artifacts: %v", err)
		}
	})
	return &world{T: t, db: db, files: files, types: types}
}

// config is that of a worker of this world.
func (w *world) config(worker string) engine.Config {
	w.Helper()
	var types []step.Type
	for name, run := range w.types {
		types = append(types, step.Type{Name: name, Runner: run})
	}
	registry, err := step.NewRegistry(types...)
	if err != nil {
		w.Fatal(err)
	}
	return engine.Config{
		Queue: w.db, Comparer: w.db, Flow: w.db, Registry: registry, Artifacts: w.files, Connections: outside{},
		Clock: time.Now, Worker: worker, Scratch: w.files.Scratch(), Slots: 4, Lease: 15 * time.Second,
		Logger: slog.New(slog.NewTextHandler(&w.logs, nil)),
	}
}

func (w *world) engine(cfg engine.Config) *engine.Engine {
	w.Helper()
	e, err := engine.New(cfg)
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// start runs an engine in the background; the function that is returned ends it
// and gives its error.
func (w *world) start(e *engine.Engine) (stop func() error) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	once := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	w.Cleanup(func() { _ = once() })
	return once
}

// create makes a run of a job with these steps.
func (w *world) create(key string, tasks ...task.NewTask) task.Run {
	w.Helper()
	for i := range tasks {
		if tasks[i].Settings == nil {
			tasks[i].Settings = json.RawMessage(`{}`)
		}
		if tasks[i].Priority == 0 {
			tasks[i].Priority = 100
		}
	}
	made, err := w.db.CreateRun(w.Context(), task.NewRun{
		Run:   task.Run{Job: "month-end", JobDigest: "sha256:job", Key: key, Trigger: "manual", DueAt: time.Now(), Inputs: json.RawMessage(`{}`)},
		Job:   task.JobVersion{Name: "month-end", Digest: "sha256:job", Path: "job.yaml", Source: []byte("name: month-end\n")},
		Tasks: tasks,
	})
	if err != nil {
		w.Fatal(err)
	}
	return made.Run
}

// finish works on a run until it is over, with a worker of its own.
func (w *world) finish(run task.Run) task.RunStatus {
	w.Helper()
	cfg := w.config("finisher")
	cfg.RunID = run.ID
	status, err := w.engine(cfg).RunUntilOver(w.Context(), w.db)
	if err != nil {
		w.Fatal(err)
	}
	return status
}

// task returns the task of a step, "deliver" for the first delivery.
func (w *world) task(run task.Run, name string) task.Task {
	w.Helper()
	tasks, err := w.db.Tasks(w.Context(), run.ID)
	if err != nil {
		w.Fatal(err)
	}
	for _, t := range tasks {
		if t.Step == name || t.Step == "" && t.Type == name {
			return t
		}
	}
	w.Fatalf("run %s has no task %s: %+v", run.ID, name, tasks)
	return task.Task{}
}

// moves returns what the log tells of a step, a claim as "processing".
func (w *world) moves(run task.Run, name string) []string {
	w.Helper()
	log, err := w.db.Log(w.Context(), run.ID)
	if err != nil {
		w.Fatal(err)
	}
	var moves []string
	for _, m := range log {
		if m.Step == name {
			moves = append(moves, string(m.To)+" "+m.Reason)
		}
	}
	return moves
}

func (w *world) wantStatus(run task.Run, want task.RunStatus) {
	w.Helper()
	got, err := w.db.Run(w.Context(), run.ID)
	if err != nil {
		w.Fatal(err)
	}
	if got.Status != want {
		w.Errorf("the run is %s, want %s\n%s", got.Status, want, w.logs.String())
	}
}

// checkLog holds the log of a run against the table of moves: gapless, legal,
// and at most one success for each task.
func (w *world) checkLog(run task.Run) {
	w.Helper()
	log, err := w.db.Log(w.Context(), run.ID)
	if err != nil {
		w.Fatal(err)
	}
	last, successes := map[int64]task.State{}, map[int64]int{}
	for _, m := range log {
		from := m.From
		if !m.ClaimedAt.IsZero() {
			if !task.CanMove(from, task.Processing) {
				w.Errorf("task %d was claimed while %s", m.TaskID, from)
			}
			from = task.Processing
		}
		if from != "" && from != m.To && !task.CanMove(from, m.To) {
			w.Errorf("task %d moved from %s to %s", m.TaskID, from, m.To)
		}
		if before, ok := last[m.TaskID]; ok && before != m.From {
			w.Errorf("task %d was %s and moves from %s", m.TaskID, before, m.From)
		}
		last[m.TaskID] = m.To
		if m.To == task.Success {
			successes[m.TaskID]++
		}
	}
	for id, n := range successes {
		if n > 1 {
			w.Errorf("task %d succeeded %d times", id, n)
		}
	}
}

func (w *world) wantMoves(run task.Run, name string, want ...string) {
	w.Helper()
	if got := w.moves(run, name); !slices.Equal(got, want) {
		w.Errorf("moves of %s = %q, want %q", name, got, want)
	}
}

// outside has no connections.
type outside struct{}

func (outside) Databases(engine.Grant) step.Databases { return nothing{} }
func (outside) Remotes(engine.Grant) step.Remotes     { return nothing{} }
func (outside) Channels(engine.Grant) step.Channels   { return nothing{} }

type nothing struct{}

func (nothing) Database(_ context.Context, name string) (*step.Database, error) {
	return nil, step.Permanent(fmt.Errorf("no connection %q", name))
}

func (nothing) Remote(_ context.Context, name string) (step.Remote, error) {
	return step.Remote{}, step.Permanent(fmt.Errorf("no connection %q", name))
}

func (nothing) Channel(_ context.Context, name string) (step.Channel, error) {
	return step.Channel{}, step.Permanent(fmt.Errorf("no channel %q", name))
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A relay stands between an engine and the database. Before is asked before
// each call and after once it was answered; their errors reach the engine
// instead of the answer.
type relay struct {
	engine.Queue
	before, after func(call string) error
}

func pass(string) error { return nil }

func through[T any](r relay, call string, ask func() (T, error)) (T, error) {
	var none T
	if err := r.before(call); err != nil {
		return none, err
	}
	v, err := ask()
	if err == nil {
		err = r.after(call)
	}
	if err != nil {
		return none, err
	}
	return v, nil
}

func (r relay) Exchange(ctx context.Context, worker string, done []task.Outcome, want task.Want) (task.Exchange, error) {
	return through(r, "exchange", func() (task.Exchange, error) { return r.Queue.Exchange(ctx, worker, done, want) })
}

func (r relay) Heartbeat(ctx context.Context, worker string, held []task.Hold, lease time.Duration) (task.Beat, error) {
	return through(r, "heartbeat", func() (task.Beat, error) { return r.Queue.Heartbeat(ctx, worker, held, lease) })
}

func (r relay) Rescue(ctx context.Context, limit int) (int, error) {
	return through(r, "rescue", func() (int, error) { return r.Queue.Rescue(ctx, limit) })
}

func (r relay) Promote(ctx context.Context, limit int) (int, time.Duration, error) {
	type promoted struct {
		n    int
		next time.Duration
	}
	p, err := through(r, "promote", func() (p promoted, err error) {
		p.n, p.next, err = r.Queue.Promote(ctx, limit)
		return p, err
	})
	return p.n, p.next, err
}

func (r relay) Undecided(ctx context.Context, limit int) ([]task.Undecided, error) {
	return through(r, "undecided", func() ([]task.Undecided, error) { return r.Queue.Undecided(ctx, limit) })
}

func (r relay) Decide(ctx context.Context, decisions []task.Decision) error {
	_, err := through(r, "decide", func() (struct{}, error) { return struct{}{}, r.Queue.Decide(ctx, decisions) })
	return err
}

func (r relay) Scope(ctx context.Context, t task.Claimed) (task.Scope, error) {
	return through(r, "scope", func() (task.Scope, error) { return r.Queue.Scope(ctx, t) })
}
