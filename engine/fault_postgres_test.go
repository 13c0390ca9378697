package engine_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// server starts a PostgreSQL that a test may ill-treat, with two workers on it.
func server(t *testing.T, settings ...string) (*storetest.Cluster, *rig) {
	t.Helper()
	notRaced(t)
	c := storetest.Private(t, storetest.Options{Settings: settings})
	url, err := c.Database(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return c, newRig(t, url)
}

// team starts n workers with connections of their own and a lease that outlives
// a restart.
func (r *rig) team(n int) (stop func()) {
	r.Helper()
	var stops []func()
	for i := range n {
		db := r.open(r.url, store.Options{Application: "team"})
		cfg := r.worker(fmt.Sprint("w", i), db, steady(db))
		cfg.Lease = 15 * time.Second
		_, stop := r.start(cfg)
		stops = append(stops, stop)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// A load makes runs one after the other, whatever the database does meanwhile, and
// remembers which of them it was told are there.
type load struct {
	stop   func() (acked []string)
	failed atomic.Int64 // runs that could not be made
	ended  sync.WaitGroup
}

func (r *rig) load() *load {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	l := &load{}
	var acked []string
	l.ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			run, err := r.create(ctx, fmt.Sprint("load", i), mixed(i, 6)...)
			if err == nil {
				acked = append(acked, run.ID)
			} else {
				l.failed.Add(1)
			}
			pause, done := context.WithTimeout(ctx, 20*time.Millisecond)
			<-pause.Done()
			done()
		}
	})
	l.stop = sync.OnceValue(func() []string {
		cancel()
		l.ended.Wait()
		return acked
	})
	r.Cleanup(func() { l.stop() })
	return l
}

// claims counts the attempts there were.
func (r *rig) claims(ctx context.Context) (int, error) {
	return r.number(ctx, "SELECT coalesce(sum(fence), 0) FROM task_queue")
}

// wantAcked checks that everything is there that the database said it has.
func (r *rig) wantAcked(acked []string) {
	r.Helper()
	for _, id := range acked {
		if _, err := r.db.Run(r.Context(), id); err != nil {
			r.Errorf("I01: a run that was acknowledged is gone: %v", err)
		}
	}
	if len(acked) < 5 {
		r.Errorf("only %d runs were made: nothing was tested", len(acked))
	}
	r.Logf("%d runs acknowledged, all there", len(acked))
}

