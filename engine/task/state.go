package task

import "slices"

// A State is where a task is. States are words in the row too.
type State string

// The states of a task and who moves it out of each.
const (
	Blocked    State = "blocked"    // the store, when what it needs has ended
	Pending    State = "pending"    // a worker, by claiming it
	Processing State = "processing" // the worker that claimed it, or the rescuer when its lease has run out
	Waiting    State = "waiting"    // an answer, an arrival or an expiry
	Success    State = "success"    // nobody
	Error      State = "error"      // a person, by redriving it
	Skipped    State = "skipped"    // a redrive of the error that caused it
	Cancelled  State = "cancelled"  // nobody
)

// States lists every state once.
func States() []State {
	return []State{Blocked, Pending, Processing, Waiting, Success, Error, Skipped, Cancelled}
}

// Terminal reports whether a task in this state is over unless a person redrives it.
func (s State) Terminal() bool {
	return s == Success || s == Error || s == Skipped || s == Cancelled
}

// CanMove reports whether a task may go from one state to another at all. Moves
// out of error and skipped are for redrives only.
func CanMove(from, to State) bool {
	return slices.Contains(moves(from), to)
}

func moves(from State) []State {
	switch from {
	case Blocked:
		return []State{Pending, Skipped, Cancelled}
	case Pending:
		return []State{Processing, Cancelled}
	case Processing:
		return []State{Success, Error, Waiting, Cancelled, Pending}
	case Waiting:
		return []State{Pending, Cancelled}
	case Error:
		return []State{Pending}
	case Skipped:
		return []State{Blocked}
	}
	return nil
}

// A RunStatus is where a run is.
type RunStatus string

// The statuses of a run.
const (
	RunPending   RunStatus = "pending"   // no task was claimed yet
	RunRunning   RunStatus = "running"   // at least one was
	RunWaiting   RunStatus = "waiting"   // every open task waits for a person, a file or a date
	RunSuccess   RunStatus = "success"   // all went well
	RunWarning   RunStatus = "warning"   // done, and something should be looked at
	RunError     RunStatus = "error"     // a task ended in error
	RunCancelled RunStatus = "cancelled" // somebody stopped it
	RunRepeated  RunStatus = "repeated"  // its sources equal those of an earlier version: nothing to do
)

// Live reports whether a run in this status still holds its key.
func (s RunStatus) Live() bool {
	return s == RunPending || s == RunRunning || s == RunWaiting
}

// EndedWell reports whether asking for the same key again has something to compare with.
func (s RunStatus) EndedWell() bool { return s == RunSuccess || s == RunWarning }

// CanMoveRun reports whether a run may go from one status to another.
func CanMoveRun(from, to RunStatus) bool {
	switch from {
	case RunPending:
		return to == RunRunning || to == RunCancelled
	case RunRunning:
		return to == RunWaiting || (!to.Live() && to != RunPending)
	case RunWaiting:
		return to == RunRunning || (!to.Live() && to != RunPending)
	case RunError, RunWarning:
		return to == RunRunning
	}
	return false
}
