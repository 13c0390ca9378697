package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/jobs"
	"madeira/scheduler"
)

// childVariable makes the test binary a scheduler on the database that it names.
const childVariable = "MADEIRA_TEST_SCHEDULER"

// rapidJobs are due at every beat, each with another way to overlap.
func rapidJobs() []*jobs.Job {
	var list []*jobs.Job
	for _, overlap := range []jobs.Overlap{jobs.OverlapAllow, jobs.OverlapSkip} {
		name := "rapid-" + string(overlap)
		list = append(list, &jobs.Job{
			Name: name, Path: name + ".yaml", Digest: "sha256:" + name, Source: []byte("name: " + name), Overlap: overlap,
			Key:      name + "/${{ schedule.due_at }}",
			Schedule: []jobs.Entry{{Name: "rapid", Schedule: rapid{}, Catchup: jobs.CatchupAll}},
			Steps:    []jobs.Step{{ID: "only", Uses: "query", Source: true, With: json.RawMessage(`{}`)}},
		})
	}
	return list
}

// childMain follows the rapid jobs until it is killed.
func childMain(url string) int {
	ctx := context.Background()
	db, err := store.Open(ctx, url, store.Options{})
	if err == nil {
		err = scheduler.New(scheduler.Options{Store: db, Jobs: rapidJobs()}).Run(ctx)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// A process is one scheduler that is killed and comes again.
type process struct{ cmd *exec.Cmd }

func (p *process) start(t *testing.T, url string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(self)
	p.cmd.Env = append(os.Environ(), childVariable+"="+url)
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// TestFault_F34_ThreeProcessesKilledAtRandom lets three processes follow two jobs for a
// thousand due times each, kills one of them again and again in a way that leaves no
// time, and starts another in its place.
func TestFault_F34_ThreeProcessesKilledAtRandom(t *testing.T) {
	t.Parallel()
	const ticks = 1000
	storetest.EachURL(t, func(t *testing.T, url string) {
		ctx := t.Context()
		db, err := store.Open(ctx, url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if _, err := db.Migrate(ctx); err != nil {
			t.Fatal(err)
		}
		start := map[string]time.Time{}
		for _, job := range rapidJobs() {
			if start[job.Name], err = db.Watermark(ctx, job.Name, "rapid"); err != nil {
				t.Fatal(err)
			}
		}
		var team [3]process
		for i := range team {
			team[i].start(t, url)
		}
		var once sync.Once
		dismiss := func() {
			once.Do(func() {
				for i := range team {
					team[i].kill()
				}
			})
		}
		defer dismiss()
		seed := rand.Uint64()
		r, kills := rand.New(rand.NewPCG(seed, 34)), 0
		for deadline := time.Now().Add(4 * time.Minute); ; kills++ {
			mark, err := db.Watermark(ctx, "rapid-skip", "rapid")
			if err != nil {
				t.Fatal(err)
			}
			if mark.Sub(start["rapid-skip"]) >= ticks*beat {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("seed %d: after %d kills the watermark is at %s, %d ticks from %s are not done", seed, kills, mark, ticks, start["rapid-skip"])
			}
			time.Sleep(time.Duration(r.Int64N(int64(time.Second)))) // until the moment of the next kill
			victim := &team[r.IntN(len(team))]
			victim.kill()
			victim.start(t, url)
		}
		dismiss()
		for job, from := range start {
			everyBeat(t, db, job, from)
		}
		if broken, err := db.Check(ctx); err != nil || len(broken) > 0 {
			t.Errorf("seed %d: the database is not sound: %v\n%s", seed, err, strings.Join(broken, "\n"))
		}
		if kills < 10 {
			t.Errorf("only %d kills: the test has tested little", kills)
		}
		t.Logf("seed %d: %d kills", seed, kills)
	})
}

// everyBeat checks that every beat after an instant, up to the watermark, has one due
// time, and each that ran one run of its own.
func everyBeat(t *testing.T, db *store.DB, job string, from time.Time) {
	t.Helper()
	ctx := t.Context()
	mark, err := db.Watermark(ctx, job, "rapid")
	if err != nil {
		t.Fatal(err)
	}
	list, err := db.Occurrences(ctx, store.OccurrenceFilter{Job: job, Limit: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]bool{}
	at := mark
	for _, o := range list {
		if !o.DueAt.Equal(at) {
			t.Fatalf("%s: a due time is %s, want %s", job, o.DueAt, at)
		}
		at = at.Add(-beat)
		makes := o.Outcome == "ran" || o.Outcome == "caught_up"
		if makes != (o.RunID != "") || !makes && (o.Outcome != "skipped" || o.Reason == "") || runs[o.RunID] {
			t.Errorf("%s at %s is %s (%s), run %q", job, o.DueAt, o.Outcome, o.Reason, o.RunID)
		}
		runs[o.RunID] = makes
	}
	if at.After(from) {
		t.Errorf("%s: the first due time is %s, want the first after %s", job, at.Add(beat), from)
	}
	delete(runs, "")
	var made int
	read, _ := db.SQL()
	if err := read.QueryRowContext(ctx, "SELECT count(*) FROM run WHERE job = '"+job+"'").Scan(&made); err != nil || made != len(runs) {
		t.Errorf("%s: there are %d runs (%v), want %d", job, made, err, len(runs))
	}
	t.Logf("%s: %d due times, %d runs", job, len(list), made)
}
