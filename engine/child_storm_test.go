package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"madeira/engine"
	"madeira/engine/artifact"
	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/jobs/step"
	"madeira/jobs/step/command"
	"madeira/scheduler"
)

// What a child does beyond steps, when it is a whole worker.

const (
	stormAttempts = 4 // of every task
	stormRetry    = 200 * time.Millisecond
	stormBeat     = time.Second // somewhere a due time comes so often
	callTime      = 2 * time.Second
)

// complete gives a worker everything that one of madeira serve has, and, where it
// is asked for, a clock that steps.
func (c *childWorker) complete(ctx context.Context, cfg *engine.Config) (*artifact.Folder, error) {
	files, err := artifact.Open(c.Folder)
	if err != nil {
		return nil, err
	}
	if _, err := command.Leftovers(filepath.Dir(files.Scratch())); err != nil {
		return nil, errors.Join(err, files.Close())
	}
	cfg.Artifacts, cfg.Scratch = files, files.Scratch()
	cfg.Flow, cfg.Gates, cfg.Turns, cfg.Bell = c.db, c.db, c.db, c.db
	if c.ClockSeed != 0 {
		w := &wrongClock{rng: rand.New(rand.NewPCG(c.ClockSeed, 0)), log: cfg.Logger}
		cfg.Clock = w.now
		go w.run(ctx)
	}
	return files, nil
}

// A wrongClock is up to ten minutes off, and steps.
type wrongClock struct {
	rng *rand.Rand
	log *slog.Logger
	off atomic.Int64
}

func (w *wrongClock) now() time.Time { return time.Now().Add(time.Duration(w.off.Load())) }

func (w *wrongClock) run(ctx context.Context) {
	for ctx.Err() == nil {
		off := time.Duration(w.rng.Int64N(int64(20*time.Minute))) - 10*time.Minute
		w.off.Store(int64(off))
		w.log.InfoContext(ctx, clockSteps, "off", off)
		_ = idle(ctx, time.Duration(w.rng.Int64N(int64(20*time.Second)))) // then ctx is done
	}
}

// follow follows the schedules until ctx is done; the function that is returned
// waits for that.
func (c *childWorker) follow(ctx context.Context, e *engine.Engine) (wait func()) {
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = scheduler.New(scheduler.Options{Store: c.db, Jobs: stormJobs(), Wake: e.Wake}).Run(ctx) // it ends with ctx alone
	})
	return ended.Wait
}

// stormJobs come due one after the other. Each has another shape, and another way
// to overlap.
func stormJobs() []*jobs.Job {
	shapes := []struct {
		name    string
		overlap jobs.Overlap
		steps   []jobs.Step
	}{
		{"chain", jobs.OverlapQueue, []jobs.Step{
			stormStep("a", chores{Milliseconds: 20}), stormStep("b", chores{}, "a"), stormStep("c", chores{Milliseconds: 100}, "b"),
		}},
		{"diamond", jobs.OverlapAllow, []jobs.Step{
			stormStep("top", chores{Milliseconds: 50}),
			stormStep("left", chores{Calls: true}, "top"), stormStep("middle", chores{Calls: true}, "top"), stormStep("right", chores{Milliseconds: 300}, "top"),
			always(stormStep("bottom", chores{}, "left", "middle", "right")),
		}},
		{"fan", jobs.OverlapAllow, []jobs.Step{
			stormStep("s0", chores{}), stormStep("s1", chores{Milliseconds: 20}), stormStep("s2", chores{Milliseconds: 500, Deaf: true}), stormStep("s3", chores{Fails: 1}),
			stormStep("s4", chores{Calls: true}), stormStep("s5", chores{Milliseconds: 1000, Deaf: true}), program("s6"),
		}},
		{"tries", jobs.OverlapSkip, []jobs.Step{
			stormStep("first", chores{Fails: 2}), stormStep("then", chores{Calls: true, Milliseconds: 50}, "first"), program("last", "then"),
		}},
	}
	list := make([]*jobs.Job, len(shapes))
	for i, s := range shapes {
		when := pulse{every: time.Duration(len(shapes)) * stormBeat, at: time.Duration(i) * stormBeat}
		list[i] = &jobs.Job{
			Name: s.name, Path: s.name + ".yaml", Digest: "sha256:" + s.name, Source: []byte("name: " + s.name), Overlap: s.overlap, Priority: 100,
			Key:      s.name + "/${{ schedule.due_at }}",
			Schedule: []jobs.Entry{{Name: "pulse", Schedule: when, Catchup: jobs.CatchupAll}},
			Steps:    s.steps,
		}
	}
	return list
}

// A pulse is due every so often.
type pulse struct{ every, at time.Duration }

func (p pulse) Next(t time.Time) (calendar.Due, error) {
	return calendar.Due{At: t.Add(-p.at).Truncate(p.every).Add(p.every + p.at)}, nil
}

func stormStep(id string, c chores, needs ...string) jobs.Step {
	return jobs.Step{ID: id, Uses: "work", With: do(c), Needs: needs, Retry: jobs.Retry{MaxAttempts: stormAttempts, Delay: stormRetry}}
}

func always(s jobs.Step) jobs.Step {
	s.If = "always()"
	return s
}

// program is a step that leaves another process behind it unless somebody ends that.
func program(id string, needs ...string) jobs.Step {
	s := stormStep(id, chores{}, needs...)
	s.Uses = "command"
	s.With = json.RawMessage(`{"argv": ["sh", "-c", "sleep 3600 >/dev/null 2>&1 & exec sleep 0.3"]}`)
	return s
}

// call asks the upstream for something, once.
func (c *childWorker) call(ctx context.Context, t step.Task) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Upstream, strings.NewReader("please"))
	if err != nil {
		return step.Permanent(err)
	}
	req.Header.Set("Idempotency-Key", t.Identity())
	req.Header.Set(taskHeader, strconv.FormatInt(t.ID, 10))
	// A connection that is used again may make the transport ask twice.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK || string(text) != upstreamAnswer:
		return fmt.Errorf("the upstream answers %s with %d bytes", resp.Status, len(text))
	}
	return nil
}

const (
	clockSteps     = "the clock steps"
	taskHeader     = "Madeira-Task"
	upstreamAnswer = "done"
)
