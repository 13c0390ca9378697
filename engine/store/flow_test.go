package store_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestExchange_WalksADiamondToItsEnd(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("a/2026-10", steps(noop("a"), noop("b", "a"), noop("c", "a"), noop("d", "b", "c"))))
		if run.Version != 1 || run.Status != task.RunPending {
			t.Fatalf("new run = version %d, %s; want 1, pending", run.Version, run.Status)
		}
		a := claim(t, db, 1)
		if got := status(t, db, run.ID); got != task.RunRunning {
			t.Errorf("status after the first claim = %s, want running", got)
		}
		sound(t, db)
		x := exchange(t, db, 5, ok(a[0]))
		if got := names(x.Claimed); !slices.Equal(got, []string{"b", "c"}) {
			t.Fatalf("a released %v, want [b c]", got)
		}
		x = exchange(t, db, 5, ok(x.Claimed[0]), ok(x.Claimed[1]))
		if got := names(x.Claimed); !slices.Equal(got, []string{"d"}) {
			t.Fatalf("b and c released %v, want [d]", got)
		}
		exchange(t, db, 5, ok(x.Claimed[0]))
		want := map[string]task.State{"a": "success", "b": "success", "c": "success", "d": "success"}
		if got := states(t, db, run.ID); !maps.Equal(got, want) {
			t.Errorf("states = %v, want %v", got, want)
		}
		if got := status(t, db, run.ID); got != task.RunSuccess {
			t.Errorf("status = %s, want success", got)
		}
		sound(t, db)
	})
}

func TestExchange_GivesAllThatTheStepWasFrozenWith(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := noop("load")
		s.Settings = json.RawMessage(`{"table":"ledger","rows":"${{ steps.lines.outputs.rows }}"}`)
		s.Refs, s.Timeout, s.Priority = []string{"lines"}, 90*time.Second, 7
		s.Retry = task.Retry{MaxAttempts: 3, Delay: time.Second, Factor: 1.5, MaxDelay: time.Minute}
		run := create(t, db, newRun("k", steps(s)))
		c := claim(t, db, 1)[0]
		if c.RunID != run.ID || c.Step != "load" || c.Type != "noop" || c.Attempt != 1 || c.Fence != 1 || c.Crashes != 0 || c.Priority != 7 {
			t.Errorf("claimed = %+v", c)
		}
		if !slices.Equal(c.Refs, s.Refs) || c.Timeout != s.Timeout || !reflect.DeepEqual(c.Retry, s.Retry) || !c.NeedsRun || c.Lease != time.Minute || c.At.IsZero() {
			t.Errorf("claimed = %+v, want what %+v says", c, s)
		}
		var got, want map[string]string
		if json.Unmarshal(c.Settings, &got) != nil || json.Unmarshal(s.Settings, &want) != nil || !maps.Equal(got, want) {
			t.Errorf("settings = %s, want %s", c.Settings, s.Settings)
		}
	})
}

func TestExchange_ClaimsByPriorityThenAgeAndOnlyWhatIsWanted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		low, high, other := noop("low"), noop("high"), noop("other")
		low.Priority, high.Priority, other.Priority, other.Type = 200, 10, 1, "unknown"
		first := create(t, db, newRun("1", steps(low, high, other)))
		second := create(t, db, newRun("2", steps(noop("mid"), noop("mid2"))))
		x, err := db.Exchange(t.Context(), worker, nil, task.Want{N: 1, Types: allTypes, RunID: second.ID, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if got := names(x.Claimed); !slices.Equal(got, []string{"mid"}) {
			t.Errorf("of the second run claimed %v, want [mid]", got)
		}
		if got := names(exchange(t, db, 10).Claimed); !slices.Equal(got, []string{"high", "mid2", "low"}) {
			t.Errorf("claimed %v, want [high mid2 low]", got)
		}
		if got := states(t, db, first.ID)["other"]; got != task.Pending {
			t.Errorf("a task of an unknown type is %s, want pending", got)
		}
		sound(t, db)
	})
}

func TestExchange_ReleasesAJoinOnceWhenItsNeedsEndAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for i := range 20 {
			create(t, db, newRun(fmt.Sprint("k", i), steps(noop("a"), noop("b"), noop("join", "a", "b"))))
			both := claim(t, db, 2)
			var wg sync.WaitGroup
			for _, c := range both {
				wg.Go(func() {
					if _, err := db.Exchange(t.Context(), worker, []task.Outcome{ok(c)}, task.Want{}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			exchange(t, db, 0, ok(claim(t, db, 1)[0]))
			if more := exchange(t, db, 5).Claimed; len(more) != 0 {
				t.Fatalf("the join was released again: %v", names(more))
			}
		}
		sound(t, db)
	})
}

func TestExchange_DropsAnOutcomeOfAnotherFence(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(noop("a"), noop("b", "a"))))
		c := claim(t, db, 1)[0]
		stale := ok(c)
		stale.Fence--
		stale.Messages = []task.Message{{Key: "m", Channel: "log"}}
		stale.Artifacts = []task.Artifact{{Kind: "file", Name: "f", Digest: "d"}}
		x := exchange(t, db, 5, stale)
		if !slices.Equal(x.Lost, []task.Hold{stale.Hold}) || len(x.Claimed) != 0 {
			t.Errorf("a stale outcome gave %+v, want it lost and nothing claimed", x)
		}
		if got := states(t, db, run.ID)["a"]; got != task.Processing {
			t.Errorf("a is %s after a stale outcome, want processing", got)
		}
		if n := count(t, db, "SELECT (SELECT count(*) FROM artifact) + (SELECT count(*) FROM task_key)"); n != 0 {
			t.Errorf("a stale outcome left %d effects", n)
		}
		if x := exchange(t, db, 0, ok(c), stale); !slices.Equal(x.Lost, []task.Hold{stale.Hold}) {
			t.Errorf("lost = %v, want the stale one only", x.Lost)
		}
		sound(t, db)
	})
}

