package store_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestCreateRun_TwoAtOnceOfOneKeyMakeOneLiveRun(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var mu sync.Mutex
		ids, fresh := map[string]bool{}, 0
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				made, err := db.CreateRun(t.Context(), newRun("a/2026-10", steps(source("a"), noop("b", "a"))))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[made.Run.ID] = true
				if !made.Existing {
					fresh++
				}
			})
		}
		wg.Wait()
		if len(ids) != 1 || fresh != 1 {
			t.Errorf("8 calls made %d runs, %d of them said new; want 1, 1", len(ids), fresh)
		}
		sound(t, db)
	})
}

func TestCreateRun_WithoutAKeyEachIsVersionOneOfItsOwn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		a, b := create(t, db, newRun("", steps(noop("a")))), create(t, db, newRun("", steps(noop("a"))))
		if a.ID == b.ID || a.Version != 1 || b.Version != 1 || a.Key != "" {
			t.Errorf("runs = %+v, %+v; want two of version 1", a, b)
		}
		if n := count(t, db, "SELECT count(*) FROM run WHERE upstream_key IS NULL"); n != 2 {
			t.Errorf("%d runs have no key, want 2", n)
		}
		sound(t, db)
	})
}

func TestCreateRun_AskedAgainAfterAGoodEndComparesFirst(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		list := steps(source("bill"), source("more", "bill"), noop("lines", "more"), noop("root"), source("late", "lines"), noop("end", "late", "root"))
		first := create(t, db, newRun("k", list))
		work(t, db)
		again := newRun("k", list)
		again.Run.Inputs = json.RawMessage(`{"a":"x", "b": 1}`) // the same, spelled differently
		second := create(t, db, again)
		if second.Version != 0 || second.Status != task.RunPending {
			t.Fatalf("second = version %d, %s; want none yet, pending", second.Version, second.Status)
		}
		bill := claim(t, db, 1)[0]
		done := ok(bill)
		done.Digest = "same"
		x := exchange(t, db, 5, done)
		if got := names(x.Claimed); !slices.Equal(got, []string{"more"}) {
			t.Fatalf("claimed %v, want the other leading source alone", got)
		}
		done = ok(x.Claimed[0])
		done.Digest = "same"
		x = exchange(t, db, 5, done)
		if got := names(x.Claimed); !slices.Equal(got, []string{task.TypeCompare}) || x.Claimed[0].Type != task.TypeCompare {
			t.Fatalf("claimed %v, want the comparison", got)
		}
		for range 2 { // the second time as if the first answer was lost
			of, version, err := db.Compare(t.Context(), x.Claimed[0].Hold, time.Second)
			if err != nil || of != first.ID || version != 0 {
				t.Fatalf("Compare = %q, %d, %v; want %s, 0", of, version, err, first.ID)
			}
		}
		r, err := db.Run(t.Context(), second.ID)
		if err != nil || r.Status != task.RunRepeated || r.RepeatedOf != first.ID || r.FinishedAt.IsZero() {
			t.Errorf("second = %+v, %v; want repeated of the first", r, err)
		}
		got := states(t, db, second.ID)
		if got["lines"] != task.Cancelled || got["root"] != task.Cancelled || got["end"] != task.Cancelled || got[task.TypeCompare] != task.Success {
			t.Errorf("states = %v", got)
		}
		if x := exchange(t, db, 5); len(x.Claimed) != 0 || x.Undecided {
			t.Errorf("after a repetition there is %+v to do", x)
		}
		sound(t, db)
	})
}

