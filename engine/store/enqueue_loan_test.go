package store_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"madeira/engine"
	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

var _ engine.Door = (*store.DB)(nil)

// An idler is a worker without work. It has so many light slots for type noop, and
// as many heavy ones for src.
type idler struct {
	free    int
	asked   int
	claimed []task.Claimed
	errs    []error
}

func attend(t *testing.T, db *store.DB, free int) *idler {
	t.Helper()
	i := &idler{free: free}
	t.Cleanup(db.Attend(i.lend))
	return i
}

func (i *idler) lend(types []string) (task.Loan, bool) {
	i.asked++
	n := map[string]int{}
	for _, name := range types {
		n[name]++
	}
	if n["noop"]+n["src"] == 0 || n["noop"] > i.free || n["src"] > i.free {
		return task.Loan{}, false
	}
	return task.Loan{
		Worker: worker,
		Want:   task.Want{N: n["noop"], Types: []string{"noop"}, Heavy: n["src"], HeavyTypes: []string{"src"}, Lease: time.Minute},
		Repay: func(claimed []task.Claimed, err error) {
			i.claimed, i.errs = append(i.claimed, claimed...), append(i.errs, err)
		},
	}, true
}

// took checks what the worker has been given so far, by priority.
func (i *idler) took(t *testing.T, priorities ...int) {
	t.Helper()
	got := []int{}
	for _, c := range i.claimed {
		got = append(got, c.Priority)
	}
	if !reflect.DeepEqual(got, append([]int{}, priorities...)) {
		t.Fatalf("the worker was given tasks of priorities %v, want %v", got, priorities)
	}
}

func mustEnqueue(t *testing.T, db *store.DB, list ...task.Lone) []task.Enqueued {
	t.Helper()
	made, err := db.Enqueue(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestEnqueue_WithASlotLentLeavesWhatAClaimLeaves(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		full := task.Lone{
			Type: "noop", Key: "a", Priority: 7, Circuit: "noop/bank", Retry: task.Retry{MaxAttempts: 3, Delay: time.Second},
			Timeout: time.Hour, Payload: json.RawMessage(`{"a": [1, "x"]}`),
		}
		plain := task.Lone{Type: "src"}
		mustEnqueue(t, db, full, plain)
		ordinary := claim(t, db, 2)
		want := rowsOf(t, db, ordinary)
		i := attend(t, db, 4)
		full.Key = "b"
		made := mustEnqueue(t, db, full, plain)
		i.took(t, 7, task.DefaultPriority)
		if i.claimed[0].TaskID != made[0].ID || i.claimed[1].TaskID != made[1].ID {
			t.Errorf("the worker was given %d and %d of %+v", i.claimed[0].TaskID, i.claimed[1].TaskID, made)
		}
		got := rowsOf(t, db, i.claimed)
		for n := range want {
			a, b := ordinary[n], i.claimed[n]
			a.TaskID, a.Key, b.TaskID, b.Key = 0, "", 0, ""
			if !reflect.DeepEqual(a, b) {
				t.Errorf("a claim returns\n%+v\nthe worker was given\n%+v", a, b)
			}
			if got[n] != want[n] {
				t.Errorf("a claim leaves\n%s\nwith a slot lent there is\n%s", want[n], got[n])
			}
		}
		sound(t, db)
		exchange(t, db, 0, ok(ordinary[0]), ok(ordinary[1]), ok(i.claimed[0]), fail(i.claimed[1]))
		if n := count(t, db, "SELECT count(*) FROM task_ready") + count(t, db, "SELECT count(*) FROM task_lease"); n != 0 {
			t.Errorf("%d tasks are ready or leased, want none", n)
		}
		sound(t, db)
	})
}

// rowsOf returns what stands in the tables of tasks, without what names them.
func rowsOf(t *testing.T, db *store.DB, claimed []task.Claimed) []string {
	t.Helper()
	all := make([]string, len(claimed))
	for i, c := range claimed {
		all[i] = rowOf(t, db, fmt.Sprintf("SELECT l.fence, l.worker, l.claim <> 0 AS marked, l.lease_until, t.* FROM task_queue t JOIN task_lease l ON l.task_id = t.id WHERE t.id = %d", c.TaskID))
	}
	return all
}

func rowOf(t *testing.T, db *store.DB, query string) string {
	t.Helper()
	read, _ := db.SQL()
	rows, err := read.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil || !rows.Next() {
		t.Fatalf("%s: no row, %v", query, errors.Join(err, rows.Err()))
	}
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i, name := range columns {
		if name != "id" && name != "upstream_key" {
			fmt.Fprintf(&text, "%s=%s ", name, values[i])
		}
	}
	return text.String()
}

