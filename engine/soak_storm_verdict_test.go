//go:build soak && linux

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
)

// orders are what somebody asks for all through a storm, and was told it has.
type orders struct {
	runs  []string
	tasks map[string]int64 // by key
	stop  func() *orders
}

// order asks for lone tasks and runs until it is stopped.
func (s *storm) order() *orders {
	ctx, cancel := context.WithCancel(s.Context())
	o := &orders{tasks: map[string]int64{}}
	var ended sync.WaitGroup
	ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			s.orderTasks(ctx, o, i)
			_ = idle(ctx, 200*time.Millisecond)
		}
	})
	ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			steps := mixed(i, 6)
			for j := range steps {
				steps[j].Settings = do(chores{Milliseconds: 30 * (j % 3), Fails: (i + j) % 5 / 4, Calls: j == 3})
				steps[j].Retry = task.Retry{MaxAttempts: stormAttempts, Delay: stormRetry}
			}
			call, done := context.WithTimeout(ctx, stormLease)
			run, err := s.create(call, fmt.Sprint("order", i), steps...)
			done()
			if err != nil {
				s.note("a run that was not acknowledged", err.Error())
			} else {
				o.runs = append(o.runs, run.ID)
			}
			_ = idle(ctx, 2*time.Second)
		}
	})
	o.stop = sync.OnceValue(func() *orders {
		cancel()
		ended.Wait()
		return o
	})
	s.Cleanup(func() { o.stop() })
	return o
}

// orderTasks enqueues two tasks, now and then one of which is known.
func (s *storm) orderTasks(ctx context.Context, o *orders, i int) {
	ctx, cancel := context.WithTimeout(ctx, stormLease)
	defer cancel()
	list := make([]task.Lone, 2)
	for j := range list {
		key := fmt.Sprint("lone", 2*i+j)
		if j == 1 && i%10 == 9 {
			key = fmt.Sprint("lone", i)
		}
		list[j] = task.Lone{Type: "work", Key: key, Payload: do(chores{Milliseconds: 20 + 100*(i%5), Deaf: j == 0}), Retry: task.Retry{MaxAttempts: stormAttempts, Delay: stormRetry}}
	}
	made, err := s.db.Enqueue(ctx, list)
	if err != nil {
		s.note("tasks that were not acknowledged", err.Error())
		return
	}
	for j, m := range made {
		if id, told := o.tasks[list[j].Key]; told && (!m.Known || m.ID != id) {
			s.Errorf("I01: task %s was %d and is %d, known: %t", list[j].Key, id, m.ID, m.Known)
		}
		o.tasks[list[j].Key] = m.ID
	}
}

