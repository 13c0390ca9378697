package store

import (
	"errors"
	"fmt"
	"strings"

	"madeira/engine/task"
)

// ErrNotFound is returned when no row answers to the id or prefix that was asked for.
var ErrNotFound = errors.New("not found")

// ErrUnknown is returned when the connection broke before the database answered:
// what was asked for may be done or not. With a key, asking again is safe.
var ErrUnknown = errors.New("the database did not answer: it is not known whether this was done; with a key, asking again is safe")

// A RunStateError is returned when a run is not in a status in which what was asked
// for can be done. Why says what to do instead.
type RunStateError struct {
	Run    string
	Status task.RunStatus
	Why    string
}

func (e *RunStateError) Error() string {
	return fmt.Sprintf("run %s is %s: %s", e.Run, e.Status, e.Why)
}

// An AmbiguousError is returned when a prefix fits several runs. Ask again with more of it.
type AmbiguousError struct {
	Prefix string
	IDs    []string // some that fit
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("run %s… is one of several: %s; give more of the id", e.Prefix, strings.Join(e.IDs, ", "))
}

// A SchemaError is returned when the tables are not those this program was built
// for. Have 0 means that there are none.
type SchemaError struct {
	Have, Want int64
}

func (e *SchemaError) Error() string {
	if e.Have > e.Want {
		return fmt.Sprintf("the database has schema version %d, this program knows %d: use a newer madeira", e.Have, e.Want)
	}
	return fmt.Sprintf("the database has schema version %d, this program needs %d: run madeira migrate", e.Have, e.Want)
}

// A NotDeadError says that a task which was named for a redrive is none that can
// go on. Look at it with madeira tasks show.
type NotDeadError struct {
	TaskID int64
	Why    string // completes the sentence that begins with the task
}

// Error returns the whole sentence.
func (e *NotDeadError) Error() string { return fmt.Sprintf("task %d %s", e.TaskID, e.Why) }
