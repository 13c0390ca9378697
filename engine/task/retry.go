package task

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Retry says how often and how far apart a failed task is tried again. The zero
// value tries once more after a second, and so on up to five attempts.
type Retry struct {
	MaxAttempts int           `json:"max_attempts,omitempty"` // first included; 0: 5
	Delay       time.Duration `json:"delay,omitempty"`        // longest wait after the first failure; 0: 1 s
	Factor      float64       `json:"factor,omitempty"`       // growth for each further failure; 0: 2
	MaxDelay    time.Duration `json:"max_delay,omitempty"`    // no wait is longer; 0: 15 min

	RetryOn   []string `json:"retry_on,omitempty"`    // classes and codes of failures: only these are tried again; none: all but permanent ones
	NoRetryOn []string `json:"no_retry_on,omitempty"` // classes and codes that are not, whatever RetryOn says
}

// Retries reports whether a failure is tried again at all. What failed for good is
// tried again only where RetryOn names its code; a failure of the machine always is.
func (r Retry) Retries(f Failure) bool {
	named := func(list []string) bool {
		return slices.Contains(list, string(f.Class)) || f.Code != "" && slices.Contains(list, f.Code)
	}
	switch {
	case f.Class == InfrastructureFailure:
		return true
	case named(r.NoRetryOn):
		return false
	case f.Class == PermanentFailure:
		return f.Code != "" && slices.Contains(r.RetryOn, f.Code)
	}
	return len(r.RetryOn) == 0 || named(r.RetryOn)
}

// IsZero reports whether nothing is said.
func (r Retry) IsZero() bool {
	return r.MaxAttempts == 0 && r.Delay == 0 && r.Factor == 0 && r.MaxDelay == 0 && len(r.RetryOn) == 0 && len(r.NoRetryOn) == 0
}

// maxDelay caps the wait between two attempts where the job does not: after a
// day of failures a task is still tried a few times in the first hour its
// upstream is back.
const maxDelay = 15 * time.Minute

// Attempts returns the number of attempts, the first included.
func (r Retry) Attempts() int { return cmp.Or(r.MaxAttempts, 5) }

// Longest returns the longest wait between two attempts, whoever asks for it.
func (r Retry) Longest() time.Duration { return cmp.Or(r.MaxDelay, maxDelay) }

// Wait returns how long to hold a task back after its attempt number failed,
// counted from 1: a random part (full jitter) of Delay grown by Factor for each
// earlier failure and capped by MaxDelay, so that tasks that failed together do
// not return together. Random is in [0, 1).
func (r Retry) Wait(failed int, random float64) time.Duration {
	limit := float64(r.Longest())
	ceiling := float64(cmp.Or(r.Delay, time.Second)) * math.Pow(cmp.Or(r.Factor, 2), float64(max(failed, 1)-1))
	return time.Duration(random * min(ceiling, limit))
}