func TestFault_F17_AnOutcomeWrittenTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"))))
		c := claim(t, db, 1)[0]
		exchange(t, db, 0, ok(c))
		if x := exchange(t, db, 0, ok(c)); len(x.Lost) != 0 {
			t.Errorf("an outcome that was written before is lost: %v", x.Lost)
		}
		other, err := db.Exchange(t.Context(), "w2", []task.Outcome{ok(c)}, task.Want{})
		if err != nil || len(other.Lost) != 1 {
			t.Errorf("the outcome of another worker gave %v, %v; want it lost", other.Lost, err)
		}
		sound(t, db)
	})
}

func TestExchange_HoldsARetryBackAndSpendsOnlyWhatCounts(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, clock *clock) {
		run := create(t, db, newRun("k", steps(noop("a"))))
		c := claim(t, db, 1)[0]
		retry := task.Outcome{Hold: c.Hold, To: task.Pending, Reason: task.ReasonRetry, Delay: 30 * time.Second, Took: 2 * time.Second,
			Failure: &task.Failure{Class: task.TransientFailure, Message: "reset", Stack: "main.go:1"}}
		if x := exchange(t, db, 5, retry); len(x.Claimed) != 0 {
			t.Fatal("a task that waits was claimed")
		}
		if n, next, err := db.Promote(t.Context(), 10); n != 0 || next != 30*time.Second || err != nil {
			t.Errorf("Promote = %d, %s, %v; want 0, 30s", n, next, err)
		}
		sound(t, db)
		clock.move(31 * time.Second)
		if n, next, err := db.Promote(t.Context(), 10); n != 1 || next != 0 || err != nil {
			t.Errorf("Promote = %d, %s, %v; want 1, 0", n, next, err)
		}
		c = claim(t, db, 1)[0]
		if c.Attempt != 2 || c.Fence != 2 {
			t.Errorf("attempt %d, fence %d; want 2, 2", c.Attempt, c.Fence)
		}
		x := exchange(t, db, 5, task.Outcome{Hold: c.Hold, To: task.Pending, Reason: task.ReasonReleased, Unspent: true})
		if len(x.Claimed) != 1 || x.Claimed[0].Attempt != 2 || x.Claimed[0].Fence != 3 {
			t.Fatalf("a released task was claimed as %+v, want attempt 2, fence 3", x.Claimed)
		}
		exchange(t, db, 0, ok(x.Claimed[0]))
		log, err := db.Log(t.Context(), run.ID)
		if err != nil || len(log) != 3 {
			t.Fatalf("log = %v, %v; want 3 moves", log, err)
		}
		m := log[0]
		if m.From != task.Pending || m.To != task.Pending || m.Attempt != 1 || m.Worker != worker || m.Failure == nil || m.Failure.Stack != "main.go:1" || m.Took != 2*time.Second {
			t.Errorf("first move = %+v", m)
		}
		sound(t, db)
	})
}

func TestPromote_SaysSoWhenMoreIsDueThanItMoved(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, clock *clock) {
		create(t, db, newRun("k", steps(noop("a"), noop("b"), noop("c"))))
		var held []task.Outcome
		for _, c := range claim(t, db, 3) {
			held = append(held, task.Outcome{Hold: c.Hold, To: task.Pending, Reason: task.ReasonRetry, Delay: time.Second})
		}
		exchange(t, db, 0, held...)
		clock.move(time.Minute)
		if n, next, err := db.Promote(t.Context(), 2); n != 2 || next != time.Microsecond || err != nil {
			t.Errorf("Promote = %d, %s, %v; want 2, 1µs", n, next, err)
		}
		claim(t, db, 2)
		sound(t, db)
	})
}

func TestExchange_EndsARunAsItsWorstStepDid(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, c := range []struct {
			key  string
			end  func(task.Claimed) task.Outcome
			want task.RunStatus
		}{
			{"good", ok, task.RunSuccess},
			{"warned", func(c task.Claimed) task.Outcome { o := ok(c); o.Warning = "two breaks"; return o }, task.RunWarning},
			{"bad", fail, task.RunError},
		} {
			run := create(t, db, newRun(c.key, steps(noop("a"), noop("b"))))
			both := claim(t, db, 2)
			exchange(t, db, 0, c.end(both[0]), ok(both[1]))
			r, err := db.Run(t.Context(), run.ID)
			if err != nil || r.Status != c.want || r.FinishedAt.IsZero() || r.StartedAt.IsZero() {
				t.Errorf("%s: run = %+v, %v; want %s and both times", c.key, r, err, c.want)
			}
		}
		sound(t, db)
	})
}
