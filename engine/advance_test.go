package engine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"madeira/engine/task"
	"madeira/jobs/expr"
)

func TestDecide_EveryWayNeedsEnd(t *testing.T) {
	t.Parallel()
	done := task.StepResult{State: task.Success, Outputs: json.RawMessage(`{"open_count": 2}`)}
	clean := task.StepResult{State: task.Success, Outputs: json.RawMessage(`{"open_count": 0}`)}
	failed := task.StepResult{State: task.Error}
	cancelled := task.StepResult{State: task.Cancelled}
	byChoice := task.StepResult{State: task.Skipped, Reason: task.ReasonCondition}
	byFailure := task.StepResult{State: task.Skipped, Reason: task.ReasonNeedsFailed}
	byMistake := task.StepResult{State: task.Skipped, Reason: "condition_error"}
	table := []struct {
		name      string
		condition string
		recon     task.StepResult
		to        task.State
		reason    string
	}{
		{"nothing asked, all well", "", done, task.Pending, ""},
		{"nothing asked, failed", "", failed, task.Skipped, "needs_failed"},
		{"nothing asked, cancelled", "", cancelled, task.Skipped, "needs_failed"},
		{"nothing asked, skipped by its own if", "", byChoice, task.Pending, ""},
		{"nothing asked, skipped because something failed", "", byFailure, task.Skipped, "needs_failed"},
		{"nothing asked, skipped by a broken condition", "", byMistake, task.Skipped, "needs_failed"},
		{"always, all well", "always()", done, task.Pending, ""},
		{"always, failed", "always()", failed, task.Pending, ""},
		{"always, cancelled", "always()", cancelled, task.Pending, ""},
		{"failure, all well", "failure()", done, task.Skipped, "condition"},
		{"failure, failed", "failure()", failed, task.Pending, ""},
		{"failure, skipped because something failed", "failure()", byFailure, task.Pending, ""},
		{"failure, cancelled", "failure()", cancelled, task.Skipped, "condition"},
		{"cancelled, cancelled", "cancelled()", cancelled, task.Pending, ""},
		{"cancelled, failed", "cancelled()", failed, task.Skipped, "condition"},
		{"value true", "steps.recon.outputs.open_count > 0", done, task.Pending, ""},
		{"value false", "steps.recon.outputs.open_count > 0", clean, task.Skipped, "condition"},
		{"value asked, failed", "steps.recon.outputs.open_count > 0", failed, task.Skipped, "needs_failed"},
		{"success and a value, failed", "success() && inputs.go == 'yes'", failed, task.Skipped, "needs_failed"},
		{"success and a false value, failed", "success() && inputs.go == 'no'", failed, task.Skipped, "condition"},
		{"always and a false value, failed", "always() && inputs.go == 'no'", failed, task.Skipped, "condition"},
		{"result asked, failed", "needs.recon.result == 'error'", failed, task.Pending, ""},
		{"result asked, all well", "needs.recon.result == 'error'", done, task.Skipped, "condition"},
		{"outputs of an unfinished step are null", "always() && steps.recon.outputs.open_count == null", failed, task.Pending, ""},
		{"a broken condition", "inputs.go > 3", done, task.Skipped, "condition_error"},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			steps := map[string]task.StepResult{"recon": row.recon}
			got := decide(task.Undecided{
				TaskID: 9, Step: "tell", Condition: row.condition, Needs: steps,
				Scope: task.Scope{Run: task.Run{Inputs: json.RawMessage(`{"go": "yes"}`)}, Steps: steps},
			})
			if got.TaskID != 9 || got.To != row.to || got.Reason != row.reason {
				t.Errorf("got %+v, want %s %q", got, row.to, row.reason)
			}
			if got.To == task.Skipped && got.Detail == "" {
				t.Error("a skipped step does not say why")
			}
		})
	}
}

func TestDecide_NamesTheConditionThatIsFalse(t *testing.T) {
	t.Parallel()
	got := decide(task.Undecided{Condition: "always() &&\n  run.version > 1\n", Scope: task.Scope{Run: task.Run{Version: 1}}})
	if want := "if: always() &&   run.version > 1"; got.Reason != task.ReasonCondition || got.Detail != want {
		t.Errorf("decide gives %s %q, want %s %q", got.Reason, got.Detail, task.ReasonCondition, want)
	}
}

func TestDecide_NamesTheStepThatFailed(t *testing.T) {
	t.Parallel()
	got := decide(task.Undecided{Needs: map[string]task.StepResult{
		"lines": {State: task.Success}, "ledger": {State: task.Error}, "recon": {State: task.Skipped, Reason: task.ReasonNeedsFailed},
	}})
	if want := "step ledger ended as error"; got.Detail != want {
		t.Errorf("detail = %q, want %q", got.Detail, want)
	}
}

func TestValuesOf_GivesExpressionsTheContextsOfARun(t *testing.T) {
	t.Parallel()
	run := task.Run{
		ID: "018f", Job: "month-end", Key: "alipay/2026-10", Version: 2, Trigger: "schedule", Reason: "corrected",
		DueAt:  time.Date(2026, 11, 6, 10, 30, 0, 0, time.FixedZone("CST", 8*3600)),
		Inputs: json.RawMessage(`{"limit": 12345678901234567890}`),
		Period: json.RawMessage(`{"label": "2026-10", "start": "2026-10-01"}`),
	}
	steps := map[string]task.StepResult{
		"bill": {State: task.Success, Outputs: json.RawMessage(`{"file": {"file": "sha256:x", "name": "b.csv", "size_bytes": 3}}`)},
		"gone": {State: task.Skipped},
	}
	settings := json.RawMessage(`{"file": "${{ steps.bill.outputs.file }}", "none": "${{ steps.gone.outputs.file }}", "limit": "${{ inputs.limit }}",
		"text": "${{ run.job }}/${{ period.label }} v${{ run.version }} ${{ run.reason }}", "due": "${{ schedule.due_at }}", "was": "${{ needs.gone.result }}"}`)
	got, err := expr.Resolve(settings, valuesOf(task.Scope{Run: run, Steps: steps}, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"file":{"file":"sha256:x","name":"b.csv","size_bytes":3}`, `"none":null`, `12345678901234567890`,
		`month-end/2026-10 v2 corrected`, `2026-11-06T02:30:00Z`, `"skipped"`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("settings %s\ndo not hold %s", got, want)
		}
	}
}
