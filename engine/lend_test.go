package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"madeira/engine"
	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// A doorman stands between an engine and the commits that make tasks.
type doorman struct {
	engine.Door
	repay func(repay func([]task.Claimed, error), claimed []task.Claimed, err error)
}

func (d doorman) Attend(lend func([]string) (task.Loan, bool)) (leave func()) {
	return d.Door.Attend(func(types []string) (task.Loan, bool) {
		loan, ok := lend(types)
		repay := loan.Repay
		loan.Repay = func(claimed []task.Claimed, err error) { d.repay(repay, claimed, err) }
		return loan, ok
	})
}

// A diary notes what happens, in its order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) tear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = nil
}

func (d *diary) want(t *testing.T, lines ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, lines) {
		t.Errorf("what happened: %q, want %q", d.lines, lines)
	}
}

// lending is a worker that hears of nothing but of what its process makes itself.
func (w *world) lending(d *diary) engine.Config {
	cfg := w.config("one")
	cfg.Door, cfg.Poll, cfg.Slots = w.db, time.Hour, 1
	cfg.Queue = relay{Queue: w.db, after: pass, before: func(call string) error {
		if call == "exchange" {
			d.note(call)
		}
		return nil
	}}
	return cfg
}

func (w *world) enqueue(kinds ...string) {
	w.Helper()
	list := make([]task.Lone, len(kinds))
	for i, kind := range kinds {
		list[i].Type = kind
	}
	if _, err := w.db.Enqueue(w.Context(), list); err != nil {
		w.Error(err)
	}
}

// rows are the tasks of a world, as "state attempt/fence/crashes" in their order.
func (w *world) rows() []string {
	w.Helper()
	read, _ := w.db.SQL()
	rows, err := read.QueryContext(w.Context(), "SELECT state || ' ' || attempt || '/' || fence || '/' || crashes FROM task_queue ORDER BY id")
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			w.Fatal(err)
		}
		all = append(all, line)
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	return all
}

func (w *world) wantRows(want ...string) {
	w.Helper()
	if got := w.rows(); !slices.Equal(got, want) {
		w.Errorf("tasks = %q, want %q\n%s", got, want, w.logs.String())
	}
	w.check()
}

func noting(d *diary, took time.Duration) runner {
	return func(ctx context.Context, in step.Input) (step.Output, error) {
		d.note("begins")
		return step.Output{}, idle(ctx, took)
	}
}

func TestLend_AnIdleWorkerBeginsWhatItsProcessMakesWithoutAClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		w := newWorld(t, map[string]runner{"work": noting(d, time.Second)})
		w.start(w.engine(w.lending(d)))
		synctest.Wait()
		w.enqueue("work")
		w.enqueue("work") // the only slot is taken: it waits, and is claimed with the outcome
		synctest.Wait()
		w.wantRows("processing 1/1/0", "pending 0/0/0")
		d.want(t, "exchange", "begins")
		time.Sleep(5 * time.Second)
		w.wantRows("success 1/1/0", "success 1/1/0")
		d.tear()
		w.enqueue("work")
		time.Sleep(5 * time.Second)
		w.enqueue("other")
		w.enqueue("work") // behind one that is as urgent, whoever may take that
		time.Sleep(5 * time.Second)
		w.wantRows("success 1/1/0", "success 1/1/0", "success 1/1/0", "pending 0/0/0", "pending 0/0/0")
		d.want(t, "begins", "exchange")
	})
}

func TestLend_AWorkerOfOneRunLendsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		w := newWorld(t, map[string]runner{"work": noting(d, 0)})
		run := w.create("k", task.NewTask{Step: "a", Type: "work"})
		cfg := w.lending(d)
		cfg.RunID = run.ID
		w.start(w.engine(cfg))
		time.Sleep(time.Second)
		w.enqueue("work")
		time.Sleep(time.Second)
		w.wantRows("success 1/1/0", "pending 0/0/0")
	})
}

// The commit went through and its answer is lost; the process lives on.
func TestLend_WhatNobodyKnowsToBeClaimedIsNotBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		w := newWorld(t, map[string]runner{"work": noting(d, time.Second)})
		cfg, lost := w.lending(d), true
		cfg.Door = doorman{Door: w.db, repay: func(repay func([]task.Claimed, error), claimed []task.Claimed, err error) {
			if lost {
				claimed, err = nil, errDown
			}
			lost = false
			repay(claimed, err)
		}}
		w.start(w.engine(cfg))
		synctest.Wait()
		w.enqueue("work")
		time.Sleep(time.Second)
		w.wantRows("processing 1/1/0")
		d.want(t, "exchange", "exchange") // the second gives back what a store knows to be unanswered
		time.Sleep(time.Minute)           // here it does not: the lease runs out
		w.wantRows("success 2/2/1")
		w.enqueue("work")
		time.Sleep(2 * time.Second)
		w.wantRows("success 2/2/1", "success 1/1/0")
	})
}

func TestLend_ALateAnswerIsHandedBackUnspent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		w := newWorld(t, map[string]runner{"work": noting(d, 0)})
		cfg, late := w.lending(d), true
		cfg.Door = doorman{Door: w.db, repay: func(repay func([]task.Claimed, error), claimed []task.Claimed, err error) {
			if late {
				time.Sleep(cfg.Lease * 9 / 10)
			}
			late = false
			repay(claimed, err)
		}}
		w.start(w.engine(cfg))
		synctest.Wait()
		w.enqueue("work")
		time.Sleep(time.Second)
		w.wantRows("success 1/2/0")
	})
}

