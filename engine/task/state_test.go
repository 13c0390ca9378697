package task_test

import (
	"testing"

	"madeira/engine/task"
)

// TestCanMove_EveryPairOfStates is the table of moves written out, so that a
// change of the code and of the contract cannot happen in one edit.
func TestCanMove_EveryPairOfStates(t *testing.T) {
	t.Parallel()
	table := []struct {
		from, to task.State
		want     bool
	}{
		{"blocked", "blocked", false},
		{"blocked", "pending", true},
		{"blocked", "processing", false},
		{"blocked", "waiting", false},
		{"blocked", "success", false},
		{"blocked", "error", false},
		{"blocked", "skipped", true},
		{"blocked", "cancelled", true},

		{"pending", "blocked", false},
		{"pending", "pending", false},
		{"pending", "processing", true},
		{"pending", "waiting", false},
		{"pending", "success", false},
		{"pending", "error", false},
		{"pending", "skipped", false},
		{"pending", "cancelled", true},

		{"processing", "blocked", false},
		{"processing", "pending", true},
		{"processing", "processing", false},
		{"processing", "waiting", true},
		{"processing", "success", true},
		{"processing", "error", true},
		{"processing", "skipped", false},
		{"processing", "cancelled", true},

		{"waiting", "blocked", false},
		{"waiting", "pending", true},
		{"waiting", "processing", false},
		{"waiting", "waiting", false},
		{"waiting", "success", false},
		{"waiting", "error", false},
		{"waiting", "skipped", false},
		{"waiting", "cancelled", true},

		{"success", "blocked", false},
		{"success", "pending", false},
		{"success", "processing", false},
		{"success", "waiting", false},
		{"success", "success", false},
		{"success", "error", false},
		{"success", "skipped", false},
		{"success", "cancelled", false},

		{"error", "blocked", false},
		{"error", "pending", true},
		{"error", "processing", false},
		{"error", "waiting", false},
		{"error", "success", false},
		{"error", "error", false},
		{"error", "skipped", false},
		{"error", "cancelled", false},

		{"skipped", "blocked", true},
		{"skipped", "pending", false},
		{"skipped", "processing", false},
		{"skipped", "waiting", false},
		{"skipped", "success", false},
		{"skipped", "error", false},
		{"skipped", "skipped", false},
		{"skipped", "cancelled", false},

		{"cancelled", "blocked", false},
		{"cancelled", "pending", false},
		{"cancelled", "processing", false},
		{"cancelled", "waiting", false},
		{"cancelled", "success", false},
		{"cancelled", "error", false},
		{"cancelled", "skipped", false},
		{"cancelled", "cancelled", false},
	}
	seen := map[[2]task.State]bool{}
	for _, row := range table {
		if got := task.CanMove(row.from, row.to); got != row.want {
			t.Errorf("CanMove(%s, %s) = %t, want %t", row.from, row.to, got, row.want)
		}
		seen[[2]task.State{row.from, row.to}] = true
	}
	for _, from := range task.States() {
		for _, to := range task.States() {
			if !seen[[2]task.State{from, to}] {
				t.Errorf("the table does not say whether %s may become %s", from, to)
			}
		}
	}
	if got := len(task.States()); got*got != len(table) {
		t.Errorf("the table has %d rows, want %d", len(table), got*got)
	}
}

func TestCanMove_UnknownStatesMoveNowhere(t *testing.T) {
	t.Parallel()
	if task.CanMove("done", task.Pending) || task.CanMove(task.Pending, "done") || task.CanMove("", "") {
		t.Error("a state that does not exist can move")
	}
}

func TestState_Terminal(t *testing.T) {
	t.Parallel()
	want := map[task.State]bool{
		"blocked": false, "pending": false, "processing": false, "waiting": false,
		"success": true, "error": true, "skipped": true, "cancelled": true,
	}
	for _, s := range task.States() {
		if got := s.Terminal(); got != want[s] {
			t.Errorf("%s.Terminal() = %t, want %t", s, got, want[s])
		}
	}
}

func TestCanMoveRun_EveryPairOfStatuses(t *testing.T) {
	t.Parallel()
	table := []struct {
		from, to task.RunStatus
		want     bool
	}{
		{"pending", "pending", false},
		{"pending", "running", true},
		{"pending", "waiting", false},
		{"pending", "success", false},
		{"pending", "warning", false},
		{"pending", "error", false},
		{"pending", "cancelled", true},
		{"pending", "repeated", false},

		{"running", "pending", false},
		{"running", "running", false},
		{"running", "waiting", true},
		{"running", "success", true},
		{"running", "warning", true},
		{"running", "error", true},
		{"running", "cancelled", true},
		{"running", "repeated", true},

		{"waiting", "pending", false},
		{"waiting", "running", true},
		{"waiting", "waiting", false},
		{"waiting", "success", true},
		{"waiting", "warning", true},
		{"waiting", "error", true},
		{"waiting", "cancelled", true},
		{"waiting", "repeated", true},

		{"success", "pending", false},
		{"success", "running", false},
		{"success", "waiting", false},
		{"success", "success", false},
		{"success", "warning", false},
		{"success", "error", false},
		{"success", "cancelled", false},
		{"success", "repeated", false},

		{"warning", "pending", false},
		{"warning", "running", true},
		{"warning", "waiting", false},
		{"warning", "success", false},
		{"warning", "warning", false},
		{"warning", "error", false},
		{"warning", "cancelled", false},
		{"warning", "repeated", false},

		{"error", "pending", false},
		{"error", "running", true},
		{"error", "waiting", false},
		{"error", "success", false},
		{"error", "warning", false},
		{"error", "error", false},
		{"error", "cancelled", false},
		{"error", "repeated", false},

		{"cancelled", "pending", false},
		{"cancelled", "running", false},
		{"cancelled", "waiting", false},
		{"cancelled", "success", false},
		{"cancelled", "warning", false},
		{"cancelled", "error", false},
		{"cancelled", "cancelled", false},
		{"cancelled", "repeated", false},

		{"repeated", "pending", false},
		{"repeated", "running", false},
		{"repeated", "waiting", false},
		{"repeated", "success", false},
		{"repeated", "warning", false},
		{"repeated", "error", false},
		{"repeated", "cancelled", false},
		{"repeated", "repeated", false},
	}
	for _, row := range table {
		if got := task.CanMoveRun(row.from, row.to); got != row.want {
			t.Errorf("CanMoveRun(%s, %s) = %t, want %t", row.from, row.to, got, row.want)
		}
	}
	if len(table) != 8*8 {
		t.Errorf("the table has %d rows, want %d", len(table), 8*8)
	}
}

func TestRunStatus_LiveAndEndedWell(t *testing.T) {
	t.Parallel()
	table := []struct {
		status      task.RunStatus
		live, ended bool
	}{
		{"pending", true, false}, {"running", true, false}, {"waiting", true, false},
		{"success", false, true}, {"warning", false, true},
		{"error", false, false}, {"cancelled", false, false}, {"repeated", false, false},
	}
	for _, row := range table {
		if got := row.status.Live(); got != row.live {
			t.Errorf("%s.Live() = %t, want %t", row.status, got, row.live)
		}
		if got := row.status.EndedWell(); got != row.ended {
			t.Errorf("%s.EndedWell() = %t, want %t", row.status, got, row.ended)
		}
	}
}
