package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
)

// createRuns makes a few runs of random shape.
func (s *sim) createRuns(rng *rand.Rand) {
	s.Helper()
	for i := range 1 + rng.IntN(3) {
		job := fmt.Sprint("job", i)
		n := task.NewRun{
			Run: task.Run{
				Job: job, JobDigest: "sha256:job", Key: fmt.Sprint("k", i), Trigger: "manual", DueAt: time.Now(), Inputs: json.RawMessage(`{}`),
				Timeout: []time.Duration{0, 0, 0, 4 * simLease}[rng.IntN(4)],
			},
			Job:   task.JobVersion{Name: job, Digest: "sha256:job", Path: "job.yaml", Source: []byte("name: job\n")},
			Tasks: append(append(simSteps(rng), simPhase(rng, task.PhaseOnFailure)...), simPhase(rng, task.PhaseFinally)...),
		}
		simTurn(rng, &n)
		made, err := s.db.CreateRun(s.Context(), n)
		if err != nil {
			s.Fatal(err)
		}
		s.runs = append(s.runs, made.Run.ID)
	}
}

// simTurn lets some runs take turns: due times of one job, runs under a key, and
// runs that are put off.
func simTurn(rng *rand.Rand, n *task.NewRun) {
	if rng.IntN(3) == 0 {
		n.Run.Job, n.Job.Name, n.Overlap = "hourly", "hourly", task.OverlapQueue
		n.Occurrence = &task.Occurrence{Job: "hourly", Entry: n.Run.Key, DueAt: n.Run.DueAt, Outcome: task.DueRan}
	}
	if rng.IntN(3) == 0 {
		n.Concurrency = &task.Limit{Key: "turns", Slots: 1 + rng.IntN(2)}
	}
	if rng.IntN(6) == 0 {
		n.NotBefore = time.Now().Add(simLease)
	}
}

// enqueue makes tasks that belong to no run.
func (s *sim) enqueue(rng *rand.Rand) {
	s.Helper()
	list := make([]task.Lone, max(rng.IntN(6)-3, 0))
	for i := range list {
		t := simStep(rng, "")
		list[i] = task.Lone{
			Type: "work", Priority: t.Priority, Limits: t.Limits, Circuit: t.Circuit, Retry: t.Retry, Timeout: t.Timeout,
			Key: []string{"", "a", "b"}[rng.IntN(3)], Delay: []time.Duration{0, 0, 0, simLease}[rng.IntN(4)],
		}
	}
	if _, err := s.db.Enqueue(s.Context(), list); err != nil {
		s.Fatal(err)
	}
}

// cancel stops a run, as a person does.
func (s *sim) cancel(run string) {
	s.Helper()
	var over *store.RunStateError
	if _, err := s.db.CancelRun(s.Context(), run, task.Action{Actor: "storm"}); err != nil && !errors.As(err, &over) {
		s.Fatal(err)
	}
}

// simSteps returns the steps of a chain, a diamond, a fan or any graph.
func simSteps(rng *rand.Rand) []task.NewTask {
	n := 1 + rng.IntN(7)
	needs := func(int) []string { return nil }
	name := func(i int) string { return fmt.Sprint("s", i) }
	switch rng.IntN(4) {
	case 0: // a chain
		needs = func(i int) []string { return []string{name(i - 1)} }
	case 1: // a diamond
		needs = func(i int) []string {
			if i < n-1 {
				return []string{name(0)}
			}
			var all []string
			for before := 1; before < i; before++ {
				all = append(all, name(before))
			}
			return all
		}
	case 2: // any graph
		needs = func(i int) []string {
			var some []string
			for before := range i {
				if rng.IntN(3) == 0 {
					some = append(some, name(before))
				}
			}
			return some
		}
	}
	steps := make([]task.NewTask, n)
	for i := range steps {
		steps[i] = simStep(rng, name(i))
		if i > 0 {
			steps[i].Needs = needs(i)
		}
		if rng.IntN(2) == 0 {
			steps[i].Refs = steps[i].Needs
		}
	}
	return steps
}

// simPhase returns the steps of a phase, of which there are often none.
func simPhase(rng *rand.Rand, phase task.Phase) []task.NewTask {
	var steps []task.NewTask
	for i := range max(rng.IntN(5)-2, 0) {
		s := simStep(rng, fmt.Sprint(phase, i))
		s.Phase, s.Condition = phase, ""
		steps = append(steps, s)
	}
	return steps
}

// simStep is a step with some of what a step can have.
func simStep(rng *rand.Rand, name string) task.NewTask {
	s := task.NewTask{
		Step: name, Type: "work", Settings: json.RawMessage(`{}`), Priority: 100 + rng.IntN(3),
		Retry:           task.Retry{MaxAttempts: 1 + rng.IntN(4), Delay: time.Second, MaxDelay: 4 * time.Second},
		Condition:       []string{"", "", "", "", "always()", "failure()", "success()"}[rng.IntN(7)],
		Timeout:         []time.Duration{0, 0, simLease}[rng.IntN(3)],
		ContinueOnError: rng.IntN(5) == 0,
	}
	switch rng.IntN(8) {
	case 0:
		s.ForEach = []json.RawMessage{json.RawMessage(`[]`), json.RawMessage(`[1]`), json.RawMessage(`{"hk":1,"cn":2,"us":3}`)}[rng.IntN(3)]
		s.MaxParallel = rng.IntN(3)
	case 1:
		s.Limits = []task.Limit{{Key: "ledger", Slots: 1 + rng.IntN(2)}}
	case 2:
		s.Limits = []task.Limit{{Key: "ledger", Slots: 2}, {Key: "calls", Rate: 2, Burst: 1}}
	case 3:
		s.Circuit = "work/upstream"
	}
	return s
}
