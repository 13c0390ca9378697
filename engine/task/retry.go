package task

import (
	"cmp"
	"math"
	"time"
)

// Retry says how often and how far apart a failed task is tried again. The zero
// value tries once more after a second, and so on up to five attempts.
type Retry struct {
	MaxAttempts int           `json:"max_attempts,omitempty"` // first included; 0: 5
	Delay       time.Duration `json:"delay,omitempty"`        // longest wait after the first failure; 0: 1 s
	Factor      float64       `json:"factor,omitempty"`       // growth for each further failure; 0: 2
	MaxDelay    time.Duration `json:"max_delay,omitempty"`    // no wait is longer; 0: 15 min
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
