package engine

import (
	"errors"
	"testing"
	"time"

	"madeira/engine/task"
	"madeira/jobs/step"
)

func TestDecide_ConditionsAfterMainAskHowTheRunWent(t *testing.T) {
	t.Parallel()
	failed := &task.RunFailure{Step: "work", Error: "no disk", Attempts: 2}
	table := []struct {
		name, condition, stopped string
		failure                  *task.RunFailure
		to                       task.State
		reason                   string
	}{
		{"nothing asked", "", "", failed, task.Pending, ""},
		{"a value, and the run failed", "run.job == 'j'", "", failed, task.Pending, ""},
		{"success of a run that went well", "success()", "", nil, task.Pending, ""},
		{"success of a run that failed", "success()", "", failed, task.Skipped, "condition"},
		{"failure of a run that failed", "failure()", "", failed, task.Pending, ""},
		{"failure of a run that went well", "failure()", "", nil, task.Skipped, "condition"},
		{"failure of a run out of time", "failure()", "timeout", nil, task.Pending, ""},
		{"cancelled, and it was", "cancelled()", "cancelled", nil, task.Pending, ""},
		{"cancelled, and it failed", "cancelled()", "", failed, task.Skipped, "condition"},
		{"success, and it was cancelled", "success()", "cancelled", nil, task.Skipped, "condition"},
		{"always, cancelled", "always()", "cancelled", nil, task.Pending, ""},
		{"the step that failed", "failure() && failure.step == 'work' && failure.attempts == 2", "", failed, task.Pending, ""},
		{"no step failed", "always() && failure.step == null", "", nil, task.Pending, ""},
		{"the result of a need", "needs.before.result == 'success'", "", failed, task.Pending, ""},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := decide(task.Undecided{
				TaskID: 3, Step: "tell", Phase: task.PhaseFinally, Condition: row.condition,
				Needs: map[string]task.StepResult{"before": {State: task.Success}},
				Scope: task.Scope{Phase: task.PhaseFinally, Failure: row.failure, Run: task.Run{Job: "j", Stopped: row.stopped}},
			})
			if got.To != row.to || got.Reason != row.reason {
				t.Errorf("got %+v, want %s %q", got, row.to, row.reason)
			}
		})
	}
}

func TestDecide_AnExcusedFailureIsASuccess(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]task.State{"": task.Pending, "success()": task.Pending, "failure()": task.Skipped, "needs.a.result == 'success'": task.Pending} {
		got := decide(task.Undecided{Condition: condition, Needs: map[string]task.StepResult{"a": {State: task.Error, Excused: true}}})
		if got.To != want {
			t.Errorf("if %q: %+v, want %s", condition, got, want)
		}
	}
}

func TestOutcomeOf_WhatRetriesAskFor(t *testing.T) {
	t.Parallel()
	coded := step.PermanentCode("http.409", errors.New("conflict"))
	plain := errors.New("reset")
	for _, row := range []struct {
		name  string
		retry task.Retry
		err   error
		cause error
		to    task.State
	}{
		{"only what is named, and this is not", task.Retry{RetryOn: []string{"timeout"}}, plain, nil, task.Error},
		{"only what is named, and this is", task.Retry{RetryOn: []string{"transient"}}, plain, nil, task.Pending},
		{"a code that is named, although it is permanent", task.Retry{RetryOn: []string{"http.409"}}, coded, nil, task.Pending},
		{"permanent failures are not named by their class", task.Retry{RetryOn: []string{"permanent"}}, coded, nil, task.Error},
		{"never this class", task.Retry{NoRetryOn: []string{"timeout"}}, plain, errTimeout, task.Error},
		{"never this code", task.Retry{RetryOn: []string{"http.409"}, NoRetryOn: []string{"http.409"}}, coded, nil, task.Error},
		{"the machine always", task.Retry{NoRetryOn: []string{"infrastructure"}, RetryOn: []string{"timeout"}}, step.Infrastructure(plain), nil, task.Pending},
	} {
		c := claimed(1)
		c.Retry = row.retry
		got, ours := outcomeOf(c, ending{Err: row.err, Cause: row.cause}, 0.5, unmasked)
		if !ours || got.To != row.to {
			t.Errorf("%s: %+v, want %s", row.name, got, row.to)
		}
	}
}

func TestOutcomeOf_SaysWhatTheTaskHolds(t *testing.T) {
	t.Parallel()
	c := claimed(1)
	c.Limited, c.Circuit = true, "fetch/bank"
	if got, _ := outcomeOf(c, ending{}, 0, unmasked); !got.Limited || got.Circuit != c.Circuit || got.Alone || got.Ungated {
		t.Errorf("a limited task of a run ended as %+v", got)
	}
	if got, _ := outcomeOf(task.Claimed{Attempt: 1}, ending{}, 0, unmasked); got.Limited || !got.Alone || !got.Ungated {
		t.Errorf("a task alone ended as %+v", got)
	}
}

func TestOutcomeOf_AWaitSpendsNothingAndExpires(t *testing.T) {
	t.Parallel()
	for expire, want := range map[time.Duration]time.Duration{0: 0, time.Hour: time.Hour, -time.Hour: time.Millisecond} {
		out := step.Output{Effects: []step.Effect{step.Message{Channel: "c"}, step.Wait{Expire: expire}}}
		got, _ := outcomeOf(claimed(1), ending{Output: out}, 0, unmasked)
		if got.To != task.Waiting || !got.Unspent || got.Delay != want || len(got.Messages) != 1 {
			t.Errorf("a wait of %s gave %+v", expire, got)
		}
		if got, _ := outcomeOf(claimed(1), ending{Output: out, Err: errors.New("no")}, 0, unmasked); got.To != task.Pending {
			t.Errorf("a wait with an error gave %+v", got)
		}
	}
}

func TestOutcomeOf_AStoppedRunEndsWhatIsAtWork(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errStopped, errors.New("broken off"), step.Permanent(errors.New("no"))} {
		got, ours := outcomeOf(claimed(1), ending{Err: err, Cause: errStopped}, 0, unmasked)
		if !ours || got.To != task.Cancelled || got.Reason != task.ReasonCancelled {
			t.Errorf("%v: %+v, want it cancelled", err, got)
		}
	}
}

func TestJoined_NamesTheFirstTenThatFailed(t *testing.T) {
	t.Parallel()
	var results []task.ElementResult
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		results = append(results, task.ElementResult{Key: key, State: task.Error, Error: "no " + key, Digest: "d"})
	}
	want := "12 of 12 elements did not end well: s[a], s[b], s[c], s[d], s[e], s[f], s[g], s[h], s[i], s[j] and 2 more; the first of them: no a"
	if _, err := joined("s", results); err == nil || err.Error() != want {
		t.Errorf("joined = %v, want %s", err, want)
	}
	results[0] = task.ElementResult{Key: "a", State: task.Success, Warning: "w", Digest: "d"}
	out, err := joined("s", results[:1])
	if err != nil || out.Warning != "1 of 1 elements have a warning: s[a]" || out.Digest == "" {
		t.Errorf("joined = %+v, %v", out, err)
	}
	if other, _ := joined("s", []task.ElementResult{{Key: "a", State: task.Success, Digest: "e"}}); other.Digest == out.Digest {
		t.Error("another digest of an element gives the step the same")
	}
	if out, err := joined("s", nil); err != nil || out.Digest != "" {
		t.Errorf("joined nothing = %+v, %v", out, err)
	}
}