func TestLend_AShutdownWaitsForWhatWasLent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		w := newWorld(t, map[string]runner{"work": noting(d, time.Second)})
		let := make(chan struct{})
		cfg := w.lending(d)
		cfg.Door = doorman{Door: w.db, repay: func(repay func([]task.Claimed, error), claimed []task.Claimed, err error) {
			<-let
			repay(claimed, err)
		}}
		stop := w.start(w.engine(cfg))
		synctest.Wait()
		go w.enqueue("work")
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("the worker has left without what it lent: %v", err)
		default:
		}
		close(let)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		w.enqueue("work") // nobody lends any more
		w.wantRows("success 1/1/0", "pending 0/0/0")
	})
}

func TestLend_WhatIsRepaidAfterTheEndBeginsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		w := newWorld(t, map[string]runner{"work": noting(d, time.Second)})
		let := make(chan struct{})
		cfg := w.lending(d)
		cfg.Door = doorman{Door: w.db, repay: func(repay func([]task.Claimed, error), claimed []task.Claimed, err error) {
			<-let
			repay(claimed, err)
		}}
		stop := w.start(w.engine(cfg))
		synctest.Wait()
		go w.enqueue("work")
		synctest.Wait()
		if err := stop(); err != nil { // after the grace it waits no longer
			t.Error(err)
		}
		close(let)
		synctest.Wait()
		w.wantRows("processing 1/1/0")
		d.want(t, "exchange")
		w.start(w.engine(w.config("two")))
		time.Sleep(time.Minute)
		w.wantRows("success 2/2/1")
	})
}

// A look for work while slots are lent does not count them as free, and is made up
// for when they are back.
func TestLend_ARingWhileSlotsAreLentIsNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		w := newWorld(t, map[string]runner{"work": noting(d, time.Second)})
		let := make(chan struct{})
		cfg := w.lending(d)
		cfg.Door = doorman{Door: w.db, repay: func(repay func([]task.Claimed, error), claimed []task.Claimed, err error) {
			<-let
			repay(nil, errors.New("refused"))
		}}
		e := w.engine(cfg)
		w.start(e)
		synctest.Wait()
		go w.enqueue("work")
		synctest.Wait()
		w.create("k", task.NewTask{Step: "a", Type: "work"})
		e.Wake()
		synctest.Wait()
		d.want(t, "exchange", "exchange") // which finds no slot
		close(let)
		time.Sleep(2 * time.Second)
		if got := w.rows(); got[1] != "success 1/1/0" {
			t.Errorf("tasks = %q, want the second done", got)
		}
	})
}

// keptDoor keeps what asks a worker for slots.
type keptDoor struct {
	lend *func([]string) (task.Loan, bool)
}

func (d keptDoor) Attend(lend func([]string) (task.Loan, bool)) (leave func()) {
	*d.lend = lend
	return func() {}
}

// Whoever has heard of work gets the slots that are free, once.
func TestLend_WhoHearsOfWorkGetsWhatIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		w := newWorld(t, map[string]runner{"work": noting(d, time.Hour)})
		var lend func([]string) (task.Loan, bool)
		cfg := w.lending(d)
		cfg.Door, cfg.Slots, cfg.LightSlots = keptDoor{&lend}, 3, 40
		e := w.engine(cfg)
		w.start(e)
		synctest.Wait()
		w.enqueue("work")
		e.Wake()
		time.Sleep(time.Minute)
		loan, ok := lend(nil)
		if !ok || loan.Want.N != 40 || loan.Want.Heavy != 2 || !slices.Contains(loan.Want.HeavyTypes, "work") || loan.Want.Lease != cfg.Lease || loan.Worker != "one" {
			t.Fatalf("lent %+v, %t", loan, ok)
		}
		if again, ok := lend(nil); ok {
			t.Errorf("lent %+v twice", again.Want)
		}
		w.enqueue("work", "work", "work")
		got, err := w.db.Exchange(t.Context(), "one", nil, loan.Want)
		if err != nil || len(got.Claimed) != 2 {
			t.Fatalf("claimed %+v, %v", got, err)
		}
		loan.Repay(got.Claimed, nil)
		time.Sleep(time.Minute)
		w.wantRows("processing 1/1/0", "processing 1/1/0", "processing 1/1/0", "pending 0/0/0")
		if loan, ok := lend(nil); !ok || loan.Want.N != 40 || loan.Want.Heavy != 0 {
			t.Errorf("lent %+v, %t; want the light slots", loan, ok)
		}
	})
}

// Work that comes while all heavy slots are filled by loans is looked for when one is
// free, although somebody has looked with light slots a moment ago.
func TestLend_ALookWithoutAHeavySlotLeavesItToTheNextCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		w := newWorld(t, map[string]runner{"work": noting(d, time.Minute)})
		var lend func([]string) (task.Loan, bool)
		cfg := w.lending(d)
		cfg.Door, cfg.LightSlots = keptDoor{&lend}, 40
		w.start(w.engine(cfg))
		synctest.Wait()
		look := func(heavy, want int) {
			t.Helper()
			w.enqueue("work")
			loan, ok := lend(nil)
			if !ok || loan.Want.Heavy != heavy {
				t.Fatalf("lent %+v, %t; want %d heavy slots", loan, ok, heavy)
			}
			got, err := w.db.Exchange(t.Context(), "one", nil, loan.Want)
			if err != nil || len(got.Claimed) != want {
				t.Fatalf("claimed %+v, %v; want %d", got, err, want)
			}
			loan.Repay(got.Claimed, nil)
		}
		look(1, 1)
		time.Sleep(time.Minute - 5*time.Millisecond)
		look(0, 0)
		time.Sleep(time.Second)
		w.wantRows("success 1/1/0", "processing 1/1/0")
	})
}

var _ engine.Door = (*store.DB)(nil)
