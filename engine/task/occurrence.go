package task

import "time"

// An Accounted due time is one with what becomes of it.
type Accounted struct {
	Occurrence Occurrence
	Run        *NewRun // nil: it makes none
}

// An EntryID names an entry of the schedule of a job.
type EntryID struct{ Job, Entry string }

// A KeyState is how the last run of a key stands.
type KeyState struct {
	RunID  string
	Status RunStatus // "" when retention has dropped the run
}

// A DueTime is an instant at which an entry of a job is due.
type DueTime struct {
	Entry string
	DueAt time.Time // in UTC
}
