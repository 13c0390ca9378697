package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"madeira/engine/task"
	"madeira/jobs/step"
)

func TestFault_F06_ALeaseThatCouldNotBeRenewedSpendsNothing(t *testing.T) {
	t.Parallel()
	cancelled := fmt.Errorf("read rows: %w", context.Canceled)
	back := task.Outcome{To: task.Pending, Reason: task.ReasonInfrastructure, Unspent: true}
	for _, row := range []struct {
		name string
		err  error
		want task.Outcome // To, Reason, Unspent
	}{
		{"cancelled", cancelled, back},
		{"an error of its own", errors.New("connection reset"), back},
		{"cancelled, and it calls that permanent", step.Permanent(cancelled), back},
		{"it returns the cause, as permanent", step.Permanent(errUnrenewed), back},
		{"it does not return", errUnrenewed, back},
		{"bad input found in the meantime", step.Permanent(errors.New("column missing")), task.Outcome{To: task.Error, Reason: "permanent"}},
		{"done in spite of it", nil, task.Outcome{To: task.Success}},
	} {
		got, ours := outcomeOf(claimed(3), ending{Err: row.err, Cause: errUnrenewed}, 0.5, unmasked)
		if !ours || got.To != row.want.To || got.Reason != row.want.Reason || got.Unspent != row.want.Unspent || got.Delay != 0 {
			t.Errorf("%s: got ours=%t %s %q unspent=%t delay=%s, want %s %q unspent=%t", row.name,
				ours, got.To, got.Reason, got.Unspent, got.Delay, row.want.To, row.want.Reason, row.want.Unspent)
		}
		if got.To == task.Pending && (got.Failure == nil || strings.Count(got.Failure.Message, errUnrenewed.Error()) != 1) {
			t.Errorf("%s: failure = %+v, want one that names the lease once", row.name, got.Failure)
		}
	}
}
