package step

import (
	"errors"
	"time"
)

// ErrLeaseLost is returned by Database.Guard when another attempt owns the task
// by now. Roll back and return it: the other attempt does the work.
var ErrLeaseLost = errors.New("lease lost")

// A PermanentError is a failure that no repetition can mend: bad input, a
// refused request, a file that breaks its own totals. Code is stable, for
// programs; it may be empty.
type PermanentError struct {
	Code string
	Err  error
}

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent marks err as a failure not to be tried again. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{Err: err}
}

// PermanentCode is Permanent with a stable code, such as "parse.columns".
func PermanentCode(code string, err error) error {
	return &PermanentError{Code: code, Err: err}
}

// A RetryAfterError is a failure whose cause asked for a pause of at least After.
type RetryAfterError struct {
	After time.Duration
	Err   error
}

func (e *RetryAfterError) Error() string { return e.Err.Error() }
func (e *RetryAfterError) Unwrap() error { return e.Err }

// RetryAfter marks err as a failure to be tried again no sooner than d from now.
// The engine caps d at the step's longest delay.
func RetryAfter(d time.Duration, err error) error {
	return &RetryAfterError{After: d, Err: err}
}

// An InfrastructureError is a failure of the machine itself: a full disk, a
// database that is away. It spends no attempt.
type InfrastructureError struct{ Err error }

func (e *InfrastructureError) Error() string { return e.Err.Error() }
func (e *InfrastructureError) Unwrap() error { return e.Err }

// Infrastructure marks err as a failure of the machine rather than of the work.
func Infrastructure(err error) error { return &InfrastructureError{Err: err} }
