package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"madeira/engine/task"
	"madeira/jobs/step"
)

func unmasked(text string) string { return text }

func claimed(attempt int) task.Claimed {
	return task.Claimed{
		Hold: task.Hold{TaskID: 7, Fence: 3}, RunID: "r", Step: "load", Type: "load", Attempt: attempt,
		Retry: task.Retry{MaxAttempts: 3, Delay: 10 * time.Second, Factor: 2, MaxDelay: time.Minute},
	}
}

func TestOutcomeOf_EveryWayAnAttemptEnds(t *testing.T) {
	t.Parallel()
	plain := errors.New("connection reset")
	cancelled := fmt.Errorf("read rows: %w", context.Canceled)
	full := &os.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}
	table := []struct {
		name    string
		attempt int
		err     error
		cause   error
		want    task.Outcome // To, Reason, Unspent, Delay at random = 0.5
		class   task.Class
		code    string
	}{
		{"success", 1, nil, nil, task.Outcome{To: task.Success}, "", ""},
		{"success although it was told to stop", 1, nil, errShutdown, task.Outcome{To: task.Success}, "", ""},
		{"success after the timeout struck", 1, nil, errTimeout, task.Outcome{To: task.Success}, "", ""},
		{"first failure", 1, plain, nil, task.Outcome{To: task.Pending, Reason: "retry", Delay: 5 * time.Second}, task.TransientFailure, ""},
		{"second failure", 2, plain, nil, task.Outcome{To: task.Pending, Reason: "retry", Delay: 10 * time.Second}, task.TransientFailure, ""},
		{"last failure", 3, plain, nil, task.Outcome{To: task.Error, Reason: "transient"}, task.TransientFailure, ""},
		{"more attempts than allowed", 4, plain, nil, task.Outcome{To: task.Error, Reason: "transient"}, task.TransientFailure, ""},
		{"permanent", 1, step.Permanent(plain), nil, task.Outcome{To: task.Error, Reason: "permanent"}, task.PermanentFailure, ""},
		{"permanent with a code", 1, fmt.Errorf("parse: %w", step.PermanentCode("parse.columns", plain)), nil, task.Outcome{To: task.Error, Reason: "permanent"}, task.PermanentFailure, "parse.columns"},
		{"asked to come back later", 1, step.RetryAfter(30*time.Second, plain), nil, task.Outcome{To: task.Pending, Reason: "retry", Delay: 30 * time.Second}, task.TransientFailure, ""},
		{"asked for less than the back-off", 2, step.RetryAfter(time.Second, plain), nil, task.Outcome{To: task.Pending, Reason: "retry", Delay: 10 * time.Second}, task.TransientFailure, ""},
		{"F49: asked for ten years", 1, step.RetryAfter(87600*time.Hour, plain), nil, task.Outcome{To: task.Pending, Reason: "retry", Delay: time.Minute}, task.TransientFailure, ""},
		{"F49: asked for the past", 1, step.RetryAfter(-time.Hour, plain), nil, task.Outcome{To: task.Pending, Reason: "retry", Delay: 5 * time.Second}, task.TransientFailure, ""},
		{"later, for the last time", 3, step.RetryAfter(time.Second, plain), nil, task.Outcome{To: task.Error, Reason: "transient"}, task.TransientFailure, ""},
		{"F56: disk full", 3, fmt.Errorf("fetch: %w", full), nil, task.Outcome{To: task.Pending, Reason: "infrastructure", Unspent: true, Delay: 7500 * time.Millisecond}, task.InfrastructureFailure, ""},
		{"the machine, by its own word", 3, step.Infrastructure(plain), nil, task.Outcome{To: task.Pending, Reason: "infrastructure", Unspent: true, Delay: 7500 * time.Millisecond}, task.InfrastructureFailure, ""},
		{"timeout", 1, cancelled, errTimeout, task.Outcome{To: task.Pending, Reason: "retry", Delay: 5 * time.Second}, task.TimeoutFailure, "step.timeout"},
		{"timeout for the last time", 3, cancelled, errTimeout, task.Outcome{To: task.Error, Reason: "timeout"}, task.TimeoutFailure, "step.timeout"},
		{"F08: told to stop", 3, cancelled, errShutdown, task.Outcome{To: task.Pending, Reason: "released", Unspent: true}, "", ""},
		{"F08: told to stop, with an error of its own", 3, plain, errShutdown, task.Outcome{To: task.Pending, Reason: "released", Unspent: true}, "", ""},
		{"told to stop, and it calls that permanent", 1, step.Permanent(cancelled), errShutdown, task.Outcome{To: task.Pending, Reason: "released", Unspent: true}, "", ""},
		{"bad input found while told to stop", 1, step.Permanent(plain), errShutdown, task.Outcome{To: task.Error, Reason: "permanent"}, task.PermanentFailure, ""},
		{"cancelled something of its own", 1, cancelled, nil, task.Outcome{To: task.Pending, Reason: "retry", Delay: 5 * time.Second}, task.TransientFailure, ""},
		{"F10: panic", 1, &panicError{value: "nil map", stack: "goroutine 1"}, nil, task.Outcome{To: task.Pending, Reason: "retry", Delay: 5 * time.Second}, task.TransientFailure, "step.panic"},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, ours := outcomeOf(claimed(row.attempt), ending{Err: row.err, Cause: row.cause}, 0.5, unmasked)
			if !ours {
				t.Fatal("the result was dropped")
			}
			if got.To != row.want.To || got.Reason != row.want.Reason || got.Unspent != row.want.Unspent || got.Delay != row.want.Delay {
				t.Errorf("got  %s %q unspent=%t delay=%s\nwant %s %q unspent=%t delay=%s",
					got.To, got.Reason, got.Unspent, got.Delay, row.want.To, row.want.Reason, row.want.Unspent, row.want.Delay)
			}
			if !task.CanMove(task.Processing, got.To) {
				t.Errorf("processing may not become %s", got.To)
			}
			var class task.Class
			var code string
			if got.Failure != nil {
				class, code = got.Failure.Class, got.Failure.Code
			}
			if class != row.class || code != row.code {
				t.Errorf("failure = %q %q, want %q %q", class, code, row.class, row.code)
			}
		})
	}
}

