package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// each makes a step one with for_each. What it ranges over is the engine's matter.
func each(s task.NewTask) task.NewTask {
	s.ForEach = json.RawMessage(`"${{ steps.list.outputs.files }}"`)
	return s
}

func elements(keys ...string) []task.Element {
	all := make([]task.Element, len(keys))
	for i, k := range keys {
		all[i] = task.Element{Key: k, Value: json.RawMessage(strconv.Quote("value of " + k))}
	}
	return all
}

func numbered(n int) []task.Element {
	all := make([]task.Element, n)
	for i := range all {
		all[i] = task.Element{Key: strconv.Itoa(i), Value: json.RawMessage(strconv.Itoa(i * i))}
	}
	return all
}

func expand(t *testing.T, db *store.DB, c task.Claimed, e []task.Element) {
	t.Helper()
	if err := db.Expand(t.Context(), c.Hold, e); err != nil {
		t.Fatal(err)
	}
}

// row returns the row of a step itself.
func row(t *testing.T, db *store.DB, run, step, element string) task.Task {
	t.Helper()
	tasks, err := db.Tasks(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tasks {
		if x.Step == step && x.Element == element {
			return x
		}
	}
	t.Fatalf("run %s has no %s[%s]", run, step, element)
	return task.Task{}
}

func TestExpand_MakesElementsThatTheStepJoins(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		load := each(noop("load"))
		load.Timeout, load.Retry, load.Refs, load.Priority = time.Minute, task.Retry{MaxAttempts: 2}, []string{"list"}, 30
		run := create(t, db, newRun("k", steps(load, noop("after", "load"))))
		parent := claim(t, db, 1)[0]
		if string(parent.ForEach) != string(load.ForEach) || parent.Woken != "" {
			t.Fatalf("claimed %s, woken %q; want %s", parent.ForEach, parent.Woken, load.ForEach)
		}
		expand(t, db, parent, elements("ape", "bee", "cat"))
		sound(t, db)
		if p := row(t, db, run.ID, "load", ""); p.State != task.Waiting || p.Reason != task.ReasonElements || p.Attempt != 0 {
			t.Errorf("the step is %s %s in attempt %d, want waiting for elements and none spent", p.State, p.Reason, p.Attempt)
		}
		got := claim(t, db, 3)
		for i, key := range []string{"ape", "bee", "cat"} {
			c := got[i]
			want := fmt.Sprintf(`{"key":"%s","value":"value of %s","index":%d}`, key, key, i)
			if c.Element != key || string(c.Each) != want || c.ForEach != nil || string(c.Settings) != `{"of":"load"}` ||
				c.Timeout != load.Timeout || c.Retry.MaxAttempts != 2 || !slices.Equal(c.Refs, load.Refs) || c.Priority != 30 || c.RunID != run.ID || c.Step != "load" {
				t.Errorf("element %d = %+v with %s, want %s and all else as the step has it", i, c, c.Each, want)
			}
		}
		outputs := func(c task.Claimed) task.Outcome {
			o := ok(c)
			o.Outputs = json.RawMessage(`{"of":"` + c.Element + `"}`)
			return o
		}
		if x := exchange(t, db, 5, outputs(got[0]), fail(got[1])); len(x.Claimed) != 0 {
			t.Fatalf("claimed %v before all elements are over", names(x.Claimed))
		}
		sound(t, db)
		join := exchange(t, db, 5, outputs(got[2])).Claimed
		if len(join) != 1 || join[0].TaskID != parent.TaskID || join[0].Woken != task.WakeJoined || join[0].Attempt != 1 {
			t.Fatalf("after the last element claimed %+v, want the step, joined", join)
		}
		results, err := db.Elements(t.Context(), parent.TaskID)
		if err != nil || len(results) != 3 || results[0].State != task.Success || results[1].State != task.Error || results[1].Error != "no" || results[1].Key != "bee" {
			t.Errorf("Elements = %+v, %v", results, err)
		}
		exchange(t, db, 0, ok(join[0]))
		after := claim(t, db, 1)[0]
		after.Refs = []string{"load"}
		scope, err := db.Scope(t.Context(), after)
		if got, want := string(scope.Steps["load"].Outputs), `[{"of":"ape"},null,{"of":"cat"}]`; err != nil || got != want {
			t.Errorf("outputs = %s, %v; want %s", got, err, want)
		}
		exchange(t, db, 0, ok(after))
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("the run is %s, want success: what failed inside is the join's to judge", got)
		}
		sound(t, db)
	})
}