func TestEnqueue_WithASlotLentKeepsToWhatHoldsForClaims(t *testing.T) {
	t.Parallel()
	noop := task.Lone{Type: "noop"}
	for name, c := range map[string]struct {
		before func(t *testing.T, db *store.DB)
		make   []task.Lone
		takes  []int // priorities
		ready  int   // tasks left for claims
	}{
		"nothing in the way":              {make: []task.Lone{noop}, takes: []int{100}},
		"several, by priority":            {make: []task.Lone{{Type: "noop", Priority: 9}, {Type: "src", Priority: 3}, {Type: "noop", Priority: 5}}, takes: []int{3, 5, 9}},
		"more than there are slots":       {make: []task.Lone{noop, noop, noop, noop, noop}, ready: 5},
		"one of a type nobody knows":      {make: []task.Lone{noop, {Type: "other", Priority: 1}}, takes: []int{100}, ready: 1},
		"not due":                         {make: []task.Lone{{Type: "noop", Delay: time.Hour}, {Type: "noop", RunAt: time.Now().Add(time.Hour)}}},
		"under a limit":                   {make: []task.Lone{{Type: "noop", Limits: []task.Limit{{Key: "ledger", Slots: 5}}}}},
		"one more urgent is ready":        {before: readyAt(99), make: []task.Lone{noop}, ready: 2},
		"one as urgent is ready":          {before: readyAt(100), make: []task.Lone{noop}, ready: 2},
		"one less urgent is ready":        {before: readyAt(101), make: []task.Lone{noop}, takes: []int{100}, ready: 1},
		"one as urgent as the last":       {before: readyAt(50), make: []task.Lone{noop, {Type: "noop", Priority: 10}}, ready: 3},
		"the type is paused":              {before: holding("type:noop"), make: []task.Lone{noop}, ready: 1},
		"another type is paused":          {before: holding("type:other"), make: []task.Lone{noop}, ready: 1},
		"the circuit is open":             {before: holding("circuit:noop/bank"), make: []task.Lone{{Type: "noop", Circuit: "noop/bank"}}, ready: 1},
		"the key is known":                {before: keyed("k"), make: []task.Lone{{Type: "noop", Key: "k"}}},
		"one of two keys is known":        {before: keyed("k"), make: []task.Lone{{Type: "noop", Key: "k"}, {Type: "noop", Key: "l", Priority: 8}}, takes: []int{8}},
		"the same key twice in a list":    {make: []task.Lone{{Type: "noop", Key: "k", Priority: 4}, {Type: "noop", Key: "k", Priority: 5}}, takes: []int{4}},
		"the list also has one for later": {make: []task.Lone{noop, {Type: "noop", Delay: time.Hour}, {Type: "noop", Limits: []task.Limit{{Key: "l", Slots: 1}}}}, takes: []int{100}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				if c.before != nil {
					c.before(t, db)
				}
				i := attend(t, db, 4)
				mustEnqueue(t, db, c.make...)
				i.took(t, c.takes...)
				if n := count(t, db, "SELECT count(*) FROM task_ready"); n != c.ready {
					t.Errorf("%d tasks are ready, want %d", n, c.ready)
				}
				if n := count(t, db, "SELECT count(*) FROM task_lease"); n != len(c.takes) {
					t.Errorf("%d tasks are leased, want %d", n, len(c.takes))
				}
				for _, err := range i.errs {
					if err != nil {
						t.Errorf("the worker hears of %v", err)
					}
				}
				sound(t, db)
			})
		})
	}
}

func readyAt(priority int) func(t *testing.T, db *store.DB) {
	return func(t *testing.T, db *store.DB) {
		t.Helper()
		mustEnqueue(t, db, task.Lone{Type: "other", Priority: priority})
	}
}

func holding(gate string) func(t *testing.T, db *store.DB) {
	return func(t *testing.T, db *store.DB) {
		t.Helper()
		write(t, db, "INSERT INTO hold (gate) VALUES ('"+gate+"')")
	}
}

// keyed makes a task with the key that is over.
func keyed(key string) func(t *testing.T, db *store.DB) {
	return func(t *testing.T, db *store.DB) {
		t.Helper()
		mustEnqueue(t, db, task.Lone{Type: "noop", Key: key})
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
	}
}