// Attempts that died with their worker have a limit of their own: three, whatever
// the step allows.
func TestFault_F11_CrashesDoNotUseUpTheAttemptsOfAStep(t *testing.T) {
	t.Parallel()
	c := claimed(3) // of three, two of which crashed
	c.Crashes = 2
	got, _ := outcomeOf(c, ending{Err: errors.New("connection reset")}, 0.5, unmasked)
	if got.To != task.Pending || got.Delay != 5*time.Second {
		t.Errorf("the first failure after two crashes: %s with a delay of %s, want pending and 5s", got.To, got.Delay)
	}
}

func TestFault_F03_ALostLeaseDropsTheResult(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]ending{
		"cancelled at the deadline":      {Err: context.Canceled, Cause: errLeaseLost},
		"finished after the deadline":    {Cause: errLeaseLost},
		"told by the guard of a load":    {Err: fmt.Errorf("load: %w", step.ErrLeaseLost)},
		"the guard, called permanent":    {Err: step.Permanent(step.ErrLeaseLost)},
		"lost while it was told to stop": {Err: step.ErrLeaseLost, Cause: errShutdown},
	} {
		if o, ours := outcomeOf(claimed(1), end, 0, unmasked); ours {
			t.Errorf("%s: got %+v, want it dropped", name, o)
		}
	}
}

func TestOutcomeOf_KeepsWhatAFailedStepMade(t *testing.T) {
	t.Parallel()
	end := ending{
		Output: step.Output{
			Values: map[string]any{"open_count": 2}, Report: "two breaks\n", Digest: "sha256:x",
			Effects: []step.Effect{step.Message{Channel: "finance", Template: "breaks"}},
		},
		Err:       step.PermanentCode("recon.expect", errors.New("2 breaks, 0 expected")),
		Artifacts: []task.Artifact{{Kind: "dataset", Digest: "sha256:y"}},
	}
	got, _ := outcomeOf(claimed(1), end, 0, unmasked)
	if want := `{"open_count":2,"report":"two breaks\n"}`; string(got.Outputs) != want {
		t.Errorf("outputs = %s, want %s", got.Outputs, want)
	}
	if len(got.Artifacts) != 1 || len(got.Messages) != 1 || got.Digest != "" {
		t.Errorf("artifacts %d, messages %d, digest %q; want 1, 1 and no digest of a failed source", len(got.Artifacts), len(got.Messages), got.Digest)
	}

	end.Err = errors.New("connection reset")
	got, _ = outcomeOf(claimed(1), end, 0, unmasked)
	if got.Outputs != nil || got.Messages != nil || got.Artifacts != nil {
		t.Errorf("an attempt that is tried again leaves %s, %v, %v; want nothing", got.Outputs, got.Messages, got.Artifacts)
	}
}

