package store_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

const worker = "w1"

var allTypes = []string{"noop", "src", task.TypeCompare, task.TypeDeliver}

// notRaced leaves a large test to the pass of make check that is without the race
// detector: it makes SQLite, which is Go here, ten times as slow.
func notRaced(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("runs without the race detector, which would make it take minutes")
	}
}

func steps(list ...task.NewTask) []task.NewTask { return list }

func noop(name string, needs ...string) task.NewTask {
	return task.NewTask{Step: name, Type: "noop", Needs: needs, Settings: json.RawMessage(`{"of":"` + name + `"}`), Priority: 100}
}

func source(name string, needs ...string) task.NewTask {
	s := noop(name, needs...)
	s.Type, s.Source = "src", true
	return s
}

func conditional(s task.NewTask, expr string) task.NewTask {
	s.Condition = expr
	return s
}

func newRun(key string, tasks []task.NewTask) task.NewRun {
	return task.NewRun{
		Run: task.Run{
			Job: "month-end", JobDigest: "sha256:1", Key: key, Trigger: "manual", Inputs: json.RawMessage(`{"b":1,"a":"x"}`),
			BaseDir: "/jobs", Connections: []string{"ledger"}, DueAt: time.Date(2026, 11, 1, 2, 30, 0, 123456000, time.UTC),
		},
		Tasks: tasks,
		Job:   task.JobVersion{Name: "month-end", Digest: "sha256:1", Path: "jobs/month-end/job.yaml", Source: []byte("name: month-end\n")},
	}
}

func create(t *testing.T, db *store.DB, n task.NewRun) task.Run {
	t.Helper()
	made, err := db.CreateRun(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if made.Existing {
		t.Fatalf("CreateRun of %q gave the existing run %s, want a new one", n.Run.Key, made.Run.ID)
	}
	return made.Run
}

func exchange(t *testing.T, db *store.DB, n int, done ...task.Outcome) task.Exchange {
	t.Helper()
	x, err := db.Exchange(t.Context(), worker, done, task.Want{N: n, Types: allTypes, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// claim takes exactly n tasks.
func claim(t *testing.T, db *store.DB, n int) []task.Claimed {
	t.Helper()
	x := exchange(t, db, n)
	if len(x.Claimed) != n {
		t.Fatalf("claimed %d tasks, want %d", len(x.Claimed), n)
	}
	return x.Claimed
}

func ok(c task.Claimed) task.Outcome { return task.Outcome{Hold: c.Hold, To: task.Success} }

func fail(c task.Claimed) task.Outcome {
	return task.Outcome{Hold: c.Hold, To: task.Error, Reason: "permanent", Failure: &task.Failure{Class: task.PermanentFailure, Message: "no"}}
}

// names returns the steps of claimed tasks in their order.
func names(claimed []task.Claimed) []string {
	got := []string{}
	for _, c := range claimed {
		got = append(got, c.Step)
	}
	return got
}

// states returns the state of every step of a run.
func states(t *testing.T, db *store.DB, run string) map[string]task.State {
	t.Helper()
	tasks, err := db.Tasks(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]task.State{}
	for _, x := range tasks {
		if x.Step != "" {
			got[x.Step] = x.State
		}
	}
	return got
}

func status(t *testing.T, db *store.DB, run string) task.RunStatus {
	t.Helper()
	r, err := db.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return r.Status
}

// work claims and finishes with success until nothing is left, and decides by
// the rule of success(): no condition is true here but "yes".
func work(t *testing.T, db *store.DB) {
	t.Helper()
	var done []task.Outcome
	for {
		x := exchange(t, db, 100, done...)
		done = nil
		for _, c := range x.Claimed {
			if c.Type == task.TypeCompare {
				if _, _, err := db.Compare(t.Context(), c.Hold, time.Millisecond); err != nil {
					t.Fatal(err)
				}
				continue
			}
			o := ok(c)
			if c.Type == "src" {
				o.Digest = "same"
			}
			done = append(done, o)
		}
		decided := decideAll(t, db)
		if len(x.Claimed) == 0 && !decided {
			return
		}
	}
}

func decideAll(t *testing.T, db *store.DB) bool {
	t.Helper()
	some := false
	for {
		open, err := db.Undecided(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(open) == 0 {
			return some
		}
		some = true
		var decisions []task.Decision
		for _, u := range open {
			decisions = append(decisions, decide(u))
		}
		if err := db.Decide(t.Context(), decisions); err != nil {
			t.Fatal(err)
		}
	}
}

func decide(u task.Undecided) task.Decision {
	d := task.Decision{TaskID: u.TaskID, To: task.Pending}
	if u.Condition == "always" {
		return d
	}
	for name, n := range u.Needs {
		if n.State != task.Success && (n.State != task.Skipped || n.Reason != task.ReasonCondition) {
			return task.Decision{TaskID: u.TaskID, To: task.Skipped, Reason: task.ReasonNeedsFailed, Detail: name}
		}
	}
	if u.Condition == "no" {
		return task.Decision{TaskID: u.TaskID, To: task.Skipped, Reason: task.ReasonCondition, Detail: u.Condition}
	}
	return d
}

func sound(t *testing.T, db *store.DB) {
	t.Helper()
	broken, err := storetest.Check(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
}

// A clock that stands until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 11, 5, 10, 30, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// eachTimed runs the test on every database, with a clock that stands.
func eachTimed(t *testing.T, test func(t *testing.T, db *store.DB, c *clock)) {
	t.Helper()
	storetest.EachURL(t, func(t *testing.T, url string) {
		c := newClock()
		test(t, storetest.Open(t, url, store.Options{Now: c.now}), c)
	})
}

// count returns the single number of a query.
func count(t *testing.T, db *store.DB, query string) int {
	t.Helper()
	read, _ := db.SQL()
	var n int
	if err := read.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func write(t *testing.T, db *store.DB, query string) {
	t.Helper()
	_, w := db.SQL()
	if _, err := w.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
