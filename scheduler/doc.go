// Package scheduler decides which instants are due and turns a job and an
// instant into an occurrence, a run and its tasks. A tick, a command and an API
// call all make runs through the same function.
package scheduler