func TestExpand_IsDoneOnceForOneClaimAndNeverForALostOne(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(each(noop("load")))))
		c := claim(t, db, 1)[0]
		stale := c
		stale.Fence--
		if err := db.Expand(t.Context(), stale.Hold, numbered(3)); !errors.Is(err, step.ErrLeaseLost) {
			t.Errorf("under a stale fence: %v, want %v", err, step.ErrLeaseLost)
		}
		again := exchange(t, db, 1, task.Outcome{Hold: c.Hold, To: task.Pending, Reason: task.ReasonRetry}).Claimed[0]
		if err := db.Expand(t.Context(), c.Hold, numbered(3)); !errors.Is(err, step.ErrLeaseLost) {
			t.Errorf("under the fence before: %v, want %v", err, step.ErrLeaseLost)
		}
		expand(t, db, again, numbered(3))
		expand(t, db, again, numbered(3)) // the answer was lost
		sound(t, db)
		for _, e := range claim(t, db, 3) {
			exchange(t, db, 0, ok(e))
		}
		expand(t, db, again, numbered(3)) // and again, when all is over
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		if n := count(t, db, "SELECT count(*) FROM task_queue WHERE element <> ''"); n != 3 {
			t.Errorf("there are %d elements, want 3", n)
		}
		sound(t, db)
	})
}

func TestExpand_NamesElementsThatNobodyCouldWrite(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(each(noop("load")))))
		c := claim(t, db, 1)[0]
		long := strings.Repeat("交", 200)
		if err := db.Expand(t.Context(), c.Hold, elements("a", "a")); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("the same key twice: %v", err)
		}
		keys := []string{"", "a b", "a\nb", "a\x00b", "a_b", "a[b]", "a\xffb", long, long + "x", "entity/交易"}
		var made []task.Element
		for _, k := range keys {
			made = append(made, task.Element{Key: k})
		}
		expand(t, db, c, made)
		got := claim(t, db, len(keys))
		seen := map[string]bool{}
		for i, x := range got {
			if x.Element == "" || len(x.Element) > 200 || seen[x.Element] || strings.ContainsAny(x.Element, "\n\x00[]") {
				t.Errorf("key %q is named %q", keys[i], x.Element)
			}
			seen[x.Element] = true
			var e struct{ Key string }
			if err := json.Unmarshal(x.Each, &e); err != nil || !strings.Contains(keys[i], "\x00") && utf8.ValidString(keys[i]) && e.Key != keys[i] {
				t.Errorf("each.key = %q, %v; want %q", e.Key, err, keys[i])
			}
		}
		if !seen["a b"] || !seen["entity/交易"] {
			t.Errorf("plain keys do not name their elements: %v", seen)
		}
		sound(t, db)
	})
}

func TestExpand_GivesElementsTheLimitsAndTheConditionOfTheirStep(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		limited := each(noop("limited"))
		limited.MaxParallel, limited.Limits, limited.Circuit = 2, []task.Limit{{Key: "ledger", Slots: 5}}, "noop/ledger"
		picky := each(noop("picky"))
		picky.EachCondition = "each.value > 1"
		run := create(t, db, newRun("k", steps(limited, picky)))
		for _, c := range claim(t, db, 2) {
			if c.Limited || c.Circuit != "" {
				t.Errorf("the row of step %s is limited or speaks with %q itself", c.Step, c.Circuit)
			}
			expand(t, db, c, numbered(3))
		}
		sound(t, db)
		if n := count(t, db, "SELECT count(*) FROM task_held WHERE gate = 'limit:run/"+run.ID+"/limited'"); n != 3 {
			t.Errorf("%d elements are held by their first limit, want 3", n)
		}
		if n := count(t, db, "SELECT count(*) FROM task_queue WHERE circuit = 'noop/ledger' AND CAST(limits AS text) LIKE '%\"ledger\"%'"); n != 3 {
			t.Errorf("%d elements have the limit and the circuit of their step, want 3", n)
		}
		open, err := db.Undecided(t.Context(), 10)
		if err != nil || len(open) != 3 {
			t.Fatalf("Undecided = %+v, %v; want the three elements with a condition", open, err)
		}
		var decisions []task.Decision
		for _, u := range open {
			if u.Condition != picky.EachCondition || !strings.Contains(string(u.Each), `"index"`) {
				t.Errorf("undecided %+v with %s", u, u.Each)
			}
			decisions = append(decisions, task.Decision{TaskID: u.TaskID, To: task.Skipped, Reason: task.ReasonCondition, Detail: "if"})
		}
		decisions[2].Reason = "condition_error"
		if err := db.Decide(t.Context(), decisions); err != nil {
			t.Fatal(err)
		}
		sound(t, db)
		if got := claim(t, db, 1)[0]; got.Step != "picky" || got.Woken != task.WakeJoined {
			t.Errorf("claimed %+v, want the step to join its skipped elements", got)
		}
		if r, _ := db.Run(t.Context(), run.ID); r.Status != task.RunRunning {
			t.Errorf("the run is %s; elements count for it", r.Status)
		}
	})
}