func TestOutcomeOf_MasksSecretsInAllText(t *testing.T) {
	t.Parallel()
	mask := func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }
	end := ending{
		Output: step.Output{Report: "login hunter2", Warning: "hunter2 is old"},
		Err:    step.Permanent(&panicError{value: "hunter2", stack: "main.login(hunter2)"}),
	}
	got, _ := outcomeOf(claimed(1), end, 0, mask)
	all, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(all), "hunter2") {
		t.Errorf("the secret is in the outcome: %s", all)
	}
}

func TestMessageKey_IsOneForEachMessageAndTheSameForEachAttempt(t *testing.T) {
	t.Parallel()
	run := task.Run{ID: "018f", Job: "month-end", Key: "alipay/2026-10", Version: 2}
	m := step.Message{Channel: "finance", Template: "recon", Body: []byte(`{}`)}
	first, again := claimed(1), claimed(2)
	again.Fence++
	if got, want := messageKey(first, run, m), `["month-end","alipay/2026-10",2,"load","","finance","recon"]`; got != want {
		t.Errorf("key = %s, want %s", got, want)
	}
	if messageKey(first, run, m) != messageKey(again, run, m) {
		t.Error("two attempts give two keys")
	}
	element, keyless, other, alone := first, run, run, first
	element.Element = "hk"
	keyless.Key = ""
	other.Key, other.ID = "", "018e"
	alone.RunID, alone.Step = "", ""
	failedTwice, failedAgain := run, run // asked again, and failed before it had a version
	failedTwice.Version, failedAgain.Version = 0, 0
	failedTwice.ID, failedAgain.ID = "018c", "018d"
	keys := map[string]bool{
		messageKey(first, run, m):                                                    true,
		messageKey(element, run, m):                                                  true,
		messageKey(first, keyless, m):                                                true,
		messageKey(first, other, m):                                                  true,
		messageKey(alone, task.Run{}, m):                                             true,
		messageKey(first, failedTwice, m):                                            true,
		messageKey(first, failedAgain, m):                                            true,
		messageKey(first, run, step.Message{Channel: "finance/recon"}):               true,
		messageKey(first, run, step.Message{Channel: "finance", Template: "recon2"}): true,
	}
	if len(keys) != 9 {
		t.Errorf("nine messages have %d keys: %v", len(keys), keys)
	}
}

func TestFault_F69_OutputsThatAreTooLargeAreRefusedByName(t *testing.T) {
	t.Parallel()
	end := ending{Output: step.Output{
		Values: map[string]any{"small": 1, "rows": strings.Repeat("x", maxOutputs)},
		Report: "kept",
	}}
	got, _ := outcomeOf(claimed(1), end, 0, unmasked)
	if got.To != task.Error || got.Failure == nil || got.Failure.Code != "output.too_large" {
		t.Fatalf("got %s %+v, want a permanent error output.too_large", got.To, got.Failure)
	}
	for _, part := range []string{"262144", `"rows"`, "file or a dataset"} {
		if !strings.Contains(got.Failure.Message, part) {
			t.Errorf("message %q does not name %s", got.Failure.Message, part)
		}
	}
	if string(got.Outputs) != `{"report":"kept"}` {
		t.Errorf("outputs = %s, want the report alone", got.Outputs)
	}
}

func TestOutputsOf_RefusesWhatCannotBeJSON(t *testing.T) {
	t.Parallel()
	for code, values := range map[string]map[string]any{
		"output.invalid":  {"f": func() {}},
		"output.reserved": {"report": "mine"},
	} {
		_, err := outputsOf(step.Output{Values: values}, unmasked)
		var permanent *step.PermanentError
		if !errors.As(err, &permanent) || permanent.Code != code {
			t.Errorf("got %v, want a permanent error %s", err, code)
		}
	}
}