// drain lets the schedulers catch up, sends them away, lets the others work until
// nothing is left, and sends these away too.
func (s *storm) drain() {
	s.Helper()
	calm, err := s.db.Now(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	s.within(stormDrain, "schedulers that are up to date", func(ctx context.Context) (bool, error) {
		s.attend()
		for _, job := range stormJobs() {
			mark, err := s.db.Watermark(ctx, job.Name, job.Schedule[0].Name)
			if err != nil || mark.Before(calm) {
				return false, err
			}
		}
		return true, nil
	})
	for i := range 2 {
		s.retire(s.team[i])
		s.hire(i, false)
	}
	began := time.Now()
	s.within(stormDrain, "the end of all runs", func(ctx context.Context) (bool, error) {
		s.attend()
		open, err := s.number(ctx, openTasks)
		live, err2 := s.number(ctx, "SELECT count(*) FROM run WHERE finished_at IS NULL")
		return err == nil && err2 == nil && open+live == 0, errors.Join(err, err2)
	})
	s.Logf("everything was over %s after the schedules ended", time.Since(began).Round(time.Millisecond))
	for _, c := range s.team {
		s.retire(c)
	}
}

// verdict holds what is there against what was asked for and what was seen.
func (s *storm) verdict(o *orders) {
	s.Helper()
	s.wantSound()
	s.wantAcked(o.runs)
	s.wantTasks(o)
	s.wantReasons()
	s.wantCancelled()
	for _, job := range stormJobs() {
		s.wantBeats(job.Name, job.Schedule[0].Schedule.(pulse))
	}
	s.wantCalls()
	s.wantNobodyLeft()
	took := s.recovered(s.died)
	if len(took) == 0 {
		s.Error("no kill has hit an attempt: the test has tested nothing")
		return
	}
	s.Logf("%d kills hit %d attempts; at work again after: p50 %s, p99 %s (lease %s)", len(s.died), len(took), took[len(took)/2], took[len(took)*99/100], stormLease)
	for _, what := range []string{"success", "error", "skipped", "cancelled"} {
		s.Logf("%d tasks ended in %s", s.count("SELECT count(*) FROM task_queue WHERE state = $1", what), what)
	}
	s.Logf("%d leases were lost, %d tasks were poison", s.count("SELECT count(*) FROM task_log WHERE reason IN ('lease_lost', 'poison')"), s.count("SELECT count(*) FROM task_queue WHERE reason = 'poison'"))
}

// wantTasks checks that every lone task is there that was acknowledged, and none
// twice.
func (s *storm) wantTasks(o *orders) {
	s.Helper()
	if n := s.count("SELECT count(*) FROM (SELECT upstream_key FROM task_queue WHERE run_id IS NULL GROUP BY type, upstream_key HAVING count(*) > 1) AS twice"); n != 0 {
		s.Errorf("I01: %d lone tasks are there twice", n)
	}
	there := map[string]int64{}
	s.each("SELECT upstream_key, id FROM task_queue WHERE run_id IS NULL", func(scan func(...any) error) error {
		var key string
		var id int64
		err := scan(&key, &id)
		there[key] = id
		return err
	})
	for key, id := range o.tasks {
		if there[key] != id {
			s.Errorf("I01: task %s was acknowledged as %d and is %d", key, id, there[key])
		}
	}
	s.Logf("%d lone tasks acknowledged, all there; %d are there", len(o.tasks), len(there))
}

// wantReasons checks that whatever has not succeeded says why, and that the reason holds.
func (s *storm) wantReasons() {
	s.Helper()
	for what, query := range map[string]string{
		"have ended without a reason that explains it": `state <> 'success' AND NOT (state = 'error' AND reason IN ('transient', 'poison')
			OR state = 'skipped' AND reason = 'needs_failed' OR state = 'cancelled' AND reason = 'cancelled')`,
		"failed for good with attempts left":   fmt.Sprintf("state = 'error' AND reason = 'transient' AND attempt - crashes <> %d", stormAttempts),
		"are poison without three deaths":      `reason = 'poison' AND 3 <> (SELECT count(*) FROM task_log l WHERE l.task_id = task_queue.id AND l.reason IN ('lease_lost', 'poison'))`,
		"were cancelled in a run that was not": "state = 'cancelled' AND EXISTS (SELECT 1 FROM run r WHERE r.id = task_queue.run_id AND r.status <> 'cancelled')",
	} {
		if n := s.count("SELECT count(*) FROM task_queue WHERE " + query); n != 0 {
			s.Errorf("I02: %d tasks %s, such as task %s", n, what, s.text("SELECT id || ' ' || state || ' ' || coalesce(reason, '') || ' ' || coalesce(CAST(failure AS text), '') FROM task_queue WHERE "+query+" LIMIT 1"))
		}
	}
}

// wantCancelled checks that what was cancelled is.
func (s *storm) wantCancelled() {
	s.Helper()
	for _, line := range s.story {
		_, id, found := strings.Cut(line, " cancel ")
		if !found || strings.Contains(id, " ") {
			continue
		}
		if run, err := s.db.Run(s.Context(), id); err != nil || run.Status != task.RunCancelled {
			s.Errorf("run %s was cancelled and is %s, %v", id, run.Status, err)
		}
	}
}

// wantBeats checks that every due time of a job has one occurrence, up to the
// watermark, and each that ran one run of its own.
func (s *storm) wantBeats(job string, p pulse) {
	s.Helper()
	entry, err := s.db.Entries(s.Context(), job)
	list, err2 := s.db.Occurrences(s.Context(), store.OccurrenceFilter{Job: job, Limit: 1_000_000})
	if err := errors.Join(err, err2); err != nil || len(list) == 0 || len(entry) != 1 {
		s.Fatalf("%s: %d due times of %d entries, %v", job, len(list), len(entry), err)
	}
	runs, at := map[string]bool{}, entry[0].Watermark
	for _, o := range list {
		if !o.DueAt.Equal(at) {
			s.Fatalf("I13: a due time of %s is %s, want %s", job, o.DueAt, at)
		}
		good := false
		switch o.Outcome {
		case task.DueRan, task.DueCaughtUp:
			good = o.RunID != ""
		case task.DueSkipped: // at once, or cancelled before it was its turn
			good = o.Reason != "" && (o.RunID == "" || o.RunStatus == task.RunCancelled)
		}
		if !good || runs[o.RunID] {
			s.Errorf("I13: %s at %s is %s (%s), run %q, %s", job, at, o.Outcome, o.Reason, o.RunID, o.RunStatus)
		}
		if o.RunID != "" {
			runs[o.RunID] = true
		}
		at = at.Add(-p.every)
	}
	if at.After(entry[0].KnownSince) {
		s.Errorf("I13: the first due time of %s is %s, and it has been followed since %s", job, at.Add(p.every), entry[0].KnownSince)
	}
	if made := s.count("SELECT count(*) FROM run WHERE job = '" + job + "'"); made != len(runs) {
		s.Errorf("I13: there are %d runs of %s, want %d", made, job, len(runs))
	}
	s.Logf("%s: %d runs, each of its own due time", job, len(runs))
}

// wantCalls checks how often the upstream was called, and by whom.
func (s *storm) wantCalls() {
	s.Helper()
	s.up.mu.Lock()
	defer s.up.mu.Unlock()
	byTask, calls := map[string]*callsOfTask{}, 0
	for key, c := range s.up.calls {
		if len(c.tasks) != 1 {
			s.Errorf("I24: tasks %v have called under the same key %q", c.tasks, key)
		}
		for id := range c.tasks {
			if byTask[id] != nil {
				s.Errorf("I24: task %s has called under two keys", id)
			}
			byTask[id] = c
		}
		calls += c.calls
	}
	s.each(`SELECT CAST(t.id AS text), t.step, t.state, t.fence, (SELECT count(*) FROM task_log l WHERE l.task_id = t.id AND l.claimed_at IS NOT NULL
		AND l.reason IN ('released', 'infrastructure', 'lease_lost', 'poison')) FROM task_queue t WHERE t.run_id IS NOT NULL`, func(scan func(...any) error) error {
		var id, step, state string
		var claims, free int
		if err := scan(&id, &step, &state, &claims, &free); err != nil {
			return err
		}
		c := byTask[id]
		if c == nil {
			return nil
		}
		if most := min(claims, 1+stormAttempts+free); c.calls > most {
			s.Errorf("I24: task %s called %d times; it was claimed %d times, %d of them for nothing, and may try %d times", id, c.calls, claims, free, stormAttempts)
		}
		if state == string(task.Success) && c.answered == 0 {
			s.Errorf("task %s (%s) succeeded and was never answered", id, step)
		}
		return nil
	})
	s.Logf("%d tasks called the upstream %d times", len(byTask), calls)
}

// wantNobodyLeft looks for processes that the workers have started and left.
func (s *storm) wantNobodyLeft() {
	s.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is well formed
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), s.folder) {
			s.Errorf("I20: process %s is left by a worker", filepath.Base(filepath.Dir(file)))
		}
	}
}

// each goes through the rows of a query.
func (s *storm) each(query string, row func(scan func(...any) error) error) {
	s.Helper()
	read, _ := s.db.SQL()
	rows, err := read.QueryContext(s.Context(), query)
	if err != nil {
		s.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			s.Fatalf("%s: %v", query, err)
		}
	}
	if err := rows.Err(); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
}