func TestEnqueue_GivesBackWhatALostCommitMayHaveClaimed(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"without a key": "", "with a key, asked again": "k"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				i := attend(t, db, 4)
				db.LoseAnswers(1)
				made, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop", Key: key}})
				if key == "" && !errors.Is(err, store.ErrUnknown) || key != "" && (err != nil || !made[0].Known) {
					t.Errorf("enqueue = %+v, %v", made, err)
				}
				i.took(t)
				if len(i.errs) != 1 || i.errs[0] == nil || db.Orphans() != 1 {
					t.Errorf("the worker hears of %v, %d claims wait to be given back; want one error, one claim", i.errs, db.Orphans())
				}
				if n := count(t, db, "SELECT count(*) FROM task_lease"); n != 1 {
					t.Fatalf("%d tasks are leased, want the one that nobody knows of", n)
				}
				c := claim(t, db, 1)[0] // gives it back, and claims it
				if c.Fence != 2 || c.Attempt != 1 || c.Crashes != 0 {
					t.Errorf("claimed %+v; want the second claim, the first attempt", c)
				}
				exchange(t, db, 0, ok(c))
				if n := count(t, db, "SELECT count(*) FROM task_queue"); n != 1 {
					t.Errorf("%d tasks, want one", n)
				}
				sound(t, db)
			})
		})
	}
}

func TestEnqueue_ThatIsRefusedGivesTheSlotsBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		i := attend(t, db, 4)
		write(t, db, map[bool]string{
			true:  "CREATE TRIGGER no BEFORE INSERT ON task_queue WHEN new.priority = 13 BEGIN SELECT raise(ABORT, 'no'); END",
			false: "ALTER TABLE task_queue ADD CHECK (priority <> 13)",
		}[lite(db)])
		if _, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop", Priority: 13}}); err == nil {
			t.Error("no error")
		}
		i.took(t)
		if len(i.errs) != 1 || i.errs[0] != nil || db.Orphans() != 0 {
			t.Errorf("the worker hears of %v, %d claims wait to be given back; want that nothing was claimed", i.errs, db.Orphans())
		}
		mustEnqueue(t, db, task.Lone{Type: "noop"})
		i.took(t, 100)
		sound(t, db)
	})
}

func TestEnqueue_ATransactionOfOthersIsNeverClaimedBeforeItsCommit(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		openTypes(t, db, "noop")
		i := attend(t, db, 4)
		insert := func(end func(*sql.Tx) error) {
			t.Helper()
			_, pool := db.SQL()
			tx, err := pool.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO task_queue (type) VALUES ('noop')"); err != nil {
				t.Fatal(err)
			}
			if err := end(tx); err != nil {
				t.Fatal(err)
			}
		}
		insert((*sql.Tx).Rollback)
		insert((*sql.Tx).Commit)
		if i.asked != 0 {
			t.Errorf("slots were asked for %d times, want never", i.asked)
		}
		claim(t, db, 1)
		sound(t, db)
	})
}

func TestEnqueue_ClaimsNothingForAWorkerThatHasLeft(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		i := &idler{free: 4}
		leave := db.Attend(i.lend)
		other := attend(t, db, 0) // has nothing to lend
		mustEnqueue(t, db, task.Lone{Type: "noop"})
		leave()
		mustEnqueue(t, db, task.Lone{Type: "noop"})
		i.took(t, 100)
		if other.asked != 1 || i.asked != 1 {
			t.Errorf("asked %d and %d times, want each once", i.asked, other.asked)
		}
		claim(t, db, 1)
	})
}

func TestEnqueue_WithASlotLentWorksThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Postgres(t), store.Options{TransactionPooler: true})
	i := attend(t, db, 4)
	mustEnqueue(t, db, task.Lone{Type: "noop", Key: "k", Timeout: time.Hour, Circuit: "a/b", Payload: json.RawMessage(`{"a":1}`)}, task.Lone{Type: "src", Priority: 3})
	i.took(t, 3, 100)
	sound(t, db)
}

// TestEnqueue_LooksOnlyAtTheFirstThatIsReady holds the plan of a commit that claims
// against 200,000 ready tasks, all of them less urgent.
func TestEnqueue_LooksOnlyAtTheFirstThatIsReady(t *testing.T) {
	notRaced(t)
	t.Parallel()
	url := storetest.Postgres(t)
	db := storetest.Open(t, url, store.Options{})
	enqueue(t, db, 200_000)
	write(t, db, "ANALYZE task_ready")
	plan := explain(t, url, store.EnqueueTakingText, store.EnqueueTakingArgs(5)...)
	if !strings.Contains(plan, "task_ready_pkey") || strings.Contains(plan, "Seq Scan on task") {
		t.Errorf("the commit does not follow task_ready_pkey:\n%s", plan)
	}
}