func TestOutputsOf_IsAnObjectEvenWithoutOutputs(t *testing.T) {
	t.Parallel()
	if got, err := outputsOf(step.Output{}, unmasked); err != nil || string(got) != "{}" {
		t.Errorf("got %s, %v, want {}", got, err)
	}
	got, err := outputsOf(step.Output{Values: map[string]any{"b": "<&>", "a": json.RawMessage(`{"mant": 12345678901234567890}`)}}, unmasked)
	if want := `{"a":{"mant":12345678901234567890},"b":"<&>"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestCutReport_SaysHowMuchIsLeftOut(t *testing.T) {
	t.Parallel()
	short := strings.Repeat("x", maxReport)
	if got := cutReport(short); got != short {
		t.Errorf("a report at the limit was cut to %d bytes", len(got))
	}
	line := "a line of a report, 中文\n"
	long := strings.Repeat(line, 10_000)
	got := cutReport(long)
	if len(got) > maxReport {
		t.Errorf("cut report has %d bytes, want at most %d", len(got), maxReport)
	}
	body, note, _ := strings.Cut(got, "\n… ")
	kept := strings.Count(body, "\n") + 1
	want := fmt.Sprintf("%d lines (%d bytes) of this report are left out; it may have %d bytes\n", 10_000-kept, len(long)-kept*len(line), maxReport)
	if note != want {
		t.Errorf("note = %q, want %q", note, want)
	}
	if one := cutReport(strings.Repeat("中", maxReport)); len(one) > maxReport || !strings.Contains(one, "… 1 lines (") {
		t.Errorf("a report of one line is cut to %d bytes ending in %q", len(one), one[len(one)-80:])
	}
}

func TestNamed_CallsADatasetByTheOutputThatRefersToIt(t *testing.T) {
	t.Parallel()
	kept := []task.Artifact{{Kind: "file", Name: "rejects.csv", Digest: "sha256:a"}, {Kind: "dataset", Name: "dataset", Digest: "sha256:b"}, {Kind: "dataset", Name: "dataset", Digest: "sha256:c"}}
	got := named(kept, map[string]any{"rows": step.Dataset{Digest: "sha256:c"}, "rejects": step.File{Digest: "sha256:a"}, "count": 3})
	if got[0].Name != "rejects.csv" || got[1].Name != "dataset" || got[2].Name != "rows" {
		t.Errorf("names %q, %q, %q, want rejects.csv, dataset, rows", got[0].Name, got[1].Name, got[2].Name)
	}
}

// A receiver drops what comes twice under one id, so a delivery has the key of
// its message and not that of its run.
func TestTaskOf_GivesADeliveryTheKeyOfItsMessage(t *testing.T) {
	t.Parallel()
	run := task.Run{ID: "r", Job: "j", Key: "j/2026-10", Version: 2}
	delivery := task.Claimed{Hold: task.Hold{TaskID: 9}, RunID: "r", Type: task.TypeDeliver, Key: `["j","j/2026-10",2,"tell"]`}
	if got := taskOf(delivery, run).Key; got != delivery.Key {
		t.Errorf("key of a delivery = %q, want %q", got, delivery.Key)
	}
	if got := taskOf(task.Claimed{RunID: "r", Step: "recon"}, run).Key; got != run.Key {
		t.Errorf("key of a step = %q, want %q", got, run.Key)
	}
}

func TestOutcomeOf_TriesAMessageForAboutTwoHours(t *testing.T) {
	t.Parallel()
	c := task.Claimed{Type: task.TypeDeliver, Attempt: 11}
	got, _ := outcomeOf(c, ending{Err: errors.New("connection refused")}, 0.5, unmasked)
	if got.To != task.Pending || got.Delay != 15*time.Minute {
		t.Errorf("the eleventh failure: %s with a delay of %s, want pending and 15m", got.To, got.Delay)
	}
	c.Attempt = 12
	if got, _ := outcomeOf(c, ending{Err: errors.New("connection refused")}, 0.5, unmasked); got.To != task.Error {
		t.Errorf("the twelfth failure: %s, want error", got.To)
	}
}