func TestCreateRun_AnythingThatDiffersMakesTheNextVersion(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		list := steps(source("a"), noop("b", "a"))
		create(t, db, newRun("k", list))
		work(t, db)
		cases := []struct {
			name   string
			change func(*task.NewRun)
			digest string
		}{
			{"digest of a source", func(*task.NewRun) {}, "other"},
			{"no digest of a source", func(*task.NewRun) {}, ""},
			{"inputs", func(n *task.NewRun) { n.Run.Inputs = json.RawMessage(`{"a":"y","b":1}`) }, "same"},
			{"job", func(n *task.NewRun) { n.Run.JobDigest, n.Job.Digest = "sha256:2", "sha256:2" }, "same"},
		}
		for i, c := range cases {
			n := newRun("k", list)
			c.change(&n)
			run := create(t, db, n)
			o := ok(claim(t, db, 1)[0])
			o.Digest = c.digest
			cmp := exchange(t, db, 5, o).Claimed[0]
			of, version, err := db.Compare(t.Context(), cmp.Hold, 0)
			if err != nil || of != "" || version != i+2 {
				t.Fatalf("%s: Compare = %q, %d, %v; want version %d", c.name, of, version, err, i+2)
			}
			work(t, db)
			if r, err := db.Run(t.Context(), run.ID); err != nil || r.Version != i+2 || r.Status != task.RunSuccess {
				t.Errorf("%s: run = %+v, %v; want version %d, success", c.name, r, err, i+2)
			}
			// The next one is compared with this one: make its sources what they were.
			write(t, db, "UPDATE task_queue SET digest = 'same' WHERE source")
			write(t, db, `UPDATE run SET job_digest = 'sha256:1', inputs = '{"a":"x","b":1}'`)
		}
		sound(t, db)
	})
}

func TestCreateRun_AfterAnErrorOrOnPurposeTheNextVersionStartsAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("k", steps(noop("a"))))
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		if r := create(t, db, newRun("k", steps(noop("a")))); r.Version != 2 {
			t.Errorf("after an error: version %d, want 2", r.Version)
		}
		work(t, db)
		again := newRun("k", steps(noop("a")))
		again.Again, again.Run.Reason = true, "the bank asked"
		if r := create(t, db, again); r.Version != 3 || r.Reason != "the bank asked" {
			t.Errorf("on purpose: version %d, reason %q; want 3 and the reason", r.Version, r.Reason)
		}
		work(t, db)
		sound(t, db)
	})
}

func TestCreateRun_ASourceThatFailsLeavesNoVersionAndTheNextComparesAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		list := steps(source("a"), noop("b", "a"))
		create(t, db, newRun("k", list))
		work(t, db)
		run := create(t, db, newRun("k", list))
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		work(t, db)
		if r, err := db.Run(t.Context(), run.ID); err != nil || r.Status != task.RunError || r.Version != 0 {
			t.Errorf("run = %+v, %v; want error without a version", r, err)
		}
		if r := create(t, db, newRun("k", list)); r.Version != 0 {
			t.Errorf("the next run has version %d, want a comparison first", r.Version)
		}
		work(t, db)
		sound(t, db)
	})
}

func TestCreateRun_AnOccurrenceMakesOneRun(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		due := time.Date(2026, 11, 5, 2, 30, 0, 0, time.UTC)
		at := func(key string, due time.Time) task.NewRun {
			n := newRun(key, steps(noop("a")))
			n.Occurrence = &task.Occurrence{Job: "month-end", Entry: "30 10 5 * * Asia/Shanghai", DueAt: due, Outcome: task.DueRan}
			return n
		}
		first := create(t, db, at("k1", due))
		same, err := db.CreateRun(t.Context(), at("k1", due))
		if err != nil || !same.Existing || same.Run.ID != first.ID {
			t.Errorf("the same due time gave %+v, %v; want the first run", same, err)
		}
		live, err := db.CreateRun(t.Context(), at("k1", due.Add(time.Hour)))
		if err != nil || !live.Existing || live.Run.ID != first.ID {
			t.Errorf("a due time of a live key gave %+v, %v; want the first run", live, err)
		}
		if n := count(t, db, "SELECT count(*) FROM occurrence WHERE outcome = 'repeated' AND run_id IS NOT NULL"); n != 1 {
			t.Errorf("%d due times are on record as repeated, want 1", n)
		}
		mark, err := db.Watermark(t.Context(), "month-end", "30 10 5 * * Asia/Shanghai")
		if err != nil || !mark.Equal(due.Add(time.Hour)) {
			t.Errorf("Watermark = %s, %v; want the last due time", mark, err)
		}
		missed := task.Occurrence{Job: "month-end", Entry: "30 10 5 * * Asia/Shanghai", DueAt: due.Add(-time.Hour), Outcome: task.DueMissed, Reason: "outside the window"}
		for range 2 {
			if err := db.RecordOccurrence(t.Context(), missed); err != nil {
				t.Fatal(err)
			}
		}
		none, err := db.CreateRun(t.Context(), at("k2", missed.DueAt))
		if err != nil || !none.Existing || none.Run.ID != "" {
			t.Errorf("a due time that was missed gave %+v, %v; want no run", none, err)
		}
		if again, _ := db.Watermark(t.Context(), "month-end", "30 10 5 * * Asia/Shanghai"); !again.Equal(mark) {
			t.Errorf("an older due time moved the watermark to %s", again)
		}
		sound(t, db)
	})
}