func TestExpand_ARedrivenStepJoinsTheElementsItHas(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(each(noop("load")))))
		c := claim(t, db, 1)[0]
		expand(t, db, c, numbered(2))
		for _, e := range claim(t, db, 2) {
			exchange(t, db, 0, ok(e))
		}
		// The attempt that joins is lost as one that expands: it is not known as woken any more.
		join := claim(t, db, 1)[0]
		exchange(t, db, 0, task.Outcome{Hold: join.Hold, To: task.Pending, Reason: task.ReasonRetry})
		write(t, db, "UPDATE task_queue SET detail = NULL WHERE step = 'load'")
		join = claim(t, db, 1)[0]
		expand(t, db, join, numbered(2))
		join = claim(t, db, 1)[0]
		if join.Woken != task.WakeJoined {
			t.Errorf("woken as %q, want %q", join.Woken, task.WakeJoined)
		}
		exchange(t, db, 0, ok(join))
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("the run is %s", got)
		}
		sound(t, db)
	})
}

func TestFault_F70_TenThousandElementsJoinOnceUnderConcurrentFinishes(t *testing.T) {
	notRaced(t)
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		few, many := fanOut(t, db, 2000), fanOut(t, db, 10_000)
		// Five times the elements take five times as long, give or take; n² would be 25 times.
		if many > 14*few+2*time.Second {
			t.Errorf("2,000 elements took %s and 10,000 took %s: that is not in proportion", few, many)
		}
		sound(t, db)
	})
}

// fanOut expands a step into n, works them off with several workers and joins.
func fanOut(t *testing.T, db *store.DB, n int) time.Duration {
	t.Helper()
	began := time.Now()
	run := create(t, db, newRun(fmt.Sprint("fan", n), steps(each(noop("load")), noop("after", "load"))))
	expand(t, db, claim(t, db, 1)[0], numbered(n))
	joins := make(chan task.Claimed, n)
	var open sync.WaitGroup
	for w := range 4 {
		open.Go(func() {
			var done []task.Outcome
			for idle := 0; idle < 3; {
				x, err := db.Exchange(t.Context(), fmt.Sprint("w", w), done, task.Want{N: 200, Types: allTypes, RunID: run.ID, Lease: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				if done = nil; len(x.Claimed) == 0 {
					idle++
				}
				for _, c := range x.Claimed {
					if c.Element == "" {
						joins <- c
						continue
					}
					done = append(done, ok(c))
				}
			}
		})
	}
	open.Wait()
	rest := exchange(t, db, 10) // whoever went idle early may have left the join
	for _, c := range rest.Claimed {
		joins <- c
	}
	close(joins)
	var all []task.Claimed
	for c := range joins {
		all = append(all, c)
	}
	if len(all) != 1 || all[0].Woken != task.WakeJoined {
		t.Fatalf("%d elements released their join %d times: %+v", n, len(all), all)
	}
	exchange(t, db, 0, task.Outcome{Hold: all[0].Hold, To: task.Success})
	work(t, db)
	if got := status(t, db, run.ID); got != task.RunSuccess {
		t.Fatalf("the run is %s", got)
	}
	return time.Since(began)
}
