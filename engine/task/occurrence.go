package task

// An Accounted due time is one with what becomes of it.
type Accounted struct {
	Occurrence Occurrence
	Run        *NewRun // nil: it makes none
}

// An EntryID names an entry of the schedule of a job.
type EntryID struct{ Job, Entry string }