func TestWatermark_OfANewEntryIsNowAndStays(t *testing.T) {
	t.Parallel()
	eachTimed(t, func(t *testing.T, db *store.DB, clock *clock) {
		first, err := db.Watermark(t.Context(), "j", "e")
		if err != nil || !first.Equal(clock.now()) {
			t.Fatalf("Watermark = %s, %v; want now", first, err)
		}
		clock.move(time.Hour)
		if again, err := db.Watermark(t.Context(), "j", "e"); err != nil || !again.Equal(first) {
			t.Errorf("Watermark an hour later = %s, %v; want %s", again, err, first)
		}
		if now, err := db.Now(t.Context()); err != nil || !now.Equal(clock.now()) {
			t.Errorf("Now = %s, %v; want the clock's", now, err)
		}
	})
}

func TestSaveJob_KeepsEveryMeaningAndTheLast(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, digest := range []string{"1", "2", "1"} {
			v := task.JobVersion{Name: "j", Digest: digest, Path: "j.yaml", Source: []byte("name: j # \x00\xff'")}
			if err := db.SaveJob(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		if n := count(t, db, "SELECT count(*) FROM job_version"); n != 2 {
			t.Errorf("%d versions are kept, want 2", n)
		}
		if n := count(t, db, "SELECT count(*) FROM job WHERE digest = '1'"); n != 1 {
			t.Error("the last meaning is not the one that was saved last")
		}
	})
}

func TestFault_F70_AFanOfTenThousandIsMadeAndJoinedOnce(t *testing.T) {
	notRaced(t)
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		list := steps(noop("root"))
		join := noop("join")
		for i := range 10_000 {
			list = append(list, noop(fmt.Sprint("s", i), "root"))
			join.Needs = append(join.Needs, fmt.Sprint("s", i))
		}
		began := time.Now()
		run := create(t, db, newRun("k", append(list, join)))
		t.Logf("10,002 tasks and 20,000 edges made in %s", time.Since(began).Round(time.Millisecond))
		done := []task.Outcome{}
		total := 0
		for {
			x := exchange(t, db, 1000, done...)
			done = done[:0]
			for _, c := range x.Claimed {
				done = append(done, ok(c))
			}
			if total += len(done); len(done) == 0 {
				break
			}
		}
		if total != 10_002 || status(t, db, run.ID) != task.RunSuccess {
			t.Errorf("%d tasks were claimed and the run is %s; want 10002, success", total, status(t, db, run.ID))
		}
	})
}

func TestCreateRun_RefusesWhatIsNoGraph(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for want, list := range map[string][]task.NewTask{
			"waits for itself": steps(noop("a", "b"), noop("b", "a")),
			"not there":        steps(noop("a", "x")),
			"twice":            steps(noop("a"), noop("a")),
			"at least one":     nil,
		} {
			_, err := db.CreateRun(t.Context(), newRun("k", list))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want %q in it", err, want)
			}
		}
		if n := count(t, db, "SELECT count(*) FROM run"); n != 0 {
			t.Errorf("refused runs left %d rows", n)
		}
	})
}