// TestFault_F16 kills backends of the server under load; it then ends all
// sessions and starts itself anew.
func TestFault_F16_AKilledBackendCostsNoAttempt(t *testing.T) {
	t.Parallel()
	_, r := server(t)
	stop := r.team(2)
	load := r.load()
	for range 3 {
		var pid int
		r.eventually("a backend at work", func(ctx context.Context) (bool, error) {
			var err error
			pid, err = r.number(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = 'team' AND datname = current_database() ORDER BY random() LIMIT 1")
			return err == nil, err
		})
		before, err := r.claims(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.eventually("work after the kill", func(ctx context.Context) (bool, error) {
			now, err := r.claims(ctx)
			return err == nil && now > before+20, err
		})
	}
	acked := load.stop()
	r.untilOver()
	stop()
	r.wantAcked(acked)
	r.wantAll()
	r.wantSound()
}

// TestFault_F17 restarts the server without a good-bye, again and again, under load.
func TestFault_F17_RestartsLoseNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	restarted(t, 12)
}

func restarted(t *testing.T, times int) {
	c, r := server(t)
	stop := r.team(2)
	load := r.load()
	var first []time.Duration // until the first claim after the return
	for range times {
		before := r.workAfter(0)
		if err := c.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		r.workAfter(before)
		first = append(first, time.Since(back))
	}
	acked := load.stop()
	r.untilOver()
	stop()
	slices.Sort(first)
	t.Logf("first claim after the return: p50 %s, p99 %s", first[len(first)/2], first[len(first)*99/100])
	if worst := first[len(first)-1]; worst > 5*time.Second {
		t.Errorf("the first claim came %s after the return, want 5s", worst)
	}
	r.wantAcked(acked)
	r.wantAll()
	r.wantSound()
}

// workAfter waits until more claims were made than so many, and for ten more when
// that is 0, and returns how many.
func (r *rig) workAfter(before int) (now int) {
	r.Helper()
	if before == 0 {
		before, _ = r.claims(r.Context())
		before += 10
	}
	r.eventually("claims", func(ctx context.Context) (bool, error) {
		var err error
		now, err = r.claims(ctx)
		return err == nil && now > before, err
	})
	return now
}

// TestFault_F19 takes the server away while nobody is at work, and brings it back.
func TestFault_F19_WorkersOutliveAnAbsentServer(t *testing.T) {
	t.Parallel()
	absent(t, 10*time.Second)
}

func absent(t *testing.T, d time.Duration) {
	c, r := server(t)
	r.team(2)
	r.mustCreate("k", mixed(1, 5)...)
	r.untilOver()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(d) // the fault itself
	lines := r.away()
	if most := 2 * (1 + int(d/(5*time.Second))); lines == 0 || lines > most {
		t.Errorf("the absence is in the log %d times, want 1 to %d\n%s", lines, most, r.logs.String())
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.eventually("a run after the return", func(ctx context.Context) (bool, error) {
		_, err := r.create(ctx, "k2", mixed(0, 3)...)
		return err == nil, err
	})
	made := time.Now()
	r.workAfter(5)
	if took := time.Since(made); took > 5*time.Second {
		t.Errorf("the first claim came %s after the return, want 5s", took)
	}
	r.untilOver()
	r.wantAll()
	r.wantSound()
}

// TestFault_F23 locks the table of tasks as VACUUM FULL does, for longer than a lease.
func TestFault_F23_ALockedTableEndsAttemptsAndNothingElse(t *testing.T) {
	t.Parallel()
	locked(t, 2*rigLease)
}

func locked(t *testing.T, d time.Duration) {
	r := newRig(t, storetest.Postgres(t))
	for i := range 2 {
		db := r.open(r.url, store.Options{})
		r.start(r.worker(fmt.Sprint("w", i), db, steady(db)))
	}
	load := r.load()
	r.workAfter(0)
	conn, err := pgx.Connect(t.Context(), r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE task_queue IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(d) // the fault itself
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.workAfter(0)
	acked := load.stop()
	r.untilOver()
	r.wantAcked(acked)
	if n := r.count("SELECT count(*) FROM task_queue WHERE state <> 'success'"); n != 0 {
		t.Errorf("%d tasks have not succeeded\n%s", n, r.logs.String())
	}
	r.wantSound()
}

// TestFault_F24 takes every connection that the server has left while a step
// works for several leases.
func TestFault_F24_WithoutConnectionsLeasesAreKept(t *testing.T) {
	t.Parallel()
	_, r := server(t, "max_connections=24", "superuser_reserved_connections=0")
	long, beat := make(chan struct{}), r.open(r.url, store.Options{MaxConns: 6})
	cfg := r.worker("one", beat, held(long, beat))
	r.start(cfg)
	r.mustCreate("k", task.NewTask{Step: "a"})
	r.holds("one", 1)

	pool, err := sql.Open("pgx", r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	pool.SetMaxOpenConns(100)
	var idle []*sql.Conn
	for {
		c, err := pool.Conn(t.Context())
		if err != nil {
			break // there are no more
		}
		idle = append(idle, c)
	}
	if len(idle) == 0 {
		t.Fatal("the server had no connection left to take")
	}
	time.Sleep(3 * rigLease) // the fault itself
	for _, c := range idle {
		_ = c.Close()
	}
	_ = pool.Close()
	close(long)
	r.untilOver()
	r.wantAll()
	r.wantSound()
}

// TestFault_F26 has the server roll transactions of the engine back for the sake of
// others, as many as there can be without one that meets it twice in a row.
func TestFault_F26_RolledBackTransactionsAreInvisible(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, storetest.Postgres(t))
			r.exec("CREATE SEQUENCE victim")
			r.exec(`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF nextval('victim') % 7 = 1 THEN RAISE EXCEPTION 'for the sake of another' USING ERRCODE = '` + code + `'; END IF;
				RETURN NULL; END $$`)
			for _, table := range []string{"task_lease", "task_log", "run"} {
				r.exec("CREATE TRIGGER die AFTER INSERT ON " + table + " FOR EACH STATEMENT EXECUTE FUNCTION die()")
			}
			r.start(r.worker("one", r.db, steady(r.db)))
			for i := range 6 {
				r.mustCreate(fmt.Sprint("k", i), mixed(i, 8)...)
			}
			r.untilOver()
			if n := r.count("SELECT last_value FROM victim"); n < 20 {
				t.Errorf("only %d transactions were at risk", n)
			}
			if n := r.away(); n != 0 {
				t.Errorf("the log mentions it %d times, want never\n%s", n, r.logs.String())
			}
			r.wantAll()
			r.wantSound()
		})
	}
}
